//===- Sliced.cpp - Formulas of families with slices ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas of Seq1F1B, SlimPipe and TeraPipe for u = N k units. With one slice,
// each equals a family without slices and uses the formula of that family.
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::formulas;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// A pipeline of D workers takes as long as u units of a worker with V stages,
/// plus D-1 units of one stage to fill and drain it.
static FormulaResult pipelineOf(const FormulaInputs &inputs, int64_t chunks) {
  double fill = inputs.workers - 1;
  double units = double(inputs.microbatches) * double(inputs.slices) * chunks;
  FormulaResult result;
  result.bubbleRatio = fill / (units + fill);
  result.conditions = "slices of equal time, equal stages, free messages, "
                      "gradients after whole backwards";
  if (!inputs.times) {
    result.generalConditions = kNoUniformTimes.str();
    return result;
  }
  StageTimes times(inputs);
  if (times.comm > 0 || chunks > 1) {
    result.generalConditions =
        times.comm > 0 ? "no general form is known for messages that take time"
                       : "no general form is known for several chunks";
    return result;
  }
  result.bubbleRatioGeneral =
      ratioOf(fill * (times.forward + times.gradient), times.share(), units);
  result.generalConditions = "slices of equal time, equal stages";
  result.generalSource = "PipeSched: idle (D-1)(F+G), G = I where gradients go "
                         "after I, else B, checked against simulation";
  return result;
}

Expected<FormulaResult> formulas::evaluateSeq1F1B(StringRef family,
                                                  const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  int64_t workers = inputs.workers, chunks = inputs.stages / workers;
  if (inputs.slices == 1 && chunks == 1)
    return evaluate1F1B(family, inputs);
  FormulaResult result = pipelineOf(inputs, chunks);
  int64_t group = llvm::alignTo(workers, inputs.slices);
  int64_t warmUp =
      chunks == 1 ? workers - 1 : (chunks - 1) * group + 2 * (workers - 1);
  result.peakActivations = std::min(
      inputs.microbatches * inputs.slices * chunks, warmUp + inputs.slices);
  result.source = "Sun et al. 2024, Seq1F1B, arXiv 2406.03488: "
                  "(D-1)/(NkV+D-1), D+k-1 slices; with chunks "
                  "(V-1)g+2(D-1)+k, g the least multiple of k from D on";
  return result;
}

Expected<FormulaResult>
formulas::evaluateSlimPipe(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkStagesPerWorker(family, inputs))
    return std::move(error);
  int64_t chunks = inputs.stages / inputs.workers;
  if (inputs.slices == 1 && chunks == 1)
    return evaluateEager1F1B(family, inputs);
  FormulaResult result = pipelineOf(inputs, chunks);
  result.peakActivations =
      std::min(inputs.microbatches * inputs.slices * chunks,
               inputs.slices * chunks + 2 * (inputs.workers - 1));
  result.source = "Li et al. 2025, SlimPipe, arXiv 2504.14519: "
                  "(D-1)/(NkV+D-1), kV+2(D-1) slices";
  return result;
}

Expected<FormulaResult>
formulas::evaluateTeraPipe(StringRef family, const FormulaInputs &inputs) {
  if (Error error = checkOneStagePerWorker(family, inputs))
    return std::move(error);
  if (inputs.slices == 1)
    return evaluateGPipe(family, inputs);
  FormulaResult result = pipelineOf(inputs, 1);
  result.peakActivations = inputs.microbatches * inputs.slices;
  result.source = "Li et al. 2021, TeraPipe, arXiv 2102.07988: (D-1)/(Nk+D-1), "
                  "all slices";
  return result;
}
