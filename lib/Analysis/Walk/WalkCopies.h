//===- WalkCopies.h - Offloads and reloads of a walk ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the times of copies when a row passes them (docs/CostModel.md,
// "Copies: D and U").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_WALKCOPIES_H
#define PIPESCHED_LIB_ANALYSIS_WALK_WALKCOPIES_H

#include "Bindings.h"
#include "WalkRules.h"

namespace pipesched {

/// The arrival of an input of a cell or a copy, and the cause of its delay. The
/// input is a message, a copy or an all-reduce.
template <typename Time>
struct Delivery {
  Time arrivalPs{};
  Time freePs{};     ///< its arrival if communication took no time
  Time readyPs{};    ///< when all its inputs were there
  Time runBeginPs{}; ///< start of the gapless transfers of its queues
  /// The cell that made it, by flat index, if the critical path is wanted.
  uint32_t producer = Bindings::kNone;

  template <typename Visitor>
  void visitState(Visitor &visitor) {
    visitor.clock(arrivalPs, Clock::Time);
    visitor.clock(freePs, Clock::FreeTime);
    visitor.clock(readyPs, Clock::Time);
    visitor.clock(runBeginPs, Clock::Time);
    visitor.flat(producer);
  }
};

/// Returns, in each lane, the later of two deliveries, or the first if they
/// arrive together.
template <typename Time>
Delivery<Time> laterOf(const Delivery<Time> &first,
                       const Delivery<Time> &second) {
  auto ofLast = [&](const Time &ofFirst, const Time &ofSecond) {
    return whereLater(second.arrivalPs, first.arrivalPs, ofSecond, ofFirst);
  };
  bool isSecond = laneOf(second.arrivalPs, 0) > laneOf(first.arrivalPs, 0);
  return {later(first.arrivalPs, second.arrivalPs),
          later(first.freePs, second.freePs),
          ofLast(first.readyPs, second.readyPs),
          ofLast(first.runBeginPs, second.runBeginPs),
          isSecond ? second.producer : first.producer};
}

/// The last of several deliveries; on ties, the first of these.
template <typename Time>
class LastOf {
public:
  void add(const Delivery<Time> &item) {
    last = hasAny ? laterOf(last, item) : item;
    hasAny = true;
  }
  void clear() { hasAny = false; }
  /// Returns the last delivery, or null if there is none.
  const Delivery<Time> *get() const { return hasAny ? &last : nullptr; }
  template <typename Visitor>
  void visitState(Visitor &visitor) {
    visitor.same(hasAny);
    if (hasAny)
      last.visitState(visitor);
  }

private:
  Delivery<Time> last;
  bool hasAny = false;
};

/// The copy queues of all workers, and the places of the activations of stages
/// that offload, from F until the backward starts:
///
///   row       | F |   | F |      | B |        D after F, B after U; d delays
///   sends         | F   |                     the next step until D has ended
///   offloads            | D  |                also after the send of its F
///   reloads                  | U |
///
/// A copy can be timed when its row passes it, because the times of its inputs
/// are known by then.
template <typename Time>
class WalkCopies {
public:
  using Item = Delivery<Time>;
  /// A copy that has been timed.
  struct Copied {
    Time startPs, endPs;
    uint32_t waitedFor; ///< the flat index of its producer, or kRow
  };
  static constexpr uint32_t kRow = Bindings::kNone;

  WalkCopies(const TableView &table, const PhaseCounts &counts);

