//===- OptimizerStep.h - O and G cells of a table -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ends a training step: the optimizer step of every stage, behind the
// all-reduce of its gradients where other workers hold replicas.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_OPTIMIZERSTEP_H
#define PIPESCHED_SCHEDULE_OPTIMIZERSTEP_H

#include "PipeSched/Schedule/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// Where the gradient all-reduces stand in their rows.
enum class ReductionPlace : uint8_t {
  End,   ///< behind all other cells
  Eager, ///< as soon as all workers of a group have their gradients, unless
         ///< stages are cut
  None   ///< nowhere: replicas are kept alike by other means
};

template <>
struct EnumNames<ReductionPlace> {
  static constexpr EnumName<ReductionPlace> values[] = {
      {ReductionPlace::End, "end", "Behind all other cells of the row"},
      {ReductionPlace::Eager, "eager",
       "As soon as all replicas have their gradients"},
      {ReductionPlace::None, "none", "Nowhere"}};
};

/// Which stages are reduced.
enum class ReducedStages : uint8_t {
  Replicated, ///< those of which other workers hold blocks
  All         ///< all that have blocks: there are peers in other pipelines
};

/// Rows with O and G cells.
struct OptimizerChange {
  std::vector<Row> rows;
  int64_t numSteps = 0;      ///< O cells
  int64_t numReductions = 0; ///< G cells
};

/// Appends to each row an O for every stage of its worker and puts a G before
/// it where the stage is reduced, all in the order in which the blocks of the
/// stages end. An aligned table is aligned again (alignRows).
///
///   End     0F0 0F1 3F2 3B2 3F3 3B3     0B0 0B1 0G0 3G1 0O0 3O1
///   Eager   0F0 0F1 3F2 3B2 3F3 3B3 3G1 0B0 0B1 0G0     3O1 0O0
///
/// Each worker then comes to its all-reduces in the order of the model, which
/// cannot deadlock: the blocks that a worker reduces at a cell lie behind those
/// of the cells before it, since what lies in two cells is reduced at the later
/// one (Collectives.h).
///
/// `Eager` looks at the slots of the unit alignment. The all-reduces of a piece
/// (Replicas.h) stand in all rows at the first slot at which its weight
/// gradients are there on all workers, so that nobody waits for them longer
/// than the slots say; pieces come in the order of these slots. A cycle of
/// waits would have to come back to an earlier slot: what finishes by the slots
/// (ReceivePlacement::Arrival, unless sends block) still does. A stage that
/// other paths cut into several pieces would meet several groups at one cell,
/// which has no one slot: the stages of such a segment are reduced at the end.
///
/// Linear in entries, and in pieces times paths. Errors, as ViolationError:
/// what verifyTable finds; O or G cells in the table. Others: those of Replicas
/// and of alignRows.
llvm::Expected<OptimizerChange>
addOptimizerStep(const TableView &table,
                 ReductionPlace place = ReductionPlace::End,
                 ReducedStages reduced = ReducedStages::Replicated);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_OPTIMIZERSTEP_H
