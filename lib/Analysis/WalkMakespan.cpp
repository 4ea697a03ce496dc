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
#include "WalkRules.h"

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

  MakespanWalk(const TableView &table, llvm::ArrayRef<WalkInputs> scenarios)
      : prices(table, scenarios), workers(table.rows.size()) {}

  Price priceOf(uint32_t stage, Phase phase) const {
    return prices.priceOf(stage, phase);
  }
  LLVM_ATTRIBUTE_ALWAYS_INLINE void
  start(const WaveStep &step, uint64_t, const Price &price, const Item *need) {
    Time &rowPs = workers[step.row].rowPs;
    rowPs = (need ? later(rowPs, need->arrivalPs) : rowPs) +
            prices.computePs(step, price);
  }
  void startPair(const WaveStep &step, uint64_t slot, const Item *first,
                 const Item *second) {
    Time rowPs = workers[step.row].rowPs;
    for (const Item *need : {first, second})
      if (need)
        rowPs = later(rowPs, need->arrivalPs);
    workers[step.row].rowPs = rowPs + prices.pairPs(step);
  }
  void finish(const WaveStep &, uint64_t) {}
  void pass(const WaveStep &step, unsigned, const Price &price, int32_t toRow,
            Item &item) {
    WorkerClocks<Time> &from = workers[step.row];
    item.arrivalPs = from.rowPs;
    if (toRow != step.row) {
      item.arrivalPs =
          startMessage(from.rowPs, price.occupancyPs, prices.hasQueues(),
                       from.sendPs, workers[toRow].receivePs) +
          price.flightPs;
    }
  }

  /// A change of times may be another one for each cell.
  bool canLeap() const { return prices.canLeap(); }
  int64_t numLeftOut() const { return prices.numLeftOut(); }
  int64_t numHeld() const { return 0; }
  template <typename Visitor>
  void visitState(Visitor &visitor) {
    for (WorkerClocks<Time> &worker : workers)
      worker.visitState(Clock::Time, visitor);
  }
  template <typename Visitor>
  void visitItem(Item &item, Visitor &visitor) {
    visitor.clock(item.arrivalPs, Clock::Time);
  }
  ClockValues<Time> clocksOf(uint32_t row) const {
    return {0, workers[row].rowPs, {}};
  }
  void noteLeap(llvm::ArrayRef<LeapedRow>) {}

  /// Every message is taken by a cell, so a cell ends last.
  int64_t makespanPs(unsigned lane) const {
    int64_t last = 0;
    for (const WorkerClocks<Time> &worker : workers)
      last = std::max(last, laneOf(worker.rowPs, lane));
    return last;
  }

private:
  WalkPrices<Time> prices;
  std::vector<WorkerClocks<Time>> workers;
};

struct MakespanQuestion {
  using Answer = int64_t;

  template <typename Time>
  void ask(llvm::ArrayRef<WalkInputs> scenarios,
           llvm::MutableArrayRef<std::optional<int64_t>> answers) const {
    MakespanWalk<Time> walk(table, scenarios);
    if (!walkInSlots<Arrival<Time>>(table, walk))
      return;
    for (auto [lane, answer] : llvm::enumerate(answers))
      answer = walk.makespanPs(lane);
  }
  static int64_t makespanOf(int64_t answer) { return answer; }

  const TableView &table;
};

} // namespace

std::optional<int64_t> pipesched::walkMakespan(const TableView &table,
                                               const WalkInputs &inputs) {
  return walkMakespans(table, inputs).front();
}

std::vector<std::optional<int64_t>>
pipesched::walkMakespans(const TableView &table,
                         llvm::ArrayRef<WalkInputs> scenarios) {
  return askInLanes(MakespanQuestion{table}, scenarios);
}
