//===- WalkTable.cpp - Level 3 of a table, without a graph ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One handler of the walk per question: times and idle causes (FullWalk), slots
// (SlotCounts), memory (Holdings), and what each task waited for (Bindings).
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/WalkTable.h"
#include "ActivationLedger.h"
#include "Bindings.h"
#include "WalkRules.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {

/// Something that a cell has made for another stage.
struct Delivery {
  int64_t arrivalPs;
  int64_t freePs;     ///< when it arrives if communication takes no time
  int64_t readyPs;    ///< when it was made
  int64_t runBeginPs; ///< from here on its queues transfer without a gap
  uint32_t producer;  ///< flat
};

} // namespace

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

namespace {

/// Level 2 in unit slots (TableMetrics).
class SlotCounts {
public:
  SlotCounts(const TableView &table, const PhaseCounts &counts);

  void start(const WaveStep &step, uint64_t slot) {
    RowCounts &row = rows[step.row];
    row.first = std::min<int64_t>(row.first, slot);
    row.busy -= slot;
    make(row, step.cells[0], step.stages[0], slot);
    if (step.isPair)
      make(row, step.cells[1], step.stages[1], slot);
  }
  void finish(const WaveStep &step, uint64_t slot) {
    RowCounts &row = rows[step.row];
    row.last = slot;
    row.busy += slot;
    release(row, step.cells[0], step.stages[0]);
    if (step.isPair)
      release(row, step.cells[1], step.stages[1]);
  }
  template <typename Visitor>
  void visitState(Visitor &visitor);
  /// Activations that all rows hold.
  int64_t numLive() const {
    int64_t sum = 0;
    for (const RowCounts &row : rows)
      sum += row.live;
    return sum;
  }
  /// Whether every backward has found its activations.
  bool isComplete() const { return !isMissing; }
  TableMetrics take() const;

private:
  struct RowCounts {
    int64_t first = std::numeric_limits<int64_t>::max(), last = 0, busy = 0;
    int64_t live = 0, peak = 0, numRetained = 0, maxRetention = 0;
    int64_t totalRetention = 0;
  };

  void make(RowCounts &row, Cell cell, uint32_t stage, uint64_t slot);
  void release(RowCounts &row, Cell cell, uint32_t stage);
  bool isRecomputed(Cell cell, uint32_t stage) const {
    return !recomputed.empty() &&
           recomputed[offsets[stage] +
                      placement.rankOnPath(cell.getMicrobatch())];
  }

  const Placement &placement;
  llvm::BumpPtrAllocator allocator;
  std::vector<InFlight<int64_t>> live; ///< by global stage: slots of F or R
  std::vector<size_t> offsets;         ///< by global stage
  std::vector<bool> recomputed;        ///< by offset and rank; empty: no R
  std::vector<RowCounts> rows;
  bool isMissing = false;
};

} // namespace

SlotCounts::SlotCounts(const TableView &table, const PhaseCounts &counts)
    : placement(*table.placement), live(placement.getNumGlobalStages()),
      rows(table.rows.size()) {
  offsets.push_back(0);
  for (auto [stage, place] : llvm::enumerate(live)) {
    place.allocate(4, allocator);
    offsets.push_back(offsets.back() +
                      placement.countOnPath(placement.pathOfStage(stage)));
  }
  if (!counts.has(Phase::Recompute))
    return;
  recomputed.assign(offsets.back(), false);
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      if (cell.is(Phase::Recompute))
        recomputed[offsets[placement.globalStage(cell)] +
                   placement.rankOnPath(cell.getMicrobatch())] = true;
}

/// R makes the activations that its backward uses, or F if there is no R.
void SlotCounts::make(RowCounts &row, Cell cell, uint32_t stage,
                      uint64_t slot) {
  if (!cell.is(Phase::Recompute) &&
      (!cell.is(Phase::Forward) || isRecomputed(cell, stage)))
    return;
  row.peak = std::max(row.peak, ++row.live);
  if (int64_t *begin = live[stage].insert(
          placement.rankOnPath(cell.getMicrobatch()), allocator))
    *begin = slot;
  else
    isMissing = true;
}

