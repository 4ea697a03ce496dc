//===- OptimizerStep.h - O and G cells of a table -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ends a training step: the optimizer step of every block that a worker holds,
// after the all-reduce of its gradients if other workers hold replicas.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_OPTIMIZERSTEP_H
#define PIPESCHED_SCHEDULE_EDIT_OPTIMIZERSTEP_H

#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// The places of the gradient all-reduces in their rows.
enum class ReductionPlace : uint8_t {
  End,   ///< after all other cells
  Eager, ///< as soon as all workers of a group have their gradients, unless
         ///< stages are cut
  None   ///< nowhere: replicas are kept equal by other means
};

template <>
struct EnumNames<ReductionPlace> {
  static constexpr EnumName<ReductionPlace> values[] = {
      {ReductionPlace::End, "end", "After all other cells of the row"},
      {ReductionPlace::Eager, "eager",
       "As soon as all replicas have their gradients"},
      {ReductionPlace::None, "none", "Nowhere"}};
};

enum class ReducedStages : uint8_t {
  Replicated, ///< stages that own blocks with replicas on other workers
  All         ///< all stages that own blocks; for replicas in other pipelines
};

/// Rows with O and G cells.
struct OptimizerChange {
  std::vector<Row> rows;
  int64_t numSteps = 0;      ///< O cells
  int64_t numReductions = 0; ///< G cells
};

/// Appends to each row an O for every stage of its worker that owns blocks
/// (ParameterSets.h), with a G before it if the stage is reduced. Both follow
/// the order in which the owned blocks of the stages end in the model. An
/// aligned table is aligned again (alignRows).
///
///   End     0F0 0F1 3F2 3B2 3F3 3B3     0B0 0B1 0G0 3G1 0O0 3O1
///   Eager   0F0 0F1 3F2 3B2 3F3 3B3 3G1 0B0 0B1 0G0     3O1 0O0
///
/// So each worker reaches its all-reduces in the order of the model, and they
/// cannot deadlock: if several stages of a worker hold a block, the stage that
/// ends last owns it, so the blocks of a cell come after the blocks of the
/// worker's earlier cells.
///
/// `Eager` uses the slots of the unit alignment. In all rows, the all-reduce of
/// a piece (Replicas.h) is at the first slot at which the weight gradients of
/// the piece are ready on all workers. So no worker waits for it longer than
/// the slots say. Pieces follow the order of these slots. A cycle of waits
/// would have to lead back to an earlier slot, so an order that the slots allow
/// (ReceivePlacement::Arrival, unless sends block) still finishes. A stage that
/// other paths cut into several pieces would take part in several groups at one
/// cell, for which there is no single slot: the stages of such a segment are
/// reduced at the end.
///
/// Linear in entries, and in pieces times paths. Errors, as ViolationError: as
/// for verifyTable; O or G cells that are already in the table. Others: as for
/// ParameterSets and alignRows.
llvm::Expected<OptimizerChange>
addOptimizerStep(const TableView &table,
                 ReductionPlace place = ReductionPlace::End,
                 ReducedStages reduced = ReducedStages::Replicated);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_OPTIMIZERSTEP_H
