//===- CostModel.h - Costs of cells and messages ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns facts into integer picoseconds and bytes per global stage: profiled
// times, Hockney messages (t = V/BW + L) and roofline compute.
// docs/CostModel.md derives each.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COSTMODEL_H
#define PIPESCHED_COSTMODEL_COSTMODEL_H

#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"

namespace pipesched {

/// One slot takes 1 us, of a microbatch with k slices a k-th, and messages are
/// free. A stage with blocks or weights
/// takes as many slots as stageLengths says. Errors: as for stageLengths;
/// times over int64.
llvm::Expected<StageCosts> costUnit(const Placement &placement);

/// Costs from profiled times, which are of whole microbatches: slices divide
/// them evenly, messages too. B defaults to I + W, R to F, FB to F + B, and all
/// others to 0. O and G of a stage that owns only some of its blocks
/// (ParameterSets.h) take the share of their time of these blocks. `phases` has
/// a bit (1 << Phase) for each phase the table uses. Errors: a phase in use
/// without a time (if only B is given for split cells, the error asks for I and
/// W); a list with neither one nor S entries. Selective recompute has no
/// default for R, so R must be given.
llvm::Expected<StageCosts> costProfile(const Placement &placement,
                                       const Profile &profile, PhaseSet phases,
                                       Recompute recompute = Recompute::Full);

/// Roofline per kernel, max(F/(n peak e(F/n)) + L, V/(n BW e(V/n)) + L) on n
/// accelerators, summed per phase; Hockney per message. If the model recomputes
/// and `phases` has no R, the times of B and I include the recomputation; else
/// R recomputes according to `model.recompute`, or everything if it is None.
/// Errors: as for splitLayers; a missing link (host for D and U) or rate; I or
/// W of a block that has work for a whole B only; times over int64.
llvm::Expected<StageCosts> costRoofline(const Placement &placement,
                                        const ModelFacts &model,
                                        const SystemFacts &system,
                                        PhaseSet phases);

/// Memory per global stage; weights, gradients and optimizer state of the
/// blocks that it owns, so that a worker's stages add up to the memory of the
/// worker. `system` gives the capacity and may be null. If the model recomputes
/// and `phases` has no R, every backward recomputes block by block. Boundary
/// bytes follow `model.recompute`; None counts as Full. Errors: as for
/// splitLayers; bytes over int64.
llvm::Expected<MemoryFacts> computeMemoryFacts(const Placement &placement,
                                               const ModelFacts &model,
                                               const SystemFacts *system,
                                               PhaseSet phases = {});

/// Replaces roofline costs by the times that a profile gives; slices divide
/// them as they divide the roofline's. The backward (B, I, W) is replaced as a
/// whole, and so is a message (comm, send). F also
/// replaces R, unless R is selective.
llvm::Expected<StageCosts>
overlayProfile(const Placement &placement, StageCosts stageCosts,
               const Profile &profile, PhaseSet phases,
               Recompute recompute = Recompute::Full);

/// Adds the time that cells and pairs with times of this profile wait for
/// parameters that peers divide, and the bytes that they send: measured times
/// count only compute. Blocks divide the time of a cell as they divide the
/// roofline's. For costs after overlayProfile. Errors: as for splitLayers; a
/// missing link; times or bytes over int64.
llvm::Error shardMeasured(const Placement &placement, const ModelFacts &model,
                          const SystemFacts &system, const Profile &profile,
                          PhaseSet phases, StageCosts &stageCosts);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COSTMODEL_H
