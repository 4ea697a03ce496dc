//===- ZeroBubbleH.cpp - ZB-H1, ZB-H2 and interleaved zero bubble ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas of zb-h1, zb-h2 and interleaved-zb. The literature's values
// assume F = I = W; the paper's "B" is I here.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static constexpr StringRef kZeroBubblePaper =
    "Qi et al. 2024, Zero bubble pipeline "
    "parallelism, arXiv 2401.10241";

/// The ratio for an idle time of (D-1) times `perHop`, with F = I = W = 1.
static FormulaResult literatureOfZeroBubble(const FormulaInputs &inputs,
                                            double perHop) {
  int64_t chunks = inputs.stages / inputs.workers;
  FormulaResult result;
  result.bubbleRatio =
      ratioOf((inputs.workers - 1) * perHop, 3.0, inputs.microbatches * chunks);
  if (!inputs.times)
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

static void addGeneralOfZeroBubble(FormulaResult &result,
                                   const FormulaInputs &inputs,
                                   const StageTimes &times, double idle) {
  int64_t chunks = inputs.stages / inputs.workers;
  result.bubbleRatioGeneral =
      ratioOf(idle, times.share(), inputs.microbatches * chunks);
}

/// Whether the message term of the general form holds: pairs of cells hide
/// messages only if all times are equal and there are enough microbatches.
static bool knowsMessages(const FormulaInputs &inputs,
                          const StageTimes &times) {
  if (times.comm == 0)
    return true;
  return inputs.slices == 1 && times.forward == times.inputGrad &&
         times.forward == times.weightGrad && 2 * times.comm <= times.forward &&
         inputs.microbatches % inputs.workers == 0 &&
         inputs.group.value_or(inputs.workers) == inputs.workers &&
         inputs.microbatches >= 2 * inputs.workers;
}

/// Adds the general form of ZB-H1 and of its interleaved form. W fills part of
/// the drain, which is F + I per hop; at least the longer of F and I stays
/// idle.
static void addH1General(FormulaResult &result, const FormulaInputs &inputs) {
  if (inputs.microbatches < inputs.workers + inputs.slices - 1) {
    result.generalConditions =
        inputs.slices == 1 ? "no general form is known: it takes N >= D"
                           : "no general form is known: it takes Nk >= D-1+k";
    return;
  }
  StageTimes times(inputs);
  if (!knowsMessages(inputs, times)) {
    result.generalConditions =
        "no general form with messages is known: it takes F = I = W, messages "
        "no longer than F/2, D dividing N, N >= 2D";
    return;
  }
  double hops = inputs.workers - 1;
  int64_t chunks = inputs.stages / inputs.workers;
  double perHop = std::max({times.forward + times.inputGrad - times.weightGrad,
                            times.forward, times.inputGrad});
  addGeneralOfZeroBubble(
      result, inputs, times,
      hops * perHop + (4 * hops + inputs.workers * (chunks - 1)) * times.comm);
  result.generalSource =
      "PipeSched: idle (D-1)max(F+I-W, F, I) + (4(D-1)+D(V-1))Tc, checked "
      "against simulation; the literature's (D-1)(F+I-W) where W <= min(F, I)";
  result.generalConditions =
      "N >= D, equal stages, transport delay; with messages, F = I = W, "
      "messages no longer than F/2, D dividing N, N >= 2D";
}

Expected<FormulaResult> formulas::evaluateZBH1(StringRef family,
                                               const FormulaInputs &given) {
  FormulaInputs inputs = inUnits(given);
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfZeroBubble(inputs, 1);
  result.peakActivations =
      std::min(inputs.microbatches, inputs.workers + inputs.slices - 1);
  result.source = (kZeroBubblePaper + ": (D-1)(F+I-W)").str();
  result.conditions = "F = I = W, N >= D, equal stages, free messages";
  if (inputs.times)
    addH1General(result, inputs);
  return result;
}

Expected<FormulaResult>
formulas::evaluateInterleavedZB(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  int64_t chunks = inputs.stages / inputs.workers;
  int64_t numGroups =
      std::max<int64_t>(1, inputs.microbatches / inputs.workers);
  int64_t group = inputs.group.value_or(inputs.microbatches / numGroups);
  FormulaResult result = literatureOfZeroBubble(inputs, 1);
  result.peakActivations = std::min((chunks - 1) * group + inputs.workers,
                                    inputs.microbatches * chunks);
  result.source =
      (kZeroBubblePaper + ": ZB-H1's (D-1)(F+I-W) for one of V stages, as "
                          "PyTorch interleaves it")
          .str();
  result.conditions = "F = I = W, N >= D, equal stages, free messages";
  if (inputs.times)
    addH1General(result, inputs);
  return result;
}

Expected<FormulaResult> formulas::evaluateZBH2(StringRef family,
                                               const FormulaInputs &given) {
  FormulaInputs inputs = inUnits(given);
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfZeroBubble(inputs, 0);
  result.peakActivations =
      std::min(inputs.microbatches, 2 * inputs.workers - 2 + inputs.slices);
  result.source = (kZeroBubblePaper + ": (D-1)(F+I-2W)").str();
  result.conditions = "F = I = W, N >= 2D-1, equal stages, free messages; "
                      "between the first and the last cell of a worker";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  if (inputs.microbatches < 2 * inputs.workers - 2 + inputs.slices ||
      times.comm != 0) {
    result.generalConditions =
        inputs.slices == 1
            ? "no general form is known: it takes N >= 2D-1 and free messages"
            : "no general form is known: it takes Nk >= 2D-2+k and free "
              "messages";
    return result;
  }
  addGeneralOfZeroBubble(
      result, inputs, times,
      (inputs.workers - 1) *
          std::max({times.forward, times.inputGrad - times.forward,
                    times.forward + times.inputGrad - 2 * times.weightGrad}));
  result.generalSource =
      "PipeSched: idle (D-1)max(F, I-F, F+I-2W) of the makespan; between the "
      "first and the last cell (D-1)max(0, I-F, F+I-2W), the literature's "
      "where W <= F; checked against simulation";
  result.generalConditions = "N >= 2D-1, equal stages, free messages";
  return result;
}
