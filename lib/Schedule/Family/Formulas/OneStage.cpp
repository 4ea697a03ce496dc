//===- OneStage.cpp - GPipe, 1F1B and eager 1F1B --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families with one stage per worker. Without messages, each worker idles for
// (D-1)(F + G), where G is the time to the gradient: I if a split backward
// sends it after I, else B.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static FormulaResult literatureOfOneStage(const FormulaInputs &inputs) {
  double workers = inputs.workers, microbatches = inputs.microbatches;
  FormulaResult result;
  result.bubbleRatio = (workers - 1) / (microbatches + workers - 1);
  result.conditions = "one stage per worker, equal stages, free messages, "
                      "gradients after whole backwards";
  if (!inputs.times)
    result.generalConditions = kNoUniformTimes.str();
  return result;
}

/// Adds the general form, with `numMessages` delays on the critical path.
static void addGeneralOfOneStage(FormulaResult &result,
                                 const FormulaInputs &inputs,
                                 double numMessages) {
  StageTimes times(inputs);
  double idle = (inputs.workers - 1) * (times.forward + times.gradient) +
                numMessages * times.comm;
  result.bubbleRatioGeneral = ratioOf(idle, times.share(), inputs.microbatches);
  result.generalConditions = "one stage per worker, equal stages, transport "
                             "delay";
}

/// The first forward and the last gradient each cross D-1 boundaries.
Expected<FormulaResult> formulas::evaluateGPipe(StringRef family,
                                                const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfOneStage(inputs);
  result.peakActivations = inputs.microbatches;
  result.source = "Huang et al. 2019, GPipe, arXiv 1811.06965: "
                  "(D-1)/(N+D-1)";
  if (!inputs.times)
    return result;
  addGeneralOfOneStage(result, inputs, 2.0 * (inputs.workers - 1));
  result.generalSource = "PipeSched: idle (D-1)(F+G+2Tc), G = I where "
                         "gradients go after I, else B, checked against "
                         "simulation";
  return result;
}

/// The number of message delays on 1F1B's critical path. It does not come from
/// the literature but from simulations with delays, which the unit tests
/// repeat. If a W follows the gradient, messages travel during that W.
static double count1F1BMessages(int64_t workers, int64_t microbatches,
                                bool sendsAfterInput) {
  if (microbatches < 2 || sendsAfterInput)
    return 2.0 * (workers - 1);
  int64_t rounds = (microbatches - 2) / workers;
  return 2.0 * (microbatches + workers - 3 - rounds);
}

Expected<FormulaResult> formulas::evaluate1F1B(StringRef family,
                                               const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfOneStage(inputs);
  result.peakActivations = std::min(inputs.microbatches, inputs.workers);
  result.source = "Narayanan et al. 2021, Megatron-LM, arXiv 2104.04473: "
                  "(D-1)/(N+D-1)";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  if (inputs.sendsAfterInput && 2 * times.comm > times.weightGrad) {
    result.generalConditions = "no general form is known: where gradients go "
                               "after I it takes messages no longer than W/2";
    return result;
  }
  addGeneralOfOneStage(result, inputs,
                       count1F1BMessages(inputs.workers, inputs.microbatches,
                                         inputs.sendsAfterInput));
  if (inputs.sendsAfterInput) {
    result.generalSource = "PipeSched: idle (D-1)(F+I+2Tc), checked against "
                           "simulation";
    result.generalConditions += ", gradients after I, messages no longer than "
                                "W/2";
    return result;
  }
  result.generalSource = "PipeSched: idle (D-1)(F+B) + "
                         "2(N+D-3-floor((N-2)/D))Tc for N >= 2, 2(D-1)Tc for "
                         "N = 1, checked against simulation";
  return result;
}

/// A message that is fast enough travels while its receiver runs another pair.
/// Then only the first forward and the last gradient wait for their messages.
Expected<FormulaResult>
formulas::evaluateEager1F1B(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  FormulaResult result = literatureOfOneStage(inputs);
  result.peakActivations =
      std::min(inputs.microbatches, 2 * inputs.workers - 1);
  result.source = "Xhebraj et al. 2024, JaxPP, arXiv 2412.14374: 1F1B's bubble "
                  "(D-1)/(N+D-1) with a warm-up of 2(D-r)-1";
  if (!inputs.times)
    return result;
  StageTimes times(inputs);
  StringRef condition = inputs.sendsAfterInput
                            ? "messages no longer than W"
                            : "messages no longer than (F+B)/2";
  double most = inputs.sendsAfterInput ? times.weightGrad : times.share() / 2;
  if (times.comm > most) {
    result.generalConditions =
        "no general form is known: it takes " + condition.str();
    return result;
  }
  addGeneralOfOneStage(result, inputs, 2.0 * (inputs.workers - 1));
  result.generalConditions += ", " + condition.str();
  result.generalSource = "PipeSched: idle (D-1)(F+G+2Tc), G = I where "
                         "gradients go after I, else B, checked against "
                         "simulation";
  return result;
}

//===----------------------------------------------------------------------===//
// Shards of a vocabulary
//
// All workers run equal parts of the head, so a worker idles as long as in
// 1F1B.
//===----------------------------------------------------------------------===//

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

/// Adds the general form; the idle time is reduced by `saved`.
static void addGeneralOfVocabulary(FormulaResult &result,
                                   const FormulaInputs &inputs, double saved) {
  StageTimes times(inputs);
  double head = double(inputs.times->logitsPs) + inputs.times->logitsGradPs;
  double idle =
      (inputs.workers - 1) * (times.forward + times.backward()) - saved;
  result.bubbleRatioGeneral =
      ratioOf(idle, times.share() + head, inputs.microbatches);
}

/// With Vocab-2 the backward does not wait for T: a worker runs T in time that
/// is idle with Vocab-1.
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
