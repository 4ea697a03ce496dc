//===- WalkTable.cpp - Level 3 of a table, without a graph ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The handler of a walk that computes all results: times and idle causes here,
// slots in SlotCounts, copies in WalkCopies, all-reduces in WalkReductions,
// memory in Holdings, and the waits of each task in Bindings.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Holdings.h"
#include "InLanes.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "SlotCounts.h"
#include "WalkCopies.h"
#include <deque>

using namespace pipesched;

namespace {

/// The all-reduces of a table. An all-reduce runs alongside the rows of its
/// group. It starts when all of these rows are free, or earlier by the lead
/// that its cost states. If messages have queues, it also waits until the
/// all-reduce queues of these workers are free:
///
///   row 0       | W | F | .. | O |      the rows continue; O waits
///   row 1    | W |  F  |       | O |
///   queues          | V/BW | L |
template <typename Time>
class WalkReductions {
public:
  WalkReductions(const Groups &all, const WalkCosts<Time> &costs,
                 const TableView &table)
      : all(all), costs(costs),
        arrivals(table.placement->getNumGlobalStages()) {}

  /// The cost of an all-reduce, without `computePs`.
  WalkCost<Time> costOf(int64_t number, const WaveStep &first) const;
  /// Records the timed all-reduce of these steps.
  void note(llvm::ArrayRef<WaveStep> steps, const Delivery<Time> &done) {
    for (const WaveStep &step : steps)
      arrivals[step.stage(0)].add(done);
    int64_t behind = laneOf(done.arrivalPs, 0) - laneOf(last.arrivalPs, 0);
    if (behind > 0 || (behind == 0 && steps.front().row <= lastRow)) {
      last.producer = done.producer;
      lastRow = steps.front().row;
    }
    last.arrivalPs = later(last.arrivalPs, done.arrivalPs);
    last.freePs = later(last.freePs, done.freePs);
  }
  /// Whether a cell waits for an all-reduce.
  bool isAwaited(const WaveStep &step) const {
    return step.cells[0].is(Phase::Optimizer) &&
           all.indexOf(Phase::AllReduce, step.stage(0)) >= 0;
  }
  /// The all-reduce that a cell waits for, or null if it has not been timed.
  const Delivery<Time> *needOf(const WaveStep &step) const {
    return arrivals[step.stage(0)].get();
  }
  /// The all-reduce that arrives last. On ties, it is the one with the lowest
  /// first row.
  const Delivery<Time> &getLast() const { return last; }

private:
  const Groups &all;
  const WalkCosts<Time> &costs;
  std::vector<LastOf<Time>> arrivals; ///< by global stage
  Delivery<Time> last;
  int32_t lastRow = std::numeric_limits<int32_t>::max();
};

template <typename Time>
WalkCost<Time> WalkReductions<Time>::costOf(int64_t number,
                                            const WaveStep &first) const {
  WalkCost<Time> result;
  for (unsigned lane = 0; lane != kNumScenarios<Time>; ++lane) {
    const WalkInputs &scenario = costs.scenarioOf(lane);
    const StageCosts &stageCosts = *scenario.costs;
    MessageCost cost;
    if (stageCosts.reductions.empty())
      cost.occupancyPs =
          stageCosts.stages[first.stage(0)].cells.alonePs(Phase::AllReduce);
    else
      cost = stageCosts.reductions[number];
    TaskCost charged = chargeMessage(cost, scenario.transport);
    setLane(result.occupancyPs, lane, charged.occupancyPs);
    setLane(result.flightPs, lane, charged.occupancyPs + charged.latencyPs);
    setLane(result.aheadPs, lane, charged.aheadPs);
  }
  return result;
}

/// Computes all results in one walk. Each step of a row, and each message,
/// needs two answers:
///
///   row       | cell ... |     gap     | cell       start: end of the gap?
///   message       | made | queued | V/BW | L |      pass: cause of a delay?
///
/// It times one scenario or several. All scenarios share rows and slots;
/// without copies they also share bytes.
template <typename Ps>
class FullWalk {
public:
  using Time = Ps;
  using Item = Delivery<Time>;
  using Cost = WalkCost<Time>;

