//===- WalkRules.cpp - Costs of a walk over a table -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs of single steps. Also decides which tables a walk can time, and sums
// their traffic.
//
//===----------------------------------------------------------------------===//

#include "WalkRules.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

int64_t pipesched::stepPs(const WalkInputs &scenario,
                          const Placement &placement, const WaveStep &step) {
  const StageCosts &costs = *scenario.costs;
  const StageCost &stage = costs.stages[step.stage(0)];
  Cell first = step.cells[0];
  std::optional<Cell> second;
  if (step.isPair)
    second = step.cells[1];
  int64_t ps;
  if (second)
    ps = costs.pairPs(placement, first, *second);
  else
    ps = stage.cells.alonePs(first.getPhase(), stage.cells.sliceOf(first));
  return scenario.changePs && first.isCompute()
             ? scenario.changePs(step.row, first, second, ps)
             : ps;
}

//===----------------------------------------------------------------------===//
// Tables that a walk can time
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
  if (llvm::Error error = costs.checkSlices(placement)) {
    llvm::consumeError(std::move(error)); // the graph finds the error again
    return false;
  }
  auto addMessages = [&](int64_t count, const UnitMessages &all) {
    auto addEach = [&](const StageMessages &messages) {
      for (const MessageCost *message :
           {&messages.activation, &messages.gradient}) {
        add(count, message->occupancyPs);
        add(count, message->latencyPs);
      }
    };
    addEach(all);
    llvm::for_each(all.messagesOfSlices, addEach);
  };
  for (auto [number, stage] : llvm::enumerate(costs.stages))
    kCostedPhases.forEach([&, number = number, &stage = stage](Phase phase) {
      int64_t count = counts.of(number, phase), longest = 0;
      for (int64_t slice = 0; slice < stage.cells.getNumSlices(); ++slice)
        longest = std::max(longest, stage.cells.alonePs(phase, slice));
      add(count, longest);
      add(count, stage.overlappedPs.value_or(0));
      addMessages(count, stage);
    });
  for (const EdgeCost &edge : costs.edges)
    kCostedPhases.forEach([&](Phase phase) {
      addMessages(counts.of(edge.from, phase), edge);
      addMessages(counts.of(edge.to, phase), edge);
    });
  for (const MessageCost &reduction : costs.reductions) {
    add(1, reduction.occupancyPs);
    add(1, reduction.latencyPs);
  }
  return total <= static_cast<uint64_t>(limitPs);
}

