//===- NamedEvaluation.h - A schedule with its results ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inputs of all exports for one schedule or program: its name, its
// placement, its table and its evaluation.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_NAMEDEVALUATION_H
#define PIPESCHED_EVALUATION_NAMEDEVALUATION_H

#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Evaluation/SlotMeasure.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include <mutex>

namespace pipesched {

/// The facts about a schedule that are known before costs are computed.
struct NamedTable {
  std::string name;
  std::string family; ///< empty if there is none
  Placement placement;
  /// The rows of a schedule, which their owner must keep alive; a program has
  /// no rows.
  TableView table;

  /// Returns a view of the table. It refers to the placement of this object, so
  /// call it again after the object was moved.
  TableView tableView() const {
    TableView view = table;
    view.placement = &placement;
    return view;
  }

  /// Copies the rows, so that their owner may be destroyed.
  void keepRows();

private:
  std::shared_ptr<const std::vector<Row>> kept;
};

struct NamedEvaluation : NamedTable {
  TimingOptions timing;
  int64_t microbatchSize = 0; ///< in sequences; 0: unknown
  /// FLOPs of the model that the cells of a step compute (ModelSummary.h), and
  /// peak FLOP/s of a worker's matrix engines by the data sheet, in the
  /// precision of the model's linear layers; 0: unknown.
  double modelFlops = 0, peakFlops = 0;

  /// Returns the FLOPs of the model in the step divided by the peak FLOPs of
  /// the hardware in the same time, if both are known.
  std::optional<double> getMfu() const;
  std::vector<StatedWork> work; ///< of a program's instructions
  Evaluation evaluation;

  bool isProgram() const { return !evaluation.table; }

  /// Sets the numbers of a complete step that follow from model and system.
  void describe(const CostInputs &costs);
  /// Counts the FLOPs of a program. It may be a part of a step, and its
  /// instructions may state their FLOPs.
  void countFlops(const Program &program, const CostInputs &costs);

  /// Returns the times of all tasks. The first call for a table that was walked
  /// builds its graph, for all copies of this object; several threads may call
  /// it.
  const Execution &getExecution() const;

private:
  void addFlopsByStage(const ModelFacts &model);

  struct OnDemand {
    std::once_flag once;
    std::optional<Execution> execution;
  };
  std::shared_ptr<OnDemand> onDemand = std::make_shared<OnDemand>();
};

/// Returns pointers to results, for functions whose results need not be
/// contiguous.
inline llvm::SmallVector<const NamedEvaluation *>
pointersTo(llvm::ArrayRef<NamedEvaluation> results) {
  return llvm::map_to_vector(
      results, [](const NamedEvaluation &result) { return &result; });
}
inline llvm::SmallVector<const NamedTable *>
pointersTo(llvm::ArrayRef<NamedTable> tables) {
  return llvm::map_to_vector(tables,
                             [](const NamedTable &table) { return &table; });
}

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_NAMEDEVALUATION_H