  /// Calls `offer(const Item &)` for each copy that one half of a step waits
  /// for. Its message is not included. If deliveries arrive together, the first
  /// one counts.
  template <typename Offer>
  void forNeeds(const WaveStep &step, unsigned half, Offer &&offer);
  /// Records that a step has started. Returns false if a cell occurs a second
  /// time, or needs an activation that is on the host.
  bool start(const WaveStep &step);
  /// Records that the message of a cell has left its worker. A D waits for it.
  void send(const WaveStep &step, unsigned half, const Item &sent);
  /// Computes the time of a D or U, or records a join. The row is free at
  /// `row`, and `flat` is the index of the cell. Returns nothing if the cell
  /// that it needs did not come before it.
  std::optional<Copied> copy(const WaveStep &step, const Time &ps,
                             const Item &row, uint32_t flat);
  template <typename Visitor>
  void visitState(Visitor &visitor);

private:
  enum class CopyState : uint8_t { Sent, Offloaded, Reloaded };
  /// The place of an activation, and the time at which it arrived there.
  struct Activation {
    Item since;
    CopyState state = CopyState::Sent;
  };
  /// A copy queue of a worker, with the time at which it is free.
  struct CopyQueue {
    Time endPs{}, freeEndPs{};
    Time runPs{}; ///< start of its gapless run of copies
    uint32_t last = Bindings::kNone;
  };
  struct Worker {
    CopyQueue offloads, reloads;
    /// The copies for which joins delay the next compute or U. The last join
    /// comes first.
    LastOf<Time> held, heldByOffloads;

    void clearHeld() {
      held.clear();
      heldByOffloads.clear();
    }
  };

  Activation *find(const WaveStep &step, unsigned half) {
    return activations[step.stage(half)].find(step.ranks[half]);
  }
  bool startHalf(const WaveStep &step, unsigned half);
  bool join(const WaveStep &step);
  Copied enqueue(CopyQueue &queue, const Time &ps, const Item &row,
                 const Item *held, uint32_t flat, Item &own);

