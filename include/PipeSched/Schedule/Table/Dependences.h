//===- Dependences.h - What a cell waits for ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one rule that says which cells a cell needs and which message it sends.
// Alignment, verification, lowering and formulas all go by it
// (docs/Dialects/RationalePipe.md, "Gradient rule").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H
#define PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H

#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// The stage that a flow from `stage` reaches, and the stage from which a flow
/// to `stage` comes.
constexpr int64_t targetOf(Flow flow, int64_t stage) {
  return flow == Flow::Activation ? stage + 1 : stage - 1;
}
constexpr int64_t sourceOf(Flow flow, int64_t stage) {
  return flow == Flow::Activation ? stage - 1 : stage + 1;
}

/// What a cell of a phase needs of a neighbouring stage, unless its stage is
/// the first or the last of the path.
constexpr std::optional<Flow> flowNeededBy(Phase phase) {
  return traitsOf(phase).flows.takes;
}
/// The half of a split backward that makes the gradient.
constexpr Phase gradientPhase(GradientAfter gradientAfter) {
  return gradientAfter == GradientAfter::InputGrad ? Phase::InputGrad
                                                   : Phase::WeightGrad;
}
/// What a cell of a phase makes for a neighbouring stage: a backward is whole
/// (B) or split (I and W), so one cell of it makes the gradient.
constexpr std::optional<Flow> flowMadeBy(Phase phase,
                                         GradientAfter gradientAfter) {
  if (kSplitBackward.contains(phase) && phase != gradientPhase(gradientAfter))
    return std::nullopt;
  return traitsOf(phase).flows.makes;
}

/// The data dependences of table cells, by the table of phases:
///
///   F s    after F s-1
///   B, I   after own F and the gradient of s+1;
///          after own R and U where the table has them
///   W s    after own I
///   R s    after own F; after own U where the table has it
///   D s    after own F
///   U s    after own D
///   d, u   after the copy they name
///   O, G   nothing: their place in the row decides, and for G its group
///          (Collectives.h)
///
/// where "the gradient of s+1" is its B if it has one, else its I or W by
/// `gradientAfter`. Only cells that the table has are returned: what a cell
/// needs, then what it takes from another stage, then what it uses.
class Dependences {
public:
  Dependences(const TableView &table, const CellIndex &index)
      : placement(*table.placement), index(index),
        gradientAfter(table.gradientAfter) {}

  /// Writes the flat indices of the cells that `cell` waits for, in the order
  /// of the list above, and returns their number. Row order is not included.
  static constexpr unsigned kMaxPredecessors = 4;
  static_assert(detail::mostPredecessors() <= kMaxPredecessors);
  unsigned predecessors(Cell cell, uint32_t (&out)[kMaxPredecessors]) const;

  /// A cell of another stage, and the worker it runs on.
  struct Producer {
    uint32_t flat = CellIndex::kNone;
    int64_t worker = -1;

    explicit operator bool() const { return flat != CellIndex::kNone; }
  };

  /// The cell on another stage whose output `cell` needs, on any worker: F s-1,
  /// or the gradient of s+1. Empty if there is none.
  Producer producerOf(Cell cell) const {
    std::optional<Flow> flow = flowNeededBy(cell.getPhase());
    if (!flow)
      return {};
    return *flow == Flow::Activation ? forwardBefore(cell)
                                     : gradientAbove(cell);
  }

  /// The worker that the output of `cell` is sent to; -1 if it stays on this
  /// worker or nothing needs it. F sends its activations forward; B and the
  /// `gradientAfter` cell send the gradient back.
  int64_t messageDestination(Cell cell) const;

private:
  Producer forwardBefore(Cell cell) const {
    if (cell.getStage() == 0)
      return {};
    int64_t stage = cell.getStage() - 1;
    return {index.lookup(stage, Phase::Forward, cell.getUnit()),
            placement.workerOf(placement.globalStage(cell) - 1)};
  }
  Producer gradientAbove(Cell cell) const {
    int64_t path = placement.pathOf(cell.getUnit());
    int64_t stage = cell.getStage() + 1;
    if (stage == placement.getNumStages(path))
      return {};
    int64_t entry = index.entryOf(stage, cell.getUnit());
    uint32_t flat = index.at(entry, Phase::Backward);
    if (flat == CellIndex::kNone)
      flat = index.at(entry, gradientPhase(gradientAfter));
    return {flat, placement.workerOf(placement.stageOffset(path) + stage)};
  }

  const Placement &placement;
  const CellIndex &index;
  GradientAfter gradientAfter;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H
