//===- CheckTable.h - Generated tables, verified and measured ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers of property tests: verify a table, count its slots, run it with given
// times.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_CHECKTABLE_H
#define PIPESCHED_UNITTESTS_SUPPORT_CHECKTABLE_H

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Family/Formulas.h"
#include "PipeSched/Schedule/Table/Metrics.h"
#include "PipeSched/Schedule/Table/RowSweep.h"
#include "TestTables.h"

namespace pipesched {

/// Fails the test unless the table is complete and acyclic and every row is
/// well formed.
inline bool isSound(const Table &table) {
  TableView view = table.view();
  for (int64_t row = 0, e = view.rows.size(); row < e; ++row)
    if (auto violation = verifyRow(table.placement, row, view.rows[row])) {
      ADD_FAILURE() << "row " << row << ": " << toString(*violation);
      return false;
    }
  if (auto violation = verifyTable(view)) {
    ADD_FAILURE() << toString(*violation);
    return false;
  }
  return true;
}

/// Metrics in unit slots of a sound table.
inline TableMetrics measure(const Table &table) {
  if (!isSound(table))
    return {};
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  return computeMetrics(view, index, llvm::cantFail(alignSlots(view, index)));
}

inline int64_t largest(const std::vector<int64_t> &values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

/// The makespan with the given times of F, I, W, S and T (B takes I + W, and an
/// overlapped pair the time of both, or the time in `times`). A message to
/// another worker delays its consumer and uses no queue; X, Y and Z take no
/// time once all workers of the path have reached them.
inline int64_t simulate(const Table &table, const FormulaInputs::Times &times) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  std::vector<int64_t> ends(view.getNumCells()), clock(view.rows.size());
  auto durationOf = [&](Phase phase) {
    return phase == Phase::Forward      ? times.forwardPs
           : phase == Phase::InputGrad  ? times.inputGradPs
           : phase == Phase::Logits     ? times.logitsPs
           : phase == Phase::LogitsGrad ? times.logitsGradPs
           : (kDetachedPhases | kEmbeddingPhases).contains(phase) ? 0
           : phase == Phase::WeightGrad
               ? times.weightGradPs
               : times.inputGradPs + times.weightGradPs;
  };
  auto cycle = RowSweep(view, index).run([&](const RowStep &step) {
    int64_t start = clock[step.row], duration = 0;
    for (unsigned i = 0; i < step.count; ++i) {
      Cell cell = view.rows[step.row][step.index + i];
      duration += durationOf(cell.getPhase());
      if (Dependences::Producer producer = step.producers[i])
        start = std::max(start,
                         ends[producer.flat] +
                             (producer.worker == step.row ? 0 : times.commPs));
      // By the rule of the phases, not by the groups that sweeps use.
      const OwnEdges &edges = kOwnEdges[cell.getPhase()];
      for (unsigned edge = 0; edge != edges.count; ++edge)
        if (kDetachedPhases.contains(edges.phases[edge]))
          for (int64_t stage = 0; stage != table.placement.getNumStages(0);
               ++stage)
            if (uint32_t flat =
                    index.lookup(stage, edges.phases[edge], cell.getUnit());
                flat != CellIndex::kNone)
              start = std::max(start, ends[flat]);
    }
    if (step.count == 2)
      duration = times.overlappedPs.value_or(duration);
    clock[step.row] = start + duration;
    for (unsigned i = 0; i < step.count; ++i)
      ends[index.rowBegin(step.row) + step.index + i] = clock[step.row];
  });
  EXPECT_TRUE(cycle.empty());
  return largest(clock);
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_CHECKTABLE_H
