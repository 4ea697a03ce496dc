//===- OptimizeSchedule.h - The best schedule under costs -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From paths and prices to rows that are verified within the budget, and what
// each choice and freedom was worth (docs/Optimize.md, the pass).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_OPTIMIZESCHEDULE_H
#define PIPESCHED_OPTIMIZE_OPTIMIZESCHEDULE_H

#include "PipeSched/Optimize/OptimizeProblem.h"
#include "PipeSched/Optimize/Solver.h"

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
                                  int64_t waves);

struct OptimizeOptions {
  ProblemOptions problem;
  optimize::SolverOptions solver; ///< limits are those of everything together
  std::string cacheDirectory;     ///< empty: none
  /// Solve again without each freedom, in a quarter of the limits.
  bool explain = true;
};

/// One way to do the same step: on these paths, in microbatches that are priced
/// so.
struct ScheduleCandidate {
  std::string name; ///< what tells it from the others: "placement v"
  Placement placement;
  CostInputs costs;
  std::vector<optimize::Seed> seeds; ///< rows to start from
};

/// What the schedule takes otherwise.
struct Alternative {
  std::string name; ///< of a candidate, or of an option of the pass: "offload"
  /// In ps; nothing: no schedule, and why.
  std::optional<int64_t> objective;
  bool isBound = false; ///< nothing was searched: it is this long at least
  std::string reason;
};

struct OptimizedSchedule {
  size_t candidate = 0; ///< index of the one that is best
  optimize::Problem problem;
  optimize::SolverResult result;
  std::vector<Alternative> others;   ///< the other candidates, in their order
  std::vector<Alternative> without;  ///< the best one, without a freedom each
  std::vector<std::string> warnings; ///< of the cache

  /// Of the solution, in ps.
  int64_t objective() const;
};

/// The best schedule of any candidate, of which there must be one, within the
/// budget: its rows stand verifyTable and verifyMemory.
///
/// Candidates share the limits. Those whose lower bound is least come first;
/// one whose bound is no better than what is known drops out, and so does one
/// that has no schedule. All get the same part of half of the limits; the best
/// gets what is left. Errors: those of makeProblem and solve, of each candidate
/// where all have one.
llvm::Expected<OptimizedSchedule>
optimizeSchedule(llvm::ArrayRef<ScheduleCandidate> candidates,
                 const OptimizeOptions &options);

} // namespace pipesched

#endif // PIPESCHED_OPTIMIZE_OPTIMIZESCHEDULE_H
