//===- CostModel.h - StageCosts of cells and messages -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns facts into integer picoseconds and bytes per global stage: profiled
// times, Hockney messages (t = V/BW + L) and roofline compute.
// docs/CostModel.md derives each.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COSTMODEL_H
#define PIPESCHED_COSTMODEL_COSTMODEL_H

#include "PipeSched/CostModel/RankLayout.h"
#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Replicas.h"
#include "PipeSched/Schedule/Table.h"
#include "llvm/ADT/STLExtras.h"

namespace pipesched {

/// An all-reduce of gradients.
struct Reduction {
  Cell cell;        ///< the G of the first of its workers
  BlockSpan blocks; ///< as Replicas counts them
  int64_t numWorkers = 1;
  int64_t firstWorker = 0, lastWorker = 0; ///< the lowest and the highest
};

/// Layers of each global stage: a path's own `blocks`, else the model's layers
/// in the proportion of its `weights`, else split evenly. Errors: blocks that
/// do not add up; layers that the stages do not divide, with the nearest stage
/// counts that do; layers that the weights do not divide, with the nearest
/// numbers of layers that they do.
llvm::Expected<std::vector<int64_t>> splitLayers(const Placement &placement,
                                                 const ModelFacts &model);

/// The same for one path, the `number`-th, of a model of so many layers.
llvm::Expected<std::vector<int64_t>>
splitLayers(int64_t number, const Path &path, int64_t layers);

/// One slot is 1 us and messages are free. A stage with blocks or weights takes
/// as many slots as it is long (stageLengths). Errors: those of stageLengths;
/// times over int64.
llvm::Expected<StageCosts> costUnit(const Placement &placement);

/// Profiled times. B defaults to I + W, R to F, FB to F + B, the rest to 0.
/// `phases` has a bit (1 << Phase) for each phase the table uses. Errors: a
/// phase in use without a time (split cells with only B given name I and W); a
/// list of neither one nor S entries. R is not F's where it recomputes
/// selectively, and must be given then.
llvm::Expected<StageCosts> costProfile(const Placement &placement,
                                       const Profile &profile, unsigned phases,
                                       Recompute recompute = Recompute::Full);

/// Roofline per kernel, max(F/(n peak e(F/n)) + L, V/(n BW e(V/n)) + L) on n
/// accelerators, summed per phase; Hockney per message. Where the model
/// recomputes and `phases` has no R, B and I begin with it; else R runs again
/// what `model.recompute` says, all where that is None. Errors: splitLayers'; a
/// link that is missing (host for D and U); times over int64.
llvm::Expected<StageCosts> costRoofline(const Placement &placement,
                                        const ModelFacts &model,
                                        const SystemFacts &system,
                                        unsigned phases);

/// Time of F, I, W, B (I + W) or R (the forward of what is recomputed, all but
/// under Selective) of one block, ps; the sum that costRoofline takes.
double rooflinePs(const BlockFacts &block, Phase phase,
                  const SystemFacts &system,
                  Recompute recompute = Recompute::Full);
/// F, B and what is recomputed of each block, ps: what a microbatch takes on
/// its worker. Errors: accelerators without a link; times over int64.
llvm::Expected<std::vector<int64_t>> costBlocks(const ModelFacts &model,
                                                const SystemFacts &system);
/// Time of one message, occupancy and latency. Errors: a link without
/// bandwidth; times over int64.
llvm::Expected<MessageCost> hockney(int64_t bytes, const LinkFacts &link);
/// What a group does with the gradients of a step: it sums `reducedBytes` so
/// that each member has its part, and gives each all parts of `gatheredBytes`.
/// Alike, they make an all-reduce.
struct GradientExchange {
  double reducedBytes = 0, gatheredBytes = 0;
};
/// Rings inside of nodes and across them (Patarasu & Yuan 2009): among n that
/// all stand apart, each sends 2 (n - 1) messages of bytes / n, one after the
/// other; `bytes` of the price are what a worker sends. Nothing among one.
/// Errors: no network; times or bytes over int64.
llvm::Expected<MessageCost> ringExchange(GradientExchange exchange,
                                         RingGroup group,
                                         const SystemFacts &system);

/// Ring all-reduces of the gradients of blocks, among workers and their peers
/// in other pipelines. Errors: ringExchange's, those of Replicas.
llvm::Expected<std::vector<MessageCost>>
costReductions(const Placement &placement, llvm::ArrayRef<Reduction> reductions,
               const ModelFacts &model, const SystemFacts &system);

/// The same where G has a time by stage: of that of its cell, the part that the
/// blocks are of the stage. A model, which may be null, gives the bytes.
/// Errors: those of Replicas; bytes over int64.
llvm::Expected<std::vector<MessageCost>>
shareReductions(const Placement &placement,
                llvm::ArrayRef<Reduction> reductions,
                const StageCosts &stageCosts, const ModelFacts *model);

/// Memory per global stage. `system` gives the capacity and may be null. Where
/// the model recomputes and `phases` has no R, every backward recomputes block
/// by block; boundaries are those of what `model.recompute` says, of all where
/// that is None. Errors: splitLayers'; bytes over int64.
llvm::Expected<MemoryFacts> computeMemoryFacts(const Placement &placement,
                                               const ModelFacts &model,
                                               const SystemFacts *system,
                                               unsigned phases = 0);

/// Adds a profile's times onto roofline prices: what the profile gives wins.
/// The backward (B, I, W) is one thing given, so is a message (comm, send). F
/// gives R too, unless that recomputes selectively.
llvm::Expected<StageCosts>
overlayProfile(const Placement &placement, StageCosts stageCosts,
               const Profile &profile, unsigned phases,
               Recompute recompute = Recompute::Full);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COSTMODEL_H
