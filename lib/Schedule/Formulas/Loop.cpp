//===- Loop.cpp - Families on an interleaved path -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// V stages per worker; F, B and T = F + B are the times of one stage.
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
static FormulaResult literatureOf(const FormulaInputs &inputs) {
  double hops = inputs.workers - 1;
  FormulaResult result;
  result.bubbleRatio =
      hops / (double(inputs.microbatches) * chunksOf(inputs) + hops);
  if (!inputs.times)
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

static void addGeneral(FormulaResult &result, const FormulaInputs &inputs,
                       const StageTimes &times, double idle) {
  result.bubbleRatioGeneral =
      ratioOf(idle, times.share(),
              static_cast<double>(inputs.microbatches) * chunksOf(inputs));
}

/// How long a worker that has run `count` cells of one chunk waits for the
/// first of them to come back to it on the next, once around all workers.
static double gapOf(const FormulaInputs &inputs, const StageTimes &times,
                    double count) {
  auto gap = [&](double time) {
    return std::max(0.0, inputs.workers * (time + times.comm) - count * time);
  };
  return (chunksOf(inputs) - 1) * (gap(times.forward) + gap(times.backward()));
}

Expected<FormulaResult>
formulas::evaluateLoopedBFS(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOf(inputs);
  result.peakActivations = inputs.microbatches * chunksOf(inputs);
  result.source =
      "Lamy-Poirier 2023, Breadth-first pipeline parallelism, arXiv "
      "2211.05953: (D-1)/(NV+D-1)";
  result.conditions = "N >= D, equal stages, free messages";
  if (!inputs.times)
    return result;
  StageTimes times(*inputs.times, inputs.workers);
  addGeneral(result, inputs, times,
             (inputs.workers - 1) * (times.share() + 2 * times.comm) +
                 gapOf(inputs, times, inputs.microbatches));
  result.generalSource = "PipeSched: idle (D-1)(T+2Tc) + (V-1)(max(0, D(F+Tc) "
                         "- NF) + max(0, D(B+Tc) - NB)), checked against "
                         "simulation";
  result.generalConditions = "equal stages, transport delay";
  return result;
}

/// As looped BFS in each phase of D microbatches; all but the last phase are
/// full, so that only their messages hold them up.
Expected<FormulaResult>
formulas::evaluateMpmdCircular(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOf(inputs);
  result.peakActivations = inputs.microbatches * chunksOf(inputs);
  result.source = "the interleaved bubble (D-1)/(NV+D-1) of Narayanan et al. "
                  "2021, arXiv 2104.04473, which this order has too";
  result.conditions = "D divides N, equal stages, free messages";
  if (!inputs.times)
    return result;
  StageTimes times(*inputs.times, inputs.workers);
  int64_t fullPhases = (inputs.microbatches - 1) / inputs.workers;
  int64_t lastPhase = inputs.microbatches - fullPhases * inputs.workers;
  double idle = (inputs.workers - 1) * (times.share() + 2 * times.comm) +
                gapOf(inputs, times, lastPhase) +
                fullPhases * gapOf(inputs, times, inputs.workers);
  addGeneral(result, inputs, times, idle);
  result.generalSource =
      "PipeSched: idle (D-1)(T+2Tc) + (V-1)(2KDTc + max(0, D(F+Tc) - nF) + "
      "max(0, D(B+Tc) - nB)), K full phases and a last one of n, checked "
      "against simulation";
  result.generalConditions = "equal stages, transport delay";
  return result;
}

/// The group that the generator takes; an undivided N is none.
static int64_t groupOf(const FormulaInputs &inputs) {
  int64_t numGroups =
      std::max<int64_t>(1, inputs.microbatches / inputs.workers);
  return inputs.group.value_or(inputs.microbatches / numGroups);
}

/// Why the message term does not hold, or nothing.
static StringRef whyNoMessages(const FormulaInputs &inputs,
                               const StageTimes &times) {
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

Expected<FormulaResult>
formulas::evaluateInterleaved1F1B(StringRef family,
                                  const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  int64_t workers = inputs.workers, chunks = chunksOf(inputs);
  FormulaResult result = literatureOf(inputs);
  result.peakActivations =
      std::min((chunks - 1) * groupOf(inputs) + 2 * (workers - 1) + 1,
               inputs.microbatches * chunks);
  result.source =
      "Narayanan et al. 2021, Megatron-LM, arXiv 2104.04473, section "
      "2.2: (D-1)/(NV+D-1)";
  result.conditions = "N >= D, equal stages, free messages";
  if (!inputs.times)
    return result;
  StageTimes times(*inputs.times, workers);
  if (StringRef reason = whyNoMessages(inputs, times); !reason.empty()) {
    result.generalConditions = reason.str();
    return result;
  }
  double missing = std::max<int64_t>(0, workers - inputs.microbatches);
  double idle = (workers - 1 + (chunks - 1) * missing) * times.share() +
                2 * (double(workers) * chunks - 1) * times.comm;
  addGeneral(result, inputs, times, idle);
  result.generalSource = "PipeSched: idle (D-1 + (V-1)max(0, D-N))T + "
                         "2(DV-1)Tc, checked against simulation";
  result.generalConditions =
      "equal stages, transport delay; with messages, groups of D, N >= 2D and "
      "messages no longer than F or B";
  return result;
}
