//===- StepSweep.h - Times of the rows of a step ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the rows of a step from given times of their queues, and finds the
// period of steps that follow each other.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_PROBLEM_STEPSWEEP_H
#define PIPESCHED_LIB_OPTIMIZE_PROBLEM_STEPSWEEP_H

#include "PipeSched/Optimize/Problem.h"
#include "PipeSched/Schedule/Dependences.h"

namespace pipesched::optimize {

/// A time, and the queue whose time before the step it follows from.
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

/// What a step hands on to the next, by worker: when its compute queue is free,
/// when its copy queues are, and until when joins hold the next compute cell.
enum Queue : uint8_t { Compute, Offloads, Reloads, Hold };
inline constexpr unsigned kNumQueues = 4;

/// The cells of a table in an order in which they can run, with what each waits
/// for outside its queue:
///
///   F, B, I   the cell of the stage before or behind, and the message; own U
///   R         own U
///   U, d, u   a copy
///
/// Needs a table that verifies, of a problem that does.
class StepSweep {
public:
  StepSweep(const Problem &problem, const TableView &table,
            const CellIndex &index);

  /// One step. `queues`, by worker and Queue, are times before it and become
  /// those after it.
  void run(llvm::MutableArrayRef<Moment> queues);

  uint32_t getNumQueues() const { return numQueues; }
  /// By flat index, of the last run. A join starts when it is met.
  llvm::ArrayRef<Moment> getStarts() const { return starts; }
  llvm::ArrayRef<Moment> getEnds() const { return ends; }
  /// Time for which the busiest compute queue runs in a step.
  int64_t getBusiest() const { return busiest; }

private:
  struct Step {
    Cell cell;
    uint32_t flat = 0;
    uint32_t row = 0;
    uint32_t producer = CellIndex::kNone, copy = CellIndex::kNone;
    int64_t delay = 0;        ///< of the producer's message
    bool holdsCompute = true; ///< a join: not one that holds a reload
    int64_t duration = 0;
  };

  Step makeStep(int64_t row, int64_t index, Dependences::Producer producer);
  bool isBeforeReload(int64_t row, int64_t index) const;
  uint32_t findCopy(Cell cell) const;
  int64_t durationOf(Cell cell) const;
  int64_t delayOf(Cell cell) const;
  Moment startOf(const Step &step, llvm::ArrayRef<Moment> queues) const;
  unsigned copyQueueOf(Cell cell) const {
    return cell.is(Phase::Reload) && !problem.sharedCopyQueue ? Reloads
                                                              : Offloads;
  }

  const Problem &problem;
  const TableView &table;
  const CellIndex &index;
  uint32_t numQueues;
  int64_t busiest = 0;
  std::vector<Step> steps;
  std::vector<Moment> starts, ends; ///< by flat index
};

/// Steps that follow each other without a barrier.
struct SteadyQueues {
  int64_t period = 0;
  std::vector<Moment> before; ///< times of the queues before a step
};

/// Longer times are too close to int64.
inline constexpr int64_t kMaxQueueTime = int64_t(1) << 61;

/// The least whole period, and times of the queues from which a step ends no
/// later than those times one period on. Needs a makespan of kMaxQueueTime at
/// most. Nothing: times of queues are above that.
std::optional<SteadyQueues> findSteadyQueues(StepSweep &sweep);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_PROBLEM_STEPSWEEP_H
