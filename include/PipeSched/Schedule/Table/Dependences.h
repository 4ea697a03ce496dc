//===- Dependences.h - The dependences of cells -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one rule for the cells that a cell needs and the message that it sends.
// Alignment, verification, lowering and formulas all follow it
// (docs/Dialects/RationalePipe.md, "Gradient rule").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H
#define PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// The stage that a flow between neighbours reaches from `stage`, and the stage
/// from which one to `stage` comes.
constexpr int64_t targetOf(Flow flow, int64_t stage) {
  return traitsOf(flow).reach == Reach::Next ? stage + 1 : stage - 1;
}
constexpr int64_t sourceOf(Flow flow, int64_t stage) {
  return traitsOf(flow).reach == Reach::Next ? stage - 1 : stage + 1;
}

/// The flow from other stages that a cell of a phase needs, unless its stage is
/// at the end of the path where the flow starts.
constexpr std::optional<Flow> flowNeededBy(Phase phase) {
  return traitsOf(phase).flows.takes;
}
/// The half of a split backward that makes the gradient: I of a stage without
/// W.
constexpr Phase gradientPhase(GradientAfter gradientAfter,
                              StageBackward backward) {
  return gradientAfter == GradientAfter::InputGrad ||
                 backward == StageBackward::Input
             ? Phase::InputGrad
             : Phase::WeightGrad;
}
/// Whether a stage has a cell that waits for a flow: one without a backward is
/// sent no gradient.
constexpr bool takes(Flow flow, StageBackward backward) {
  return !traitsOf(flow).isGradient || backward != StageBackward::None;
}
/// The flow that a cell of a phase makes for other stages: a backward is whole
/// (B) or split (I and W), so one cell of it makes the gradient.
constexpr std::optional<Flow>
flowMadeBy(Phase phase, GradientAfter gradientAfter, StageBackward backward) {
  if (kSplitBackward.contains(phase) &&
      phase != gradientPhase(gradientAfter, backward))
    return std::nullopt;
  return traitsOf(phase).flows.makes;
}

/// The data dependences of table cells, by the tables of phases and flows:
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
///          (Groups.h)
///
/// where "the gradient of s+1" is its B if it has one, else its I or W by
/// `gradientAfter`, or its I if it has no W (StageBackward.h). A stage without
/// a backward is sent no gradient. Only cells that the table has are returned:
/// first needed cells, then producers in other stages, then used cells. A flow
/// may also lead from the last stage to all, or from all to the last (Reach).
class Dependences {
public:
  Dependences(const TableView &table, const CellIndex &index);
  Dependences(const Dependences &) = delete; // points into itself

  /// A cell of another stage, and the worker it runs on.
  struct Producer {
    uint32_t flat = CellIndex::kNone;
    int64_t worker = -1;

    explicit operator bool() const { return flat != CellIndex::kNone; }
  };

  /// The cell whose output `cell` needs by a flow from one stage, on any
  /// worker: F s-1, the gradient of s+1, or the broadcast of the last stage.
  /// Empty if there is none, and for a reduction, which forEachProducer
  /// handles.
  Producer producerOf(Cell cell) const {
    const End &taking = takings[cell.getPhase()];
    if (!taking.others)
      return {};
    if (taking.reach == Reach::Next)
      return producerBefore(cell, *taking.others);
    if (taking.reach == Reach::Previous)
      return producerAbove(cell, *taking.others);
    return producerFar(cell, taking);
  }

  /// Calls `visit(producer)` for each cell of other stages whose output `cell`
  /// needs; for a reduction and a broadcast also for its stage's cell.
  template <typename Visit>
  void forEachProducer(Cell cell, Visit &&visit) const {
    const End &taking = takings[cell.getPhase()];
    if (taking.others && taking.reach == Reach::ToLast)
      return forEachPart(cell, visit);
    if (Producer producer = producerOf(cell))
      visit(producer);
  }

  /// Calls `visit(flat)` for each cell that `cell` waits for, in the order of
  /// the list above. Row order is not included.
  template <typename Visit>
  void forEachPredecessor(Cell cell, Visit &&visit) const {
    if (traitsOf(cell.getPhase()).number != CellNumber::Unit)
      return;
    const OwnEdges &edges = kOwnEdges[cell.getPhase()];
    int64_t own = index.entryOf(cell);
    auto visitOwn = [&](unsigned edge) {
      uint32_t flat = index.at(own, edges.phases[edge]);
      if (flat != CellIndex::kNone)
        visit(flat);
    };
    for (unsigned edge = 0; edge != edges.numNeeds; ++edge)
      visitOwn(edge);
    forEachProducer(cell, [&](Producer producer) { visit(producer.flat); });
    for (unsigned edge = edges.numNeeds; edge != edges.count; ++edge)
      visitOwn(edge);
  }

