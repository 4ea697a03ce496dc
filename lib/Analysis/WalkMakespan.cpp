//===- WalkMakespan.cpp - The makespan alone ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of all that a walk can find, the least: when the last cell ends.
//
//===----------------------------------------------------------------------===//

#include "InLanes.h"
#include "WalkReductions.h"

using namespace pipesched;

namespace {

/// Something under way: when it is there.
template <typename Time>
struct Arrival {
  Time arrivalPs;
};

template <typename Ps>
class MakespanWalk {
public:
  using Time = Ps;
  using Item = Arrival<Time>;
  using Price = WalkPrice<Time>;

  MakespanWalk(const TableView &table, const PhaseCounts &counts,
               llvm::ArrayRef<WalkInputs> scenarios)
      : prices(table, scenarios), workers(table.rows.size()) {
    if (hasCopies(counts))
      copies.emplace(table, counts);
    if (const Collectives *all = scenarios.front().collectives)
      reductions.emplace(*all, prices, table);
    waitsForMore = copies || reductions;
  }

  Price priceOf(uint32_t stage, Phase phase) const {
    return prices.priceOf(stage, phase);
  }
  LLVM_ATTRIBUTE_ALWAYS_INLINE void
  start(const WaveStep &step, uint64_t, const Price &price, const Item *need) {
    if (LLVM_UNLIKELY(waitsForMore))
      waitForMore(step);
    Time &rowPs = workers[step.row].rowPs;
    rowPs = (need ? later(rowPs, need->arrivalPs) : rowPs) +
            prices.computePs(step, price);
  }
  void startPair(const WaveStep &step, uint64_t slot, const Item *first,
                 const Item *second) {
    if (LLVM_UNLIKELY(waitsForMore))
      waitForMore(step);
    Time rowPs = workers[step.row].rowPs;
    for (const Item *need : {first, second})
      if (need)
        rowPs = later(rowPs, need->arrivalPs);
    workers[step.row].rowPs = rowPs + prices.pairPs(step);
  }
  void finish(const WaveStep &, uint64_t) {}
  void pass(const WaveStep &step, unsigned half, const Price &price,
            int32_t toRow, Item &item) {
    WorkerClocks<Time> &from = workers[step.row];
    item.arrivalPs = from.rowPs;
    if (toRow == step.row)
      return;
    item.arrivalPs =
        startMessage(from.rowPs, price.occupancyPs, prices.hasQueues(),
                     from.sendPs, workers[toRow].receivePs) +
        price.flightPs;
    if (LLVM_UNLIKELY(copies))
      copies->send(step, half,
                   {prices.hasQueues() ? from.sendPs : item.arrivalPs});
  }
  bool copy(const WaveStep &step, const Price &price) {
    // Nobody asks for times without communication: they are the same.
    const Time &rowPs = workers[step.row].rowPs;
    return copies->copy(step, price.computePs, {rowPs, rowPs}, Bindings::kNone)
        .has_value();
  }

  void meet(int64_t number, llvm::ArrayRef<WaveStep> steps, uint64_t slot);

  /// A change of times may be another one for each cell.
  bool canLeap() const { return prices.canLeap(); }
  int64_t numLeftOut() const { return prices.numLeftOut(); }
  int64_t numHeld() const { return 0; }
  template <typename Visitor>
  void visitState(Visitor &visitor) {
    for (WorkerClocks<Time> &worker : workers)
      worker.visitState(Clock::Time, visitor);
    if (copies)
      copies->visitState(visitor);
  }
  template <typename Visitor>
  void visitItem(Item &item, Visitor &visitor) {
    visitor.clock(item.arrivalPs, Clock::Time);
  }
  ClockValues<Time> clocksOf(uint32_t row) const {
    return {0, workers[row].rowPs, workers[row].rowPs};
  }
  void noteLeap(llvm::ArrayRef<LeapedRow>) {}

  /// Every message is taken by a cell, and every copy, so a cell ends last.
  int64_t makespanPs(unsigned lane) const {
    int64_t last = 0;
    for (const WorkerClocks<Time> &worker : workers)
      last = std::max(last, laneOf(worker.rowPs, lane));
    if (reductions)
      last = std::max(last, laneOf(reductions->getLast().arrivalPs, lane));
    return last;
  }
  bool isValid() const { return !isBroken; }

private:
  void waitForMore(const WaveStep &step);

  WalkPrices<Time> prices;
  std::optional<WalkCopies<Time>> copies;         ///< if the table has some
  std::optional<WalkReductions<Time>> reductions; ///< likewise
  bool waitsForMore = false; ///< cells wait for copies or all-reduces
  bool isBroken = false;     ///< something is where it cannot be
  std::vector<WorkerClocks<Time>> workers;
};

} // namespace

template <typename Time>
void MakespanWalk<Time>::waitForMore(const WaveStep &step) {
  Time &rowPs = workers[step.row].rowPs;
  auto wait = [&](const Delivery<Time> &need) {
    rowPs = later(rowPs, need.arrivalPs);
  };
  if (reductions && reductions->isAwaited(step)) {
    if (const Delivery<Time> *need = reductions->needOf(step))
      wait(*need);
    else
      isBroken = true;
  }
  if (!copies)
    return;
  for (unsigned half = 0; half <= unsigned(step.isPair); ++half)
    copies->forNeeds(step, half, wait);
  isBroken |= !copies->start(step);
}

template <typename Time>
void MakespanWalk<Time>::meet(int64_t number, llvm::ArrayRef<WaveStep> steps,
                              uint64_t) {
  Time startPs{};
  for (const WaveStep &step : steps) {
    const WorkerClocks<Time> &worker = workers[step.row];
    startPs = later(startPs, worker.rowPs);
    if (prices.hasQueues())
      startPs = later(startPs, later(worker.sendPs, worker.receivePs));
  }
  WalkPrice<Time> price = reductions->priceOf(number, steps.front());
  if (prices.hasQueues())
    for (const WaveStep &step : steps)
      workers[step.row].sendPs = workers[step.row].receivePs =
          startPs + price.occupancyPs;
  Delivery<Time> done;
  done.arrivalPs = startPs + price.flightPs;
  reductions->note(steps, done);
}

namespace {

struct MakespanQuestion {
  using Answer = int64_t;

  template <typename Time>
  void ask(llvm::ArrayRef<WalkInputs> scenarios,
           llvm::MutableArrayRef<std::optional<int64_t>> answers) const {
    MakespanWalk<Time> walk(table, counts, scenarios);
    if (!walkInSlots<Arrival<Time>>(table, scenarios.front().collectives,
                                    walk) ||
        !walk.isValid())
      return;
    for (auto [lane, answer] : llvm::enumerate(answers))
      answer = walk.makespanPs(lane);
  }
  static int64_t makespanOf(int64_t answer) { return answer; }

  const TableView &table;
  const PhaseCounts &counts;
};

} // namespace

std::optional<int64_t> pipesched::walkMakespan(const TableView &table,
                                               const PhaseCounts &counts,
                                               const WalkInputs &inputs) {
  return walkMakespans(table, counts, inputs).front();
}

std::vector<std::optional<int64_t>>
pipesched::walkMakespans(const TableView &table, const PhaseCounts &counts,
                         llvm::ArrayRef<WalkInputs> scenarios) {
  return askInLanes(MakespanQuestion{table, counts}, scenarios);
}