void SlotCounts::release(RowCounts &row, Cell cell, uint32_t stage) {
  if (!cell.is(Phase::Backward) && !cell.is(Phase::WeightGrad))
    return;
  --row.live;
  int64_t *begin = live[stage].find(placement.rankOnPath(cell.getMicrobatch()));
  if (!begin) {
    isMissing = true;
    return;
  }
  int64_t retention = row.last - *begin;
  InFlight<int64_t>::remove(begin);
  ++row.numRetained;
  row.totalRetention += retention;
  row.maxRetention = std::max(row.maxRetention, retention);
}

template <typename Visitor>
void SlotCounts::visitState(Visitor &visitor) {
  for (RowCounts &row : rows) {
    visitor.clock(row.last, Clock::Slot);
    visitor.same(row.live);
    visitor.total(row.busy);
    visitor.total(row.numRetained);
    visitor.total(row.totalRetention);
  }
  std::vector<std::pair<int32_t, int64_t>> items;
  for (auto [stage, place] : llvm::enumerate(live)) {
    place.takeAll(items);
    visitor.same(items.size());
    for (auto &[rank, slot] : items) {
      visitor.rank(rank, placement.pathOfStage(stage));
      visitor.clock(slot, Clock::Slot);
      *place.insert(rank, allocator) = slot;
    }
  }
}

