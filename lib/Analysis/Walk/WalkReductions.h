//===- WalkReductions.h - All-reduces of a walk -----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Costs of all-reduces, and when the O cells that wait for them can start
// (docs/CostModel.md, "Gradient all-reduces").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_WALKREDUCTIONS_H
#define PIPESCHED_LIB_ANALYSIS_WALK_WALKREDUCTIONS_H

#include "PipeSched/Schedule/Table/Groups.h"
#include "WalkCopies.h"

namespace pipesched {

/// The all-reduces of a table. An all-reduce runs beside the rows of its group.
/// It starts when all of these rows are free, or so much ahead as its cost
/// says, and when their queues of all-reduces are free if messages have queues:
///
///   row 0       | W | F | .. | O |      the rows go on; O waits
///   row 1    | W |  F  |       | O |
///   queues          | V/BW | L |
template <typename Time>
class WalkReductions {
public:
  WalkReductions(const Groups &all, const WalkCosts<Time> &costs,
                 const TableView &table)
      : all(all), costs(costs),
        arrivals(table.placement->getNumGlobalStages()) {}

  /// The cost of an all-reduce, without `computePs`.
  WalkCost<Time> costOf(int64_t number, const WaveStep &first) const;
  /// Notes the all-reduce of these steps, which has been timed.
  void note(llvm::ArrayRef<WaveStep> steps, const Delivery<Time> &done) {
    for (const WaveStep &step : steps)
      arrivals[step.stage(0)].add(done);
    int64_t behind = laneOf(done.arrivalPs, 0) - laneOf(last.arrivalPs, 0);
    if (behind > 0 || (behind == 0 && steps.front().row <= lastRow)) {
      last.producer = done.producer;
      lastRow = steps.front().row;
    }
    last.arrivalPs = later(last.arrivalPs, done.arrivalPs);
    last.freePs = later(last.freePs, done.freePs);
  }
  /// Whether a cell waits for an all-reduce.
  bool isAwaited(const WaveStep &step) const {
    return step.cells[0].is(Phase::Optimizer) &&
           all.indexOf(Phase::AllReduce, step.stage(0)) >= 0;
  }
  /// The all-reduce that a cell waits for, or null if it has not been timed.
  const Delivery<Time> *needOf(const WaveStep &step) const {
    return arrivals[step.stage(0)].get();
  }
  /// The all-reduce that arrives last. If several do, it is the one whose rows
  /// come first.
  const Delivery<Time> &getLast() const { return last; }

private:
  const Groups &all;
  const WalkCosts<Time> &costs;
  std::vector<LastOf<Time>> arrivals; ///< by global stage
  Delivery<Time> last;
  /// The first row of `last`.
  int32_t lastRow = std::numeric_limits<int32_t>::max();
};

template <typename Time>
WalkCost<Time> WalkReductions<Time>::costOf(int64_t number,
                                            const WaveStep &first) const {
  WalkCost<Time> result;
  for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
    const WalkInputs &scenario = costs.scenarioOf(lane);
    const StageCosts &stageCosts = *scenario.costs;
    MessageCost cost;
    if (stageCosts.reductions.empty())
      cost.occupancyPs =
          stageCosts.stages[first.stage(0)].cells.alonePs(Phase::AllReduce);
    else
      cost = stageCosts.reductions[number];
    TaskCost charged = chargeMessage(cost, scenario.transport);
    setLane(result.occupancyPs, lane, charged.occupancyPs);
    setLane(result.flightPs, lane, charged.occupancyPs + charged.latencyPs);
    setLane(result.aheadPs, lane, charged.aheadPs);
  }
  return result;
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_WALKREDUCTIONS_H
