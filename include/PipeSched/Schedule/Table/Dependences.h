//===- Dependences.h - The dependences of cells -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The single rule that decides which cells a cell needs and which message it
// sends. Alignment, verification, lowering and formulas all follow it
// (docs/Dialects/RationalePipe.md, "Gradient rule").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H
#define PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// Returns the flow that a cell of a phase needs from other stages, if some
/// stage passes it to the cell's stage.
constexpr std::optional<Flow> flowNeededBy(Phase phase) {
  return traitsOf(phase).flows.takes;
}
/// Returns the phase of a split backward that makes the gradient. For a stage
/// without W it is I.
constexpr Phase gradientPhase(GradientAfter gradientAfter,
                              StageBackward backward) {
  return gradientAfter == GradientAfter::InputGrad ||
                 backward == StageBackward::Input
             ? Phase::InputGrad
             : Phase::WeightGrad;
}
/// Returns the flow that a cell of a phase makes for other stages. Only one
/// cell of a backward makes the gradient: B, or I or W if the backward is
/// split.
constexpr std::optional<Flow>
flowMadeBy(Phase phase, GradientAfter gradientAfter, StageBackward backward) {
  if (kSplitBackward.contains(phase) &&
      phase != gradientPhase(gradientAfter, backward))
    return std::nullopt;
  return traitsOf(phase).flows.makes;
}

/// Calls `visit(from, to)` for each edge whose tensor or gradient the message
/// of a stage and unit to a worker carries. A tensor is sent once, and
/// gradients with a `target` that `isSummedLater` leave with another cell.
template <typename IsSummedLater, typename Visit>
void forEachCarriedEdge(const Placement &placement, Flow flow, int64_t stage,
                        int64_t unit, int64_t worker,
                        IsSummedLater &&isSummedLater, Visit &&visit) {
  const StageEdges &edges = placement.getEdges();
  llvm::SmallVector<int32_t> sent;
  for (int32_t target : edges.targetsOf(flow, stage)) {
    if (placement.workerOf(target) != worker || !placement.runs(target, unit))
      continue;
    if (flow == Flow::Gradient) {
      if (!isSummedLater(target))
        visit(target, stage);
      continue;
    }
    int32_t tensor = edges.tensorOf(stage, target);
    if (llvm::is_contained(sent, tensor))
      continue;
    sent.push_back(tensor);
    visit(stage, target);
  }
}