TableMetrics SlotCounts::take() const {
  TableMetrics metrics;
  for (const RowCounts &row : rows)
    metrics.slots = std::max<int64_t>(metrics.slots, row.last);
  for (const RowCounts &row : rows) {
    RowMetrics sums;
    bool isEmpty = row.last == 0;
    sums.busy = row.busy;
    sums.first = isEmpty ? -1 : int64_t(row.first);
    sums.last = row.last;
    sums.peak = row.peak;
    sums.numRetained = row.numRetained;
    sums.maxRetention = row.maxRetention;
    sums.totalRetention = static_cast<double>(row.totalRetention);
    append(metrics, sums);
  }
  setBubbleRatio(metrics);
  return metrics;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// What each worker holds. Without copies only cells allocate and free, so the
/// order of the row is the order of the events.
class Holdings {
public:
  Holdings(const TableView &table, const MemoryFacts &facts)
      : ledger(*table.placement, facts), workers(table.rows.size()) {}

  llvm::Error read(const TableView &table) { return ledger.read(table.rows); }
  void start(const WaveStep &step, int64_t startPs) {
    MemoryChange change = ledger.start(step.cells[0], step.stages[0]);
    if (step.isPair)
      change += ledger.start(step.cells[1], step.stages[1]);
    apply(step, change, startPs);
  }
  void finish(const WaveStep &step, int64_t endPs) {
    MemoryChange change = ledger.finish(step.cells[0], step.stages[0]);
    if (step.isPair)
      change += ledger.finish(step.cells[1], step.stages[1]);
    apply(step, change, endPs);
  }
  bool isValid() const { return !isOverflow; }
  /// Entries of single activations are not part of the state.
  bool canLeap() const { return !ledger.hasEntries(); }
  template <typename Visitor>
  void visitState(Visitor &visitor) {
    for (const Held &held : workers) {
      visitor.same(held.bytes);
      visitor.same(held.microbatches);
    }
  }
  void takeInto(MemoryUsage &usage) const {
    for (auto [worker, held] : llvm::zip_equal(usage.workers, workers)) {
      if (!held.hasEvents)
        continue;
      worker.peakActivationBytes = held.peakBytes;
      worker.peakPs = held.peakPs;
      worker.peakCell = held.peakCell;
      worker.peakMicrobatches = held.peakMicrobatches;
    }
  }

private:
  struct Held {
    int64_t bytes = 0, microbatches = 0;
    int64_t peakBytes = 0, peakPs = 0, peakMicrobatches = 0;
    Cell peakCell;
    bool hasEvents = false;
  };

  void apply(const WaveStep &step, MemoryChange change, int64_t atPs) {
    Held &held = workers[step.row];
    held.microbatches += change.activations;
    isOverflow |= llvm::AddOverflow(held.bytes, change.bytes, held.bytes);
    if (held.hasEvents && held.bytes <= held.peakBytes)
      return;
    held.hasEvents = true;
    held.peakBytes = held.bytes;
    held.peakPs = atPs;
    held.peakMicrobatches = held.microbatches;
    bool isSecond = step.isPair && step.cells[1].is(Phase::Forward);
    held.peakCell = step.cells[isSecond].withOverlap(false);
  }

  ActivationLedger ledger;
  std::vector<Held> workers;
  bool isOverflow = false;
};

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// All questions at once. Each step of a row, and each message, asks
///
///   row       | cell ... |     gap     | cell       start: what ended the gap?
///   message       | made | queued | V/BW | L |      pass: what held it back?
class FullWalk {
public:
  FullWalk(const TableView &table, const WalkInputs &inputs,
           const PhaseCounts &counts, Holdings *holdings)
      : table(table), inputs(inputs), prices(*table.placement, inputs),
        bindings(table), slots(table, counts), holdings(holdings),
        workers(table.rows.size()) {
    if (!inputs.costs->hasDispatches())
      return;
    dispatches.allPs.assign(workers.size(), 0);
    dispatches.exposedPs.assign(workers.size(), 0);
  }

  void start(const WaveStep &step, uint64_t slot, const Delivery *first,
             const Delivery *second);
  void finish(const WaveStep &step, uint64_t slot) {
    slots.finish(step, slot);
    if (holdings)
      holdings->finish(step, workers[step.row].clocks.rowPs);
  }
  void pass(const WaveStep &step, unsigned half, uint32_t toStage,
            Delivery &item);

  bool canLeap() const {
    return prices.canLeap() && (!holdings || holdings->canLeap());
  }
  int64_t numLeftOut() const { return inputs.numLeftOut; }
  int64_t numHeld() const { return slots.numLive(); }
  template <typename Visitor>
  void visitState(Visitor &visitor);
  template <typename Visitor>
  void visitItem(Delivery &item, Visitor &visitor);
  ClockValues clocksOf(uint32_t row) const {
    return {0, workers[row].clocks.rowPs, workers[row].freeClocks.rowPs};
  }
  void noteLeap(llvm::ArrayRef<LeapedRow> rows) {
    bindings.noteLeap(rows);
    for (const LeapedRow &row : rows)
      numLeapt += row.count * row.length;
  }

  bool isComplete() const {
    return slots.isComplete() && (!holdings || holdings->isValid());
  }
  WalkedTable take();

private:
  struct Worker {
    WorkerClocks clocks;
    WorkerClocks freeClocks; ///< if communication took no time
    /// Since when the queue transfers without a gap, and its last message.
    int64_t sendRunPs = 0, receiveRunPs = 0;
    uint32_t lastSend = Bindings::kNone, lastReceive = Bindings::kNone;
    bool hasBegun = false;
    int64_t busyPs = 0, firstPs = 0;
    int64_t dependencyPs = 0, queueOrderPs = 0, communicationPs = 0;
  };

  void splitGap(Worker &worker, const Delivery &need);
  void send(const WaveStep &step, unsigned half, Worker &from, Worker &to,
            Delivery &item);

  const TableView &table;
  const WalkInputs &inputs;
  WalkPrices prices;
  Bindings bindings;
  SlotCounts slots;
  Holdings *holdings; ///< null: not asked for
  DispatchTimes dispatches;
  std::vector<Worker> workers;
  int64_t numLeapt = 0;
};

} // namespace

/// Divides the time from the end of the row until `need` arrives, as Idle.cpp
/// does.
void FullWalk::splitGap(Worker &worker, const Delivery &need) {
  int64_t fromPs = worker.clocks.rowPs, toPs = need.arrivalPs;
  int64_t readyPs = std::clamp(need.readyPs, fromPs, toPs);
  int64_t runBeginPs = std::clamp(need.runBeginPs, fromPs, toPs);
  worker.dependencyPs += readyPs - fromPs;
  worker.queueOrderPs += runBeginPs - readyPs;
  worker.communicationPs += toPs - runBeginPs;
}

