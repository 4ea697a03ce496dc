//===- StatedWork.cpp - Work that instructions state themselves -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processes the instructions with stated work one by one. All other
// instructions keep the work of their cells.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/StatedWork.h"
#include "PipeSched/Analysis/Graph/MessageCosts.h"
#include "PipeSched/Analysis/Graph/TaskCost.h"
#include "PipeSched/Analysis/Graph/TaskEnds.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

bool pipesched::anyHasTime(ArrayRef<StatedWork> work) {
  return llvm::any_of(work, [](const StatedWork &w) { return w.hasTime(); });
}

bool pipesched::anyHasMemory(ArrayRef<StatedWork> work) {
  return llvm::any_of(
      work, [](const StatedWork &w) { return w.memoryDelta.has_value(); });
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Returns the cost of one kernel on the matrix engines.
static Expected<TaskCost> costKernel(const StatedWork &work,
                                     const SystemFacts &system) {
  BlockFacts block;
  Kernel &kernel = block.kernels.emplace_back();
  kernel.forward = {work.flops.value_or(0), work.bytesMoved.value_or(0)};
  double ps = std::nearbyint(rooflinePs(block, Phase::Forward, system));
  if (!(ps < 0x1p63))
    return llvm::createStringError("the time of a compute with %lld flops and "
                                   "%lld bytes is over 2^63 - 1 ps",
                                   (long long)kernel.forward.flops,
                                   (long long)kernel.forward.bytes);
  return TaskCost{static_cast<uint64_t>(ps), 0};
}

/// Returns the cost of a copy. Each accelerator copies its share. The copy ends
/// when the data has arrived.
static Expected<TaskCost> costCopy(int64_t bytes, const SystemFacts &system) {
  if (system.host.bytesPerSecond <= 0)
    return llvm::createStringError(
        "copies with 'bytes' need the 'host' link of "
        "the system, '" +
        system.name + "' has none");
  Expected<MessageCost> cost = hockney(
      llvm::divideCeil(static_cast<uint64_t>(bytes), system.accelerators),
      system.host);
  if (!cost)
    return cost.takeError();
  return chargeMessage(*cost, Transport::Blocking);
}

namespace {
/// Costs of messages and collectives between the workers of a graph.
class CommunicationCosts {
public:
  CommunicationCosts(const TaskGraph &graph, const SystemFacts &system)
      : graph(graph), system(system), layout(system, graph.getNumWorkers()) {
    llvm::transform(kNetworkLevels, links.begin(), [&](NetworkLevel level) {
      return linkOfWorker(level, system);
    });
  }

  Expected<MessageCost> cost(uint32_t task, int64_t bytes) const {
    return graph.is(task, InstructionRole::Collective)
               ? costGroup(graph.peer[task], bytes)
               : costMessage(task, bytes);
  }
  Expected<MessageCost> costGroup(int32_t group, int64_t groupBytes) const {
    ArrayRef<int32_t> workers = graph.workersOf(group);
    auto [first, last] = std::minmax_element(workers.begin(), workers.end());
    auto bytes = static_cast<double>(groupBytes);
    return ringExchange({bytes, bytes},
                        layout.groupOf(*first, *last, workers.size()), system);
  }

private:
  Expected<MessageCost> costMessage(uint32_t task, int64_t bytes) const {
    NetworkLevel level = layout.levelOf(graph.worker[task], graph.peer[task]);
    return hockney(bytes, links[static_cast<size_t>(level)]);
  }

  const TaskGraph &graph;
  const SystemFacts &system;
  RankLayout layout;
  std::array<LinkFacts, kNumNetworkLevels> links; ///< of a worker
};
} // namespace

static Expected<TaskCost> costWork(const StatedWork &work, InstructionRole role,
                                   uint32_t task, const SystemFacts &system,
                                   const CommunicationCosts &communication,
                                   Transport transport) {
  if (role == InstructionRole::Compute)
    return costKernel(work, system);
  if (role == InstructionRole::Copy)
    return costCopy(*work.bytesMoved, system);
  Expected<MessageCost> cost = communication.cost(task, *work.messageBytes);
  if (!cost)
    return cost.takeError();
  return chargeMessage(*cost, transport);
}

/// Checks that every task has a stated time, except Recv, whose time belongs to
/// its Send.
static Error requireStated(const TaskGraph &graph,
                           const std::vector<bool> &isStated) {
  for (uint32_t task = 0; task < graph.size(); ++task) {
    const InstructionTraits &traits = traitsOf(graph.kind[task]);
    if (isStated[task] || traits.cost == CostRule::None)
      continue;
    return llvm::createStringError(
        "%s %s on worker %d states no work, and no model or profile gives its "
        "cost: attach one",
        graph.isMessage(task) ? "send" : "cell",
        graph.nameOf(graph.cell[task]).str().c_str(), graph.worker[task]);
  }
  return Error::success();
}

static Error checkSum(const TaskTimes &times) {
  uint64_t total = 0;
  for (auto [occupancyPs, latencyPs] :
       llvm::zip_equal(times.occupancyPs, times.latencyPs)) {
    total = llvm::SaturatingAdd(total, static_cast<uint64_t>(occupancyPs));
    total = llvm::SaturatingAdd(total, static_cast<uint64_t>(latencyPs));
  }
  if (total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return llvm::createStringError(
        "the times of stated work add up to more than 2^63 - 1 ps");
  return Error::success();
}

Error pipesched::costStatedWork(ArrayRef<StatedWork> work,
                                const TaskGraph &graph,
                                const SystemFacts *system, Transport transport,
                                bool isComplete, TaskTimes &times) {
  if (!system)
    return llvm::createStringError(
        "'flops' and 'bytes' have no times: attach a system");
  CommunicationCosts communication(graph, *system);
  std::vector<bool> isStated(graph.size());
  for (const StatedWork &stated : work) {
    if (!stated.hasTime())
      continue;
    uint32_t task = graph.taskOfInstruction[stated.instruction];
    Expected<TaskCost> cost = costWork(stated, traitsOf(graph.kind[task]).role,
                                       task, *system, communication, transport);
    if (!cost)
      return cost.takeError();
    isStated[task] = true;
    times.occupancyPs[task] = cost->occupancyPs;
    times.latencyPs[task] = cost->latencyPs;
    llvm::erase_if(times.aheadPs,
                   [&](const auto &ahead) { return ahead.first == task; });
  }
  if (isComplete)
    if (Error error = requireStated(graph, isStated))
      return error;
  return checkSum(times);
}

//===----------------------------------------------------------------------===//
// Traffic
//===----------------------------------------------------------------------===//

/// Replaces `implied` by `stated` in the bytes that a worker sends.
static Error replaceBytes(int32_t worker, int64_t implied, int64_t stated,
                          Traffic &traffic) {
  int64_t &bytes = traffic.bytesSent[worker];
  if (llvm::AddOverflow(bytes - implied, stated, bytes))
    return llvm::createStringError(
        "worker %d sends more than 2^63 - 1 bytes in all", worker);
  return Error::success();
}

/// Replaces the bytes of a group; all its workers state the same bytes.
static Error replaceGroup(int64_t statedBytes, int32_t group,
                          const TaskGraph &graph, const StageCosts &stageCosts,
                          const CommunicationCosts &communication,
                          Traffic &traffic) {
  int64_t implied = size_t(group) < stageCosts.reductions.size()
                        ? stageCosts.reductions[group].bytes
                        : 0;
  Expected<MessageCost> cost = communication.costGroup(group, statedBytes);
  if (!cost)
    return cost.takeError();
  for (int32_t worker : graph.workersOf(group))
    if (Error error = replaceBytes(worker, implied, cost->bytes, traffic))
      return error;
  return Error::success();
}

Error pipesched::addStatedTraffic(ArrayRef<StatedWork> work,
                                  const TaskGraph &graph,
                                  const Placement &placement,
                                  const StageCosts &stageCosts,
                                  const SystemFacts &system, Traffic &traffic) {
  CommunicationCosts communication(graph, system);
  MessageCosts messages(graph, placement, stageCosts);
  std::vector<bool> isReplaced(graph.groupTasks.size());
  for (const StatedWork &stated : work) {
    if (!stated.messageBytes)
      continue;
    uint32_t task = graph.taskOfInstruction[stated.instruction];
    if (graph.is(task, InstructionRole::Collective)) {
      int32_t group = graph.peer[task];
      if (isReplaced[group])
        continue;
      isReplaced[group] = true;
      if (Error error = replaceGroup(*stated.messageBytes, group, graph,
                                     stageCosts, communication, traffic))
        return error;
      continue;
    }
    if (Error error = replaceBytes(graph.worker[task], messages.of(task).bytes,
                                   *stated.messageBytes, traffic))
      return error;
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {
/// An event: from this time on, a worker holds more or fewer bytes.
struct MemoryEvent {
  int32_t worker;
  int64_t atPs;
  int64_t delta;
  uint32_t task;

  /// At equal times, frees come before allocations.
  friend bool operator<(const MemoryEvent &a, const MemoryEvent &b) {
    return std::tie(a.worker, a.atPs, a.delta, a.task) <
           std::tie(b.worker, b.atPs, b.delta, b.task);
  }
};
} // namespace

static std::vector<MemoryEvent> memoryEvents(ArrayRef<StatedWork> work,
                                             const TaskGraph &graph,
                                             const TaskEnds &ends) {
  std::vector<MemoryEvent> events;
  for (const StatedWork &stated : work) {
    if (!stated.memoryDelta)
      continue;
    uint32_t task = graph.taskOfInstruction[stated.instruction];
    int64_t delta = *stated.memoryDelta;
    int64_t atPs = delta > 0 ? ends.startPs(task) : ends.arrivalPs(task);
    events.push_back({graph.worker[task], atPs, delta, task});
  }
  llvm::sort(events);
  return events;
}

/// Adds up the bytes that stated copies move.
static Error addStatedCopies(ArrayRef<StatedWork> work, const TaskGraph &graph,
                             MemoryUsage &usage) {
  for (const StatedWork &stated : work) {
    uint32_t task = graph.taskOfInstruction[stated.instruction];
    if (!stated.bytesMoved || !graph.is(task, InstructionRole::Copy))
      continue;
    WorkerMemory &worker = usage.workers[graph.worker[task]];
    int64_t &bytes = graph.kind[task] == InstructionKind::Offload
                         ? worker.offloadedBytes
                         : worker.reloadedBytes;
    if (llvm::AddOverflow(bytes, *stated.bytesMoved, bytes))
      return llvm::createStringError(
          "copies of worker %d exceed 2^63-1 bytes at cell %s",
          graph.worker[task], graph.nameOf(graph.cell[task]).str().c_str());
  }
  return Error::success();
}

Error pipesched::addStatedMemory(ArrayRef<StatedWork> work,
                                 const TaskGraph &graph, const TaskTimes &times,
                                 const Timeline &timeline, MemoryUsage &usage) {
  usage.workers.resize(graph.getNumWorkers());
  for (WorkerMemory &worker : usage.workers) {
    worker.peakActivationBytes = worker.peakPs = worker.peakMicrobatches = 0;
    worker.offloadedBytes = worker.reloadedBytes = 0;
    worker.peakCell.reset();
  }
  if (Error error = addStatedCopies(work, graph, usage))
    return error;
  int64_t held = 0;
  int32_t current = -1;
  TaskEnds ends(graph, times, timeline);
  for (const MemoryEvent &event : memoryEvents(work, graph, ends)) {
    if (event.worker != current)
      held = 0;
    current = event.worker;
    WorkerMemory &worker = usage.workers[current];
    int64_t total;
    if (llvm::AddOverflow(held, event.delta, held) ||
        llvm::AddOverflow(held, worker.persistentBytes(), total))
      return llvm::createStringError(
          "memory of worker %d exceeds 2^63 - 1 bytes", current);
    if (worker.peakCell && held <= worker.peakActivationBytes)
      continue;
    worker.peakActivationBytes = std::max<int64_t>(held, 0);
    worker.peakPs = event.atPs;
    worker.peakCell = graph.cell[event.task].withOverlap(false);
  }
  usage.bottleneckWorker = 0;
  for (auto [number, worker] : llvm::enumerate(usage.workers))
    if (worker.peakBytes() > usage.workers[usage.bottleneckWorker].peakBytes())
      usage.bottleneckWorker = number;
  return Error::success();
}
