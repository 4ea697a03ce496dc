//===- SharedState.h - What the tasks of one search share -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The limits of one call of solve(), and what its tasks have reached.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_SHAREDSTATE_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_SHAREDSTATE_H

#include "../Evaluator/Evaluator.h"
#include "PipeSched/Optimize/Problem/Solution.h"
#include "PipeSched/Optimize/Search/Solver.h"
#include <chrono>
#include <limits>
#include <mutex>

namespace pipesched::optimize {

/// The best solution so far and what found it. Among equally good solutions the
/// first one offered stays.
class BestSolution {
public:
  explicit BestSolution(const Problem &problem) : problem(problem) {}

  explicit operator bool() const { return solution.has_value(); }
  /// kInfeasible: there is no solution yet.
  int64_t getObjective() const {
    return solution ? objectiveOf(problem, *solution) : kInfeasible;
  }
  const std::string &getOrigin() const { return origin; }
  Solution take() { return std::move(*solution); }

  /// Times the rows, and takes them if they are better and keep all rules.
  void offer(llvm::ArrayRef<Row> rows, llvm::StringRef origin);
  void offer(Solution offered, llvm::StringRef origin);

private:
  const Problem &problem;
  std::optional<Solution> solution;
  std::string origin;
};

/// Tasks run in rounds. The tasks of a round have ranks: the proof has rank 0,
/// search i has rank i + 1.
///
/// With a limit on evaluations the result must not depend on which task is
/// faster. Therefore the bound that tasks compare with changes only between
/// rounds, and a task that reaches its goal stops only tasks of higher ranks,
/// whose results of this round are then ignored.
class SharedState {
public:
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

  explicit SharedState(const SolverOptions &options) : options(options) {}

  double seconds() const;
  bool hasTime() const {
    return options.timeLimitSeconds <= 0 ||
           seconds() < options.timeLimitSeconds;
  }
  bool isInterrupted() const {
    return options.interrupted && *options.interrupted;
  }
  /// Whether evaluations are limited.
  bool isRepeatable() const { return options.maxEvaluations > 0; }

  /// Whether the objective is the bound or within the gap that was asked for.
  bool isGoal(int64_t objective) const;
  /// Starts a round. No task may run meanwhile.
  void startRound();
  /// Records that a task has a solution with this objective.
  void tell(uint32_t rank, int64_t objective);
  /// Records that the proof has ended; its best known solution has this
  /// objective.
  void endProof(int64_t known);
  /// Records that no schedule is below `value`. Running tasks see it only if
  /// results need not be repeatable.
  void raiseBound(int64_t value, llvm::StringRef name);
  /// The best lower bound. Only a proof may ask for it while tasks run.
  int64_t getBound() {
    std::lock_guard<std::mutex> guard(lock);
    return bound;
  }
  /// Whether the task of that rank has to end its round.
  bool mustStop(uint32_t rank) const;
  /// The least rank of this round that has reached the goal, or kNoRank.
  uint32_t getFirstDone() const { return firstDone; }

  void count(uint64_t more) { evaluations += more; }
  /// Reports progress if the last report is long enough ago.
  void report();

  /// Writes the bound, times and counts.
  void fill(SolverResult &result);

  const SolverOptions &options;

private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point start = Clock::now();
  std::atomic<int64_t> best = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> goalBound = 0; ///< what tasks compare with
  std::atomic<uint64_t> evaluations = 0;
  std::atomic<uint32_t> firstDone = kNoRank;
  // Under the lock.
  std::mutex lock;
  int64_t bound = 0;
  std::string boundName;
  double secondsToBest = 0, lastReport = 0;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_SHAREDSTATE_H