void FullWalk::start(const WaveStep &step, uint64_t slot, const Delivery *first,
                     const Delivery *second) {
  Worker &worker = workers[step.row];
  const Delivery *last =
      second && (!first || second->arrivalPs > first->arrivalPs) ? second
                                                                 : first;
  int64_t startPs = worker.clocks.rowPs;
  int64_t freePs = worker.freeClocks.rowPs;
  bool isLate = last && last->arrivalPs > startPs;
  if (isLate) {
    if (worker.hasBegun)
      splitGap(worker, *last);
    startPs = last->arrivalPs;
  }
  for (const Delivery *need : {first, second})
    if (need)
      freePs = std::max(freePs, need->freePs);
  if (worker.hasBegun && !isLate) {
    bindings.bindToRow(step.flat);
  } else if (last && last->arrivalPs == startPs) {
    bindings.bindCell(step.flat, last->producer);
  } else {
    bindings.bindToNothing(step.flat);
  }
  int64_t ps = prices.computePs(step);
  if (!worker.hasBegun)
    worker.firstPs = startPs;
  worker.hasBegun = true;
  worker.busyPs += ps;
  worker.clocks.rowPs = startPs + ps;
  worker.freeClocks.rowPs = freePs + ps;
  slots.start(step, slot);
  if (holdings)
    holdings->start(step, startPs);
  if (LLVM_UNLIKELY(!dispatches.allPs.empty()))
    dispatches.add(step.row, step.cells[0],
                   step.isPair ? std::optional<Cell>(step.cells[1])
                               : std::nullopt,
                   *table.placement, *inputs.costs);
}

void FullWalk::pass(const WaveStep &step, unsigned half, uint32_t toStage,
                    Delivery &item) {
  Worker &from = workers[step.row];
  item.producer = step.flat + half;
  item.readyPs = item.runBeginPs = item.arrivalPs = from.clocks.rowPs;
  item.freePs = from.freeClocks.rowPs;
  if (int32_t to = prices[toStage].worker; to != step.row)
    send(step, half, from, workers[to], item);
}

void FullWalk::send(const WaveStep &step, unsigned half, Worker &from,
                    Worker &to, Delivery &item) {
  const TaskCost &cost = prices.sendOf(step, half);
  int64_t madePs = from.clocks.rowPs, occupancyPs = cost.occupancyPs;
  int64_t sendFreePs = from.clocks.sendPs, receiveFreePs = to.clocks.receivePs;
  int64_t startPs = startMessage(madePs, occupancyPs, prices.hasQueues(),
                                 from.clocks.sendPs, to.clocks.receivePs);
  item.arrivalPs = startPs + occupancyPs + int64_t(cost.latencyPs);
  item.freePs = startMessage(item.freePs, 0, prices.hasQueues(),
                             from.freeClocks.sendPs, to.freeClocks.receivePs);
  uint32_t before = item.producer;
  int64_t runPs = startPs;
  if (prices.hasQueues()) {
    if (startPs != madePs)
      before = startPs == sendFreePs ? from.lastSend : to.lastReceive;
    if (startPs == sendFreePs)
      runPs = std::min(runPs, from.sendRunPs);
    if (startPs == receiveFreePs)
      runPs = std::min(runPs, to.receiveRunPs);
    from.sendRunPs = to.receiveRunPs = runPs;
    from.lastSend = to.lastReceive = item.producer;
  }
  bindings.bindMessage(item.producer, before);
  item.runBeginPs = std::max(madePs, runPs);
}