  FullWalk(const TableView &table, llvm::ArrayRef<WalkInputs> scenarios,
           const PhaseCounts &counts);

  Cost costOf(uint32_t stage, Phase phase) const {
    return costs.costOf(stage, phase);
  }
  void start(const WaveStep &step, uint64_t slot, const Cost &cost,
             const Item *need) {
    if (LLVM_UNLIKELY(waitsForMore))
      return startWithMore(step, slot, {need, nullptr},
                           costs.computePs(step, cost));
    startAfter(step, slot, need, costs.computePs(step, cost));
  }
  void startPair(const WaveStep &step, uint64_t slot, const Item *first,
                 const Item *second);
  void finish(const WaveStep &step, uint64_t slot) {
    slots.finish(step, slot);
    if (LLVM_UNLIKELY(reductions) && step.cells->isIn(kCollectivePhases))
      return;
    const Time &endPs = workers[step.row].clocks.rowPs;
    for (Holdings<Time> &each : holdings)
      each.finish(step, endPs);
    for (TimedHoldings &each : timedHoldings)
      each.finish(step, laneOf(endPs, each.getLane()));
  }
  void pass(const WaveStep &step, unsigned half, const Cost &cost,
            int32_t toRow, Item &item);
  bool copy(const WaveStep &step, const Cost &cost);
  void meet(int64_t number, llvm::ArrayRef<WaveStep> steps, uint64_t slot);

  bool canLeap() const { return costs.canLeap(); }
  int64_t numHeld() const { return slots.numLive(); }
  template <typename Visitor>
  void visitState(Visitor &visitor);
  template <typename Visitor>
  void visitItem(Item &item, Visitor &visitor) {
    item.visitState(visitor);
  }
  ClockValues<Time> clocksOf(uint32_t row) const {
    return {0, workers[row].clocks.rowPs, workers[row].freeClocks.rowPs};
  }
  void noteLeap(llvm::ArrayRef<LeapedRow> rows) {
    if (bindings)
      bindings->noteLeap(rows);
    for (const LeapedRow &row : rows)
      numLeapt += row.count * row.length;
  }

  bool hasLeapt() const { return numLeapt != 0; }
  /// The results of a lane; nothing if bytes exceed int64, or if a cell did not
  /// find its inputs.
  std::optional<WalkedTable> take(unsigned lane);

private:
  struct Worker {
    WorkerClocks<Time> clocks;
    WorkerClocks<Time> freeClocks; ///< as if communication took no time
    /// For each queue: the start of its gapless run of transfers, and its last
    /// message.
    Time sendRunPs{}, receiveRunPs{}, collectRunPs{};
    uint32_t lastSend = Bindings::kNone, lastReceive = Bindings::kNone;
    uint32_t lastCollective = Bindings::kNone;
    bool hasBegun = false;
    Time busyPs{}, firstPs{};
    Time dependencyPs{}, queueOrderPs{}, communicationPs{};
    Time offloadPs{}, reloadPs{};
  };

  void addHoldings(const PhaseCounts &counts);
  void startWithMore(const WaveStep &step, uint64_t slot,
                     std::array<const Item *, 2> needs, const Time &ps);
  void startAfter(const WaveStep &step, uint64_t slot, const Item *last,
                  const Time &ps);
  void bind(const WaveStep &step, const Worker &worker, const Item *last);
  void splitGap(Worker &worker, const Item &need);
  void addDispatches(const WaveStep &step);
  void send(const Cost &cost, const Time &aheadPs, Worker &from, Worker &to,
            Item &item);
  Item leftAt(const Worker &from, const Item &item) const;
  Item timeMeeting(llvm::ArrayRef<WaveStep> steps, const Cost &cost);
  void bindMeeting(llvm::ArrayRef<WaveStep> steps, const Time &startPs,
                   const Cost &cost);
  void bindMessage(const Worker &from, const Worker &to, const Item &item,
                   const Time &startPs, const Time &madePs,
                   const Time &sendFreePs);
  IdleTimes idleOf(unsigned lane, int64_t makespanPs) const;
  std::vector<PathStep> pathTo(int64_t makespanPs) const;
  std::optional<MemoryUsage> memoryOf(unsigned lane);

