//===- Holdings.h - Memory of a walk ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The activations that workers hold during a walk over their rows.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_HOLDINGS_H
#define PIPESCHED_LIB_ANALYSIS_WALK_HOLDINGS_H

#include "../Memory/ActivationLedger.h"
#include "PipeSched/Analysis/Memory/PeakMemory.h"
#include "PipeSched/Schedule/Walk/Wavefront.h"
#include "RecomputedCells.h"
#include "llvm/Support/MathExtras.h"
#include <deque>
#include <tuple>

namespace pipesched {

/// Whether cells allocate and free the same bytes under both facts.
inline bool holdsTheSame(const MemoryFacts &one, const MemoryFacts &other) {
  auto activationOf = [](const StageMemory &stage) {
    return std::tuple(stage.activationBytes, stage.inputGradFreedBytes,
                      stage.boundaryBytes, stage.workingBytes,
                      stage.leftForSlicesBytes);
  };
  auto areEqual = [&](const StageMemory &a, const StageMemory &b) {
    return activationOf(a) == activationOf(b);
  };
  return llvm::equal(one.stages, other.stages, areEqual) &&
         llvm::equal(one.slices, other.slices, areEqual);
}

/// The activations of a walk that are recomputed or copied. Each is tracked
/// from its F until its backward ends.
class LiveActivations {
public:
  LiveActivations(const TableView &table, const PhaseCounts &counts);

  /// Whether no activations are tracked, so that only the phase of a cell
  /// decides its memory (startKept).
  bool isEmpty() const { return !isTracked; }
  /// Returns the activation of a cell that starts; an F creates it. Returns
  /// null if the cell had no F before it, or if an F occurs again.
  HeldActivation *start(Cell cell, uint32_t stage) {
    if (!cell.is(Phase::Forward))
      return find(cell, stage);
    InFlight<HeldActivation> &place = places[stage];
    int64_t rank = placement.rankOf(cell);
    HeldActivation *activation = place.insert(rank, allocator);
    if (activation)
      *activation = {0, 0, recomputed.contains(stage, rank),
                     keys.leaves(placement.firstPairOf(stage) + rank)};
    return activation;
  }
  /// The activation of a cell that has started.
  HeldActivation *find(Cell cell, uint32_t stage) {
    return places[stage].find(placement.rankOf(cell));
  }
  void remove(HeldActivation *activation) {
    InFlight<HeldActivation>::remove(activation);
  }
  template <typename Visitor>
  void visitState(Visitor &visitor);

private:
  const Placement &placement;
  RecomputedCells recomputed;
  LeavingKeys keys;
  bool isTracked;
  llvm::BumpPtrAllocator allocator;
  std::vector<InFlight<HeldActivation>> places; ///< by global stage
};

/// The memory of each worker. Without copies only cells allocate and free, so
/// the order of the row is the order of the events for any times. So scenarios
/// with equal activations share one object; only the times of their peaks
/// differ.
template <typename Time>
class Holdings {
public:
  Holdings(const TableView &table, const PhaseCounts &counts,
           const MemoryFacts &facts)
      : placement(*table.placement), facts(facts), live(table, counts),
        workers(table.rows.size()) {}

  void start(const WaveStep &step, const Time &startPs) {
    MemoryChange change = startHalf(step, 0);
    if (step.isPair)
      change += startHalf(step, 1);
    apply(step.row, allocatingCell(step), change, startPs);
  }
  void finish(const WaveStep &step, const Time &endPs) {
    MemoryChange change = finishHalf(step, 0);
    if (step.isPair)
      change += finishHalf(step, 1);
    apply(step.row, allocatingCell(step), change, endPs);
  }
  /// Records that a D has ended, or that a U has started.
  void moveOut(int32_t row, Cell cell, uint32_t stage, const Time &endPs) {
    if (HeldActivation *activation = check(live.find(cell, stage)))
      applyCopy(row, cell, activation->moveOut(facts.memoryOf(stage, cell)),
                endPs);
  }
  void moveIn(int32_t row, Cell cell, uint32_t stage, const Time &startPs) {
    if (HeldActivation *activation = check(live.find(cell, stage)))
      applyCopy(row, cell, activation->moveIn(), startPs);
  }
  bool isValid() const { return !isBroken; }
  template <typename Visitor>
  void visitState(Visitor &visitor) {
    for (Held &held : workers) {
      visitor.same(held.bytes);
      visitor.same(held.microbatches);
      visitor.total(held.offloadedBytes);
      visitor.total(held.reloadedBytes);
    }
    live.visitState(visitor);
  }
  void takeInto(MemoryUsage &usage, unsigned lane) const {
    for (auto [worker, held] : llvm::zip_equal(usage.workers, workers)) {
      if (!held.hasEvents)
        continue;
      worker.peakActivationBytes = held.peakBytes;
      worker.peakPs = laneOf(held.peakPs, lane);
      worker.peakCell = held.peakCell;
      worker.peakMicrobatches = held.peakMicrobatches;
      worker.offloadedBytes = held.offloadedBytes;
      worker.reloadedBytes = held.reloadedBytes;
    }
  }

private:
  struct Held {
    int64_t bytes = 0, microbatches = 0;
    int64_t peakBytes = 0, peakMicrobatches = 0;
    int64_t offloadedBytes = 0, reloadedBytes = 0;
    Time peakPs{};
    Cell peakCell;
    bool hasEvents = false;
  };

