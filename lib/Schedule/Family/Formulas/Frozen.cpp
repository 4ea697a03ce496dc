//===- Frozen.cpp - Forward only, and frozen first stages -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas for rows from which the backwards of frozen stages are removed
// (Families.cpp). The times of such rows follow from the forwards, or, if the
// first k stages are frozen, from the pipeline after them:
//
//   D = 3, k = 1     F0 F1 F2 F3
//                       F0 F1 F2 B0 F3 ...      N and D - k as in a full one,
//                          F0 B0 F1 B1 ...      k F later
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The number of stages without a backward at the start of a path, if all
/// others train and each worker has one stage; else none.
static std::optional<int64_t> frozenPrefixOf(const Placement &placement) {
  if (placement.getNumPaths() != 1 ||
      placement.getNumStages(0) != placement.getNumWorkers())
    return std::nullopt;
  int64_t numStages = placement.getNumStages(0), numFrozen = 0;
  while (numFrozen != numStages &&
         placement.backwardOf(numFrozen) == StageBackward::None)
    ++numFrozen;
  for (int64_t stage = numFrozen; stage != numStages; ++stage)
    if (placement.backwardOf(stage) != StageBackward::Whole)
      return std::nullopt;
  return numFrozen;
}

/// The first worker runs without a pause. The last cell of the table comes
/// `fill` stages after the last cell of that worker: D - 1, or on a V twice as
/// many, because a unit comes back up the workers.
static Expected<FormulaResult>
evaluateForwardOnly(const Family &family, const FormulaInputs &inputs) {
  int64_t chunks = inputs.stages / inputs.workers;
  int64_t units = inputs.microbatches * inputs.slices;
  bool isChain = family.placement == FamilyPlacement::Linear && chunks == 1;
  bool isV = family.placement == FamilyPlacement::V;
  bool isInterleaved = family.placement == FamilyPlacement::Interleaved &&
                       units % inputs.workers == 0;
  if (!family.takes(FamilyOption::ForwardOnly) ||
      !(isChain || isV || isInterleaved))
    return formatError("no closed formula is known for the forwards of {0} "
                       "alone, with {1} units and {2} stages on {3} workers",
                       family.name, units, inputs.stages, inputs.workers);
  FormulaResult result;
  double fill = double(inputs.workers - 1) * (isV ? 2 : 1);
  double cells = double(units) * double(chunks);
  result.bubbleRatio = fill / (cells + fill);
  result.peakActivations = 1;
  result.source = isInterleaved
                      ? "the makespan N F + (D-1) F / v of forwards alone"
                      : "the makespan (N+D-1) F of forwards alone";
  result.conditions = isInterleaved
                          ? "N a multiple of D, equal stages, free messages"
                          : "equal stages, free messages";
  if (!inputs.times) {
    result.generalConditions = kNoUniformTimes.str();
    return result;
  }
  StageTimes times(inputs);
  if (times.comm != 0 && !isChain) {
    result.generalConditions = "no general form is known for several chunks "
                               "and messages that take time";
    return result;
  }
  result.bubbleRatioGeneral =
      ratioOf(fill * (times.forward + times.comm), times.forward, cells);
  result.generalSource = "PipeSched: idle (D-1)(F+Tc), checked against "
                         "simulation";
  result.generalConditions = "equal stages, transport delay";
  return result;
}

/// 1 minus the work of all workers divided by the time of all workers.
static double overallRatio(const FormulaInputs &inputs, double numFrozen,
                           double forward, double backward) {
  double workers = inputs.workers, units = inputs.microbatches;
  double span = numFrozen * forward +
                (units + workers - numFrozen - 1) * (forward + backward);
  double work = units * (workers * forward + (workers - numFrozen) * backward);
  return span > 0 ? 1 - work / (workers * span) : 0.0;
}

static FormulaResult evaluateFrozenPrefix(const Family &family,
                                          const FormulaInputs &inputs,
                                          int64_t numFrozen) {
  FormulaResult result;
  result.bubbleRatio = overallRatio(inputs, double(numFrozen), 1, 2);
  result.peakActivations =
      family.name == "gpipe"
          ? inputs.microbatches
          : std::min(inputs.microbatches, inputs.workers - numFrozen);
  result.source = "the makespan k F + (N+D-k-1)(F+B) of k frozen stages in "
                  "front; the ratio is of all workers";
  result.conditions = "B = 2F, one stage per worker, equal stages, free "
                      "messages, gradients after whole backwards";
  if (!inputs.times) {
    result.generalConditions = kNoUniformTimes.str();
    return result;
  }
  StageTimes times(inputs);
  if (times.comm != 0 || inputs.sendsAfterInput) {
    result.generalConditions = "no general form is known for messages that "
                               "take time, or gradients after I";
    return result;
  }
  result.bubbleRatioGeneral =
      overallRatio(inputs, double(numFrozen), times.forward, times.backward());
  result.generalSource = "PipeSched: k F + (N+D-k-1)(F+B), checked against "
                         "simulation";
  result.generalConditions = "one stage per worker, equal stages, free "
                             "messages, gradients after whole backwards";
  return result;
}

Expected<FormulaResult> formulas::evaluateFrozen(const Family &family,
                                                 const Placement &placement,
                                                 const FormulaInputs &inputs) {
  if (llvm::all_of(placement.getPaths(),
                   [](const Path &path) { return path.backward.isNone; }))
    return evaluateForwardOnly(family, inputs);
  std::optional<int64_t> numFrozen = frozenPrefixOf(placement);
  bool isKnown = family.name == "gpipe" || family.name == "1f1b";
  if (numFrozen && isKnown && *numFrozen < inputs.workers)
    return evaluateFrozenPrefix(family, inputs, *numFrozen);
  return formatError(
      "no closed formula is known for {0} with frozen stages: only gpipe and "
      "1f1b have one, if the first stages are frozen",
      family.name);
}
