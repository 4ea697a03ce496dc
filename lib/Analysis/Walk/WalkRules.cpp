//===- WalkRules.cpp - Costs of a walk over a table -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Costs of single steps. Also decides which tables a walk can time, and sums
// what they send.
//
//===----------------------------------------------------------------------===//

#include "WalkRules.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

int64_t pipesched::stepPs(const WalkInputs &scenario, const WaveStep &step) {
  const StageCosts &costs = *scenario.costs;
  const StageCost &first = costs.stages[step.stage(0)];
  Phase phase = step.cells[0].getPhase();
  int64_t ps = first.phasePs[phase];
  std::optional<Cell> second;
  if (step.isPair) {
    second = step.cells[1];
    ps = first.overlappedPs
             ? *first.overlappedPs
             : costs.pairPs(first, phase, costs.stages[step.stage(1)],
                            second->getPhase());
  }
  return scenario.changePs
             ? scenario.changePs(step.row, step.cells[0], second, ps)
             : ps;
}

//===----------------------------------------------------------------------===//
// What a walk can time
//===----------------------------------------------------------------------===//

bool pipesched::canWalkTables(Transport transport, ReceivePlacement receives,
                              ForwardSends sends) {
  bool isDelayed = transport == Transport::Delay;
  return (isDelayed || (transport == Transport::Overlap &&
                        receives == ReceivePlacement::Arrival)) &&
         sends == ForwardSends::Async;
}

bool pipesched::canWalkGroups(const Groups &groups) {
  return (groups.getPhases() - kBlockPhases).isEmpty() &&
         groups.eachMeetsOnce();
}

bool pipesched::canAddUp(const Placement &placement, const PhaseCounts &counts,
                         const StageCosts &costs, int64_t limitPs) {
  uint64_t total = 0;
  auto add = [&](int64_t count, int64_t ps) {
    total = llvm::SaturatingMultiplyAdd(uint64_t(count), uint64_t(ps), total);
  };
  for (auto [number, stage] : llvm::enumerate(costs.stages))
    kCostedPhases.forEach([&, number = number, &stage = stage](Phase phase) {
      int64_t count = counts.of(number, phase);
      add(count, stage.phasePs[phase]);
      add(count, stage.overlappedPs.value_or(0));
      for (const MessageCost *message : {&stage.activation, &stage.gradient}) {
        add(count, message->occupancyPs);
        add(count, message->latencyPs);
      }
    });
  for (const MessageCost &reduction : costs.reductions) {
    add(1, reduction.occupancyPs);
    add(1, reduction.latencyPs);
  }
  return total <= static_cast<uint64_t>(limitPs);
}

/// Subtracts the waits that the model gives to the cells of measured pairs,
/// because a measured time does not say what its cells waited for. Returns
/// false if a number overflows.
static bool subtractMeasuredPairs(const TableView &table,
                                  const StageCosts &costs, Traffic &traffic) {
  const Placement &placement = *table.placement;
  bool isValid = true;
  auto subtract = [&](size_t worker, Cell cell) {
    const StageCost &cost = costs.stages[placement.globalStage(cell)];
    Phase phase = cell.getPhase();
    traffic.exposedShardingPs[worker] -= cost.shardingPs[phase];
    isValid &= traffic.context[worker].add(cost.context[phase], -1);
  };
  for (auto [worker, row] : llvm::enumerate(table.rows))
    for (size_t i = 0; i + 1 < row.size(); ++i)
      if (row[i].overlapsNext() &&
          costs.stages[placement.globalStage(row[i])].overlappedPs) {
        subtract(worker, row[i]);
        subtract(worker, row[i + 1]);
      }
  return isValid;
}

/// Whether some pair is measured while the model gives waits to cells, which
/// the measured time does not contain separately.
static bool hasMeasuredWaits(const StageCosts &costs) {
  auto waits = [](const StageCost &cost) {
    return llvm::any_of(cost.shardingPs, [](int64_t ps) { return ps != 0; }) ||
           llvm::any_of(cost.context, [](const ContextCost &context) {
             return context.ps != 0 || context.bytes != 0;
           });
  };
  auto isMeasured = [](const StageCost &cost) {
    return cost.overlappedPs.has_value();
  };
  return llvm::any_of(costs.stages, isMeasured) &&
         llvm::any_of(costs.stages, waits);
}

std::optional<Traffic> pipesched::sumTraffic(const Placement &placement,
                                             const TableView &table,
                                             const PhaseCounts &counts,
                                             const StageCosts &costs,
                                             const Groups *groups) {
  GradientAfter gradientAfter = table.gradientAfter;
  bool isMeasured = hasMeasuredWaits(costs);
  if (isMeasured &&
      placement.getNumMicrobatches() != table.placement->getNumMicrobatches())
    return std::nullopt;
  Traffic traffic;
  traffic.bytesSent.assign(placement.getNumWorkers(), 0);
  traffic.exposedShardingPs.assign(placement.getNumWorkers(), 0);
  traffic.context.resize(placement.getNumWorkers());
  bool isOverflow = false;
  auto send = [&](int64_t worker, int64_t count, int64_t bytes) {
    int64_t product = 0, &sum = traffic.bytesSent[worker];
    isOverflow |= llvm::MulOverflow(count, bytes, product) ||
                  llvm::AddOverflow(sum, product, sum);
  };
  for (auto [stage, cost] : llvm::enumerate(costs.stages)) {
    int64_t worker = placement.workerOf(stage);
    int64_t path = placement.pathOfStage(stage);
    kCopyPhases.forEach([&, stage = stage](Phase phase) {
      traffic.copies += counts.of(stage, phase);
    });
    auto compute = [&, stage = stage, &cost = cost](Phase phase) {
      int64_t count = counts.of(stage, phase);
      send(worker, count, cost.shardingBytes[phase]);
      traffic.exposedShardingPs[worker] += count * cost.shardingPs[phase];
      isOverflow |= !traffic.context[worker].add(cost.context[phase], count);
      std::optional<Flow> flow = flowMadeBy(phase, gradientAfter);
      if (!flow)
        return;
      int64_t target = targetOf(*flow, stage);
      if (target < placement.stageOffset(path) ||
          target >= placement.stageOffset(path + 1) ||
          placement.workerOf(target) == worker)
        return;
      traffic.messages += count;
      send(worker, count,
           *flow == Flow::Activation ? cost.activation.bytes
                                     : cost.gradient.bytes);
    };
    phasesOfKind(InstructionKind::Compute).forEach(compute);
  }
  for (auto [number, cost] : llvm::enumerate(costs.reductions))
    for (CellRef member : groups->membersOf(number))
      send(member.row, 1, cost.bytes);
  if (isOverflow ||
      (isMeasured && !subtractMeasuredPairs(table, costs, traffic)))
    return std::nullopt;
  return traffic;
}
