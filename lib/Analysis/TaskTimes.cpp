//===- TaskTimes.cpp - Times and traffic of tasks, from prices ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up the price of each task and charges it as the transport says (DESIGN:
// time).
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Timeline.h"
#include "TaskPrice.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {

class Pricer {
public:
  Pricer(const TaskGraph &graph, const Placement &placement,
         const Prices &prices, Transport transport)
      : graph(graph), placement(placement), prices(prices),
        transport(transport) {}

  TaskPrice price(uint32_t task) const;

private:
  TaskPrice priceMessage(Cell producer) const;
  TaskPrice priceCompute(uint32_t task) const;
  TaskPrice priceReduction(uint32_t task) const;
  uint64_t phasePs(Cell cell) const {
    return prices.stages[placement.globalStage(cell)]
        .phasePs[static_cast<unsigned>(cell.getPhase())];
  }

  const TaskGraph &graph;
  const Placement &placement;
  const Prices &prices;
  Transport transport;
};

} // namespace

/// F sends activations, every other producer a gradient.
static const MessagePrice &
messagePrice(Cell producer, const Placement &placement, const Prices &prices) {
  const StagePrice &stage = prices.stages[placement.globalStage(producer)];
  return producer.is(Phase::Forward) ? stage.activation : stage.gradient;
}

TaskPrice Pricer::priceMessage(Cell producer) const {
  return chargeMessage(messagePrice(producer, placement, prices), transport);
}

TaskPrice Pricer::priceCompute(uint32_t task) const {
  Cell cell = graph.cell[task];
  if (!cell.overlapsNext())
    return {phasePs(cell), 0};
  const StagePrice &stage = prices.stages[placement.globalStage(cell)];
  if (stage.overlappedPs)
    return {static_cast<uint64_t>(*stage.overlappedPs), 0};
  return {phasePs(cell) + phasePs(graph.overlapped[task]), 0};
}

TaskPrice Pricer::priceReduction(uint32_t task) const {
  if (!prices.reductions.empty())
    return chargeMessage(prices.reductions[graph.peer[task]], transport);
  MessagePrice price;
  price.occupancyPs = phasePs(graph.cell[task]);
  return chargeMessage(price, transport);
}

TaskPrice Pricer::price(uint32_t task) const {
  switch (graph.kind[task]) {
  case TaskKind::Compute:
    return priceCompute(task);
  case TaskKind::Message:
  case TaskKind::Send:
    return priceMessage(graph.cell[task]);
  case TaskKind::Recv:
    return {};
  case TaskKind::AllReduce:
    return priceReduction(task);
  case TaskKind::Offload:
  case TaskKind::Reload:
    return {phasePs(graph.cell[task]), 0};
  }
  llvm_unreachable("covered switch");
}

static llvm::Error reportLargest(const TaskGraph &graph, const Pricer &pricer) {
  uint32_t largest = 0;
  uint64_t largestPs = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskPrice price = pricer.price(task);
    uint64_t ps = llvm::SaturatingAdd(price.occupancyPs, price.latencyPs);
    if (ps > largestPs) {
      largest = task;
      largestPs = ps;
    }
  }
  bool isMessage = graph.kind[largest] == TaskKind::Message ||
                   graph.kind[largest] == TaskKind::Send;
  return llvm::createStringError(
      "the times of all cells and messages add up to more than 2^63-1 ps; the "
      "largest is %s %s with %llu ps",
      isMessage ? "message" : "cell", graph.cell[largest].str().c_str(),
      static_cast<unsigned long long>(largestPs));
}

llvm::Expected<TaskTimes> pipesched::priceTasks(const TaskGraph &graph,
                                                const Placement &placement,
                                                const Prices &prices,
                                                Transport transport) {
  Pricer pricer(graph, placement, prices, transport);
  TaskTimes times;
  times.occupancyPs.resize(graph.size());
  times.latencyPs.resize(graph.size());
  // No path is longer than all tasks one after the other, so that no later sum
  // of times can overflow.
  uint64_t total = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskPrice price = pricer.price(task);
    total = llvm::SaturatingAdd(total, price.occupancyPs);
    total = llvm::SaturatingAdd(total, price.latencyPs);
    times.occupancyPs[task] = price.occupancyPs;
    times.latencyPs[task] = price.latencyPs;
  }
  if (total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return reportLargest(graph, pricer);
  return times;
}

llvm::Expected<Traffic> pipesched::computeTraffic(const TaskGraph &graph,
                                                  const Placement &placement,
                                                  const Prices &prices) {
  Traffic traffic;
  traffic.bytesSent.assign(graph.getNumWorkers(), 0);
  auto send = [&](int32_t worker, int64_t bytes) -> llvm::Error {
    if (llvm::AddOverflow(traffic.bytesSent[worker], bytes,
                          traffic.bytesSent[worker]))
      return llvm::createStringError(
          "worker %d sends more than 2^63-1 bytes in all", worker);
    return llvm::Error::success();
  };
  for (uint32_t task = 0; task < graph.size(); ++task) {
    TaskKind kind = graph.kind[task];
    traffic.copies += kind == TaskKind::Offload || kind == TaskKind::Reload;
    if (kind != TaskKind::Message && kind != TaskKind::Send)
      continue;
    ++traffic.messages;
    int64_t bytes = messagePrice(graph.cell[task], placement, prices).bytes;
    if (llvm::Error error = send(graph.worker[task], bytes))
      return std::move(error);
  }
  for (auto [number, price] : llvm::enumerate(prices.reductions))
    for (int32_t worker : graph.workersOf(number))
      if (llvm::Error error = send(worker, price.bytes))
        return std::move(error);
  return traffic;
}
