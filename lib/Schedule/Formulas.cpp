//===- Formulas.cpp - Level 1: closed formulas of families ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The registry of families, and the refusals of those that are not in it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Formulas.h"
#include "Formulas/Families.h"
#include "Generators/Support.h"
#include "PipeSched/Schedule/ClosestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {
/// A family has a formula, or a reason why it has none.
struct Family {
  StringRef name;
  Formula *evaluate;
  StringRef whyNone = "";
};
} // namespace

static constexpr Family kFamilies[] = {
    {"gpipe", evaluateGPipe},
    {"1f1b", evaluate1F1B},
    {"eager-1f1b", evaluateEager1F1B},
    {"looped-bfs", evaluateLoopedBFS},
    {"interleaved-1f1b", evaluateInterleaved1F1B},
    {"interleaved-zb", evaluateInterleavedZB},
    {"mpmd-circular", evaluateMpmdCircular},
    {"zb-h1", evaluateZBH1},
    {"zb-h2", evaluateZBH2},
    {"zb-v", evaluateZBV},
    {"v-half", evaluateVHalf},
    {"v-min", evaluateVMin},
    {"zb-auto", nullptr,
     "it is the shortest of several that the memory allows"},
    {"dualpipe", evaluateDualPipe},
    {"dualpipe-v", evaluateDualPipeV},
    {"chimera", evaluateChimera},
    {"hanayo", evaluateHanayo},
    {"greedy", nullptr,
     "a greedy table has none but those of linear, bidirectional and wave "
     "placements"},
};

static Error checkSizes(const FormulaInputs &inputs) {
  if (inputs.workers < 1 || inputs.stages < 1 || inputs.microbatches < 1)
    return formatError("a formula needs at least one worker, stage and "
                       "microbatch, found {0}, {1} and {2}",
                       inputs.workers, inputs.stages, inputs.microbatches);
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
  for (const Family &known : kFamilies)
    if (known.evaluate)
      names.push_back(known.name);
  StringRef closest = closestName(family, names);
  bool isClose = closest.edit_distance_insensitive(family) <= 2;
  return formatError("no closed formula is known for family '{0}' (known: {1})"
                     "{2}",
                     family, llvm::join(names, ", "),
                     isClose ? "; did you mean '" + closest.str() + "'?"
                             : std::string());
}

Expected<FormulaResult>
pipesched::evaluateFormula(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkSizes(inputs))
    return std::move(error);
  for (const Family &candidate : kFamilies) {
    if (candidate.name != family)
      continue;
    if (candidate.evaluate)
      return candidate.evaluate(family, inputs);
    return formatError("no closed formula is known for family '{0}': {1}",
                       family, candidate.whyNone);
  }
  return refuseFamily(family);
}

/// Whether a check of the placement found what it takes.
static bool holds(Error error) {
  bool isFine = !error;
  llvm::consumeError(std::move(error));
  return isFine;
}

StringRef pipesched::formulaFamilyOf(StringRef family,
                                     const Placement &placement) {
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
