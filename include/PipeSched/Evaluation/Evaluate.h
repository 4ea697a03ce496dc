//===- Evaluate.h - Evaluation of one schedule ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes three levels (formula, table, execution) and the memory of one table
// or program. Report, exports, Python and sweeps read the result.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_EVALUATE_H
#define PIPESCHED_EVALUATION_EVALUATE_H

#include "PipeSched/Analysis/Memory/PeakMemory.h"
#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Evaluation/Disturbance.h"
#include "PipeSched/Evaluation/StatedWork.h"
#include "PipeSched/Schedule/Family/Formulas.h"
#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Table/Metrics.h"
#include <memory>

namespace pipesched {

struct TimingOptions {
  Transport transport = Transport::Overlap;
  ReceivePlacement receivePlacement = ReceivePlacement::Arrival;
  ForwardSends forwardSends = ForwardSends::Async;
  Runtime runtime = Runtime::Table;
  Disturbance disturbance = {};
};

/// See CostInputs::reducesEveryStage.
bool reducesEveryStage(const std::optional<SystemFacts> &system,
                       const std::optional<Profile> &profile);

/// Tied parameters of several stages: their gradients are summed before the
/// first O of these stages (docs/Stages.md#tied-parameters).
struct TiedGradients {
  std::string name;
  int64_t bytes = 0; ///< of each of them
  /// The stages in ascending order, one entry per parameter: a stage with
  /// several such parameters is repeated.
  std::vector<int64_t> stages;
};

/// The sources of costs: none, a profile, or a model and a system, which a
/// profile may refine.
struct CostInputs {
  std::optional<ModelFacts> model;
  std::optional<SystemFacts> system;
  std::optional<Profile> profile;
  /// The part that R cells recompute. Without R cells, the model decides
  /// whether backwards recompute.
  Recompute recompute = Recompute::Full;
  /// Ties between parameters of stage functions. Without an O their gradients
  /// are not summed.
  std::vector<TiedGradients> ties = {};

  /// Returns the model for a table or program with these phases: if they
  /// include R, `recompute` replaces the model's own setting. Requires a model.
  ModelFacts modelFor(PhaseSet phases) const;
  /// Whether the gradients of every stage are reduced, with peers in other
  /// pipelines or among the accelerators of a worker. They are if several
  /// accelerators hold the same parameters, or if the profile has a time for
  /// it.
  bool reducesEveryStage() const {
    return pipesched::reducesEveryStage(system, profile);
  }
  /// Overlaps all-reduces with compute, layer by layer, unless the system
  /// states otherwise.
  void reduceByLayers() {
    if (system && system->gradientBuckets == GradientBuckets::Auto)
      system->gradientBuckets = GradientBuckets::Layers;
  }
};

/// Level 3 of a table or program in numbers, for reports, comparisons and
/// sweeps.
struct ExecutionTotals {
  StageCosts stageCosts;
  int64_t makespanPs = 0;
  /// Makespan of the same order if communication took no time.
  int64_t freeMakespanPs = 0;
  IdleTimes idle;
  Traffic traffic;
  std::vector<PathStep> criticalSteps; ///< of a longest path, first to last
  bool leavesOutPath = false;          ///< whether the path was not computed
  /// Absent without a model, or if instructions state their memory.
  std::optional<MemoryFacts> memoryFacts;
  std::optional<MemoryUsage> memory;
};

/// The same totals with the arrays for pictures, traces and lists of cells.
struct Execution : ExecutionTotals {
  TaskGraph graph;
  TaskTimes times;
  Timeline timeline;
  std::vector<uint32_t> criticalPath;
};

struct Evaluation {
  std::optional<FormulaResult> formula;
  std::string formulaReason;         ///< why there is no formula
  std::optional<TableMetrics> table; ///< absent for programs
  ExecutionTotals totals;
  /// Null if the totals come from a walk over the table (Analysis/WalkTable.h);
  /// then NamedEvaluation::getExecution() computes it.
  std::shared_ptr<const Execution> execution;

  void set(Execution timed) {
    totals = timed;
    execution = std::make_shared<const Execution>(std::move(timed));
  }
};

/// Returns the costs of a placement for the phases in use: the profile's times
/// over a roofline of model and system, or unit slots without any input. With
/// only a model or only a system, a profile is required; the error names the
/// missing input.
llvm::Expected<StageCosts> computeStageCosts(const Placement &placement,
                                             const CostInputs &costs,
                                             PhaseSet phases);

/// Returns the phases that occur and have a cost.
PhaseSet phasesInUse(const TableView &table);
PhaseSet phasesInUse(const Program &program);

/// Whether the receives of a table follow the times of its cells. They do in
/// tables with nodes, added edges or times by microbatch, where unit slots can
/// be far from times. Without times they follow unit slots.
bool receivesFollowTimes(const Placement &placement, const CostInputs &costs);

/// The program of a table that evaluateTable times. Receives that follow times
/// are in the order of `delay` (alignTimes), without disturbance. Errors: also
/// as for computeStageCosts, if receives follow times.
llvm::Expected<Program> lowerTable(const TableView &table,
                                   const CostInputs &costs,
                                   const TimingOptions &options);

/// Times a program. Work that instructions state replaces the costs of their
/// cells, for any runtime. It needs a system; without a model or profile every
/// compute, send and copy must state its work. If any instruction states
/// memory, activations are counted only from such statements. A disturbance
/// changes the times of computes, stated or not.
llvm::Expected<Execution> executeProgram(
    const Program &program, const Placement &placement, const CostInputs &costs,
    Transport transport, llvm::ArrayRef<StatedWork> work = {},
    Runtime runtime = Runtime::Table, const Disturbance &disturbance = {});

/// Evaluates all levels of a complete table. `family` may be empty; its options
/// are inputs of the formula. Walks the table if possible, and builds its task
/// graph otherwise.
llvm::Expected<Evaluation>
evaluateTable(const TableView &table, llvm::StringRef family,
              const CostInputs &costs, const TimingOptions &options,
              const FamilyOptions &familyOptions = {});

/// Costs and options for one of several evaluations of a table.
struct Scenario {
  const CostInputs *costs;
  const TimingOptions *options;
};

/// The same for several scenarios, which share walks over the rows
/// (walkTables). The results equal evaluateTable for each scenario, except that
/// walked tables have no critical path.
std::vector<llvm::Expected<Evaluation>>
evaluateTables(const TableView &table, llvm::StringRef family,
               llvm::ArrayRef<Scenario> scenarios,
               const FamilyOptions &familyOptions = {});

/// Times a complete table with its graph, even if a walk were possible.
llvm::Expected<Execution> executeTable(const TableView &table,
                                       const CostInputs &costs,
                                       const TimingOptions &options);

/// Adds the graph, and the arrays that depend on it, to the totals of a walk.
llvm::Expected<Execution> expandTotals(const TableView &table,
                                       const ExecutionTotals &totals,
                                       const TimingOptions &options);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_EVALUATE_H
