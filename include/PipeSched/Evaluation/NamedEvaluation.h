//===- NamedEvaluation.h - A schedule with its results ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything that an export knows about one schedule or program: its name,
// where its stages are, its table and its evaluation.
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
  std::string family; ///< empty: none
  Placement placement;
  /// The rows of a schedule, which their owner must keep alive; a program has
  /// no rows.
  TableView table;

  /// A view of the table. It refers to the placement of this object, so make it
  /// again after the object has moved.
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
  int64_t microbatchSize = 0; ///< sequences; 0: not known
  /// FLOPs of the model that the cells of a step compute (ModelSummary.h), and
  /// FLOP/s of the matrix engines of a worker by the data sheet, in the
  /// precision of the model's linear layers; 0: not known.
  double modelFlops = 0, peakFlops = 0;

  /// FLOPs used in the step divided by the FLOPs that the hardware allows in
  /// it, if both are known.
  std::optional<double> getMfu() const;
  std::vector<StatedWork> work; ///< of a program's instructions
  Evaluation evaluation;

  bool isProgram() const { return !evaluation.table; }

  /// Fills in the numbers that model and system give for a complete step.
  void describe(const CostInputs &costs);
  /// Counts the FLOPs of a program, which may be a part of a step and whose
  /// instructions may state theirs.
  void countFlops(const Program &program, const CostInputs &costs);

  /// When everything happens. The first call for a table that
  /// was walked builds its graph, for all copies of this object; calls may come
  /// from several threads.
  const Execution &getExecution() const;

private:
  void addFlopsByStage(const ModelFacts &model);

  struct OnDemand {
    std::once_flag once;
    std::optional<Execution> execution;
  };
  std::shared_ptr<OnDemand> onDemand = std::make_shared<OnDemand>();
};

/// Pointers to results, for functions whose results need not be contiguous.
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