/// Subtracts the modelled waits of cells in measured pairs, because a measured
/// time does not show what its cells waited for. Returns false if a number
/// overflows.
static bool subtractMeasuredPairs(const TableView &table,
                                  const StageCosts &costs, Traffic &traffic) {
  const Placement &placement = *table.placement;
  bool isValid = true;
  auto subtract = [&](size_t worker, Cell cell) {
    isValid &= traffic.addWaits(worker, costs.segmentsOf(placement, cell), -1);
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

/// Whether some pair is measured whose cells have waits in the model. The
/// measured time includes these waits.
static bool hasMeasuredWaits(const StageCosts &costs) {
  auto isMeasured = [](const StageCost &cost) {
    return cost.overlappedPs.has_value();
  };
  auto waits = [](const StageCost &cost) {
    return llvm::any_of(cost.cells.all(), [](const Segment &segment) {
      return segment.resource == Resource::Context ||
             (segment.resource == Resource::Sharding && segment.ps != 0);
    });
  };
  return llvm::any_of(costs.stages, isMeasured) &&
         llvm::any_of(costs.stages, waits);
}

namespace {
/// Returns the number of cells of a stage and phase in each slice. If all units
/// have one, as for F, each slice has as many. If some have none, as for R, or
/// B if others have I and W, or if microbatches differ and take several paths,
/// the rows have to be counted.
class SliceCounts {
public:
  SliceCounts(const Placement &placement, const PhaseCounts &counts,
              const StageCosts &costs)
      : placement(placement), counts(counts), costs(costs) {}

  bool areEven(int64_t stage, Phase phase) const {
    int64_t count = counts.of(stage, phase);
    int64_t number = numSlices(stage, phase);
    return number == 1 || count == 0 ||
           (count == placement.countOnPath(placement.pathOfStage(stage)) &&
            number <= count);
  }
  /// The number of slices for which a stage has costs; 1 for O, which belongs
  /// to no slice.
  int64_t numSlices(int64_t stage, Phase phase) const {
    return kPerPathPhases.contains(phase)
               ? 1
               : costs.stages[stage].cells.getNumSlices();
  }
  bool areAllEven() const {
    bool areEven = true;
    for (size_t stage = 0; stage < costs.stages.size(); ++stage)
      phasesOfKind(InstructionKind::Compute).forEach([&](Phase phase) {
        areEven &= this->areEven(stage, phase);
      });
    return areEven;
  }

  /// Calls `visit(slice, count)` for the slices of an even phase.
  template <typename Visit>
  void forEven(int64_t stage, Phase phase, Visit &&visit) const {
    if (!areEven(stage, phase))
      return;
    int64_t number = numSlices(stage, phase);
    for (int64_t slice = 0; slice < number; ++slice)
      visit(slice, counts.of(stage, phase) / number);
  }
  /// Calls `visit(worker, cell)` for the cells of phases that are not even.
  template <typename Visit>
  void forUneven(const TableView &table, Visit &&visit) const {
    for (auto [worker, row] : llvm::enumerate(table.rows))
      for (Cell cell : row)
        if (cell.isIn(phasesOfKind(InstructionKind::Compute)) &&
            !areEven(placement.globalStage(cell), cell.getPhase()))
          visit(worker, cell);
  }

private:
  const Placement &placement;
  const PhaseCounts &counts;
  const StageCosts &costs;
};
} // namespace

std::optional<Traffic> pipesched::sumTraffic(const TableView &table,
                                             const PhaseCounts &counts,
                                             const StageCosts &costs,
                                             const Groups *groups) {
  const Placement &placement = *table.placement;
  GradientAfter gradientAfter = table.gradientAfter;
  bool isMeasured = hasMeasuredWaits(costs);
  SliceCounts slices(placement, counts, costs);
  bool countsRows = !slices.areAllEven();
  Traffic traffic(placement.getNumWorkers());
  bool isOverflow = false;
  auto send = [&](int64_t worker, int64_t count, int64_t bytes) {
    int64_t product = 0, &sum = traffic.bytesSent[worker];
    isOverflow |= llvm::MulOverflow(count, bytes, product) ||
                  llvm::AddOverflow(sum, product, sum);
  };
  auto wait = [&](int64_t worker, int64_t count, ArrayRef<Segment> cell) {
    send(worker, count, sumOn(Resource::Sharding, cell).bytes);
    isOverflow |= !traffic.addWaits(worker, cell, count);
  };
  for (auto [stage, cost] : llvm::enumerate(costs.stages)) {
    int64_t worker = placement.workerOf(stage);
    kCopyPhases.forEach([&, stage = stage](Phase phase) {
      traffic.copies += counts.of(stage, phase);
    });
    auto compute = [&, stage = stage, &cost = cost](Phase phase) {
      int64_t count = counts.of(stage, phase);
      slices.forEven(stage, phase, [&](int64_t slice, int64_t ofSlice) {
        wait(worker, ofSlice, cost.cells.segmentsOf(phase, slice));
      });
      std::optional<Flow> flow =
          flowMadeBy(phase, gradientAfter, placement.backwardOf(stage));
      if (!flow)
        return;
      for (int64_t target : placement.getEdges().targetsOf(*flow, stage)) {
        if (placement.workerOf(target) == worker)
          continue;
        traffic.messages += count;
        send(worker, count, cost.messageOf(*flow).bytes);
      }
    };
    phasesOfKind(InstructionKind::Compute).forEach(compute);
  }
  if (countsRows)
    slices.forUneven(table, [&](int64_t worker, Cell cell) {
      wait(worker, 1, costs.segmentsOf(placement, cell));
    });
  for (auto [number, cost] : llvm::enumerate(costs.reductions))
    for (CellRef member : groups->membersOf(number))
      send(member.row, 1, cost.bytes);
  if (isOverflow ||
      (isMeasured && !subtractMeasuredPairs(table, costs, traffic)))
    return std::nullopt;
  return traffic;
}
