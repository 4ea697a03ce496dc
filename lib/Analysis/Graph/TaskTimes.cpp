//===- TaskTimes.cpp - Times and traffic of tasks, from costs -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks up the cost of each task and charges it by the rules of the transport
// (docs/CostModel.md, "Messages: Hockney").
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/MessageCosts.h"
#include "PipeSched/Analysis/Graph/TaskCost.h"
#include "PipeSched/Analysis/Graph/Timeline.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {

class TaskCosts {
public:
  TaskCosts(const TaskGraph &graph, const Placement &placement,
            const StageCosts &stageCosts, Transport transport)
      : graph(graph), placement(placement), stageCosts(stageCosts),
        messages(graph, placement, stageCosts), transport(transport) {}

  TaskCost cost(uint32_t task) const;

private:
  TaskCost costMessage(uint32_t task) const;
  TaskCost costPhase(uint32_t task) const;
  TaskCost costReduction(uint32_t task) const;
  uint64_t alonePs(Cell cell) const {
    return stageCosts.alonePs(placement, cell);
  }

  const TaskGraph &graph;
  const Placement &placement;
  const StageCosts &stageCosts;
  MessageCosts messages;
  Transport transport;
};

} // namespace

/// A message of an overlapped pair may leave before the pair ends.
TaskCost TaskCosts::costMessage(uint32_t task) const {
  MessageCost cost = messages.of(task);
  if (stageCosts.pairTimes)
    if (uint32_t pair = pairThatSends(graph, task); pair != TaskGraph::kNone)
      cost.aheadPs =
          aheadOfPair(cost, stageCosts.behindPs(placement, graph.cell[pair],
                                                graph.overlapped[pair]));
  return chargeMessage(cost, transport);
}

/// All members of a group wait for the slowest one.
TaskCost TaskCosts::costPhase(uint32_t task) const {
  Cell cell = graph.cell[task];
  if (graph.is(task, InstructionRole::Collective)) {
    uint64_t longest = 0;
    for (Cell member : graph.cellsOf(graph.peer[task]))
      longest = std::max(longest, alonePs(member));
    return {longest, 0};
  }
  return {cell.overlapsNext()
              ? stageCosts.pairPs(placement, cell, graph.overlapped[task])
              : alonePs(cell),
          0};
}

TaskCost TaskCosts::costReduction(uint32_t task) const {
  if (!stageCosts.reductions.empty())
    return chargeMessage(stageCosts.reductions[graph.peer[task]], transport);
  MessageCost cost;
  cost.occupancyPs = alonePs(graph.cell[task]);
  return chargeMessage(cost, transport);
}

TaskCost TaskCosts::cost(uint32_t task) const {
  switch (traitsOf(graph.kind[task]).cost) {
  case CostRule::None:
    return {};
  case CostRule::Phase:
    return costPhase(task);
  case CostRule::Message:
    return costMessage(task);
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
      graph.nameOf(graph.cell[largest]).str().c_str(),
      static_cast<unsigned long long>(largestPs));
}

llvm::Expected<TaskTimes>
pipesched::computeTaskTimes(const TaskGraph &graph, const Placement &placement,
                            const StageCosts &stageCosts, Transport transport) {
  if (llvm::Error error = stageCosts.checkSlices(placement))
    return std::move(error);
  TaskCosts taskCosts(graph, placement, stageCosts, transport);
  TaskTimes times;
  times.occupancyPs.resize(graph.size());
  times.latencyPs.resize(graph.size());
  // No path is longer than the sum of all tasks. If the sum fits, no later sum
  // of times can overflow.
  uint64_t total = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskCost cost = taskCosts.cost(task);
    total = llvm::SaturatingAdd(total, cost.occupancyPs);
    total = llvm::SaturatingAdd(total, cost.latencyPs);
    times.occupancyPs[task] = cost.occupancyPs;
    times.latencyPs[task] = cost.latencyPs;
    if (cost.aheadPs != 0)
      times.aheadPs.emplace_back(task, cost.aheadPs);
  }
  if (total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return reportLargest(graph, taskCosts);
  return times;
}