/// The data dependences of table cells, by the table of phases and the edges
/// between stages (StageEdges.h):
///
///   F s    after F of each stage with an edge to s
///   B, I   after own F and the gradient of each stage to which an edge of s
///          leads that carries one;
///          after own R and U where the table has them
///   W s    after own I
///   R s    after own F; after own U where the table has it
///   D s    after own F
///   U s    after own D
///   d, u   after the copy they name
///   O, G   nothing: their place in the row decides, and for G its group
///          (Groups.h)
///
/// where the gradient of a stage is its B if it has one, else its I or W by
/// `gradientAfter`, or its I if it has no W (StageBackward.h). Gradients of one
/// tensor by several stages of another worker are summed there, and come with
/// the last of them in its row. Only cells that the table has are returned:
/// first needed cells, then producers in other stages, then used cells.
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

  /// Returns the first cell of another stage whose output `cell` needs, on any
  /// worker; empty if `cell` needs none.
  Producer producerOf(Cell cell) const {
    Producer first;
    forEachProducer(cell, [&](Producer producer) {
      if (!first)
        first = producer;
    });
    return first;
  }

  /// Calls `visit(producer)` for each cell of another stage whose output `cell`
  /// needs, by ascending stage.
  template <typename Visit>
  void forEachProducer(Cell cell, Visit &&visit) const {
    const End &taking = takings[cell.getPhase()];
    if (!taking.others)
      return;
    int64_t stage = globalStage(cell), unit = cell.getUnit();
    if (LLVM_LIKELY(taking.line != nullptr)) {
      Source source = taking.line[stage];
      if (source.stage < 0)
        return;
      int64_t entry = placement.pairOf(source.stage, unit);
      Producer producer = {makerIn(entry, *taking.others), source.worker};
      if (producer)
        visit(producer);
      return;
    }
    for (int64_t source : edges.sourcesOf(taking.flow, stage))
      if (Producer producer = makerAt(source, unit, *taking.others))
        if (!isSummedLater(taking.flow, source, stage, unit))
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

  /// Calls `visit(worker)` once for each other worker that the output of a cell
  /// is sent to, in the order of the first stage there that needs it.
  template <typename Visit>
  void forEachDestination(Cell cell, Visit &&visit) const {
    const End &making = makingOf(cell);
    if (!making.others)
      return;
    int64_t stage = globalStage(cell), unit = cell.getUnit();
    llvm::ArrayRef<int32_t> targets = edges.targetsOf(making.flow, stage);
    if (LLVM_LIKELY(edges.areLines())) {
      if (targets.empty())
        return;
      Producer taker = makerAt(targets[0], unit, *making.others);
      if (taker && taker.worker != placement.workerOf(stage))
        visit(taker.worker);
      return;
    }
    for (auto [i, target] : llvm::enumerate(targets)) {
      int64_t worker = placement.workerOf(target);
      auto isSentFor = [&](int64_t other) {
        return placement.workerOf(other) == worker &&
               makerIn(placement.pairOf(other, unit), *making.others) !=
                   CellIndex::kNone &&
               !isSummedLater(making.flow, stage, other, unit);
      };
      if (worker != placement.workerOf(stage) && isSentFor(target) &&
          llvm::none_of(targets.take_front(i), isSentFor))
        visit(worker);
    }
  }
  /// Calls `visit(from, to)` for each edge whose tensor or gradient the message
  /// of a cell to another worker carries.
  template <typename Visit>
  void forEachEdgeTo(int64_t worker, Cell cell, Visit &&visit) const {
    Flow flow = makingOf(cell).flow;
    int64_t stage = globalStage(cell), unit = cell.getUnit();
    auto isLater = [&](int64_t target) {
      return isSummedLater(flow, stage, target, unit);
    };
    forEachCarriedEdge(placement, flow, stage, unit, worker, isLater, visit);
  }
  /// The only worker that the output of `cell` is sent to; -1 if it stays on
  /// this worker or nothing needs it, and kSeveral if there are several.
  int64_t messageDestination(Cell cell) const {
    int64_t destination = -1;
    forEachDestination(cell, [&](int64_t worker) {
      destination = destination == -1 ? worker : kSeveral;
    });
    return destination;
  }
  static constexpr int64_t kSeveral = -2;

private:
  /// The columns of the phases that make or take a flow, limited to the phases
  /// that the table has.
  struct Columns {
    static constexpr unsigned kMost = 4;
    unsigned count = 0;
    int32_t columns[kMost] = {};

    void add(int32_t column) {
      assert(count < kMost && "more phases make or take a flow");
      columns[count++] = column;
    }
  };
  /// A stage and its worker, or no stage.
  struct Source {
    int32_t stage = -1, worker = -1;
  };
  /// The phases at the other end of the flow that cells of a phase take or
  /// make; null if there is no flow.
  struct End {
    const Columns *others = nullptr;
    Flow flow = Flow::Activation;
    /// By global stage: the only stage that passes it the flow. Null if some
    /// stage receives it from several.
    const Source *line = nullptr;
  };

  void findLines();
  /// Returns the flow that a cell makes for other stages.
  const End &makingOf(Cell cell) const {
    return cell.is(Phase::InputGrad) && !placement.trainsAll() &&
                   placement.backwardOf(cell) == StageBackward::Input
               ? inputMaking
               : makings[cell.getPhase()];
  }
  /// Returns the first cell of an entry that makes a flow, or takes it; kNone
  /// if no cell does. If several phases can make it, an entry has one of them,
  /// or W and an I before it that does not make it.
  uint32_t makerIn(int64_t entry, const Columns &some) const {
    uint32_t flat = CellIndex::kNone;
    for (unsigned i = 0; flat == CellIndex::kNone && i != some.count; ++i)
      flat = index.inColumn(entry, some.columns[i]);
    return flat;
  }
  Producer makerAt(int64_t stage, int64_t unit, const Columns &some) const {
    // An entry has the same number as its pair, so no second look-up is needed.
    return {makerIn(placement.pairOf(stage, unit), some),
            placement.workerOf(stage)};
  }
  int64_t globalStage(Cell cell) const {
    return placement.stageOffset(placement.pathOf(cell.getUnit())) +
           cell.getStage();
  }
  /// Whether the gradient that a stage makes for a tensor of another one leaves
  /// its worker with that of a later cell of its row.
  bool isSummedLater(Flow flow, int64_t stage, int64_t target,
                     int64_t unit) const {
    int64_t worker = placement.workerOf(stage);
    llvm::ArrayRef<int32_t> summed = edges.sourcesOf(flow, target);
    if (flow != Flow::Gradient || summed.size() == 1 ||
        worker == placement.workerOf(target))
      return false;
    const Columns &some = makers[static_cast<unsigned>(flow)];
    uint32_t self = makerAt(stage, unit, some).flat;
    int32_t tensor = edges.tensorOf(target, stage);
    return llvm::any_of(summed, [&](int64_t other) {
      Producer producer = makerAt(other, unit, some);
      return producer && producer.worker == worker && producer.flat > self &&
             edges.tensorOf(target, other) == tensor;
    });
  }

  const Placement &placement;
  const CellIndex &index;
  const StageEdges &edges;
  std::array<std::vector<Source>, kNumFlows> lines; ///< by flow, global stage
  std::array<Columns, kNumFlows> makers, takers;    ///< by flow
  PhaseMap<End> takings, makings;
  End inputMaking; ///< for I, where I is the whole backward of its stage
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_DEPENDENCES_H
