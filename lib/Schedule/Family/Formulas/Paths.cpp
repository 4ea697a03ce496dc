//===- Paths.cpp - Chimera and Hanayo -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families that are defined by their paths: chimera and hanayo.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static Error checkPairs(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return error;
  if (inputs.paths >= 2 && inputs.workers % inputs.paths == 0 &&
      inputs.paths % 2 == 0)
    return Error::success();
  return formatError("the formula of {0} holds for pairs of paths whose number "
                     "divides half of the workers, found {1} paths on {2} "
                     "workers",
                     family, inputs.paths, inputs.workers);
}

/// Idle time of K basic units with a ramp of D / pairs - 2 cells. Within a unit
/// a forward runs while another worker runs a backward; between units the
/// difference of their times is idle.
static double chimeraIdle(const FormulaInputs &inputs, const StageTimes &times,
                          int64_t numUnits) {
  double ramp = 2.0 * inputs.workers / inputs.paths - 2;
  double f = times.forward, b = times.backward();
  if (inputs.construction == ChimeraConstruction::Concat)
    return ramp * (std::max(f, b) + (numUnits - 1) * std::abs(b - f));
  return ramp * (std::max({f, (f + b) / 2, b - f}) +
                 (numUnits - 1) * std::max({0.0, f - b, b - 2 * f}));
}

static void addChimeraGeneral(FormulaResult &result,
                              const FormulaInputs &inputs) {
  bool isConcat = inputs.construction == ChimeraConstruction::Concat;
  int64_t unit = inputs.workers * (isConcat ? 1 : 2);
  StageTimes times(inputs);
  if (inputs.microbatches % unit != 0 || times.comm != 0 ||
      inputs.sendsAfterInput) {
    result.generalConditions = "no general form is known: it takes N = KD, "
                               "free messages and gradients after whole "
                               "backwards";
    if (!isConcat)
      result.generalConditions = "no general form is known: it takes N = 2KD, "
                                 "free messages and gradients after whole "
                                 "backwards";
    return;
  }
  result.bubbleRatioGeneral =
      ratioOf(chimeraIdle(inputs, times, inputs.microbatches / unit),
              times.share(), inputs.microbatches);
  result.generalSource =
      isConcat ? "PipeSched: idle (D/p-2)(max(F, B) + (K-1)abs(B-F)), checked "
                 "against simulation"
               : "PipeSched: idle (D/p-2)(max(F, (F+B)/2, B-F) + (K-1)max(0, "
                 "F-B, B-2F)), checked against simulation";
  result.generalConditions =
      isConcat ? "Li and Hoefler's table of p pairs, N = KD, free messages"
               : "Li and Hoefler's table of p pairs, N = 2KD, free messages";
}

/// A worker holds at most the activations of one unit.
Expected<FormulaResult> formulas::evaluateChimera(StringRef family,
                                                  const FormulaInputs &inputs) {
  if (Error error = checkPairs(family, inputs))
    return std::move(error);
  bool isConcat = inputs.construction == ChimeraConstruction::Concat;
  double ramp = 2.0 * inputs.workers / inputs.paths - 2;
  FormulaResult result;
  result.bubbleRatio = ramp / (2.0 * inputs.microbatches + ramp);
  result.peakActivations =
      std::min(inputs.microbatches, inputs.workers * (isConcat ? 1 : 2));
  result.source = "Li and Hoefler 2021, Chimera, arXiv 2107.06925: "
                  "(D/p-2)/(2N+D/p-2)";
  result.conditions = isConcat ? "F = B, N = KD, equal stages, free messages"
                               : "B = 2F, N = 2KD, equal stages, free messages";
  if (inputs.times)
    addChimeraGeneral(result, inputs);
  else
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

Expected<FormulaResult> formulas::evaluateHanayo(StringRef family,
                                                 const FormulaInputs &inputs) {
  if (inputs.stages % (2 * inputs.workers) != 0)
    return formatError("the formula of {0} holds for whole waves of {1} stages "
                       "on {2} workers, found {3}",
                       family, 2 * inputs.workers, inputs.workers,
                       inputs.stages);
  double hops = inputs.workers - 1;
  int64_t chunks = inputs.stages / inputs.workers;
  double numShares = double(inputs.microbatches) * chunks;
  FormulaResult result;
  result.bubbleRatio = hops / (numShares + hops);
  result.peakActivations =
      std::min(inputs.microbatches, inputs.workers) * chunks;
  result.source = "Liu et al. 2023, Hanayo, arXiv 2308.15762: idle "
                  "(D-1)(F+B) of one stage, (D-1)/(2WN+D-1)";
  result.conditions =
      "F = B, N = D or 2D, equal stages, free messages, a table "
      "made for these times";
  if (!inputs.times) {
    result.generalConditions = kNoUniformTimes.str();
    return result;
  }
  StageTimes times(inputs);
  bool isKnown = (inputs.microbatches == inputs.workers ||
                  inputs.microbatches == 2 * inputs.workers) &&
                 times.forward == times.backward() && times.comm == 0 &&
                 inputs.isMadeForTimes && !inputs.sendsAfterInput;
  if (!isKnown) {
    result.generalConditions =
        "no general form is known: it takes F = B, N = D or 2D, free messages, "
        "gradients after whole backwards, and a table made for these times";
    return result;
  }
  result.bubbleRatioGeneral =
      ratioOf(hops * times.share(), times.share(), numShares);
  result.generalSource = "PipeSched: idle (D-1)(F+B) of one stage, checked "
                         "against simulation";
  result.generalConditions = result.conditions;
  return result;
}
