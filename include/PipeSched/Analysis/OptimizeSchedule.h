//===- OptimizeSchedule.h - The best schedule under costs -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From placements and costs to rows that are verified within the budget, and
// what each freedom was worth (docs/Optimize.md, the pass).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_OPTIMIZESCHEDULE_H
#define PIPESCHED_ANALYSIS_OPTIMIZESCHEDULE_H

#include "PipeSched/Analysis/OptimizeProblem.h"
#include "PipeSched/Optimize/Solver.h"

namespace pipesched {

/// Placements of one path that a schedule may be tried on.
enum class PlacementKind : uint8_t { Linear, Interleaved, V, Wave };

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

/// What a schedule takes without one of the freedoms it had.
struct WithoutFreedom {
  std::string name; ///< as the option of the pass: "offload"
  /// Of the objective; nothing: no schedule, and why.
  std::optional<int64_t> objective;
  std::string reason;
};

struct OptimizedSchedule {
  size_t placement = 0; ///< index of the one that is best
  optimize::Problem problem;
  optimize::SolverResult result;
  std::vector<WithoutFreedom> without;
  std::vector<std::string> warnings; ///< of the cache

  /// Of the solution, in ps.
  int64_t objective() const;
};

/// The best schedule on any of the placements, which must not be empty, within
/// the budget: its rows stand verifyTable and verifyMemory. `seed` are rows on
/// the first placement to start from, or none. Placements share the limits;
/// those for which there is no schedule drop out. Errors: those of makeProblem
/// and solve, of the first placement where all have one.
llvm::Expected<OptimizedSchedule>
optimizeSchedule(llvm::ArrayRef<Placement> placements, const CostInputs &costs,
                 const OptimizeOptions &options,
                 llvm::ArrayRef<optimize::Seed> seeds = {});

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_OPTIMIZESCHEDULE_H