//===----------------------------------------------------------------------===//
// Traffic
//===----------------------------------------------------------------------===//

Traffic::Traffic(int64_t numWorkers) : bytesSent(numWorkers) {
  for (Resource resource : kExchanged)
    exchanges[resource].resize(numWorkers);
}

bool Traffic::addWaits(int64_t worker, llvm::ArrayRef<Segment> cell,
                       int64_t count) {
  return llvm::all_of(std::array{Resource::Sharding, Resource::Context},
                      [&](Resource resource) {
                        return exchanges[resource][worker].add(
                            sumOn(resource, cell), count);
                      });
}

static llvm::Error send(int32_t worker, int64_t bytes, Traffic &traffic) {
  int64_t &sum = traffic.bytesSent[worker];
  if (llvm::AddOverflow(sum, bytes, sum))
    return llvm::createStringError(
        "worker %d sends more than 2^63-1 bytes in all", worker);
  return llvm::Error::success();
}

/// Adds the bytes that a cell or an overlapped pair sends and, unless its time
/// is stated, its waits.
static llvm::Error addCompute(int32_t worker, Cell cell,
                              std::optional<Cell> overlapped, bool isStated,
                              const Placement &placement,
                              const StageCosts &stageCosts, Traffic &traffic) {
  // The measured time of a pair does not show the causes of waits.
  bool isMeasured =
      isStated || (overlapped &&
                   stageCosts.stages[placement.globalStage(cell)].overlappedPs);
  for (std::optional<Cell> half : {std::optional(cell), overlapped}) {
    if (!half)
      continue;
    llvm::ArrayRef<Segment> segments = stageCosts.segmentsOf(placement, *half);
    if (!isMeasured && !traffic.addWaits(worker, segments, 1))
      return llvm::createStringError(
          "the ranks of worker %d pass on more than 2^63-1 bytes of keys and "
          "values, or for more than 2^63-1 ps",
          worker);
    int64_t bytes = sumOn(Resource::Sharding, segments).bytes;
    if (llvm::Error error = send(worker, bytes, traffic))
      return error;
  }
  if (!isStated &&
      !stageCosts.addDispatches(placement, cell, overlapped,
                                traffic.exchanges[Resource::Experts][worker]))
    return llvm::createStringError("rows of worker %d are on their way to "
                                   "experts for more than 2^63-1 ps",
                                   worker);
  return llvm::Error::success();
}

llvm::Expected<Traffic>
pipesched::computeTraffic(const TaskGraph &graph, const Placement &placement,
                          const StageCosts &stageCosts,
                          const llvm::BitVector &stated) {
  Traffic traffic(graph.getNumWorkers());
  bool anyMoves = stageCosts.useAny(kExchanged);
  MessageCosts messages(graph, placement, stageCosts);
  for (uint32_t task = 0; task < graph.size(); ++task) {
    Cell cell = graph.cell[task];
    int32_t worker = graph.worker[task];
    traffic.copies += graph.is(task, InstructionRole::Copy);
    if (anyMoves && graph.is(task, InstructionRole::Compute)) {
      std::optional<Cell> overlapped;
      if (cell.overlapsNext())
        overlapped = graph.overlapped[task];
      bool isStated = !stated.empty() && stated.test(task);
      if (llvm::Error error = addCompute(worker, cell, overlapped, isStated,
                                         placement, stageCosts, traffic))
        return std::move(error);
    }
    if (!graph.isMessage(task))
      continue;
    ++traffic.messages;
    if (llvm::Error error = send(worker, messages.of(task).bytes, traffic))
      return std::move(error);
  }
  for (auto [number, cost] : llvm::enumerate(stageCosts.reductions))
    for (int32_t worker : graph.workersOf(number))
      if (llvm::Error error = send(worker, cost.bytes, traffic))
        return std::move(error);
  return traffic;
}
