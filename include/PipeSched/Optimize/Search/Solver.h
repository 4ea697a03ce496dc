//===- Solver.h - Search for schedules --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs constructive heuristics, seeds, local search, bounds and exact search in
// one call (docs/Optimize.md, the methods).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SEARCH_SOLVER_H
#define PIPESCHED_OPTIMIZE_SEARCH_SOLVER_H

#include "PipeSched/Optimize/Problem/Solution.h"
#include <atomic>
#include <limits>

namespace llvm {
class ThreadPoolInterface;
} // namespace llvm

namespace pipesched::optimize {

enum class Status : uint8_t {
  Optimal,     ///< proven: the schedule meets the lower bound
  GapReached,  ///< within the gap of the options
  TimeLimit,   ///< the best schedule found within the limits
  Interrupted, ///< the best schedule found before the search was stopped
};

} // namespace pipesched::optimize

namespace pipesched {
template <>
struct EnumNames<optimize::Status> {
  static constexpr EnumName<optimize::Status> values[] = {
      {optimize::Status::Optimal, "optimal", "Proven: the lower bound is met"},
      {optimize::Status::GapReached, "gap-reached",
       "Within the gap that was asked for"},
      {optimize::Status::TimeLimit, "time-limit",
       "The best that was found in time"},
      {optimize::Status::Interrupted, "interrupted",
       "The best that was found before it was stopped"}};
};
} // namespace pipesched

namespace pipesched::optimize {

struct Progress {
  double seconds = 0;
  int64_t best = 0, lowerBound = 0; ///< in ticks, of the objective
  uint64_t evaluations = 0;
};

inline constexpr uint64_t kDefaultMaxEvaluations = 2'000'000;
inline constexpr double kNoTimeLimit = std::numeric_limits<double>::infinity();

struct SolverOptions {
  /// The time limit. 0: only seeds and heuristics. A finite limit makes the
  /// result depend on the machine.
  double timeLimitSeconds = kNoTimeLimit;
  /// The part of the time limit that making seeds took.
  double setupSeconds = 0;
  double gap = 0; ///< stop at best <= (1 + gap) x lower bound
  uint64_t seed = 0;
  /// 0: no limit. With only this limit the same input gives the same result on
  /// any machine and with any number of threads.
  uint64_t maxEvaluations = kDefaultMaxEvaluations;
  llvm::ThreadPoolInterface *pool = nullptr; ///< null: the caller's thread
  unsigned threads = 0; ///< the most threads of the pool to use; 0: all
  /// May be set at any time, also by a signal handler. The search then stops
  /// and returns the best schedule so far.
  const std::atomic<bool> *interrupted = nullptr;
  /// Called a few times a second, by one thread at a time.
  llvm::function_ref<void(const Progress &)> report = nullptr;
};

struct SolverResult {
  Solution solution;
  int64_t lowerBound = 0; ///< of the objective
  std::string boundName;  ///< name of that bound
  Status status = Status::TimeLimit;
  double seconds = 0, secondsToBest = 0;
  uint64_t evaluations = 0;
  /// What found the best schedule: the name of a seed or a heuristic.
  std::string origin;
  /// Objective of the best seed; 0 if no seed fits the memory.
  int64_t bestSeed = 0;
  std::string bestSeedName;
};

/// Rows from which the search starts, for example the rows of a family.
struct Seed {
  std::string name;
  std::vector<Row> rows;
};

/// Schedules of every family that the placement and the techniques allow, with
/// whole backwards split if allowed. Includes schedules that exceed the memory.
/// After the first schedule, `mustStop` is called before each further one.
std::vector<Seed> familySeeds(const Problem &problem,
                              llvm::function_ref<bool()> mustStop = nullptr);

/// The same within the limits of a search: its time, if limited, and its
/// interrupt. Adds the time it takes to `setupSeconds`.
std::vector<Seed> familySeeds(const Problem &problem, SolverOptions &options);

/// Finds a schedule. It is never worse than a seed that fits the memory, nor
/// than a seed with offload or recompute by fixed rules. An interrupt, or the
/// end of the time, while it reads the seeds is an exception. The fixed rules
/// are not tried on problems of more than 16384 stages times microbatches.
/// Without a time limit the result depends only on the arguments, and not on
/// `pool` and `threads`. Errors: as for checkProblem, checkCapacity and
/// checkTime.
llvm::Expected<SolverResult> solve(const Problem &problem,
                                   llvm::ArrayRef<Seed> seeds,
                                   const SolverOptions &options);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_SEARCH_SOLVER_H
