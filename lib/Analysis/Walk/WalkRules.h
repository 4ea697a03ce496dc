//===- WalkRules.h - Costs common to walks and graphs -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The times of cells and messages in the form that walks over a table read: in
// one array, by global stage.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_WALKRULES_H
#define PIPESCHED_LIB_ANALYSIS_WALK_WALKRULES_H

#include "PipeSched/Analysis/Graph/TaskCost.h"
#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/Schedule/Walk/Wavefront.h"

namespace pipesched {

/// The times of cells of one kind (Wavefront.h) and of the messages that they
/// send, under the rules of the transport.
template <typename Time>
struct WalkCost {
  Time computePs{};
  /// The time from the start of a message until its queues are free, and until
  /// it arrives; and the time by which an all-reduce starts before the end of
  /// its predecessor. For messages, call aheadPs().
  Time occupancyPs{}, flightPs{}, aheadPs{};
};

/// The last requested pair of overlapped cells of a stage.
template <typename Time>
struct WalkPair {
  uint64_t kinds = std::numeric_limits<uint64_t>::max(); ///< of both cells
  Time ps{}, behindPs{};                                 ///< as in PairTime
};

/// The times of the steps of a walk, in one scenario or in several.
template <typename Time>
class WalkCosts {
public:
  /// Takes one to kNumScenarios<Time> scenarios of one transport. The last
  /// scenario also fills unused lanes.
  WalkCosts(const TableView &table, llvm::ArrayRef<WalkInputs> scenarios);

  WalkCost<Time> costOf(uint32_t stage, Phase phase) const;
  /// The time of a cell with this cost, and the time of a pair. The references
  /// are valid until the next call.
  const Time &computePs(const WaveStep &step, const WalkCost<Time> &cost) {
    return LLVM_UNLIKELY(varies) ? varyingPs(step) : cost.computePs;
  }
  const Time &pairPs(const WaveStep &step);
  /// The time by which a message with this cost may start before the end of a
  /// step.
  Time aheadPs(const WaveStep &step, const WalkCost<Time> &cost) {
    return LLVM_UNLIKELY(hasBehind && step.isPair)
               ? earlier(pairOf(step).behindPs, cost.flightPs)
               : Time{};
  }
  /// Whether messages hold a send and a receive queue.
  bool hasQueues() const { return isQueued; }
  /// Whether the walk may leap over periods. It must not if times vary by
  /// microbatch; times of slices repeat.
  bool canLeap() const { return scenarios.front().mayLeap && !differs; }
  const WalkInputs &scenarioOf(unsigned lane) const {
    return scenarios[std::min<size_t>(lane, scenarios.size() - 1)];
  }

private:
  int64_t computePsOf(const WalkInputs &scenario, uint32_t stage,
                      Phase phase) const;
  const Time &varyingPs(const WaveStep &step);
  const WalkPair<Time> &pairOf(const WaveStep &step);

  llvm::ArrayRef<WalkInputs> scenarios;
  bool isQueued;
  bool varies;    ///< times depend on the unit
  bool differs;   ///< and on the microbatch
  bool hasBehind; ///< PairTime::behindPs of some pair may be more than 0
  const TableView &table;
  std::vector<int64_t> firsts;       ///< by path: its first unit, or -1
  Time varied{};                     ///< time of the last requested step
  std::vector<WalkPair<Time>> pairs; ///< by the stage of the first cell
};

/// The time of a step in one scenario.
int64_t stepPs(const WalkInputs &scenario, const Placement &placement,
               const WaveStep &step);

/// Clocks of a worker: when its row is free, and the queues of its messages and
/// of its all-reduces.
template <typename Time>
struct WorkerClocks {
  Time rowPs{}, sendPs{}, receivePs{}, collectPs{};

