//===- Reductions.h - Gradient all-reduces of stages ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What costs of all-reduces and of stages share: the bytes that are sent, and
// the cost of G by stage, a sum over the pieces that the stage owns.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_LAYERS_REDUCTIONS_H
#define PIPESCHED_LIB_COSTMODEL_LAYERS_REDUCTIONS_H

#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipesched {

/// Sums over rings that run one after the other, before rounding. `bytes` is
/// what a worker sends.
struct RingSums {
  double occupancyPs = 0, latencyPs = 0, bytes = 0;

  /// Adds a ring of n = `size` members: n - 1 messages in each half of the
  /// exchange.
  void add(GradientExchange exchange, int64_t size, const LinkFacts &link);
};

/// What ringExchange rounds. Errors: no network.
llvm::Expected<RingSums> sumRings(GradientExchange exchange,
                                  const RingGroup &group,
                                  const SystemFacts &system);

/// The bytes that each of n workers sends in a ring all-reduce: 2 (n - 1) parts
/// of bytes / n. Errors: over int64.
llvm::Expected<int64_t> ringBytes(double bytes, int64_t numWorkers);

/// `ps` times `part` over `whole`, rounded to the nearest; all of it if `part`
/// is not less.
int64_t shareOf(int64_t ps, int64_t part, int64_t whole);

/// What reductions cost, one by one.
using CostReductions =
    llvm::function_ref<llvm::Expected<std::vector<MessageCost>>(
        llvm::ArrayRef<Reduction>)>;

/// Writes the G times of all stages: the sums over the pieces that they own, as
/// `cost` gives those of reductions. Errors: those of `cost`; times over int64.
llvm::Error costStageReductions(const Placement &placement, CostReductions cost,
                                StageCosts &stageCosts);

/// Adds to a reduction, of one worker and its peers, that of another block
/// which the worker holds, behind it. Errors: those of ringExchange.
llvm::Error addReduction(const Reduction &reduction, const BlockFacts &block,
                         const ModelFacts &model, const SystemFacts &system,
                         const RankLayout &layout, MessageCost &cost);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_LAYERS_REDUCTIONS_H