  const TableView &table;
  WalkCosts<Time> costs;
  std::optional<Bindings> bindings; ///< only if the critical path is wanted
  SlotCounts slots;
  std::optional<WalkCopies<Time>> copies;         ///< if the table has copies
  std::optional<WalkReductions<Time>> reductions; ///< if the table has G cells
  bool waitsForMore = false; ///< cells wait for copies or all-reduces
  /// One for all scenarios with equal activations.
  std::deque<Holdings<Time>> holdings;
  std::deque<TimedHoldings> timedHoldings; ///< with copies: one for each lane
  std::vector<int64_t> holdingsOfLane;     ///< -1: not wanted
  bool hasDispatches;
  std::vector<std::vector<Exchange>> dispatches; ///< by lane and worker
  std::vector<Worker> workers;
  int64_t numLeapt = 0;
  /// The walk met an entry that a valid table cannot have.
  bool isBroken = false;
};

} // namespace

template <typename Time>
FullWalk<Time>::FullWalk(const TableView &table,
                         llvm::ArrayRef<WalkInputs> scenarios,
                         const PhaseCounts &counts)
    : table(table), costs(table, scenarios), slots(table, counts),
      hasDispatches(llvm::any_of(scenarios,
                                 [](const WalkInputs &scenario) {
                                   return scenario.costs->useAny(
                                       Resource::Experts);
                                 })),
      dispatches(scenarios.size()), workers(table.rows.size()) {
  if (kNumScenarios<Time> == 1 && scenarios.front().wantsPath)
    bindings.emplace(table);
  for (std::vector<Exchange> &each : dispatches)
    each.resize(workers.size());
  if (hasCopies(counts))
    copies.emplace(table, counts);
  if (const Groups *all = scenarios.front().groups)
    reductions.emplace(*all, costs, table);
  waitsForMore = copies || reductions;
  addHoldings(counts);
}

template <typename Time>
void FullWalk<Time>::addHoldings(const PhaseCounts &counts) {
  std::vector<const MemoryFacts *> kinds;
  for (unsigned lane = 0; lane != dispatches.size(); ++lane) {
    const MemoryFacts *facts = costs.scenarioOf(lane).memoryFacts;
    if (!facts) {
      holdingsOfLane.push_back(-1);
      continue;
    }
    if (copies) {
      holdingsOfLane.push_back(timedHoldings.size());
      timedHoldings.emplace_back(table, counts, *facts, lane);
      continue;
    }
    auto equal = llvm::find_if(kinds, [&](const MemoryFacts *kind) {
      return holdsTheSame(*kind, *facts);
    });
    holdingsOfLane.push_back(equal - kinds.begin());
    if (equal != kinds.end())
      continue;
    kinds.push_back(facts);
    holdings.emplace_back(table, counts, *facts);
  }
}

/// Divides the time from the end of the row until `need` arrives, like
/// Idle.cpp. If `need` arrived earlier, there is no such time.
template <typename Time>
LLVM_ATTRIBUTE_ALWAYS_INLINE void FullWalk<Time>::splitGap(Worker &worker,
                                                           const Item &need) {
  const Time &fromPs = worker.clocks.rowPs;
  Time toPs = later(fromPs, need.arrivalPs);
  Time readyPs = earlier(later(need.readyPs, fromPs), toPs);
  Time runBeginPs = earlier(later(need.runBeginPs, fromPs), toPs);
  worker.dependencyPs += readyPs - fromPs;
  worker.queueOrderPs += runBeginPs - readyPs;
  worker.communicationPs += toPs - runBeginPs;
}

template <typename Time>
void FullWalk<Time>::bind(const WaveStep &step, const Worker &worker,
                          const Item *last) {
  int64_t rowPs = laneOf(worker.clocks.rowPs, 0);
  int64_t arrivalPs = last ? laneOf(last->arrivalPs, 0) : -1;
  uint32_t flat = bindings->flatOf(step);
  if (worker.hasBegun && arrivalPs <= rowPs)
    bindings->bindToRow(flat);
  else if (last && arrivalPs >= rowPs)
    bindings->bindCell(flat, last->producer);
  else
    bindings->bindToNothing(flat);
}

