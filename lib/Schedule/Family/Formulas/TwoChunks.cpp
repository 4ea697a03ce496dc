//===- TwoChunks.cpp - V schedules and DualPipe ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families whose workers have two stages each, on one path or on two.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static constexpr StringRef kControllableMemoryPaper =
    "Qi et al. 2024, Pipeline parallelism with controllable memory, arXiv "
    "2405.15362";
static constexpr StringRef kDeepSeek =
    "DeepSeek-AI 2025, DeepSeek-V3, arXiv 2412.19437";

static Error checkV(StringRef family, const FormulaInputs &inputs) {
  if (inputs.stages == 2 * inputs.workers)
    return Error::success();
  return formatError("the formula of {0} holds for two stages per worker, "
                     "found {1} stages on {2} workers",
                     family, inputs.stages, inputs.workers);
}

/// The paper's values, with F = I = W = 1 for one stage. The work of a worker
/// is `numShares` times the work of one stage and microbatch.
static FormulaResult literatureOfTwoChunks(const FormulaInputs &inputs,
                                           double idle, double numShares,
                                           int64_t peak) {
  FormulaResult result;
  result.bubbleRatio = ratioOf(idle, 3.0, numShares);
  result.peakActivations = peak;
  if (!inputs.times)
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

static FormulaResult literatureOfV(const FormulaInputs &inputs, double idle,
                                   int64_t peak) {
  double numShares = 2.0 * inputs.microbatches;
  return literatureOfTwoChunks(inputs, idle, numShares,
                               std::min(peak, 2 * inputs.microbatches));
}

Expected<FormulaResult> formulas::evaluateZBV(StringRef family,
                                              const FormulaInputs &given) {
  FormulaInputs inputs = inUnits(given);
  if (Error error = checkV(family, inputs))
    return std::move(error);
  FormulaResult result =
      literatureOfV(inputs, 0, 2 * (inputs.workers + inputs.slices - 1));
  result.source = (kControllableMemoryPaper + ": no bubble").str();
  result.conditions = "F = I = W, N >= 2D-1, equal stages, free messages; "
                      "between the first and the last cell of a worker";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  if (inputs.microbatches < 2 * inputs.workers - 2 + inputs.slices ||
      times.comm != 0 || times.inputGrad < times.forward ||
      times.forward < times.weightGrad) {
    result.generalConditions =
        inputs.slices == 1
            ? "no general form is known: it takes N >= 2D-1, I >= F >= W and "
              "free messages"
            : "no general form is known: it takes Nk >= 2D-2+k, I >= F >= W "
              "and free messages";
    return result;
  }
  double perHop =
      std::max(times.inputGrad, 2 * (times.inputGrad - times.weightGrad));
  result.bubbleRatioGeneral = ratioOf((inputs.workers - 1) * perHop,
                                      times.share(), 2.0 * inputs.microbatches);
  result.generalSource = "PipeSched: idle (D-1)max(I, 2(I-W)) of the makespan, "
                         "checked against simulation";
  result.generalConditions =
      "N >= 2D-1, I >= F >= W, equal stages, free messages";
  return result;
}

/// Idle slots of the left-shifted tables if F = I = W. The tests compare them
/// with the generators.
static int64_t idleOfHalf(int64_t workers) {
  if (workers == 1)
    return 0;
  return workers % 2 == 0 ? std::max(workers - 1, 3 * workers - 7)
                          : 3 * workers - 4;
}
static int64_t idleOfMin(int64_t workers) {
  if (workers <= 2)
    return workers - 1;
  return workers % 3 == 0 ? 4 * workers - 7 : 4 * workers - 5;
}

/// Adds the general form: `idleSlots` slots if F = I = W. With other times the
/// blocks no longer fit together.
static void addSlots(FormulaResult &result, const FormulaInputs &inputs,
                     int64_t idleSlots, int64_t fewestMicrobatches,
                     StringRef rule, StringRef smallest) {
  if (!inputs.times)
    return;
  StageTimes times(inputs);
  std::string conditions =
      ("F = I = W, N >= " + smallest + ", equal stages, free messages").str();
  if (inputs.microbatches < fewestMicrobatches || times.comm != 0 ||
      times.inputGrad != times.forward || times.weightGrad != times.forward) {
    result.generalConditions =
        "no general form is known: it takes " + conditions;
    return;
  }
  result.bubbleRatioGeneral = ratioOf(idleSlots * times.forward, times.share(),
                                      2.0 * inputs.microbatches);
  result.generalSource =
      ("PipeSched: idle " + rule + ", checked against simulation").str();
  result.generalConditions = conditions;
}

Expected<FormulaResult> formulas::evaluateVHalf(StringRef family,
                                                const FormulaInputs &inputs) {
  if (Error error = checkV(family, inputs))
    return std::move(error);
  int64_t workers = inputs.workers;
  FormulaResult result = literatureOfV(inputs, 3.0 * (workers - 1),
                                       workers + (workers % 2 == 0 ? 2 : 1));
  result.source = (kControllableMemoryPaper + ": half of 1F1B's bubble").str();
  result.conditions = "F = I = W, equal stages, free messages; approximately";
  addSlots(result, inputs, idleOfHalf(workers), workers,
           "(3D-7)F for even D >= 4, (3D-4)F for odd D >= 3, else (D-1)F", "D");
  return result;
}

Expected<FormulaResult> formulas::evaluateVMin(StringRef family,
                                               const FormulaInputs &inputs) {
  if (Error error = checkV(family, inputs))
    return std::move(error);
  int64_t workers = inputs.workers;
  FormulaResult result =
      literatureOfV(inputs, 4.0 * (workers - 1), 2 * ((workers + 1) / 3 + 1));
  result.source =
      (kControllableMemoryPaper + ": two thirds of 1F1B's bubble").str();
  result.conditions = "F = I = W, equal stages, free messages; approximately";
  addSlots(result, inputs, idleOfMin(workers), 2 * workers,
           "(4D-7)F where 3 divides D, else (4D-5)F, for D >= 3, else (D-1)F",
           "2D");
  return result;
}

/// The literature's idle time is hops (F&B + B - 3W), which is hops (F + 2B -
/// 3W) if F&B takes F + B.
static void addDualPipeGeneral(FormulaResult &result,
                               const FormulaInputs &inputs, double hops,
                               double numShares) {
  if (!inputs.times)
    return;
  StageTimes times(inputs);
  int64_t sumPs = inputs.times->forwardPs + inputs.times->inputGradPs +
                  inputs.times->weightGradPs;
  if (times.comm != 0 || times.inputGrad != times.forward ||
      inputs.times->overlappedPs.value_or(sumPs) != sumPs) {
    result.generalConditions = "no general form is known: it takes F = I, "
                               "F&B = F + B and free messages";
    return;
  }
  double perHop = 3 * times.forward - std::min(times.weightGrad, times.forward);
  result.bubbleRatioGeneral = ratioOf(hops * perHop, times.share(), numShares);
  result.generalSource =
      "PipeSched: idle (D/p-1)(3F - min(W, F)) of p paths, checked against "
      "simulation; the literature's where W <= F";
  result.generalConditions = "F = I, F&B = F + B, equal stages, free messages";
}

static Error checkEnough(StringRef family, const FormulaInputs &inputs) {
  if (inputs.microbatches >= 2 * inputs.workers)
    return Error::success();
  return formatError("the formula of {0} holds for at least two microbatches "
                     "per worker, found {1} on {2} workers",
                     family, inputs.microbatches, inputs.workers);
}

Expected<FormulaResult>
formulas::evaluateDualPipeV(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkV(family, inputs))
    return std::move(error);
  if (Error error = checkEnough(family, inputs))
    return std::move(error);
  double hops = inputs.workers - 1, numShares = 2.0 * inputs.microbatches;
  FormulaResult result = literatureOfTwoChunks(inputs, 2 * hops, numShares,
                                               2 * inputs.workers + 1);
  result.source = (kDeepSeek + ": (D-1)(F&B + B - 3W)").str();
  result.conditions = "F = I = W, F&B = F + B, equal stages, free messages";
  addDualPipeGeneral(result, inputs, hops, numShares);
  return result;
}

Expected<FormulaResult>
formulas::evaluateDualPipe(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  if (inputs.paths != 2 || inputs.workers % 2 != 0 ||
      inputs.microbatches % 2 != 0)
    return formatError("the formula of {0} holds for two paths and even "
                       "numbers of workers and microbatches, found {1}, {2} "
                       "and {3}",
                       family, inputs.paths, inputs.workers,
                       inputs.microbatches);
  if (Error error = checkEnough(family, inputs))
    return std::move(error);
  int64_t half = inputs.workers / 2;
  double hops = half - 1;
  double numShares = inputs.microbatches;
  FormulaResult result =
      literatureOfTwoChunks(inputs, 2 * hops, numShares, inputs.workers + 1);
  result.source = (kDeepSeek + ": (D/2-1)(F&B + B - 3W)").str();
  result.conditions = "F = I = W, F&B = F + B, equal stages, free messages";
  addDualPipeGeneral(result, inputs, hops, numShares);
  return result;
}
