//===- WalkTable.cpp - Level 3 of a table, without a graph ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks a table for one scenario or for several, and takes the results.
//
//===----------------------------------------------------------------------===//

#include "FullWalk.h"
#include "InLanes.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

template <typename Time>
IdleTimes FullWalk<Time>::idleOf(unsigned lane, int64_t makespanPs) const {
  IdleTimes idle;
  for (const Worker &worker : workers) {
    int64_t endPs = laneOf(worker.clocks.rowPs, lane);
    int64_t firstPs = laneOf(worker.firstPs, lane);
    idle.busyPs.push_back(laneOf(worker.busyPs, lane));
    idle.fillPs.push_back(worker.hasBegun ? firstPs : makespanPs);
    idle.drainPs.push_back(worker.hasBegun ? makespanPs - endPs : 0);
    idle.dependencyPs.push_back(laneOf(worker.dependencyPs, lane));
    idle.queueOrderPs.push_back(laneOf(worker.queueOrderPs, lane));
    idle.communicationPs.push_back(laneOf(worker.communicationPs, lane));
    idle.firstPs.push_back(firstPs);
    idle.lastPs.push_back(endPs);
    idle.offloadPs.push_back(laneOf(worker.offloadPs, lane));
    idle.reloadPs.push_back(laneOf(worker.reloadPs, lane));
  }
  return idle;
}

/// The path to the first row that ends last, or to the all-reduce that does.
template <typename Time>
std::vector<PathStep> FullWalk<Time>::pathTo(int64_t makespanPs) const {
  if (!bindings)
    return {};
  for (auto [row, worker] : llvm::enumerate(workers))
    if (worker.hasBegun && laneOf(worker.clocks.rowPs, 0) == makespanPs)
      return bindings->traceRow(row);
  if (reductions && makespanPs != 0)
    return bindings->traceMeeting(reductions->getLast().producer);
  return {};
}

/// The memory of a lane: weights, gradients, optimizer state and activations.
/// Nothing if bytes exceed int64.
template <typename Time>
std::optional<MemoryUsage> FullWalk<Time>::memoryOf(unsigned lane) {
  llvm::Expected<MemoryUsage> usage = computePersistentMemory(
      *table.placement, *costs.scenarioOf(lane).memoryFacts);
  if (!usage) {
    llvm::consumeError(usage.takeError());
    return std::nullopt;
  }
  bool isValid;
  if (copies) {
    TimedHoldings &held = timedHoldings[holdingsOfLane[lane]];
    held.end();
    held.takeInto(*usage);
    isValid = held.isValid();
  } else {
    const Holdings<Time> &held = holdings[holdingsOfLane[lane]];
    held.takeInto(*usage, lane);
    isValid = held.isValid();
  }
  if (llvm::Error error = finishMemory(*usage)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  if (!isValid)
    return std::nullopt;
  return std::move(*usage);
}

template <typename Time>
std::optional<WalkedTable> FullWalk<Time>::take(unsigned lane) {
  if (!slots.isComplete() || isBroken)
    return std::nullopt;
  WalkedTable result;
  for (const Worker &worker : workers) {
    result.makespanPs =
        std::max(result.makespanPs, laneOf(worker.clocks.rowPs, lane));
    result.freeMakespanPs =
        std::max(result.freeMakespanPs, laneOf(worker.freeClocks.rowPs, lane));
  }
  if (reductions) {
    const Item &last = reductions->getLast();
    result.makespanPs =
        std::max(result.makespanPs, laneOf(last.arrivalPs, lane));
    result.freeMakespanPs =
        std::max(result.freeMakespanPs, laneOf(last.freePs, lane));
  }
  result.idle = idleOf(lane, result.makespanPs);
  result.criticalPath = pathTo(result.makespanPs);
  result.dispatches = std::move(dispatches[lane]);
  result.unitMetrics = slots.take();
  result.numLeapt = numLeapt;
  if (holdingsOfLane[lane] < 0)
    return result;
  result.memory = memoryOf(lane);
  if (!result.memory)
    return std::nullopt;
  return result;
}

namespace {

struct TableQuestion {
  using Answer = WalkedTable;

  template <typename Time>
  void ask(llvm::ArrayRef<WalkInputs> scenarios,
           llvm::MutableArrayRef<std::optional<WalkedTable>> answers) const {
    llvm::fill(answers, std::nullopt);
    FullWalk<Time> walk(table, scenarios, counts);
    if (!walkInSlots<Delivery<Time>>(table, scenarios.front().groups, walk))
      return;
    for (auto [lane, answer] : llvm::enumerate(answers))
      answer = walk.take(lane);
    if (!walk.hasLeapt() ||
        llvm::all_of(answers, [](const auto &answer) { return answer; }))
      return;
    // The leap may be wrong here. What an F keeps depends on its R, which may
    // stand behind the part that repeats, so that a backward found other
    // activations than those of its period. Walk again and visit each cell.
    std::vector<WalkInputs> eachCell(scenarios.begin(), scenarios.end());
    for (WalkInputs &scenario : eachCell)
      scenario.mayLeap = false;
    ask<Time>(eachCell, answers);
  }
  static int64_t makespanOf(const WalkedTable &walked) {
    return walked.makespanPs;
  }

  const TableView &table;
  const PhaseCounts &counts;
};

} // namespace

std::optional<WalkedTable> pipesched::walkTable(const TableView &table,
                                                const PhaseCounts &counts,
                                                const WalkInputs &inputs) {
  std::optional<WalkedTable> walked;
  TableQuestion{table, counts}.ask<int64_t>(inputs, walked);
  return walked;
}

std::vector<std::optional<WalkedTable>>
pipesched::walkTables(const TableView &table, const PhaseCounts &counts,
                      llvm::ArrayRef<WalkInputs> scenarios) {
  std::vector<WalkInputs> withoutPaths(scenarios.begin(), scenarios.end());
  for (WalkInputs &scenario : withoutPaths)
    scenario.wantsPath = false;
  return askInLanes(TableQuestion{table, counts}, withoutPaths);
}
