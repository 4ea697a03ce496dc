//===- OptimizeSchedule.h - The best schedule for given costs ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds verified rows for paths and costs within the memory budget, and the
// gain of each choice and technique (docs/Optimize.md, the pass).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZESCHEDULE_H
#define PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZESCHEDULE_H

#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Optimize/Search/Solver.h"

namespace pipesched {

//===----------------------------------------------------------------------===//
// Problems from costs
//
// Ticks are picoseconds. Memory is in bytes or activations.
//===----------------------------------------------------------------------===//

struct ProblemOptions {
  optimize::Objective objective = optimize::Objective::Makespan;
  optimize::Techniques techniques;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  /// If absent: the memory of the system, if a model and a system with a memory
  /// are attached; otherwise no limit.
  std::optional<MemoryBudget> memory;
  /// The times for which the budget must suffice.
  MemoryTimes memoryTimes = MemoryTimes::Any;
};

/// Returns the budget under these options and costs, or nothing if there is no
/// limit.
std::optional<MemoryBudget> budgetFor(const CostInputs &costs,
                                      const ProblemOptions &options);

/// Makes the problem. Times follow transport `delay`: a message takes its
/// occupancy and its latency. The capacity is the budget minus parameters,
/// gradients, optimizer state and the working memory of backwards that
/// recompute without R cells; without a limit, all activations of the worker
/// fit. If an activation is recomputed, its F takes all of it until F ends,
/// whereas verifyMemory counts only the checkpoint. So results of the optimizer
/// are within the budget.
///
/// Needs an assigned placement. Errors: as for computeStageCosts and
/// computeMemoryFacts; a budget in bytes without a model, or the system's
/// budget if the system has none; a budget that the parameters already exceed,
/// with the worker; copies without times in profile or system; `recompute` with
/// a model whose backwards recompute without R cells.
llvm::Expected<optimize::Problem> makeProblem(const Placement &placement,
                                              const CostInputs &costs,
                                              const ProblemOptions &options);

//===----------------------------------------------------------------------===//
// The best schedule
//===----------------------------------------------------------------------===//

/// Placements of one path that can be tried for a schedule.
enum class PlacementKind : uint8_t { Linear, Interleaved, V, Wave };

template <>
struct EnumNames<PlacementKind> {
  static constexpr EnumName<PlacementKind> values[] = {
      {PlacementKind::Linear, "linear", "One stage per worker"},
      {PlacementKind::Interleaved, "interleaved", "Rounds over the workers"},
      {PlacementKind::V, "v", "Down the workers and up again"},
      {PlacementKind::Wave, "wave", "Down and up the workers several times"}};
};

/// Returns a placement of this kind. Errors: as for Placement::create and for
/// the placement.
llvm::Expected<Placement> placeBy(PlacementKind kind, int64_t numWorkers,
                                  int64_t numMicrobatches, int64_t chunks,
                                  int64_t waves, int64_t numSlices = 1);

struct OptimizeOptions {
  ProblemOptions problem;
  optimize::SolverOptions solver; ///< its limits apply to all searches together
  std::string cacheDirectory;     ///< empty: no cache
  /// Whether to solve again without each technique, within a quarter of the
  /// limits.
  bool explain = true;
};

/// The choices of a candidate; absent if there was no choice.
struct CandidateChoice {
  std::optional<PlacementKind> placement;
  std::optional<int64_t> microbatchSize; ///< in sequences

  /// Returns "placement v, microbatch size 2"; empty if there was no choice.
  std::string str() const;
};

/// One way to run the same step: these paths, and microbatches with these
/// costs.
struct ScheduleCandidate {
  std::string name; ///< differs from all other names: "placement v"
  Placement placement;
  CostInputs costs;
  std::vector<optimize::Seed> seeds; ///< rows from which the search starts
  CandidateChoice choice = {};
};

/// The objective of another choice.
struct Alternative {
  std::string name; ///< of a candidate, or of an option of the pass: "offload"
  /// The objective in ps. Nothing: there is no schedule, and `reason` states
  /// why.
  std::optional<int64_t> objective;
  bool isBound = false; ///< not searched: `objective` is a lower bound
  std::string reason;
  CandidateChoice choice = {}; ///< of a candidate
};

struct OptimizedSchedule {
  size_t candidate = 0; ///< index of the best candidate
  optimize::Problem problem;
  optimize::SolverResult result;
  std::vector<Alternative> others; ///< the other candidates, in their order
  /// The best candidate without each technique.
  std::vector<Alternative> without;
  std::vector<std::string> warnings; ///< of the cache

  /// Objective of the solution, in ps.
  int64_t objective() const;
};

/// Finds the best schedule of any candidate within the budget; its rows pass
/// verifyTable and verifyMemory. Needs at least one candidate.
///
/// Candidates share the limits, in ascending order of their lower bounds. A
/// candidate is not searched if it has no schedule, or if its bound is no
/// better than a schedule already found. All get equal parts of half of the
/// limits; the best gets the rest. Errors: as for makeProblem and solve, if
/// every candidate has one.
llvm::Expected<OptimizedSchedule>
optimizeSchedule(llvm::ArrayRef<ScheduleCandidate> candidates,
                 const OptimizeOptions &options);

} // namespace pipesched

#endif // PIPESCHED_OPTIMIZE_SCHEDULE_OPTIMIZESCHEDULE_H
