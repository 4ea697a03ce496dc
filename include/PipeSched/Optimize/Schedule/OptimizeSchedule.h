//===- OptimizeSchedule.h - The best schedule under costs -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds rows for paths and costs that are verified within the budget, and what
// each choice and technique is worth (docs/Optimize.md, the pass).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZESCHEDULE_H
#define PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZESCHEDULE_H

#include "PipeSched/Optimize/Schedule/OptimizeProblem.h"
#include "PipeSched/Optimize/Search/Solver.h"

namespace pipesched {

/// Placements of one path that a schedule may be tried on.
enum class PlacementKind : uint8_t { Linear, Interleaved, V, Wave };

template <>
struct EnumNames<PlacementKind> {
  static constexpr EnumName<PlacementKind> values[] = {
      {PlacementKind::Linear, "linear", "One stage per worker"},
      {PlacementKind::Interleaved, "interleaved", "Rounds over the workers"},
      {PlacementKind::V, "v", "Down the workers and up again"},
      {PlacementKind::Wave, "wave", "Down and up the workers several times"}};
};

/// Errors: those of Placement::create and of the placement.
llvm::Expected<Placement> placeBy(PlacementKind kind, int64_t numWorkers,
                                  int64_t numMicrobatches, int64_t chunks,
                                  int64_t waves, int64_t numSlices = 1);

struct OptimizeOptions {
  ProblemOptions problem;
  optimize::SolverOptions solver; ///< its limits are for all searches together
  std::string cacheDirectory;     ///< empty: no cache
  /// Solve again without each technique, within a quarter of the limits.
  bool explain = true;
};

/// What a candidate chooses; nothing where there was no choice.
struct CandidateChoice {
  std::optional<PlacementKind> placement;
  std::optional<int64_t> microbatchSize; ///< in sequences

  /// "placement v, microbatch size 2"; empty if nothing was to be chosen.
  std::string str() const;
};

/// One way to run the same step: these paths, and microbatches of these costs.
struct ScheduleCandidate {
  std::string name; ///< differs from those of the others: "placement v"
  Placement placement;
  CostInputs costs;
  std::vector<optimize::Seed> seeds; ///< rows to start from
  CandidateChoice choice = {};
};

/// The objective that another choice gives.
struct Alternative {
  std::string name; ///< of a candidate, or of an option of the pass: "offload"
  /// The objective in ps. Nothing: there is no schedule, and `reason` says why.
  std::optional<int64_t> objective;
  bool isBound = false; ///< not searched; `objective` is a lower bound
  std::string reason;
  CandidateChoice choice = {}; ///< of a candidate
};

struct OptimizedSchedule {
  size_t candidate = 0; ///< index of the best one
  optimize::Problem problem;
  optimize::SolverResult result;
  std::vector<Alternative> others;   ///< the other candidates, in their order
  std::vector<Alternative> without;  ///< the best one without each technique
  std::vector<std::string> warnings; ///< of the cache

  /// Objective of the solution, in ps.
  int64_t objective() const;
};

/// The best schedule of any candidate within the budget; its rows pass
/// verifyTable and verifyMemory. Needs a candidate.
///
/// Candidates share the limits. The one with the least lower bound comes first.
/// A candidate is not searched if it has no schedule, or if its bound is no
/// better than a schedule that was found. All get equal parts of half of the
/// limits; the best gets what is left. Errors: those of makeProblem and solve,
/// if every candidate has one.
llvm::Expected<OptimizedSchedule>
optimizeSchedule(llvm::ArrayRef<ScheduleCandidate> candidates,
                 const OptimizeOptions &options);

} // namespace pipesched

#endif // PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZESCHEDULE_H
