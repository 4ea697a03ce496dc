//===- StepSweep.h - Times of the rows of a step ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the rows of a step from given clocks, and finds the period of steps that
// follow each other without a barrier.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_PROBLEM_STEPSWEEP_H
#define PIPESCHED_LIB_OPTIMIZE_PROBLEM_STEPSWEEP_H

#include "PipeSched/Optimize/Problem/Problem.h"
#include "PipeSched/Schedule/Table/Dependences.h"

namespace pipesched::optimize {

/// A time, and the clock whose value before the step determines it.
struct Moment {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

  int64_t at = kNever;
  uint32_t origin = 0;

  bool isNever() const { return at == kNever; }
  Moment after(int64_t ticks) const {
    return isNever() ? *this : Moment{at + ticks, origin};
  }
  void waitFor(const Moment &other) {
    if (other.at > at)
      *this = other;
  }
};

/// The clocks that a step passes to the next, by worker: when its compute queue
/// and its copy queues are free, and until when joins hold the next compute
/// cell or U.
enum StepClock : uint8_t { Compute, Offloads, Reloads, Hold };
inline constexpr unsigned kNumStepClocks = 4;

/// The cells of a table in an order in which they can run. Besides its queue,
/// each waits for:
///
///   F, B, I   the message from the stage before or behind; B and I: own U
///   R         own U
///   D         own F, and its message
///   U, d, u   a copy
///
/// Needs a valid table and a valid problem.
class StepSweep {
public:
  StepSweep(const Problem &problem, const TableView &table,
            const CellIndex &index);

  /// Runs one step. `clocks`, by worker and StepClock, are those before it and
  /// become those after it.
  void run(llvm::MutableArrayRef<Moment> clocks);

  uint32_t getNumClocks() const { return numClocks; }
  /// Times of the last run by flat index. A join starts when its copy ends.
  llvm::ArrayRef<Moment> getStarts() const { return starts; }
  llvm::ArrayRef<Moment> getEnds() const { return ends; }
  /// How long the busiest compute queue runs in a step.
  int64_t getBusiest() const { return busiest; }

private:
  struct Step {
    Cell cell;
    uint32_t flat = 0;
    uint32_t row = 0;
    uint32_t producer = CellIndex::kNone, copy = CellIndex::kNone;
    int64_t delay = 0; ///< of the producer's message
    int64_t duration = 0;
  };

  Step makeStep(int64_t row, int64_t index, Dependences::Producer producer);
  uint32_t findCopy(Cell cell) const;
  int64_t durationOf(Cell cell) const;
  int64_t delayOf(Cell cell) const;
  Moment startOf(const Step &step, llvm::ArrayRef<Moment> clocks) const;
  unsigned copyClockOf(Cell cell) const {
    return cell.is(Phase::Reload) && !problem.sharedCopyQueue ? Reloads
                                                              : Offloads;
  }

  const Problem &problem;
  const TableView &table;
  const CellIndex &index;
  uint32_t numClocks;
  int64_t busiest = 0;
  std::vector<Step> steps;
  std::vector<Moment> starts, ends; ///< by flat index
};

/// The steady state of steps that follow each other without a barrier.
struct SteadyClocks {
  int64_t period = 0;
  std::vector<Moment> before; ///< the clocks before a step
};

/// Limit on clocks, so that no sum overflows.
inline constexpr int64_t kMaxClock = int64_t(1) << 61;

/// The least period in whole ticks, and clocks that a step delays by at most
/// one period. Needs a makespan of at most kMaxClock. Nothing if clocks exceed
/// that.
std::optional<SteadyClocks> findSteadyClocks(StepSweep &sweep);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_PROBLEM_STEPSWEEP_H
