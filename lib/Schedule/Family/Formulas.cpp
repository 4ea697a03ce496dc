//===- Formulas.cpp - Level 1: closed formulas of families ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the formula of a family. Refuses families and sizes without a formula.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Formulas.h"
#include "Formulas/Families.h"
#include "Generators/Support.h"
#include "PipeSched/Support/ClosestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static Error checkFormulaSizes(const FormulaInputs &inputs) {
  if (inputs.workers < 1 || inputs.stages < 1 || inputs.microbatches < 1 ||
      inputs.slices < 1)
    return formatError("a formula needs at least one worker, stage, microbatch "
                       "and slice, found {0}, {1}, {2} and {3}",
                       inputs.workers, inputs.stages, inputs.microbatches,
                       inputs.slices);
  return Error::success();
}

Error formulas::checkOneStagePerWorker(StringRef family,
                                       const FormulaInputs &inputs) {
  if (inputs.stages == inputs.workers)
    return Error::success();
  return formatError("the formula of {0} holds for one stage per worker, found "
                     "{1} stages on {2} workers",
                     family, inputs.stages, inputs.workers);
}

Error formulas::checkStagesPerWorker(StringRef family,
                                     const FormulaInputs &inputs) {
  if (inputs.stages % inputs.workers == 0)
    return Error::success();
  return formatError(
      "the formula of {0} holds for the same number of stages on "
      "every worker, found {1} stages on {2} workers",
      family, inputs.stages, inputs.workers);
}

static Error refuseFamily(StringRef family) {
  llvm::SmallVector<StringRef> names;
  for (const Family &known : families())
    if (known.formula)
      names.push_back(known.name);
  return formatError("no closed formula is known for family '{0}'{1}", family,
                     nameHint(family, names));
}

/// The name of the family that has this name or alias; an unknown name is
/// returned unchanged.
static StringRef canonicalName(StringRef family) {
  const Family *known = findFamily(family);
  return known ? StringRef(known->name) : family;
}

FormulaInputs pipesched::formulaInputsOf(const Placement &placement,
                                         const FamilyOptions &options) {
  FormulaInputs inputs;
  inputs.workers = placement.getNumWorkers();
  inputs.stages = placement.getMaxStages();
  inputs.microbatches = placement.getNumMicrobatches();
  inputs.slices = placement.getNumSlices();
  inputs.paths = placement.getNumPaths();
  inputs.sendsAfterInput = options.splitBackward.value_or(false) &&
                           options.gradientAfter == GradientAfter::InputGrad;
  inputs.group = options.group;
  inputs.construction = options.getConstruction();
  inputs.vocabulary = options.getVocabulary();
  return inputs;
}

Expected<FormulaResult>
pipesched::evaluateFormula(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkFormulaSizes(inputs))
    return std::move(error);
  const Family *known = findFamily(family);
  if (!known)
    return refuseFamily(family);
  if (!known->formula)
    return formatError("no closed formula is known for family '{0}': {1}",
                       known->name, known->whyNoFormula);
  if (inputs.slices > 1 && !known->takes(FamilyOption::Slices))
    return formatError("the formula of {0} is for whole microbatches, found "
                       "{1} slices of each",
                       known->name, inputs.slices);
  return known->formula(known->name, inputs);
}

/// Whether a check succeeded; consumes its error.
static bool holds(Error error) {
  bool isFine = !error;
  llvm::consumeError(std::move(error));
  return isFine;
}

StringRef pipesched::formulaFamilyOf(StringRef family,
                                     const Placement &placement) {
  family = canonicalName(family);
  if (family != "greedy")
    return family;
  if (holds(checkOneStagePerWorker(placement, family)))
    return "1f1b";
  if (holds(readWaves(placement, family).takeError()))
    return "hanayo";
  if (holds(readPairs(placement, family).takeError()))
    return "chimera";
  return family;
}

Expected<FormulaResult>
pipesched::evaluateFormulaOfRows(StringRef family, const Placement &placement,
                                 const FormulaInputs &inputs) {
  if (Error error = placement.checkChains("formulas take"))
    return std::move(error);
  if (!placement.trainsAll()) {
    if (const Family *known = findFamily(family))
      return evaluateFrozen(*known, placement, inputs);
    return refuseFamily(family);
  }
  StringRef rule = formulaFamilyOf(family, placement);
  Expected<FormulaResult> result = evaluateFormula(rule, inputs);
  if (!result || canonicalName(family) == rule || rule == "hanayo")
    return result;
  result->bubbleRatioGeneral.reset();
  result->generalSource.clear();
  result->generalConditions =
      ("no general form is known: the order is the one of " + family +
       ", not of " + rule)
          .str();
  return result;
}
