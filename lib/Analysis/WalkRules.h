//===- WalkRules.h - What walks and graphs have in common -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The times of cells and messages as walks over a table read them: by global
// stage, in one array.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALKRULES_H
#define PIPESCHED_LIB_ANALYSIS_WALKRULES_H

#include "PipeSched/Analysis/TaskCost.h"
#include "PipeSched/Analysis/WalkTable.h"
#include "PipeSched/Schedule/Wavefront.h"

namespace pipesched {

/// The costs of one global stage, as its transport charges them.
struct WalkStage {
  int32_t worker = 0;
  int64_t phasePs[kNumPhases] = {};
  TaskCost sends[2]; ///< by Flow
};

/// Prices the steps of a walk.
class WalkPrices {
public:
  WalkPrices(const Placement &placement, const WalkInputs &inputs);

  const WalkStage &operator[](uint32_t stage) const { return stages[stage]; }
  /// The time of a cell or pair.
  int64_t computePs(const WaveStep &step) const {
    int64_t ps =
        step.isPair
            ? pairPs(step)
            : stages[step.stages[0]]
                  .phasePs[static_cast<unsigned>(step.cells[0].getPhase())];
    return LLVM_UNLIKELY(bool(inputs.changePs)) ? change(step, ps) : ps;
  }
  /// What the message costs that one half of a step sends.
  const TaskCost &sendOf(const WaveStep &step, unsigned half) const {
    return stages[step.stages[half]]
        .sends[!step.cells[half].is(Phase::Forward)];
  }
  /// Whether messages hold a send and a receive queue.
  bool hasQueues() const { return isQueued; }
  int64_t numLeftOut() const { return inputs.numLeftOut; }
  /// Whether the walk may leap: microbatches take the same time.
  bool canLeap() const { return inputs.mayLeap && !inputs.changePs; }

private:
  int64_t pairPs(const WaveStep &step) const;
  int64_t change(const WaveStep &step, int64_t ps) const;

  const WalkInputs &inputs;
  bool isQueued;
  std::vector<WalkStage> stages;
};

/// Clocks of a worker: when its row is free, and its two queues.
struct WorkerClocks {
  int64_t rowPs = 0, sendPs = 0, receivePs = 0;

  template <typename Visitor>
  void visitState(Clock clock, Visitor &visitor) {
    for (int64_t *ps : {&rowPs, &sendPs, &receivePs})
      visitor.clock(*ps, clock);
  }
};

/// Starts a message that was made at `madePs`: it waits for both queues, in the
/// order of the calls, and holds them. Returns its start.
inline int64_t startMessage(int64_t madePs, int64_t occupancyPs, bool hasQueues,
                            int64_t &sendPs, int64_t &receivePs) {
  if (!hasQueues)
    return madePs;
  int64_t startPs = std::max(madePs, std::max(sendPs, receivePs));
  sendPs = receivePs = startPs + occupancyPs;
  return startPs;
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALKRULES_H
