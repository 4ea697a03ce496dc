//===- CostModel.h - Costs of cells and messages ----------------*- C++ -*-===//
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

#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Facts/System.h"
#include "PipeSched/Schedule/Table/Replicas.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/ADT/STLExtras.h"

namespace pipesched {

/// An all-reduce of gradients.
struct Reduction {
  Cell cell;        ///< the G cell of the first of its workers
  BlockSpan blocks; ///< in the numbering of Replicas
  int64_t numWorkers = 1;
  int64_t firstWorker = 0, lastWorker = 0; ///< lowest and highest index
};

/// The layers of each global stage: a path's own `blocks`, else the model's
/// layers in the proportion of its `weights`, else an even split. Errors:
/// blocks that do not add up; a number of layers that is no multiple of the
/// stages, with the nearest stage counts that work, or of the weights, with the
/// nearest numbers of layers that work.
llvm::Expected<std::vector<int64_t>> splitLayers(const Placement &placement,
                                                 const ModelFacts &model);

/// The same for one path, the `number`-th, of a model with `layers` layers.
llvm::Expected<std::vector<int64_t>>
splitLayers(int64_t number, const Path &path, int64_t layers);

/// One slot takes 1 us, of a microbatch with k slices a k-th, and messages are
/// free. A stage with blocks or weights
/// takes as many slots as stageLengths says. Errors: those of stageLengths;
/// times over int64.
llvm::Expected<StageCosts> costUnit(const Placement &placement);

/// Costs from profiled times, which are of whole microbatches: slices divide
/// them evenly, messages too. B defaults to I + W, R to F, FB to F + B, and all
/// others to 0. O and G of a stage that owns some of its blocks
/// (ParameterSets.h) take the share of their time that these have among all its
/// blocks. `phases` has a bit (1 << Phase) for each phase the table uses.
/// Errors: a phase in use without a time (if only B is given for split cells,
/// the error asks for I and W); a list with neither one nor S entries.
/// Selective recompute has no default for R, so R must be given.
llvm::Expected<StageCosts> costProfile(const Placement &placement,
                                       const Profile &profile, PhaseSet phases,
                                       Recompute recompute = Recompute::Full);

/// Roofline per kernel, max(F/(n peak e(F/n)) + L, V/(n BW e(V/n)) + L) on n
/// accelerators, summed per phase; Hockney per message. If the model recomputes
/// and `phases` has no R, the times of B and I include the recomputation; else
/// R runs what `model.recompute` says, or everything if that is None. Errors:
/// those of splitLayers; a missing link (host for D and U) or rate; I or W of a
/// block that has work for a whole B only; times over int64.
llvm::Expected<StageCosts> costRoofline(const Placement &placement,
                                        const ModelFacts &model,
                                        const SystemFacts &system,
                                        PhaseSet phases);

/// The time of F, I, W, B, R or O of one block, ps: what costRoofline sums. If
/// no kernel of the block says otherwise, B is I + W, R the whole forward (or
/// the attention core under Selective), and O nothing. All kernels have rates.
double rooflinePs(const BlockFacts &block, Phase phase,
                  const SystemFacts &system,
                  Recompute recompute = Recompute::Full);
/// The time of F, B and recomputation of each block, ps: what one microbatch
/// takes on the block's worker. Errors: accelerators without a link; times over
/// int64.
llvm::Expected<std::vector<int64_t>> costBlocks(const ModelFacts &model,
                                                const SystemFacts &system);
/// The time of one message, as occupancy and latency. Errors: a link without
/// bandwidth; times over int64.
llvm::Expected<MessageCost> hockney(int64_t bytes, const LinkFacts &link);
/// The exchange of the gradients of a step in a group: a reduce-scatter of
/// `reducedBytes`, then an all-gather of `gatheredBytes`. If both are equal,
/// this is an all-reduce.
struct GradientExchange {
  double reducedBytes = 0, gatheredBytes = 0;
};
/// Rings within nodes and across them (Patarasu & Yuan 2009): n members on n
/// nodes each send 2 (n - 1) messages of bytes / n, one after the other;
/// `bytes` of the result is what one worker sends. A group of one costs
/// nothing. Errors: no network; times or bytes over int64.
llvm::Expected<MessageCost> ringExchange(GradientExchange exchange,
                                         RingGroup group,
                                         const SystemFacts &system);

/// Ring all-reduces of the gradients of blocks, among workers and their peers
/// in other pipelines. Errors: those of ringExchange and of Replicas.
llvm::Expected<std::vector<MessageCost>>
costReductions(const Placement &placement, llvm::ArrayRef<Reduction> reductions,
               const ModelFacts &model, const SystemFacts &system);

/// The same if the G times of stages are given: an all-reduce takes the share
/// of its cell's G time that its blocks have among those that the stage owns.
/// `model` gives the bytes and may be null. Errors: those of Replicas; bytes
/// over int64.
llvm::Expected<std::vector<MessageCost>>
shareReductions(const Placement &placement,
                llvm::ArrayRef<Reduction> reductions,
                const StageCosts &stageCosts, const ModelFacts *model);

/// Lets the all-reduces of whole stages go layer by layer: gradients while the
/// last backward of the stage runs (W if `phases` has it, else B), and weights,
/// if they are gathered, while its first forward does. Changes the part that
/// nothing hides, and how far ahead an all-reduce starts; bytes stay. Times of
/// cells are those of `stageCosts`. Errors: those of costReductions and of
/// costBlocks.
llvm::Error reduceByLayers(const Placement &placement,
                           llvm::ArrayRef<Reduction> reductions,
                           const ModelFacts &model, const SystemFacts &system,
                           PhaseSet phases, const StageCosts &stageCosts,
                           std::vector<MessageCost> &costs);

/// Memory per global stage; weights, gradients and optimizer state of the
/// blocks that it owns, so that a worker's stages add up to what the worker
/// holds. `system` gives the capacity and may be null. If the model recomputes
/// and `phases` has no R, every backward recomputes block by block. Boundary
/// bytes follow `model.recompute`; None counts as Full. Errors: those of
/// splitLayers; bytes over int64.
llvm::Expected<MemoryFacts> computeMemoryFacts(const Placement &placement,
                                               const ModelFacts &model,
                                               const SystemFacts *system,
                                               PhaseSet phases = {});

/// Sets the bytes of the messages of stages, of which slices have equal shares.
/// Their times stay as they are.
/// Errors: those of splitLayers.
llvm::Error setMessageBytes(const Placement &placement, const ModelFacts &model,
                            StageCosts &stageCosts);

/// Replaces roofline costs by the times that a profile gives; slices divide
/// them as they divide the roofline's. The backward (B, I, W) is replaced as a
/// whole, and so is a message (comm, send). F also
/// replaces R, unless R is selective.
llvm::Expected<StageCosts>
overlayProfile(const Placement &placement, StageCosts stageCosts,
               const Profile &profile, PhaseSet phases,
               Recompute recompute = Recompute::Full);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COSTMODEL_H
