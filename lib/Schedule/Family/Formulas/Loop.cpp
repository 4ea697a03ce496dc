//===- Loop.cpp - Families on an interleaved path -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families with V stages per worker. F, B and T = F + B are the times of one
// stage; G is the time from the start of a backward to its gradient: I if the
// gradient is sent after I, else B.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static int64_t chunksOf(const FormulaInputs &inputs) {
  return inputs.stages / inputs.workers;
}

/// (D-1)/(NV + D-1), the bubble of Narayanan et al. 2021, section 2.2.
static FormulaResult literatureOfLoop(const FormulaInputs &inputs) {
  double hops = inputs.workers - 1;
  FormulaResult result;
  result.bubbleRatio =
      hops / (double(inputs.microbatches) * chunksOf(inputs) + hops);
  if (!inputs.times)
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

static void addGeneralOfLoop(FormulaResult &result, const FormulaInputs &inputs,
                             const StageTimes &times, double idle) {
  result.bubbleRatioGeneral =
      ratioOf(idle, times.share(),
              static_cast<double>(inputs.microbatches) * chunksOf(inputs));
}

/// The time of the first forward to the last worker, and of the last gradient
/// back.
static double rampOf(const FormulaInputs &inputs, const StageTimes &times) {
  return (inputs.workers - 1) *
         (times.forward + times.gradient + 2 * times.comm);
}

/// The time that a worker waits between two chunks. It has run `count` cells of
/// one chunk and waits for the first of them to return on the next chunk, after
/// one round over all workers.
static double gapOf(const FormulaInputs &inputs, const StageTimes &times,
                    double count) {
  auto gap = [&](double hop, double work) {
    return std::max(0.0, inputs.workers * (hop + times.comm) - count * work);
  };
  return (chunksOf(inputs) - 1) * (gap(times.forward, times.forward) +
                                   gap(times.gradient, times.backward()));
}

Expected<FormulaResult>
formulas::evaluateLoopedBFS(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfLoop(inputs);
  result.peakActivations = inputs.microbatches * chunksOf(inputs);
  result.source =
      "Lamy-Poirier 2023, Breadth-first pipeline parallelism, arXiv "
      "2211.05953: (D-1)/(NV+D-1)";
  result.conditions = "N >= D, equal stages, free messages, gradients after "
                      "whole backwards";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  addGeneralOfLoop(result, inputs, times,
                   rampOf(inputs, times) +
                       gapOf(inputs, times, inputs.microbatches));
  result.generalSource = "PipeSched: idle (D-1)(F+G+2Tc) + (V-1)(max(0, "
                         "D(F+Tc) - NF) + max(0, D(G+Tc) - NB)), G = I where "
                         "gradients go after I, else B, checked against "
                         "simulation";
  result.generalConditions = "equal stages, transport delay";
  return result;
}

/// Each group of D microbatches (a phase) runs as looped BFS. All groups but
/// the last are full, so that only messages delay them.
Expected<FormulaResult>
formulas::evaluateMpmdCircular(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfLoop(inputs);
  result.peakActivations = inputs.microbatches * chunksOf(inputs);
  result.source = "the interleaved bubble (D-1)/(NV+D-1) of Narayanan et al. "
                  "2021, arXiv 2104.04473, which this order has too";
  result.conditions = "D divides N, equal stages, free messages, gradients "
                      "after whole backwards";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  int64_t fullPhases = (inputs.microbatches - 1) / inputs.workers;
  int64_t lastPhase = inputs.microbatches - fullPhases * inputs.workers;
  double idle = rampOf(inputs, times) + gapOf(inputs, times, lastPhase) +
                fullPhases * gapOf(inputs, times, inputs.workers);
  addGeneralOfLoop(result, inputs, times, idle);
  result.generalSource =
      "PipeSched: idle (D-1)(F+G+2Tc) + (V-1)(sum over the phases of max(0, "
      "D(F+Tc) - nF) + max(0, D(G+Tc) - nB)), n microbatches in a phase, G = I "
      "where gradients go after I, else B, checked against simulation";
  result.generalConditions = "equal stages, transport delay";
  return result;
}

/// The group that the generator uses.
static int64_t groupOf(const FormulaInputs &inputs) {
  int64_t numGroups =
      std::max<int64_t>(1, inputs.microbatches / inputs.workers);
  return inputs.group.value_or(inputs.microbatches / numGroups);
}

/// The reason why there is no general form, or nothing if there is one. If
/// gradients are sent after I, a W that is long compared with F + I delays the
/// D-2 workers in the middle.
static StringRef whyNoInterleaved(const FormulaInputs &inputs,
                                  const StageTimes &times) {
  double hops = inputs.workers - 1;
  if (inputs.sendsAfterInput &&
      (times.comm != 0 || inputs.microbatches < inputs.workers ||
       (hops - 1) * times.backward() >
           hops * (times.forward + times.inputGrad)))
    return "no general form is known: where gradients go after I it takes N >= "
           "D, (D-2)B no longer than (D-1)(F+I), and free messages";
  if (times.comm == 0)
    return "";
  if (groupOf(inputs) != inputs.workers ||
      inputs.microbatches % inputs.workers != 0 ||
      inputs.microbatches < 2 * inputs.workers)
    return "no general form with messages is known: it takes groups of D, D "
           "dividing N, and N >= 2D";
  if (times.comm > std::min(times.forward, times.backward()))
    return "no general form is known: it takes messages no longer than F or B";
  return "";
}

static double interleavedIdle(const FormulaInputs &inputs,
                              const StageTimes &times) {
  double hops = inputs.workers - 1;
  if (inputs.sendsAfterInput)
    return hops * (times.forward + times.inputGrad);
  int64_t chunks = chunksOf(inputs);
  double missing = std::max<int64_t>(0, inputs.workers - inputs.microbatches);
  return (hops + (chunks - 1) * missing) * times.share() +
         2 * (double(inputs.workers) * chunks - 1) * times.comm;
}

Expected<FormulaResult>
formulas::evaluateInterleaved1F1B(StringRef family,
                                  const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  int64_t workers = inputs.workers, chunks = chunksOf(inputs);
  FormulaResult result = literatureOfLoop(inputs);
  result.peakActivations =
      std::min((chunks - 1) * groupOf(inputs) + 2 * (workers - 1) + 1,
               inputs.microbatches * chunks);
  result.source =
      "Narayanan et al. 2021, Megatron-LM, arXiv 2104.04473, section "
      "2.2: (D-1)/(NV+D-1)";
  result.conditions = "N >= D, equal stages, free messages, gradients after "
                      "whole backwards";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  if (StringRef reason = whyNoInterleaved(inputs, times); !reason.empty()) {
    result.generalConditions = reason.str();
    return result;
  }
  addGeneralOfLoop(result, inputs, times, interleavedIdle(inputs, times));
  if (inputs.sendsAfterInput) {
    result.generalSource =
        "PipeSched: idle (D-1)(F+I), checked against simulation";
    result.generalConditions =
        "N >= D, (D-2)B no longer than (D-1)(F+I), equal stages, free messages";
    return result;
  }
  result.generalSource = "PipeSched: idle (D-1 + (V-1)max(0, D-N))T + "
                         "2(DV-1)Tc, checked against simulation";
  result.generalConditions =
      "equal stages, transport delay; with messages, groups of D, N >= 2D and "
      "messages no longer than F or B";
  return result;
}

/// The mean over workers of idle time divided by idle time plus work. On worker
/// r, w(r) = min((V-1)g + 2(D-1-r) + 1, NV) forwards and as many backwards run
/// by themselves. All others run in pairs that take P. Let W be the mean of
/// w(r) without the limit NV, which is (V-1)g + D. Then the makespan is
///
///   W (F + B)  +  (NV - W + D - 1) P
static double combinedRatio(const FormulaInputs &inputs,
                            const StageTimes &times, double pair) {
  int64_t workers = inputs.workers, chunks = chunksOf(inputs);
  int64_t total = inputs.microbatches * chunks;
  int64_t least = (chunks - 1) * groupOf(inputs) + 1;
  double alone = 0;
  for (int64_t r = 0; r < workers; ++r)
    alone += std::min(least + 2 * r, total);
  alone /= workers;
  double warmUp = least + workers - 1;
  double makespan =
      warmUp * times.share() + (total - warmUp + workers - 1) * pair;
  double work = alone * times.share() + (total - alone) * pair;
  return makespan > 0 ? (makespan - work) / makespan : 0.0;
}

/// The reason why there is no general form, or nothing if there is one.
static StringRef whyNoCombined(const FormulaInputs &inputs,
                               const StageTimes &times, double pair) {
  if (times.comm != 0)
    return "no general form is known: it takes free messages";
  if (pair < std::max(times.forward, times.backward()))
    return "no general form is known: it takes pairs no shorter than F or B";
  if (inputs.microbatches < inputs.workers && chunksOf(inputs) > 1 &&
      pair != times.share())
    return "no general form is known: with N < D and several chunks it takes "
           "F&B = F + B";
  return "";
}

/// Pairs change nothing if F&B = F + B: the order then takes as long as
/// interleaved 1F1B.
Expected<FormulaResult>
formulas::evaluateCombined1F1B(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  int64_t workers = inputs.workers, chunks = chunksOf(inputs);
  FormulaResult result = literatureOfLoop(inputs);
  int64_t total = inputs.microbatches * chunks;
  int64_t warmUp = chunks == 1 ? 0 : (chunks - 1) * groupOf(inputs);
  result.peakActivations = std::min(warmUp + 2 * workers, total);
  result.source = "Narayanan et al. 2021, arXiv 2104.04473, section 2.2: "
                  "(D-1)/(NV+D-1), which pairs do not change";
  result.conditions = chunks == 1
                          ? "F&B = F + B, equal stages, free messages"
                          : "N >= D, F&B = F + B, equal stages, free messages";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  double pair = inputs.times->overlappedPs.value_or(times.share());
  if (StringRef reason = whyNoCombined(inputs, times, pair); !reason.empty()) {
    result.generalConditions = reason.str();
    return result;
  }
  if (pair == times.share())
    addGeneralOfLoop(result, inputs, times, interleavedIdle(inputs, times));
  else
    result.bubbleRatioGeneral = combinedRatio(inputs, times, pair);
  result.generalSource =
      "PipeSched: makespan W(F+B) + (NV-W+D-1)F&B, W = (V-1)g + D, which is "
      "idle (D-1 + (V-1)max(0, D-N))(F+B) where F&B = F + B, checked against "
      "simulation";
  result.generalConditions =
      "F&B no shorter than F or B, equal stages, free messages; N >= D unless "
      "V = 1 or F&B = F + B";
  return result;
}