  template <typename Visitor>
  void visitState(Clock clock, Visitor &visitor) {
    for (Time *ps : {&rowPs, &sendPs, &receivePs, &collectPs})
      visitor.clock(*ps, clock);
  }
};

/// Starts a message whose data was made at `madePs`. It waits until both queues
/// are free, and then holds them. Messages enter the queues in the order of the
/// calls. Returns the start.
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

/// Whether a stage has separate costs for more than `number` units.
inline bool hasCostsOfMore(const WalkInputs &scenario, int64_t number) {
  return llvm::any_of(scenario.costs->stages, [&](const StageCost &cost) {
    return cost.cells.getNumSlices() > number;
  });
}

/// Whether cells of one stage, phase and slice differ in time.
inline bool variesByMicrobatch(const WalkInputs &scenario,
                               const Placement &placement) {
  return (scenario.changePs && scenario.changeVaries) ||
         hasCostsOfMore(scenario, placement.getNumSlices());
}

/// Whether cells of one stage and phase differ in time.
inline bool variesByUnit(const WalkInputs &scenario,
                         const Placement &placement) {
  return variesByMicrobatch(scenario, placement) || hasCostsOfMore(scenario, 1);
}

template <typename Time>
WalkCosts<Time>::WalkCosts(const TableView &table,
                           llvm::ArrayRef<WalkInputs> scenarios)
    : scenarios(scenarios),
      isQueued(queuesOf(InstructionKind::Send, scenarios.front().transport)
                   .contains(Queue::Sends)),
      varies(llvm::any_of(scenarios,
                          [&](const WalkInputs &scenario) {
                            return variesByUnit(scenario, *table.placement);
                          })),
      differs(llvm::any_of(scenarios,
                           [&](const WalkInputs &scenario) {
                             return variesByMicrobatch(scenario,
                                                       *table.placement);
                           })),
      hasBehind(llvm::any_of(scenarios,
                             [](const WalkInputs &scenario) {
                               return scenario.costs->pairTimes != nullptr;
                             })),
      table(table), firsts(table.placement->getNumPaths(), -1) {
  const Placement &placement = *table.placement;
  int64_t numLeft = firsts.size();
  for (int64_t i = 0; numLeft != 0 && i != placement.getNumUnits(); ++i)
    if (int64_t &first = firsts[placement.pathOf(i)]; first < 0) {
      first = i;
      --numLeft;
    }
}

/// The time of a cell whose time does not depend on its unit.
template <typename Time>
int64_t WalkCosts<Time>::computePsOf(const WalkInputs &scenario, uint32_t stage,
                                     Phase phase) const {
  const Placement &placement = *table.placement;
  int64_t path = placement.pathOfStage(stage);
  bool isCopy = kCopyPhases.contains(phase);
  if (!scenario.changePs || isCopy || varies || firsts[path] < 0)
    return scenario.costs->stages[stage].cells.alonePs(phase);
  Cell cell(stage - placement.stageOffset(path), phase, firsts[path]);
  WaveStep step;
  step.cells = &cell;
  step.row = placement.workerOf(stage);
  step.kinds[0] = kindOf(stage, phase);
  return stepPs(scenario, placement, step);
}

template <typename Time>
WalkCost<Time> WalkCosts<Time>::costOf(uint32_t stage, Phase phase) const {
  WalkCost<Time> cost;
  std::optional<Flow> made = flowMadeBy(phase, table.gradientAfter,
                                        table.placement->backwardOf(stage));
  for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
    const WalkInputs &scenario = scenarioOf(lane);
    setLane(cost.computePs, lane, computePsOf(scenario, stage, phase));
    if (!made)
      continue;
    const StageCost &sender = scenario.costs->stages[stage];
    TaskCost charged = chargeMessage(
        *made == Flow::Activation ? sender.activation : sender.gradient,
        scenario.transport);
    setLane(cost.occupancyPs, lane, charged.occupancyPs);
    setLane(cost.flightPs, lane, charged.occupancyPs + charged.latencyPs);
  }
  return cost;
}

template <typename Time>
const Time &WalkCosts<Time>::pairPs(const WaveStep &step) {
  return LLVM_UNLIKELY(varies) ? varyingPs(step) : pairOf(step).ps;
}

template <typename Time>
const WalkPair<Time> &WalkCosts<Time>::pairOf(const WaveStep &step) {
  if (LLVM_UNLIKELY(pairs.empty()))
    pairs.resize(table.placement->getNumGlobalStages());
  WalkPair<Time> &pair = pairs[step.stage(0)];
  uint64_t kinds = uint64_t(step.kinds[0]) << 32 | step.kinds[1];
  if (LLVM_UNLIKELY(pair.kinds != kinds)) {
    pair.kinds = kinds;
    for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
      const WalkInputs &scenario = scenarioOf(lane);
      setLane(pair.ps, lane, stepPs(scenario, *table.placement, step));
      setLane(pair.behindPs, lane,
              scenario.costs->behindPs(*table.placement, step.cells[0],
                                       step.cells[1]));
    }
  }
  return pair;
}

template <typename Time>
const Time &WalkCosts<Time>::varyingPs(const WaveStep &step) {
  for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane)
    setLane(varied, lane, stepPs(scenarioOf(lane), *table.placement, step));
  return varied;
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_WALKRULES_H
