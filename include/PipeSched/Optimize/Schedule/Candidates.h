//===- Candidates.h - Placements and sizes to try ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placements and microbatch sizes to try for a schedule, and the search over
// all of them (docs/Optimize.md, the pass). It needs no IR: the pass converts
// schedules from and to IR.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SCHEDULE_CANDIDATES_H
#define PIPESCHED_OPTIMIZE_SCHEDULE_CANDIDATES_H

#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"

namespace pipesched {

/// The schedule to improve.
struct ScheduleStart {
  std::string name;
  TableView table;      ///< for a problem, its rows are ignored
  bool hasRows = false; ///< false for a problem
  CostInputs costs;
};

/// The facts of a model for microbatches of another size.
using ResizeFunction = llvm::function_ref<llvm::Expected<ModelFacts>(
    const ModelFacts &model, int64_t size)>;

/// Choices that may vary in addition to the rows.
struct CandidateOptions {
  std::vector<PlacementKind> placements; ///< empty: the paths of the schedule
  int64_t chunks = 2, waves = 2;         ///< of the placements
  /// In sequences; empty: the schedule's own size.
  std::vector<int64_t> microbatchSizes;
  ResizeFunction resizeModel = nullptr; ///< needed with microbatchSizes
};

/// Reads `linear`, `interleaved`, `v` and `wave`. Errors: an unknown name, with
/// the closest one; a name that is listed twice.
llvm::Expected<std::vector<PlacementKind>>
parsePlacementKinds(llvm::ArrayRef<std::string> names);

/// Checks limits. Errors: a time limit that is neither absent nor from 0 to
/// 10^7 seconds; a gap outside 0 to 1; no limit at all.
llvm::Error checkLimits(const optimize::SolverOptions &options);

/// Returns all pairs of a placement and a microbatch size, named "placement v,
/// microbatch size 2". Candidates on the paths of the schedule start from its
/// rows, without idle slots and pairs. Error messages continue "the schedule ".
/// Errors: rows that violate a rule (ViolationError), or have G or O cells;
/// several paths without assigned microbatches; microbatch sizes that the costs
/// or the batch do not allow; a placement that does not exist.
llvm::Expected<std::vector<ScheduleCandidate>>
listCandidates(const ScheduleStart &start, const CandidateOptions &options);

/// The result of a search over candidates.
struct OptimizedStart {
  ScheduleCandidate chosen; ///< the best candidate
  OptimizedSchedule best;   ///< its schedule, and the objectives of the others
};

/// Finds the best schedule of all candidates. Errors: as for listCandidates and
/// optimizeSchedule.
llvm::Expected<OptimizedStart> optimizeStart(const ScheduleStart &start,
                                             const CandidateOptions &candidates,
                                             const OptimizeOptions &options);

/// The result of a search, without the rows. Times are in ps.
struct OptimizationSummary {
  std::string name; ///< of the schedule
  CandidateChoice choice;
  optimize::Objective objective = optimize::Objective::Makespan;
  int64_t objectivePs = 0; ///< the makespan or the period
  int64_t makespanPs = 0, periodPs = 0;
  int64_t lowerBoundPs = 0; ///< of the objective
  std::string bound;        ///< name of that bound
  optimize::Status status = optimize::Status::TimeLimit;
  std::string origin;  ///< the method that found the schedule
  int64_t startPs = 0; ///< objective of the best seed rows; 0: none fits
  std::string start;   ///< name of these rows
  double seconds = 0, secondsToBest = 0;
  uint64_t evaluations = 0;
  std::vector<Alternative> others, without; ///< as in OptimizedSchedule
};
OptimizationSummary summarize(llvm::StringRef name,
                              const OptimizedStart &optimized);

/// The text of a remark about a result: one line, then a line for each note.
struct ResultText {
  std::string summary;
  std::vector<std::string> notes;
};
ResultText describe(const OptimizationSummary &found);

} // namespace pipesched

#endif // PIPESCHED_OPTIMIZE_SCHEDULE_CANDIDATES_H
