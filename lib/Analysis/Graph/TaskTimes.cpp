//===- TaskTimes.cpp - Times and traffic of tasks, from costs -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up the cost of each task and charges it as the transport says
// (docs/CostModel.md, "Messages: Hockney").
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/TaskCost.h"
#include "PipeSched/Analysis/Graph/Timeline.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {

class TaskCosts {
public:
  TaskCosts(const TaskGraph &graph, const Placement &placement,
            const StageCosts &stageCosts, Transport transport)
      : graph(graph), placement(placement), stageCosts(stageCosts),
        transport(transport) {}

  TaskCost cost(uint32_t task) const;

private:
  TaskCost costMessage(Cell producer) const;
  TaskCost costPhase(uint32_t task) const;
  TaskCost costReduction(uint32_t task) const;
  uint64_t phasePs(Cell cell) const {
    return stageCosts.stages[placement.globalStage(cell)]
        .phasePs[cell.getPhase()];
  }

  const TaskGraph &graph;
  const Placement &placement;
  const StageCosts &stageCosts;
  Transport transport;
};

} // namespace

/// What the flow of the producer says; if it has none, a gradient.
static const MessageCost &messageCost(Cell producer, const Placement &placement,
                                      const StageCosts &stageCosts) {
  const StageCost &stage = stageCosts.stages[placement.globalStage(producer)];
  return makesActivation(producer.getPhase()) ? stage.activation
                                              : stage.gradient;
}

TaskCost TaskCosts::costMessage(Cell producer) const {
  return chargeMessage(messageCost(producer, placement, stageCosts), transport);
}

/// The members of a group wait for the slowest one.
TaskCost TaskCosts::costPhase(uint32_t task) const {
  Cell cell = graph.cell[task];
  if (graph.is(task, InstructionRole::Collective)) {
    uint64_t longest = 0;
    for (Cell member : graph.cellsOf(graph.peer[task]))
      longest = std::max(longest, phasePs(member));
    return {longest, 0};
  }
  if (!cell.overlapsNext())
    return {phasePs(cell), 0};
  const StageCost &stage = stageCosts.stages[placement.globalStage(cell)];
  if (stage.overlappedPs)
    return {static_cast<uint64_t>(*stage.overlappedPs), 0};
  Cell other = graph.overlapped[task];
  return {stageCosts.pairPs(stage, cell.getPhase(),
                            stageCosts.stages[placement.globalStage(other)],
                            other.getPhase()),
          0};
}

TaskCost TaskCosts::costReduction(uint32_t task) const {
  if (!stageCosts.reductions.empty())
    return chargeMessage(stageCosts.reductions[graph.peer[task]], transport);
  MessageCost cost;
  cost.occupancyPs = phasePs(graph.cell[task]);
  return chargeMessage(cost, transport);
}

TaskCost TaskCosts::cost(uint32_t task) const {
  switch (traitsOf(graph.kind[task]).cost) {
  case CostRule::None:
    return {};
  case CostRule::Phase:
    return costPhase(task);
  case CostRule::Message:
    return costMessage(graph.cell[task]);
  case CostRule::Collective:
    return costReduction(task);
  }
  llvm_unreachable("covered switch");
}

static llvm::Error reportLargest(const TaskGraph &graph,
                                 const TaskCosts &taskCosts) {
  uint32_t largest = 0;
  uint64_t largestPs = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskCost cost = taskCosts.cost(task);
    uint64_t ps = llvm::SaturatingAdd(cost.occupancyPs, cost.latencyPs);
    if (ps > largestPs) {
      largest = task;
      largestPs = ps;
    }
  }
  return llvm::createStringError(
      "the times of all cells and messages add up to more than 2^63-1 ps; the "
      "largest is %s %s with %llu ps",
      graph.isMessage(largest) ? "message" : "cell",
      graph.cell[largest].str().c_str(),
      static_cast<unsigned long long>(largestPs));
}

llvm::Expected<TaskTimes>
pipesched::computeTaskTimes(const TaskGraph &graph, const Placement &placement,
                            const StageCosts &stageCosts, Transport transport) {
  TaskCosts taskCosts(graph, placement, stageCosts, transport);
  TaskTimes times;
  times.occupancyPs.resize(graph.size());
  times.latencyPs.resize(graph.size());
  // No path is longer than all tasks one after the other. If their sum fits, no
  // later sum of times can overflow.
  uint64_t total = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskCost cost = taskCosts.cost(task);
    total = llvm::SaturatingAdd(total, cost.occupancyPs);
    total = llvm::SaturatingAdd(total, cost.latencyPs);
    times.occupancyPs[task] = cost.occupancyPs;
    times.latencyPs[task] = cost.latencyPs;
  }
  if (total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return reportLargest(graph, taskCosts);
  return times;
}