  /// The worker that the output of `cell` is sent to by a flow to one stage; -1
  /// if it stays on this worker or nothing needs it. F sends its activations
  /// forward; B and the `gradientAfter` cell send the gradient back. -2: it is
  /// broadcast, and forEachDestination has the workers.
  int64_t messageDestination(Cell cell) const;
  static constexpr int64_t kSeveral = -2;

  /// Calls `visit(worker)` once for each worker that the output of a cell is
  /// sent to.
  void forEachDestination(Cell cell,
                          llvm::function_ref<void(int64_t)> visit) const;

private:
  /// The columns of the phases that make or take a flow, as far as the table
  /// has them.
  struct Columns {
    static constexpr unsigned kMost = 4;
    unsigned count = 0;
    int32_t columns[kMost] = {};

    void add(int32_t column) {
      assert(count < kMost && "more phases make or take a flow");
      columns[count++] = column;
    }
  };
  /// The input or output of the cells of a phase: the phases at the other end
  /// of the flow, null if there is no flow.
  struct End {
    const Columns *others = nullptr;
    Reach reach = Reach::Next;
  };

  /// The flow that a cell makes for other stages.
  const End &makingOf(Cell cell) const {
    return cell.is(Phase::InputGrad) && !placement.trainsAll() &&
                   placement.backwardOf(cell) == StageBackward::Input
               ? inputMaking
               : makings[cell.getPhase()];
  }
  /// The first cell of an entry that makes a flow, or takes it; kNone if there
  /// is none. If several phases can make it, an entry has one of them, or W and
  /// an I before it that does not make it.
  uint32_t makerIn(int64_t entry, const Columns &some) const {
    uint32_t flat = CellIndex::kNone;
    for (unsigned i = 0; flat == CellIndex::kNone && i != some.count; ++i)
      flat = index.inColumn(entry, some.columns[i]);
    return flat;
  }
  Producer makerAt(int64_t path, int64_t stage, int64_t unit,
                   const Columns &some) const {
    // An entry has the number of its pair, so this takes no further look-up.
    int64_t global = placement.stageOffset(path) + stage;
    return {makerIn(placement.pairOf(global, unit), some),
            placement.workerOf(global)};
  }
  Producer producerBefore(Cell cell, const Columns &some) const {
    if (cell.getStage() == 0)
      return {};
    return makerAt(placement.pathOf(cell.getUnit()), cell.getStage() - 1,
                   cell.getUnit(), some);
  }
  Producer producerAbove(Cell cell, const Columns &some) const {
    int64_t path = placement.pathOf(cell.getUnit());
    int64_t stage = cell.getStage() + 1;
    if (stage == placement.getNumStages(path))
      return {};
    return makerAt(path, stage, cell.getUnit(), some);
  }
  /// The broadcast of the last stage; nothing for a reduction.
  Producer producerFar(Cell cell, const End &taking) const {
    if (taking.reach == Reach::ToLast)
      return {};
    int64_t path = placement.pathOf(cell.getUnit());
    return makerAt(path, placement.getNumStages(path) - 1, cell.getUnit(),
                   *taking.others);
  }
  /// Visits the cells of all stages that make a part for a cell of the last
  /// one.
  template <typename Visit>
  void forEachPart(Cell cell, Visit &&visit) const {
    int64_t path = placement.pathOf(cell.getUnit());
    int64_t numStages = placement.getNumStages(path);
    if (cell.getStage() != numStages - 1)
      return;
    for (int64_t stage = 0; stage != numStages; ++stage)
      if (Producer part = makerAt(path, stage, cell.getUnit(),
                                  *takings[cell.getPhase()].others))
        visit(part);
  }
  /// Whether a stage has a cell that waits for a flow.
  bool isTaken(int64_t stage, int64_t unit, const Columns &takers) const {
    return makerIn(index.entryOf(stage, unit), takers) != CellIndex::kNone;
  }

  const Placement &placement;
  const CellIndex &index;
  GradientAfter gradientAfter;
  std::array<Columns, kNumFlows> makers, takers; ///< by flow
  PhaseMap<End> takings, makings;
  End inputMaking; ///< of I, if it is the whole backward of its stage
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H