template <typename Visitor>
void FullWalk::visitState(Visitor &visitor) {
  for (Worker &worker : workers) {
    worker.clocks.visitState(Clock::Time, visitor);
    worker.freeClocks.visitState(Clock::FreeTime, visitor);
    visitor.clock(worker.sendRunPs, Clock::Time);
    visitor.clock(worker.receiveRunPs, Clock::Time);
    visitor.flat(worker.lastSend);
    visitor.flat(worker.lastReceive);
    for (int64_t *ps : {&worker.busyPs, &worker.dependencyPs,
                        &worker.queueOrderPs, &worker.communicationPs})
      visitor.total(*ps);
  }
  for (std::vector<int64_t> *column :
       {&dispatches.allPs, &dispatches.exposedPs})
    for (int64_t &ps : *column)
      visitor.total(ps);
  slots.visitState(visitor);
  if (holdings)
    holdings->visitState(visitor);
}

template <typename Visitor>
void FullWalk::visitItem(Delivery &item, Visitor &visitor) {
  visitor.clock(item.arrivalPs, Clock::Time);
  visitor.clock(item.freePs, Clock::FreeTime);
  visitor.clock(item.readyPs, Clock::Time);
  visitor.clock(item.runBeginPs, Clock::Time);
  visitor.flat(item.producer);
}

WalkedTable FullWalk::take() {
  WalkedTable result;
  for (const Worker &worker : workers) {
    result.makespanPs = std::max(result.makespanPs, worker.clocks.rowPs);
    result.freeMakespanPs =
        std::max(result.freeMakespanPs, worker.freeClocks.rowPs);
  }
  IdleTimes &idle = result.idle;
  idle.offloadPs.assign(workers.size(), 0);
  idle.reloadPs.assign(workers.size(), 0);
  int64_t lastRow = -1;
  for (auto [row, worker] : llvm::enumerate(workers)) {
    int64_t endPs = worker.clocks.rowPs;
    idle.busyPs.push_back(worker.busyPs);
    idle.fillPs.push_back(worker.hasBegun ? worker.firstPs : result.makespanPs);
    idle.drainPs.push_back(worker.hasBegun ? result.makespanPs - endPs : 0);
    idle.dependencyPs.push_back(worker.dependencyPs);
    idle.queueOrderPs.push_back(worker.queueOrderPs);
    idle.communicationPs.push_back(worker.communicationPs);
    idle.firstPs.push_back(worker.firstPs);
    idle.lastPs.push_back(endPs);
    if (lastRow < 0 && worker.hasBegun && endPs == result.makespanPs)
      lastRow = row;
  }
  if (lastRow >= 0 && inputs.numLeftOut == 0)
    result.criticalPath = bindings.trace(lastRow);
  result.dispatches = std::move(dispatches);
  result.dispatches.allPs.resize(workers.size());
  result.dispatches.exposedPs.resize(workers.size());
  result.unitMetrics = slots.take();
  result.numLeapt = numLeapt;
  return result;
}

/// Weights, gradients, optimizer state and activations.
static std::optional<MemoryUsage> addMemory(const Placement &placement,
                                            const MemoryFacts &facts,
                                            const Holdings &holdings) {
  llvm::Expected<MemoryUsage> usage = computePersistentMemory(placement, facts);
  if (!usage) {
    llvm::consumeError(usage.takeError());
    return std::nullopt;
  }
  holdings.takeInto(*usage);
  if (llvm::Error error = finishMemory(*usage)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return std::move(*usage);
}

std::optional<WalkedTable> pipesched::walkTable(const TableView &table,
                                                const PhaseCounts &counts,
                                                const WalkInputs &inputs) {
  std::optional<Holdings> holdings;
  if (inputs.memoryFacts) {
    holdings.emplace(table, *inputs.memoryFacts);
    if (llvm::Error error = holdings->read(table)) {
      llvm::consumeError(std::move(error));
      return std::nullopt;
    }
  }
  FullWalk walk(table, inputs, counts, holdings ? &*holdings : nullptr);
  if (!walkInSlots<Delivery>(table, walk) || !walk.isComplete())
    return std::nullopt;
  WalkedTable result = walk.take();
  if (!holdings)
    return result;
  result.memory = addMemory(*table.placement, *inputs.memoryFacts, *holdings);
  if (!result.memory)
    return std::nullopt;
  return result;
}