template <typename Time>
void FullWalk<Time>::addDispatches(const WaveStep &step) {
  std::optional<Cell> second;
  if (step.isPair)
    second = step.cells[1];
  for (auto [lane, each] : llvm::enumerate(dispatches))
    isBroken |= !costs.scenarioOf(lane).costs->addDispatches(
        *table.placement, step.cells[0], second, each[step.row]);
}

/// Starts a step that takes `ps` when its row is free and `last` has arrived.
/// `last` is null if the step needs no input.
template <typename Time>
LLVM_ATTRIBUTE_ALWAYS_INLINE void
FullWalk<Time>::startAfter(const WaveStep &step, uint64_t slot,
                           const Item *last, const Time &ps) {
  Worker &worker = workers[step.row];
  if (bindings)
    bind(step, worker, last);
  Time startPs = worker.clocks.rowPs, freePs = worker.freeClocks.rowPs;
  if (last) {
    if (worker.hasBegun)
      splitGap(worker, *last);
    startPs = later(startPs, last->arrivalPs);
    freePs = later(freePs, last->freePs);
  }
  if (!worker.hasBegun)
    worker.firstPs = startPs;
  worker.hasBegun = true;
  worker.busyPs += ps;
  worker.clocks.rowPs = startPs + ps;
  worker.freeClocks.rowPs = freePs + ps;
  slots.start(step, slot);
  for (Holdings<Time> &each : holdings)
    each.start(step, startPs);
  for (TimedHoldings &each : timedHoldings)
    each.start(step, laneOf(startPs, each.getLane()));
  if (LLVM_UNLIKELY(hasDispatches))
    addDispatches(step);
}

/// A pair waits for the later of its two inputs, or for the first if both
/// arrive together.
template <typename Time>
void FullWalk<Time>::startPair(const WaveStep &step, uint64_t slot,
                               const Item *one, const Item *other) {
  const Time &ps = costs.pairPs(step);
  if (LLVM_UNLIKELY(waitsForMore))
    return startWithMore(step, slot, {one, other}, ps);
  if (!one || !other)
    return startAfter(step, slot, one ? one : other, ps);
  Item last = laterOf(*one, *other);
  startAfter(step, slot, &last, ps);
}