  HeldActivation *check(HeldActivation *activation) {
    isBroken |= !activation;
    return activation;
  }
  MemoryChange startHalf(const WaveStep &step, unsigned half) {
    Cell cell = step.cells[half];
    const StageMemory &memory = facts.memoryOf(step.stage(half), cell);
    if (LLVM_LIKELY(live.isEmpty()) || cell.isPerPath())
      return startKept(cell, memory);
    HeldActivation *activation = check(live.start(cell, step.stage(half)));
    return activation ? activation->start(cell, memory) : MemoryChange();
  }
  MemoryChange finishHalf(const WaveStep &step, unsigned half) {
    Cell cell = step.cells[half];
    const StageMemory &memory = facts.memoryOf(step.stage(half), cell);
    StageBackward backward = placement.backwardOf(step.stage(half));
    PhaseSet releasing = releasingPhases(backward);
    if (LLVM_LIKELY(live.isEmpty()) || !cell.isIn(kFreeingPhases | releasing))
      return finishKept(cell, memory, backward);
    HeldActivation *activation = check(live.find(cell, step.stage(half)));
    if (!activation)
      return {};
    MemoryChange change = activation->finish(cell, memory, backward);
    if (cell.isIn(releasing))
      live.remove(activation);
    return change;
  }
  /// The cell to report for a step. For a pair it is the forward, which
  /// allocates.
  static Cell allocatingCell(const WaveStep &step) {
    bool isSecond = step.isPair && step.cells[1].is(Phase::Forward);
    return step.cells[isSecond].withOverlap(false);
  }
  void apply(int32_t row, Cell cell, MemoryChange change, const Time &atPs) {
    Held &held = workers[row];
    held.microbatches += change.activations;
    isBroken |= llvm::AddOverflow(held.bytes, change.bytes, held.bytes);
    if (held.hasEvents && held.bytes <= held.peakBytes)
      return;
    held.hasEvents = true;
    held.peakBytes = held.bytes;
    held.peakPs = atPs;
    held.peakMicrobatches = held.microbatches;
    held.peakCell = cell;
  }
  void applyCopy(int32_t row, Cell cell, MemoryChange change,
                 const Time &atPs) {
    Held &worker = workers[row];
    isBroken |= cell.is(Phase::Offload)
                    ? llvm::SubOverflow(worker.offloadedBytes, change.bytes,
                                        worker.offloadedBytes)
                    : llvm::AddOverflow(worker.reloadedBytes, change.bytes,
                                        worker.reloadedBytes);
    apply(row, cell, change, atPs);
  }

  const Placement &placement;
  const MemoryFacts &facts;
  LiveActivations live;
  std::vector<Held> workers;
  bool isBroken = false; ///< bytes exceed int64, or a cell has no F before it
};

/// The memory of each worker of one scenario if there are copies. A D frees
/// when it ends and a U allocates when it starts, between cells or while a cell
/// runs.
///
///   row       | F alloc |        | B alloc 0, free |     by start and end
///   offloads      | D free |                             by end
///   reloads                | U alloc |                   by start
///
/// The walk times a copy when the row passes it, and the copy happens no
/// earlier than the end of the previous step. So copies are queued here until
/// the row starts or ends a later step. Among events at the same time, events
/// that free memory come first.
class TimedHoldings {
public:
  TimedHoldings(const TableView &table, const PhaseCounts &counts,
                const MemoryFacts &facts, unsigned lane)
      : held(table, counts, facts), copies(table.rows.size()), lane(lane) {}

