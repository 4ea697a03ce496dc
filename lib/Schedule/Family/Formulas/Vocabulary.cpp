//===- Vocabulary.cpp - Shards of a vocabulary in 1F1B --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formulas of vocab-1f1b and interlaced-1f1b. All workers run as much of
// the head as each other, so that a worker idles as long as in 1F1B.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static constexpr StringRef kVocabularyPaper =
    "Yeung et al. 2024, Balancing pipeline parallelism with vocabulary "
    "parallelism, arXiv 2411.05288";

static FormulaResult literatureOfVocabulary(const FormulaInputs &inputs) {
  double workers = inputs.workers, microbatches = inputs.microbatches;
  FormulaResult result;
  result.bubbleRatio = (workers - 1) / (microbatches + workers - 1);
  result.source =
      (kVocabularyPaper + ": the bubble of 1F1B, (D-1)/(N+D-1)").str();
  result.conditions = "one stage per worker, equal stages, B = 2F, free "
                      "messages and collectives, shards of the head that take "
                      "no time";
  if (!inputs.times)
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

/// Adds the general form, with less idle time by `saved`.
static void addGeneralOfVocabulary(FormulaResult &result,
                                   const FormulaInputs &inputs, double saved) {
  StageTimes times(inputs);
  double head = double(inputs.times->logitsPs) + inputs.times->logitsGradPs;
  double idle =
      (inputs.workers - 1) * (times.forward + times.backward()) - saved;
  result.bubbleRatioGeneral =
      ratioOf(idle, times.share() + head, inputs.microbatches);
}

/// With Vocab-2 the backward does not wait for T, which one worker then runs in
/// time that is idle with Vocab-1.
Expected<FormulaResult>
formulas::evaluateVocab1F1B(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  bool isSecond = inputs.vocabulary == VocabularyAlgorithm::Vocab2;
  FormulaResult result = literatureOfVocabulary(inputs);
  result.peakActivations =
      std::min(inputs.microbatches, inputs.workers + (isSecond ? 1 : 2));
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  double lastStep = inputs.times->logitsGradPs;
  if (times.comm != 0 || times.backward() != 2 * times.forward ||
      (isSecond && lastStep > times.forward)) {
    result.generalConditions =
        isSecond ? "no general form is known: it takes B = 2F, T no longer "
                   "than F, free messages and collectives"
                 : "no general form is known: it takes B = 2F, free messages "
                   "and collectives";
    return result;
  }
  addGeneralOfVocabulary(result, inputs,
                         isSecond && inputs.workers > 1 ? lastStep : 0);
  result.generalSource =
      isSecond ? "PipeSched: idle (D-1)(F+B)-T, 0 for one worker, checked "
                 "against simulation"
               : "PipeSched: idle (D-1)(F+B), checked against simulation";
  result.generalConditions =
      isSecond ? "equal stages, B = 2F, T no longer than F, free messages and "
                 "collectives"
               : "equal stages, B = 2F, free messages and collectives";
  return result;
}

Expected<FormulaResult>
formulas::evaluateInterlaced1F1B(StringRef family,
                                 const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfVocabulary(inputs);
  result.peakActivations =
      std::min(inputs.microbatches, 3 * inputs.workers / 2);
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  if (times.comm != 0 || times.backward() < times.forward) {
    result.generalConditions =
        "no general form is known: it takes B no shorter than F, free messages "
        "and collectives";
    return result;
  }
  addGeneralOfVocabulary(result, inputs, /*saved=*/0);
  result.generalSource =
      "PipeSched: idle (D-1)(F+B), checked against simulation";
  result.generalConditions =
      "equal stages, B no shorter than F, free messages and collectives";
  return result;
}