void DispatchTimes::add(int64_t worker, Cell cell,
                        std::optional<Cell> overlapped,
                        const Placement &placement,
                        const StageCosts &stageCosts) {
  auto at = [&](Cell half, const auto &times) {
    const StageCost &stage = stageCosts.stages[placement.globalStage(half)];
    return (stage.*times)[half.getPhase()];
  };
  int64_t dispatch = at(cell, &StageCost::dispatchPs);
  int64_t exposed = dispatch;
  if (overlapped) {
    int64_t compute = at(cell, &StageCost::phasePs) +
                      at(*overlapped, &StageCost::phasePs) - dispatch -
                      at(*overlapped, &StageCost::dispatchPs);
    dispatch += at(*overlapped, &StageCost::dispatchPs);
    const StageCost &stage = stageCosts.stages[placement.globalStage(cell)];
    auto pair = int64_t(
        stageCosts.pairPs(stage, cell.getPhase(),
                          stageCosts.stages[placement.globalStage(*overlapped)],
                          overlapped->getPhase()));
    exposed = stage.overlappedPs ? 0 : pair - compute;
  }
  allPs[worker] += dispatch;
  exposedPs[worker] += exposed;
}

DispatchTimes pipesched::computeDispatches(const TaskGraph &graph,
                                           const Placement &placement,
                                           const StageCosts &stageCosts) {
  DispatchTimes times;
  times.allPs.assign(graph.getNumWorkers(), 0);
  times.exposedPs.assign(graph.getNumWorkers(), 0);
  if (!stageCosts.hasDispatches())
    return times;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    if (!graph.is(task, InstructionRole::Compute))
      continue;
    std::optional<Cell> overlapped;
    if (graph.cell[task].overlapsNext())
      overlapped = graph.overlapped[task];
    times.add(graph.worker[task], graph.cell[task], overlapped, placement,
              stageCosts);
  }
  return times;
}

llvm::Expected<Traffic>
pipesched::computeTraffic(const TaskGraph &graph, const Placement &placement,
                          const StageCosts &stageCosts) {
  Traffic traffic;
  traffic.bytesSent.assign(graph.getNumWorkers(), 0);
  traffic.exposedShardingPs.assign(graph.getNumWorkers(), 0);
  traffic.context.resize(graph.getNumWorkers());
  auto send = [&](int32_t worker, int64_t bytes) -> llvm::Error {
    if (llvm::AddOverflow(traffic.bytesSent[worker], bytes,
                          traffic.bytesSent[worker]))
      return llvm::createStringError(
          "worker %d sends more than 2^63-1 bytes in all", worker);
    return llvm::Error::success();
  };
  // The measured time of a pair does not say what its cells wait for.
  auto compute = [&](int32_t worker, Cell cell,
                     bool isMeasured) -> llvm::Error {
    const StageCost &cost = stageCosts.stages[placement.globalStage(cell)];
    Phase phase = cell.getPhase();
    // All cells together fit into int64 (computeTaskTimes).
    if (!isMeasured)
      traffic.exposedShardingPs[worker] += cost.shardingPs[phase];
    if (!isMeasured && !traffic.context[worker].add(cost.context[phase], 1))
      return llvm::createStringError(
          "the ranks of worker %d pass on more than 2^63-1 bytes of keys and "
          "values, or for more than 2^63-1 ps",
          worker);
    return send(worker, cost.shardingBytes[phase]);
  };
  for (uint32_t task = 0; task < graph.size(); ++task) {
    traffic.copies += graph.is(task, InstructionRole::Copy);
    if (graph.is(task, InstructionRole::Compute)) {
      Cell cell = graph.cell[task];
      bool isMeasured =
          cell.overlapsNext() && stageCosts.stages[placement.globalStage(cell)]
                                     .overlappedPs.has_value();
      if (llvm::Error error = compute(graph.worker[task], cell, isMeasured))
        return std::move(error);
      if (cell.overlapsNext())
        if (llvm::Error error =
                compute(graph.worker[task], graph.overlapped[task], isMeasured))
          return std::move(error);
    }
    if (!graph.isMessage(task))
      continue;
    ++traffic.messages;
    int64_t bytes = messageCost(graph.cell[task], placement, stageCosts).bytes;
    if (llvm::Error error = send(graph.worker[task], bytes))
      return std::move(error);
  }
  for (auto [number, cost] : llvm::enumerate(stageCosts.reductions))
    for (int32_t worker : graph.workersOf(number))
      if (llvm::Error error = send(worker, cost.bytes))
        return std::move(error);
  return traffic;
}
