//===- CostSources.h - Costs for schedules of any size ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Architecture, system and profile, independent of the number of microbatches,
// so that one set gives the costs of every point of a sweep.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_COSTSOURCES_H
#define PIPESCHED_EVALUATION_COSTSOURCES_H

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// Each source may be missing. computeStageCosts documents the result.
struct CostSources {
  std::optional<Architecture> architecture;
  /// Sequences per microbatch. Absent: the global batch is split evenly.
  std::optional<int64_t> microbatchSize;
  /// Sequences over all pipelines; 0: the architecture's own number.
  int64_t globalBatch = 0;
  ExpansionOptions expansion; ///< all options except the microbatch size
  std::optional<SystemFacts> system;
  std::optional<Profile> profile;
};

/// Returns the sequences per microbatch if the global batch is split into
/// `numMicrobatches` in each of `dataParallel` pipelines. A `globalBatch` of 0
/// means the architecture's own. Error texts continue "the schedule has ": an
/// architecture without a global batch; microbatches that do not divide it,
/// with the nearest numbers that do.
llvm::Expected<int64_t> microbatchSizeOf(const Architecture &architecture,
                                         int64_t globalBatch,
                                         int64_t numMicrobatches,
                                         int64_t dataParallel = 1);

/// Returns the costs for a schedule of `numMicrobatches`. Errors: as for
/// microbatchSizeOf and expandArchitecture.
llvm::Expected<CostInputs> resolveCosts(const CostSources &sources,
                                        int64_t numMicrobatches);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_COSTSOURCES_H
