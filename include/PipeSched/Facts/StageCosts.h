//===- StageCosts.h - What cells and messages cost --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times, bytes and memory of each stage of a placement, as plain numbers: a
// cost model fills them in, analyses read them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_STAGECOSTS_H
#define PIPESCHED_FACTS_STAGECOSTS_H

#include "PipeSched/Schedule/Table/Cell.h"
#include <array>
#include <vector>

namespace pipesched {

/// A message holds its queues for occupancyPs (V/BW) and arrives latencyPs
/// later.
struct MessageCost {
  int64_t occupancyPs = 0, latencyPs = 0, bytes = 0;
};

/// Keys, values and their gradients that the ranks of a worker pass on to each
/// other because they divide a sequence (Engine::Context).
struct ContextCost {
  int64_t ps = 0;        ///< while something is on its way
  int64_t exposedPs = 0; ///< of these, while attention waits
  int64_t bytes = 0;     ///< that all accelerators of the worker send

  /// Adds `count` times another one. Returns false if a sum is over int64.
  [[nodiscard]] bool add(const ContextCost &cost, int64_t count);
};

/// What one global stage (path, stage) costs.
struct StageCost {
  /// By Phase. O and G are about the blocks that the stage owns
  /// (ParameterSets.h).
  PhaseMap<int64_t> phasePs = {};
  /// The part of phasePs in which rows are on their way to experts or back. An
  /// overlapped pair hides those of one cell behind the compute of the other.
  PhaseMap<int64_t> dispatchPs = {};
  /// The part of phasePs that waits for weights or gradients that peers divide
  /// among them (Sharding), and the bytes that the worker sends for that in
  /// each run of the phase.
  PhaseMap<int64_t> shardingPs = {}, shardingBytes = {};
  /// What each run of the phase passes on; phasePs contains what is exposed.
  PhaseMap<ContextCost> context = {};
  std::optional<int64_t> overlappedPs; ///< an overlapped pair whose first cell
                                       ///< is of this stage; absent: by
                                       ///< StageCosts::pairPs
  MessageCost activation;              ///< F's message to the next stage
  MessageCost gradient;                ///< the message to the previous stage
};

/// What a whole placement costs, by global stage (Placement::globalStage).
struct StageCosts {
  std::vector<StageCost> stages;
  /// By number of the all-reduce (Program::blocks); `bytes` is what each of its
  /// workers sends. Empty: each all-reduce takes the G time of its cell.
  std::vector<MessageCost> reductions;
  /// Whether the two cells of an overlapped pair run at the same time.
  bool overlapsPairs = true;

  /// Whether any phase sends rows to experts.
  bool hasDispatches() const;

  /// The time of an overlapped pair of these phases of two stages. Compute of
  /// both takes the sum; the dispatches of each run beside the compute of the
  /// other, so that the pair takes the longest of
  ///
  ///   compute of both, dispatches of both, either cell by itself.
  ///
  /// Without dispatches this is the sum of the cells.
  uint64_t pairPs(const StageCost &first, Phase firstPhase,
                  const StageCost &second, Phase secondPhase) const;
};

/// Memory of one global stage, bytes. Activations are of one microbatch.
struct StageMemory {
  int64_t activationBytes = 0; ///< from F to the last phase that needs it
  /// What a split I frees of the activations; negative if the gradients that it
  /// leaves for W are larger.
  int64_t inputGradFreedBytes = 0;
  int64_t boundaryBytes = 0; ///< kept between F and R where R recomputes
  /// Needed in addition while B or I runs: the block that the backward itself
  /// recomputes.
  int64_t workingBytes = 0;
  /// Of the blocks that the stage owns: a worker holds a block once, whichever
  /// of its stages use it (ParameterSets.h).
  int64_t weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;

  /// The bytes of one unit.
  constexpr HeldAmounts amounts() const {
    return {activationBytes, boundaryBytes, inputGradFreedBytes};
  }
};

struct MemoryFacts {
  std::vector<StageMemory> stages; ///< by global stage
  int64_t capacityBytes = 0;       ///< of one worker; 0: not known
};

} // namespace pipesched

#endif // PIPESCHED_FACTS_STAGECOSTS_H
