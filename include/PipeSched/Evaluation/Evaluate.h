//===- Evaluate.h - All about one schedule ----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the three levels - formula, table, execution - and memory for one table
// or program. Report, exports, Python and sweeps read its result.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_EVALUATE_H
#define PIPESCHED_EVALUATION_EVALUATE_H

#include "PipeSched/Evaluation/StatedWork.h"
#include "PipeSched/Schedule/Formulas.h"
#include "PipeSched/Schedule/ForwardSends.h"
#include "PipeSched/Schedule/Lowering.h"
#include "PipeSched/Schedule/Metrics.h"

namespace pipesched {

struct TimingOptions {
  Transport transport = Transport::Overlap;
  ReceivePlacement receivePlacement = ReceivePlacement::Arrival;
  ForwardSends forwardSends = ForwardSends::Async;
};

/// What a schedule is priced by; at most one of profile-only, model and system.
struct CostInputs {
  std::optional<ModelFacts> model;
  std::optional<SystemFacts> system;
  std::optional<Profile> profile;
  /// What R cells run again. Without any it is for the model to say whether
  /// backwards recompute by themselves.
  Recompute recompute = Recompute::Full;

  /// The model as it stands for a table or program with these phases: with
  /// `recompute` for its own where there are R. There must be one.
  ModelFacts modelFor(unsigned phases) const;
  /// Whether every stage has gradients to reduce, with peers in other
  /// pipelines: the system has some, or the profile a time for it.
  bool reducesEveryStage() const;
};

/// Level 3 of a program, with all arrays a picture or a report needs.
struct Execution {
  TaskGraph graph;
  /// By member of graph.groupWorkers, the G cell by which the worker takes part
  /// in the all-reduce.
  std::vector<Cell> groupCells;
  StageCosts stageCosts;
  TaskTimes times;
  Timeline timeline;
  std::vector<uint32_t> criticalPath;
  IdleTimes idle;
  Traffic traffic;
  /// Nothing: no model, or memory is what instructions state.
  std::optional<MemoryFacts> memoryFacts;
  std::optional<MemoryUsage> memory;
};

struct Evaluation {
  std::optional<FormulaResult> formula;
  std::string formulaReason;         ///< why formula is missing
  std::optional<TableMetrics> table; ///< nothing for programs
  Execution execution;
};

/// StageCosts of a placement for the phases in use: profile over roofline
/// (needs model and system) over unit slots. A model without a system (or the
/// reverse) and without a profile is an error that says what is missing.
llvm::Expected<StageCosts> computeStageCosts(const Placement &placement,
                                             const CostInputs &costs,
                                             unsigned phases);

/// Bits (1 << Phase) of the phases that occur.
unsigned phasesInUse(const TableView &table);
unsigned phasesInUse(const Program &program);

/// Times a program. Work that instructions state wins over what their cells
/// cost; it needs a system, and without a model or profile every compute, send
/// and copy has to state it. Where any instruction states memory, activations
/// are what they state.
llvm::Expected<Execution> executeProgram(const Program &program,
                                         const Placement &placement,
                                         const CostInputs &costs,
                                         Transport transport,
                                         llvm::ArrayRef<StatedWork> work = {});

/// All levels of a complete table. `family` may be empty; its options go into
/// the formula.
llvm::Expected<Evaluation>
evaluateTable(const TableView &table, llvm::StringRef family,
              const CostInputs &costs, const TimingOptions &options,
              const FamilyOptions &familyOptions = {});

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_EVALUATE_H
