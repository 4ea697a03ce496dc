//===- KernelTimes.h - Times of kernels and of blocks -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The terms of roofline costs of stages: kernels, and transfers between the
// accelerators that run them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_KERNELS_KERNELTIMES_H
#define PIPESCHED_COSTMODEL_KERNELS_KERNELTIMES_H

#include "PipeSched/Facts/System.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace pipesched {

/// Whether a kernel on the engine `context` passes keys and values of an
/// attention core. All other such kernels are all-to-alls around a recurrence,
/// after which each rank has all tokens of some heads.
inline bool passesKeys(const Kernel &kernel) {
  return kernel.core || kernel.seen > 0;
}

/// The time of F, I, W, B, R or O of one block, ps; a term of costRoofline.
/// Unless a kernel of the block states its work, B is I + W, R is the whole
/// forward (or the attention core under Selective), and O takes no time. The
/// system must have rates for all kernels.
double rooflinePs(const BlockFacts &block, Phase phase,
                  const SystemFacts &system,
                  Recompute recompute = Recompute::Full);

/// The time of F, B and recomputation of each block, ps, for one microbatch on
/// the block's worker. Errors: accelerators without a link; times over int64.
llvm::Expected<std::vector<int64_t>> costBlocks(const ModelFacts &model,
                                                const SystemFacts &system);

/// The part of rooflinePs in kernels on one engine, ps.
double enginePs(const BlockFacts &block, Phase phase, Engine engine,
                const SystemFacts &system,
                Recompute recompute = Recompute::Full);

/// The time of the host for the kernels of a block in a phase, ps.
struct HostTime {
  double launchPs = 0;
  double synchronizePs = 0; ///< after kernels that it waits for
  /// Whether it waits for the device, so that it cannot launch ahead.
  bool waits = false;
};
HostTime hostTime(const BlockFacts &block, Phase phase,
                  const SystemFacts &system,
                  Recompute recompute = Recompute::Full);

/// The time of a block by itself: the longer of the times of device and host.
double blockPs(const BlockFacts &block, Phase phase, const SystemFacts &system,
               Recompute recompute = Recompute::Full);

/// The fields of Exchange for the context of a block, unrounded.
struct ContextSums {
  double ps = 0, exposedPs = 0, bytes = 0;
};
ContextSums contextSums(const BlockFacts &block, Phase phase,
                        const SystemFacts &system,
                        Recompute recompute = Recompute::Full);

/// Whether a kernel of the block states its work in B, R or O.
bool anyStates(const BlockFacts &block, std::optional<Work> Kernel::*phase);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_KERNELS_KERNELTIMES_H
