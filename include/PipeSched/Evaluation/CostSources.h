//===- CostSources.h - What prices schedules of any size --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Architecture, system and profile before it is known how many microbatches
// there are, so that one set prices every point of a sweep.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_COSTSOURCES_H
#define PIPESCHED_EVALUATION_COSTSOURCES_H

#include "PipeSched/CostModel/Transformer/TransformerBlock.h"
#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

/// Each may be missing; what is not given is priced as computeStageCosts says.
struct CostSources {
  std::optional<Architecture> architecture;
  /// Sequences of a microbatch; nothing: the global batch dealt to them all.
  std::optional<int64_t> microbatchSize;
  /// Sequences, of all pipelines; 0: the architecture's own.
  int64_t globalBatch = 0;
  ExpansionOptions expansion; ///< all but the microbatch size
  std::optional<SystemFacts> system;
  std::optional<Profile> profile;
};

/// Sequences of a microbatch where the global batch is dealt to so many in each
/// of so many pipelines. `globalBatch` 0 is the architecture's own. Errors,
/// which go on from "the schedule has ": an architecture without a global
/// batch; microbatches that do not divide it, with the nearest numbers that do.
llvm::Expected<int64_t> microbatchSizeOf(const Architecture &architecture,
                                         int64_t globalBatch,
                                         int64_t numMicrobatches,
                                         int64_t dataParallel = 1);

/// The facts for a schedule of so many microbatches. Errors: those of
/// microbatchSizeOf and expandArchitecture.
llvm::Expected<CostInputs> resolveCosts(const CostSources &sources,
                                        int64_t numMicrobatches);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_COSTSOURCES_H