  const Placement &placement;
  std::vector<Worker> workers;
  std::vector<bool> offloads; ///< by global stage: whether the stage offloads
  llvm::BumpPtrAllocator allocator;
  std::vector<InFlight<Activation>> activations; ///< by global stage
};

//===----------------------------------------------------------------------===//
// Implementation
//===----------------------------------------------------------------------===//

template <typename Time>
WalkCopies<Time>::WalkCopies(const TableView &table, const PhaseCounts &counts)
    : placement(*table.placement), workers(table.rows.size()),
      activations(placement.getNumGlobalStages()) {
  for (auto [stage, places] : llvm::enumerate(activations)) {
    places.allocate(4, allocator);
    offloads.push_back(counts.of(stage, Phase::Offload) != 0);
  }
}

template <typename Time>
template <typename Offer>
void WalkCopies<Time>::forNeeds(const WaveStep &step, unsigned half,
                                Offer &&offer) {
  Cell cell = step.cells[half];
  if (cell.isIn(kActivationUsers) && offloads[step.stage(half)])
    if (Activation *own = find(step, half))
      if (own->state == CopyState::Reloaded)
        offer(own->since);
  if (half == 0)
    if (const Item *held = workers[step.row].held.get())
      offer(*held);
}

template <typename Time>
bool WalkCopies<Time>::startHalf(const WaveStep &step, unsigned half) {
  if (!offloads[step.stage(half)])
    return true;
  Cell cell = step.cells[half];
  if (cell.is(Phase::Forward)) {
    if (placement.backwardOf(step.stage(half)) == StageBackward::None)
      return true; // no copy moves it
    Activation *made =
        activations[step.stage(half)].insert(step.ranks[half], allocator);
    if (made)
      *made = Activation();
    return made;
  }
  if (!cell.isIn(kActivationUsers))
    return true;
  Activation *own = find(step, half);
  if (!own || own->state == CopyState::Offloaded)
    return false;
  if (cell.isIn(kBackwardStarts))
    InFlight<Activation>::remove(own);
  return true;
}

template <typename Time>
bool WalkCopies<Time>::start(const WaveStep &step) {
  workers[step.row].clearHeld();
  return startHalf(step, 0) && (!step.isPair || startHalf(step, 1));
}

template <typename Time>
void WalkCopies<Time>::send(const WaveStep &step, unsigned half,
                            const Item &sent) {
  if (step.cells[half].is(Phase::Forward) && offloads[step.stage(half)])
    if (Activation *made = find(step, half))
      made->since = sent;
}

/// Delays the next step of the row until a copy has ended.
template <typename Time>
bool WalkCopies<Time>::join(const WaveStep &step) {
  Activation *own = find(step, 0);
  bool isOffload = step.cells->is(Phase::OffloadJoin);
  if (!own ||
      own->state != (isOffload ? CopyState::Offloaded : CopyState::Reloaded))
    return false;
  Worker &worker = workers[step.row];
  auto putFirst = [&](LastOf<Time> &held) {
    LastOf<Time> both;
    both.add(own->since);
    if (held.get())
      both.add(*held.get());
    held = both;
  };
  putFirst(worker.held);
  if (isOffload)
    putFirst(worker.heldByOffloads);
  return true;
}

/// Puts a copy of the activation `own` into its queue, and sets `own` to the
/// arrival of the copy. `row` is the time at which the row was free. `held`,
/// which may be null, is the delivery for which a join delays the copy.
template <typename Time>
typename WalkCopies<Time>::Copied
WalkCopies<Time>::enqueue(CopyQueue &queue, const Time &ps, const Item &row,
                          const Item *held, uint32_t flat, Item &own) {
  Time readyPs = later(row.arrivalPs, own.arrivalPs);
  Time freePs = later(row.freePs, own.freePs);
  if (held) {
    readyPs = later(readyPs, held->arrivalPs);
    freePs = later(freePs, held->freePs);
  }
  Copied copied;
  copied.startPs = later(readyPs, queue.endPs);
  copied.endPs = copied.startPs + ps;
  auto ends = [&](const Time &time) {
    return laneOf(time, 0) == laneOf(copied.startPs, 0);
  };
  copied.waitedFor = ends(row.arrivalPs)   ? kRow
                     : ends(own.arrivalPs) ? own.producer
                     : ends(queue.endPs)   ? queue.last
                                           : held->producer;
  queue.runPs =
      whereEqual(copied.startPs, queue.endPs,
                 earlier(copied.startPs, queue.runPs), copied.startPs);
  queue.endPs = copied.endPs;
  queue.freeEndPs = later(freePs, queue.freeEndPs) + ps;
  queue.last = flat;
  own = {queue.endPs, queue.freeEndPs, readyPs, later(readyPs, queue.runPs),
         flat};
  return copied;
}

template <typename Time>
std::optional<typename WalkCopies<Time>::Copied>
WalkCopies<Time>::copy(const WaveStep &step, const Time &ps, const Item &row,
                       uint32_t flat) {
  Activation *own = find(step, 0);
  if (!own)
    return std::nullopt;
  Worker &worker = workers[step.row];
  if (step.cells->isJoin())
    return join(step) ? std::optional(Copied()) : std::nullopt;
  bool isOffload = step.cells->is(Phase::Offload);
  if (own->state != (isOffload ? CopyState::Sent : CopyState::Offloaded))
    return std::nullopt;
  own->state = isOffload ? CopyState::Offloaded : CopyState::Reloaded;
  if (isOffload)
    return enqueue(worker.offloads, ps, row, nullptr, flat, own->since);
  // A join that waits for a U adds nothing here: the order of the reload queue
  // implies the same wait.
  Copied copied = enqueue(worker.reloads, ps, row, worker.heldByOffloads.get(),
                          flat, own->since);
  worker.clearHeld();
  return copied;
}

template <typename Time>
template <typename Visitor>
void WalkCopies<Time>::visitState(Visitor &visitor) {
  for (Worker &worker : workers) {
    for (CopyQueue *queue : {&worker.offloads, &worker.reloads}) {
      visitor.clock(queue->endPs, Clock::Time);
      visitor.clock(queue->freeEndPs, Clock::FreeTime);
      visitor.clock(queue->runPs, Clock::Time);
      visitor.flat(queue->last);
    }
    worker.held.visitState(visitor);
    worker.heldByOffloads.visitState(visitor);
  }
  for (auto [stage, place] : llvm::enumerate(activations))
    visitItems(place, placement.pathOfStage(stage), allocator, visitor,
               [&](Activation &activation) {
                 activation.since.visitState(visitor);
                 visitor.same(static_cast<int64_t>(activation.state));
               });
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_WALKCOPIES_H
