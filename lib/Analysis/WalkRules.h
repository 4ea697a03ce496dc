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

/// What a message costs, as its transport charges it.
template <typename Time>
struct WalkMessage {
  Time occupancyPs{}, latencyPs{};
};

/// A pair of overlapped cells whose first is of a known stage and phase.
template <typename Time>
struct WalkPair {
  uint32_t stage = std::numeric_limits<uint32_t>::max(); ///< of the second
  Phase phase = Phase::Forward;
  Time ps{};
};

/// The costs of one global stage.
template <typename Time>
struct WalkStage {
  int32_t worker = 0;
  Time phasePs[kNumPhases] = {};
  WalkMessage<Time> sends[2];       ///< by Flow
  WalkPair<Time> pairs[kNumPhases]; ///< by phase: the last one that was priced
};

/// Prices the steps of a walk, of one scenario or of several.
template <typename Time>
class WalkPrices {
public:
  /// One to kNumScenarios<Time> scenarios of one transport; the last one fills
  /// the lanes that are left.
  WalkPrices(const Placement &placement, llvm::ArrayRef<WalkInputs> scenarios);

  const WalkStage<Time> &operator[](uint32_t stage) const {
    return stages[stage];
  }
  /// The time of a cell or pair; valid until the next call.
  const Time &computePs(const WaveStep &step) {
    if (LLVM_UNLIKELY(varies))
      return varyingPs(step);
    WalkStage<Time> &stage = stages[step.stages[0]];
    auto phase = static_cast<unsigned>(step.cells[0].getPhase());
    return step.isPair ? pairPs(stage.pairs[phase], step)
                       : stage.phasePs[phase];
  }
  /// What the message costs that one half of a step sends.
  const WalkMessage<Time> &sendOf(const WaveStep &step, unsigned half) const {
    return stages[step.stages[half]]
        .sends[!step.cells[half].is(Phase::Forward)];
  }
  /// Whether messages hold a send and a receive queue.
  bool hasQueues() const { return isQueued; }
  int64_t numLeftOut() const { return scenarios.front().numLeftOut; }
  /// Whether the walk may leap: microbatches take the same time.
  bool canLeap() const { return scenarios.front().mayLeap && !varies; }
  const WalkInputs &scenarioOf(unsigned lane) const {
    return scenarios[std::min<size_t>(lane, scenarios.size() - 1)];
  }

private:
  void readStages(const Placement &placement, unsigned lane);
  void changeStages(const Placement &placement, unsigned lane);
  const Time &pairPs(WalkPair<Time> &pair, const WaveStep &step);
  const Time &varyingPs(const WaveStep &step);

  llvm::ArrayRef<WalkInputs> scenarios;
  bool isQueued, varies;
  Time varied{}; ///< of the step priced last
  std::vector<WalkStage<Time>> stages;
};

/// What a step takes in one scenario.
int64_t priceOf(const WalkInputs &scenario, const WaveStep &step);

/// Clocks of a worker: when its row is free, and its two queues.
template <typename Time>
struct WorkerClocks {
  Time rowPs{}, sendPs{}, receivePs{};

  template <typename Visitor>
  void visitState(Clock clock, Visitor &visitor) {
    for (Time *ps : {&rowPs, &sendPs, &receivePs})
      visitor.clock(*ps, clock);
  }
};

/// Starts a message that was made at `madePs`: it waits for both queues, in the
/// order of the calls, and holds them. Returns its start.
template <typename Time>
Time startMessage(const Time &madePs, const Time &occupancyPs, bool hasQueues,
                  Time &sendPs, Time &receivePs) {
  if (!hasQueues)
    return madePs;
  Time startPs = later(madePs, later(sendPs, receivePs));
  sendPs = receivePs = startPs + occupancyPs;
  return startPs;
}

//===----------------------------------------------------------------------===//
// Implementation
//===----------------------------------------------------------------------===//

template <typename Time>
WalkPrices<Time>::WalkPrices(const Placement &placement,
                             llvm::ArrayRef<WalkInputs> scenarios)
    : scenarios(scenarios),
      isQueued(queuesOf(InstructionKind::Send, scenarios.front().transport)
                   .contains(Queue::Sends)),
      varies(llvm::any_of(scenarios,
                          [](const WalkInputs &scenario) {
                            return scenario.changePs && scenario.changeVaries;
                          })),
      stages(placement.getNumGlobalStages()) {
  for (auto [number, stage] : llvm::enumerate(stages))
    stage.worker = placement.workerOf(number);
  for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
    readStages(placement, lane);
    if (!varies && scenarioOf(lane).changePs)
      changeStages(placement, lane);
  }
}

template <typename Time>
void WalkPrices<Time>::readStages(const Placement &placement, unsigned lane) {
  const WalkInputs &scenario = scenarioOf(lane);
  auto setMessage = [&](WalkMessage<Time> &message, const MessageCost &cost) {
    TaskCost charged = chargeMessage(cost, scenario.transport);
    setLane(message.occupancyPs, lane, charged.occupancyPs);
    setLane(message.latencyPs, lane, charged.latencyPs);
  };
  for (auto [stage, cost] : llvm::zip_equal(stages, scenario.costs->stages)) {
    for (auto [ps, given] : llvm::zip_equal(stage.phasePs, cost.phasePs))
      setLane(ps, lane, given);
    setMessage(stage.sends[static_cast<unsigned>(Flow::Activation)],
               cost.activation);
    setMessage(stage.sends[static_cast<unsigned>(Flow::Gradient)],
               cost.gradient);
  }
}

/// Changes the times of cells that are the same for all microbatches.
template <typename Time>
void WalkPrices<Time>::changeStages(const Placement &placement, unsigned lane) {
  std::vector<int64_t> firsts(placement.getNumPaths(), -1);
  int64_t numLeft = firsts.size();
  for (int64_t i = 0; numLeft != 0 && i != placement.getNumMicrobatches(); ++i)
    if (int64_t &first = firsts[placement.pathOf(i)]; first < 0) {
      first = i;
      --numLeft;
    }
  for (uint32_t number = 0; number != stages.size(); ++number) {
    int64_t path = placement.pathOfStage(number);
    if (firsts[path] < 0)
      continue; // nobody takes the path
    for (unsigned phase = 0; phase != kNumPhases; ++phase) {
      WaveStep step;
      step.row = stages[number].worker;
      step.stages[0] = number;
      step.cells[0] = Cell(number - placement.stageOffset(path),
                           static_cast<Phase>(phase), firsts[path]);
      setLane(stages[number].phasePs[phase], lane,
              priceOf(scenarioOf(lane), step));
    }
  }
}

template <typename Time>
const Time &WalkPrices<Time>::pairPs(WalkPair<Time> &pair,
                                     const WaveStep &step) {
  Phase phase = step.cells[1].getPhase();
  if (pair.stage != step.stages[1] || pair.phase != phase) {
    pair.stage = step.stages[1];
    pair.phase = phase;
    for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane)
      setLane(pair.ps, lane, priceOf(scenarioOf(lane), step));
  }
  return pair.ps;
}

template <typename Time>
const Time &WalkPrices<Time>::varyingPs(const WaveStep &step) {
  for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane)
    setLane(varied, lane, priceOf(scenarioOf(lane), step));
  return varied;
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALKRULES_H