  unsigned getLane() const { return lane; }
  void start(const WaveStep &step, int64_t startPs) {
    catchUp(step.row, startPs);
    held.start(step, startPs);
  }
  void finish(const WaveStep &step, int64_t endPs) {
    catchUp(step.row, endPs - 1);
    held.finish(step, endPs);
  }
  void copy(const WaveStep &step, int64_t startPs, int64_t endPs) {
    bool isOffload = step.cells->is(Phase::Offload);
    RowCopies &row = copies[step.row];
    (isOffload ? row.offloads : row.reloads)
        .push_back({isOffload ? endPs : startPs, *step.cells, step.stage(0)});
  }
  /// Applies the copies after the last step of the row.
  void end() {
    for (int32_t row = 0, size = copies.size(); row != size; ++row)
      catchUp(row, std::numeric_limits<int64_t>::max());
  }
  bool isValid() const { return held.isValid(); }
  void takeInto(MemoryUsage &usage) const { held.takeInto(usage, 0); }
  /// Compares times with `reference`, which has a time for each lane; this
  /// object uses its own lane.
  template <typename Visitor, typename Time>
  void visitState(Visitor &visitor, const Time &reference);

private:
  struct Copy {
    int64_t atPs;
    Cell cell;
    uint32_t stage;
  };
  struct RowCopies {
    std::deque<Copy> offloads, reloads; ///< each in the order of its queue
  };

  void catchUp(int32_t row, int64_t lastPs);

  Holdings<int64_t> held;
  std::vector<RowCopies> copies;
  unsigned lane;
};

//===----------------------------------------------------------------------===//
// Implementation
//===----------------------------------------------------------------------===//

inline LiveActivations::LiveActivations(const TableView &table,
                                        const PhaseCounts &counts)
    : placement(*table.placement), recomputed(table, counts),
      isTracked(counts.has(Phase::Recompute) || hasCopies(counts)) {
  if (!isTracked)
    return;
  places.resize(placement.getNumGlobalStages());
  for (InFlight<HeldActivation> &place : places)
    place.allocate(4, allocator);
  if (!hasCopies(counts))
    return;
  keys.init(placement);
  if (keys.isTracked())
    for (llvm::ArrayRef<Cell> row : table.rows)
      for (Cell cell : row)
        if (cell.is(Phase::Forward) || cell.isCopy())
          keys.visit(cell);
}

template <typename Visitor>
void LiveActivations::visitState(Visitor &visitor) {
  for (auto [stage, place] : llvm::enumerate(places))
    visitItems(place, placement.pathOfStage(stage), allocator, visitor,
               [&](HeldActivation &activation) {
                 visitor.same(activation.deviceBytes);
                 visitor.same(activation.hostBytes);
                 visitor.same(activation.isRecomputed);
                 visitor.same(activation.leavesKeys);
               });
}

/// Applies the copies of a row up to a time.
inline void TimedHoldings::catchUp(int32_t row, int64_t lastPs) {
  auto &[offloads, reloads] = copies[row];
  while (true) {
    bool hasReload = !reloads.empty() && reloads.front().atPs <= lastPs;
    if (!offloads.empty() && offloads.front().atPs <= lastPs &&
        (!hasReload || offloads.front().atPs <= reloads.front().atPs)) {
      const Copy &copy = offloads.front();
      held.moveOut(row, copy.cell, copy.stage, copy.atPs);
      offloads.pop_front();
    } else if (hasReload) {
      const Copy &copy = reloads.front();
      held.moveIn(row, copy.cell, copy.stage, copy.atPs);
      reloads.pop_front();
    } else {
      return;
    }
  }
}

/// All times before the oldest clock count as equal, so the state must also
/// contain their order.
template <typename Visitor, typename Time>
void TimedHoldings::visitState(Visitor &visitor, const Time &reference) {
  held.visitState(visitor);
  for (RowCopies &row : copies) {
    for (const Copy &reload : row.reloads)
      visitor.same(llvm::count_if(row.offloads, [&](const Copy &offload) {
        return offload.atPs <= reload.atPs;
      }));
    for (std::deque<Copy> *queue : {&row.offloads, &row.reloads}) {
      visitor.same(queue->size());
      for (Copy &copy : *queue) {
        Time at = reference;
        setLane(at, lane, copy.atPs);
        visitor.clock(at, Clock::Time);
        copy.atPs = laneOf(at, lane);
        visitor.cell(copy.cell);
      }
    }
  }
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_HOLDINGS_H
