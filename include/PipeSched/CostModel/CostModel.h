//===- CostModel.h - Costs of cells and messages ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns facts into integer picoseconds and bytes per global stage: profiled
// times, Hockney messages (t = V/BW + L) and roofline compute.
// docs/CostModel.md derives the formulas.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COSTMODEL_H
#define PIPESCHED_COSTMODEL_COSTMODEL_H

#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"

namespace pipesched {

/// Returns unit costs: a slot takes 1 us, or 1/k us for microbatches with k
/// slices, and messages take no time. The slots of a stage with blocks or
/// weights come from stageLengths. Errors: as for stageLengths; times over
/// int64.
llvm::Expected<StageCosts> costUnit(const Placement &placement);

/// Returns costs from profiled times. These are for whole microbatches; slices
/// divide times and messages evenly. B defaults to I + W, R to F, FB to F + B,
/// and all others to 0. If a stage owns only some of its blocks
/// (ParameterSets.h), its O and G take the same fraction of their profiled
/// time. `phases` has a bit (1 << Phase) for each phase of the table. Errors: a
/// phase in use without a time (if only B is given for split cells, the error
/// asks for I and W); a list whose length is neither one nor S. With selective
/// recompute, R has no default and must be given.
llvm::Expected<StageCosts> costProfile(const Placement &placement,
                                       const Profile &profile, PhaseSet phases,
                                       Recompute recompute = Recompute::Full);

/// Returns roofline costs: per kernel max(F/(n peak e(F/n)) + L, V/(n BW
/// e(V/n)) + L) on n accelerators, summed per phase; Hockney times per message.
/// If the model recomputes and `phases` has no R, the times of B and I include
/// the recomputation; otherwise R recomputes as `model.recompute` states, or
/// everything if it is None. Errors: as for splitLayers; a missing link (host
/// for D and U) or rate; I or W of a block that states work only for a whole B;
/// times over int64.
llvm::Expected<StageCosts> costRoofline(const Placement &placement,
                                        const ModelFacts &model,
                                        const SystemFacts &system,
                                        PhaseSet phases);

/// Returns the memory per global stage. Weights, gradients and optimizer state
/// are only of the blocks that a stage owns, so that the stages of a worker add
/// up to its memory. `system` gives the capacity and may be null. If the model
/// recomputes and `phases` has no R, every backward recomputes block by block.
/// Boundary bytes follow `model.recompute`; None counts as Full. Errors: as for
/// splitLayers; bytes over int64.
llvm::Expected<MemoryFacts> computeMemoryFacts(const Placement &placement,
                                               const ModelFacts &model,
                                               const SystemFacts *system,
                                               PhaseSet phases = {});

/// Replaces roofline costs by the times of a profile. Slices divide these times
/// in proportion to their roofline times. A backward (B, I, W) is replaced as a
/// whole, and so is a message (comm, send). The time of F also replaces R,
/// unless R is selective.
llvm::Expected<StageCosts>
overlayProfile(const Placement &placement, StageCosts stageCosts,
               const Profile &profile, PhaseSet phases,
               Recompute recompute = Recompute::Full);

/// Adds the waits for sharded parameters to cells and pairs whose times come
/// from this profile, and the bytes that they send, because measured times
/// include only compute. The blocks of a cell divide its time in proportion to
/// their roofline times. Call it after overlayProfile. Errors: as for
/// splitLayers; a missing link; times or bytes over int64.
llvm::Error shardMeasured(const Placement &placement, const ModelFacts &model,
                          const SystemFacts &system, const Profile &profile,
                          PhaseSet phases, StageCosts &stageCosts);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COSTMODEL_H