/// Cells also wait for all-reduces (O), for reloads, and for copies that joins
/// name.
template <typename Time>
void FullWalk<Time>::startWithMore(const WaveStep &step, uint64_t slot,
                                   std::array<const Item *, 2> needs,
                                   const Time &ps) {
  LastOf<Time> last;
  if (reductions && reductions->isAwaited(step)) {
    needs[0] = reductions->needOf(step);
    isBroken |= !needs[0];
  }
  for (unsigned half = 0; half <= unsigned(step.isPair); ++half) {
    if (needs[half])
      last.add(*needs[half]);
    if (copies)
      copies->forNeeds(step, half, [&](const Item &need) { last.add(need); });
  }
  if (copies)
    isBroken |= !copies->start(step);
  startAfter(step, slot, last.get(), ps);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

template <typename Time>
void FullWalk<Time>::pass(const WaveStep &step, unsigned half, const Cost &cost,
                          int32_t toRow, Item &item) {
  Worker &from = workers[step.row];
  if (bindings)
    item.producer = bindings->flatOf(step) + half;
  item.readyPs = item.runBeginPs = item.arrivalPs = from.clocks.rowPs;
  item.freePs = from.freeClocks.rowPs;
  if (toRow == step.row)
    return;
  send(cost, costs.aheadPs(step, cost), from, workers[toRow], item);
  if (LLVM_UNLIKELY(copies))
    copies->send(step, half, leftAt(from, item));
}

/// Returns the time at which a message has left the queues of its sender. If
/// messages have no queues, it is the arrival.
template <typename Time>
Delivery<Time> FullWalk<Time>::leftAt(const Worker &from,
                                      const Item &item) const {
  Item left = item;
  if (costs.hasQueues()) {
    left.arrivalPs = from.clocks.sendPs;
    left.freePs = from.freeClocks.sendPs;
  }
  return left;
}

template <typename Time>
void FullWalk<Time>::send(const Cost &cost, const Time &aheadPs, Worker &from,
                          Worker &to, Item &item) {
  const Time &endPs = from.clocks.rowPs;
  Time madePs = endPs - aheadPs;
  Time sendFreePs = from.clocks.sendPs, receiveFreePs = to.clocks.receivePs;
  Time startPs = startMessage(madePs, cost.occupancyPs, costs.hasQueues(),
                              from.clocks.sendPs, to.clocks.receivePs);
  item.arrivalPs = startPs + cost.flightPs;
  item.freePs = startMessage(item.freePs, Time{}, costs.hasQueues(),
                             from.freeClocks.sendPs, to.freeClocks.receivePs);
  if (bindings)
    bindMessage(from, to, item, startPs, madePs, sendFreePs);
  if (!costs.hasQueues())
    return;
  Time runPs = whereEqual(startPs, sendFreePs, earlier(startPs, from.sendRunPs),
                          startPs);
  runPs = whereEqual(startPs, receiveFreePs, earlier(runPs, to.receiveRunPs),
                     runPs);
  from.sendRunPs = to.receiveRunPs = runPs;
  from.lastSend = to.lastReceive = item.producer;
  item.runBeginPs = later(endPs, runPs);
}

/// Records whether a message waited for its cell or for its predecessor in a
/// queue.
template <typename Time>
void FullWalk<Time>::bindMessage(const Worker &from, const Worker &to,
                                 const Item &item, const Time &startPs,
                                 const Time &madePs, const Time &sendFreePs) {
  uint32_t before = item.producer;
  if (laneOf(startPs, 0) != laneOf(madePs, 0))
    before = laneOf(startPs, 0) == laneOf(sendFreePs, 0) ? from.lastSend
                                                         : to.lastReceive;
  bindings->bindMessage(item.producer, before);
}

//===----------------------------------------------------------------------===//
// Copies and all-reduces
//===----------------------------------------------------------------------===//

/// Computes the time of a D or U when its row passes it, or records a join.
template <typename Time>
bool FullWalk<Time>::copy(const WaveStep &step, const Cost &cost) {
  Worker &worker = workers[step.row];
  Item row;
  row.arrivalPs = worker.clocks.rowPs;
  row.freePs = worker.freeClocks.rowPs;
  uint32_t flat = bindings ? bindings->flatOf(step) : Bindings::kNone;
  const Time &ps = costs.computePs(step, cost);
  auto copied = copies->copy(step, ps, row, flat);
  if (!copied || step.cells->isJoin())
    return copied.has_value();
  (step.cells->is(Phase::Offload) ? worker.offloadPs : worker.reloadPs) += ps;
  for (TimedHoldings &each : timedHoldings)
    each.copy(step, laneOf(copied->startPs, each.getLane()),
              laneOf(copied->endPs, each.getLane()));
  if (bindings && copied->waitedFor == WalkCopies<Time>::kRow)
    bindings->bindToRow(flat);
  else if (bindings)
    bindings->bindCell(flat, copied->waitedFor);
  return true;
}

/// Computes the time of an all-reduce whose group has met. It enters the
/// all-reduce queues of its workers.
template <typename Time>
void FullWalk<Time>::meet(int64_t number, llvm::ArrayRef<WaveStep> steps,
                          uint64_t slot) {
  for (const WaveStep &step : steps)
    slots.start(step, slot);
  reductions->note(
      steps, timeMeeting(steps, reductions->costOf(number, steps.front())));
}

template <typename Time>
Delivery<Time> FullWalk<Time>::timeMeeting(llvm::ArrayRef<WaveStep> steps,
                                           const Cost &cost) {
  Item done;
  for (const WaveStep &step : steps) {
    done.readyPs = later(done.readyPs, workers[step.row].clocks.rowPs);
    done.freePs = later(done.freePs, workers[step.row].freeClocks.rowPs);
  }
  Time startPs = later(done.readyPs - cost.aheadPs, Time{});
  if (costs.hasQueues())
    for (const WaveStep &step : steps) {
      const Worker &worker = workers[step.row];
      startPs = later(startPs, worker.clocks.collectPs);
      done.freePs = later(done.freePs, worker.freeClocks.collectPs);
    }
  done.arrivalPs = startPs + cost.flightPs;
  if (bindings) {
    done.producer = bindings->flatOf(steps.front());
    bindMeeting(steps, startPs, cost);
  }
  done.runBeginPs = later(startPs, done.readyPs);
  if (!costs.hasQueues())
    return done;
  done.runBeginPs = startPs;
  for (const WaveStep &step : steps) {
    const Worker &worker = workers[step.row];
    done.runBeginPs = whereEqual(startPs, worker.clocks.collectPs,
                                 earlier(done.runBeginPs, worker.collectRunPs),
                                 done.runBeginPs);
  }
  for (const WaveStep &step : steps) {
    Worker &worker = workers[step.row];
    worker.clocks.collectPs = startPs + cost.occupancyPs;
    worker.freeClocks.collectPs = done.freePs;
    worker.collectRunPs = done.runBeginPs;
    worker.lastCollective = done.producer;
  }
  done.runBeginPs = later(done.readyPs, done.runBeginPs);
  return done;
}

/// Records the cause of an all-reduce's wait: its predecessor in a queue, or a
/// row. If several of its workers delayed it, the first one counts.
template <typename Time>
void FullWalk<Time>::bindMeeting(llvm::ArrayRef<WaveStep> steps,
                                 const Time &startPs, const Cost &cost) {
  uint32_t meeting = bindings->flatOf(steps.front());
  int64_t start = laneOf(startPs, 0), ahead = laneOf(cost.aheadPs, 0);
  for (const WaveStep &step : steps) {
    const Worker &worker = workers[step.row];
    if (costs.hasQueues() && worker.lastCollective != Bindings::kNone &&
        laneOf(worker.clocks.collectPs, 0) == start)
      return bindings->bindMeeting(meeting, worker.lastCollective,
                                   Bindings::kNone);
    if (worker.hasBegun && laneOf(worker.clocks.rowPs, 0) - ahead == start)
      return bindings->bindMeeting(meeting, Bindings::kNone,
                                   bindings->flatOf(step));
  }
  bindings->bindMeeting(meeting, Bindings::kNone, Bindings::kNone);
}

//===----------------------------------------------------------------------===//
// Periods
//===----------------------------------------------------------------------===//

template <typename Time>
template <typename Visitor>
void FullWalk<Time>::visitState(Visitor &visitor) {
  for (Worker &worker : workers) {
    worker.clocks.visitState(Clock::Time, visitor);
    worker.freeClocks.visitState(Clock::FreeTime, visitor);
    visitor.clock(worker.sendRunPs, Clock::Time);
    visitor.clock(worker.receiveRunPs, Clock::Time);
    visitor.clock(worker.collectRunPs, Clock::Time);
    visitor.flat(worker.lastSend);
    visitor.flat(worker.lastReceive);
    visitor.flat(worker.lastCollective);
    for (Time *ps :
         {&worker.busyPs, &worker.dependencyPs, &worker.queueOrderPs,
          &worker.communicationPs, &worker.offloadPs, &worker.reloadPs})
      visitor.total(*ps);
  }
  if (hasDispatches)
    for (std::vector<Exchange> &each : dispatches)
      for (Exchange &rows : each) {
        visitor.total(rows.ps);
        visitor.total(rows.exposedPs);
      }
  slots.visitState(visitor);
  if (copies)
    copies->visitState(visitor);
  for (Holdings<Time> &each : holdings)
    each.visitState(visitor);
  Time reference = workers.front().clocks.rowPs;
  for (TimedHoldings &each : timedHoldings)
    each.visitState(visitor, reference);
}

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

/// Returns the path to the first row that ends last, or to the all-reduce that
/// ends last.
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
    // A leap may be wrong here. The memory of an F depends on its R. The R may
    // come after the repeating part, so that a backward found activations of
    // another period. So walk again and visit each cell.
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
