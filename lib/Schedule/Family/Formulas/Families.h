//===- Families.h - One formula per family ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formula functions of all families, and the code that they share. Times
// are doubles here because the results are ratios for people, which are
// compared with tables and timelines but never fed back into them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FAMILY_FORMULAS_FAMILIES_H
#define PIPESCHED_LIB_SCHEDULE_FAMILY_FORMULAS_FAMILIES_H

#include "PipeSched/Schedule/Family/Formulas.h"
#include "PipeSched/Support/FormatError.h"

namespace pipesched::formulas {

/// Times of a stage as doubles. A single worker has no messages.
struct StageTimes {
  double forward, inputGrad, weightGrad, comm;
  double gradient; ///< from the start of a backward to its gradient

  explicit StageTimes(const FormulaInputs &inputs)
      : forward(inputs.times->forwardPs), inputGrad(inputs.times->inputGradPs),
        weightGrad(inputs.times->weightGradPs),
        comm(inputs.workers > 1 ? inputs.times->commPs : 0),
        gradient(inputs.sendsAfterInput ? inputGrad : backward()) {}

  double backward() const { return inputGrad + weightGrad; }
  double share() const { return forward + backward(); }
};

/// The inputs with units in place of microbatches, for families that schedule
/// slices like microbatches.
inline FormulaInputs inUnits(FormulaInputs inputs) {
  inputs.microbatches *= inputs.slices;
  return inputs;
}

/// The ratio idle / (idle + work) of a worker. Its work is `numShares` times
/// the work of one stage and microbatch (`share`). The ratio is 0 if work takes
/// no time.
inline double ratioOf(double idle, double share, double numShares) {
  double total = idle + numShares * share;
  return total > 0 ? idle / total : 0.0;
}

/// The reason why there is no general value without uniform times.
inline constexpr llvm::StringLiteral kNoUniformTimes =
    "the times of the stages differ, or none are known";

/// Refuses sizes that have no formula: other than one stage per worker; a
/// number of stages that is not a multiple of the workers.
llvm::Error checkOneStagePerWorker(llvm::StringRef family,
                                   const FormulaInputs &inputs);
llvm::Error checkStagesPerWorker(llvm::StringRef family,
                                 const FormulaInputs &inputs);

/// The formula of rows on a placement with stages that do not train
/// (Frozen.cpp). Errors: a family or frozen stages without a formula.
llvm::Expected<FormulaResult> evaluateFrozen(const Family &family,
                                             const Placement &placement,
                                             const FormulaInputs &inputs);

using Formula = llvm::Expected<FormulaResult>(llvm::StringRef family,
                                              const FormulaInputs &inputs);

Formula evaluateGPipe, evaluate1F1B, evaluateEager1F1B; // OneStage.cpp
Formula evaluateLoopedBFS, evaluateMpmdCircular;        // Loop.cpp
Formula evaluateInterleaved1F1B, evaluateCombined1F1B;  // Loop.cpp
Formula evaluateZBH1, evaluateZBH2;                     // ZeroBubbleH.cpp
Formula evaluateInterleavedZB;                          // ZeroBubbleH.cpp
Formula evaluateSeq1F1B, evaluateSlimPipe;              // Sliced.cpp
Formula evaluateTeraPipe;                               // Sliced.cpp
Formula evaluateChimera, evaluateHanayo;                // Paths.cpp
Formula evaluateZBV, evaluateVHalf, evaluateVMin;       // TwoChunks.cpp
Formula evaluateDualPipe, evaluateDualPipeV;            // TwoChunks.cpp
Formula evaluateVocab1F1B, evaluateInterlaced1F1B;      // Vocabulary.cpp

} // namespace pipesched::formulas

#endif // PIPESCHED_LIB_SCHEDULE_FAMILY_FORMULAS_FAMILIES_H
