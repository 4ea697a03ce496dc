//===- RandomTables.h - Tables that no generator makes ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Complete tables without a cycle, for property tests: cells in any order in
// which they can run, with split and whole backwards, overlapped pairs, R,
// copies and idle slots, and with frozen stages if asked. A seed always gives
// the same table.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_RANDOMTABLES_H
#define PIPESCHED_UNITTESTS_SUPPORT_RANDOMTABLES_H

#include "CheckTable.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include <random>

namespace pipesched {

/// Appends random runnable cells to the rows until none is left.
class RandomTable {
public:
  explicit RandomTable(uint32_t seed, bool freezes = false) : random(seed) {
    table.placement = place();
    if (freezes)
      freeze();
    table.rows.resize(table.placement.getNumWorkers());
    if (draw(2))
      table.gradientAfter = GradientAfter::WeightGrad;
    for (int64_t m = 0; m < table.placement.getNumMicrobatches(); ++m)
      ready.emplace_back(0, Phase::Forward, m);
  }

  Table make() {
    if (draw(3) == 0) // separate lengths
      for (int64_t i = 0; i < table.placement.getNumGlobalStages(); ++i)
        table.slots.emplace_back(1 + draw(3), 1 + draw(3), draw(3));
    while (!ready.empty()) {
      std::swap(ready[draw(ready.size())], ready.back());
      Cell cell = ready.back();
      ready.pop_back();
      run(cell);
    }
    for (Row &row : table.rows)
      overlap(row);
    return std::move(table);
  }

private:
  int64_t draw(int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  }

  Placement place() {
    int64_t workers = 1 + draw(4), microbatches = 1 + draw(6);
    Path path = placeLinear(workers);
    if (draw(2)) // chunks
      path.workers.insert(path.workers.end(), path.workers.begin(),
                          path.workers.end());
    if (draw(2)) // a V, or stages that follow one another on a worker
      std::reverse(path.workers.begin() + path.getNumStages() / 2,
                   path.workers.end());
    if (microbatches == 1 || draw(2))
      return makePlacement(workers, microbatches, {path});
    Path back = path;
    std::reverse(back.workers.begin(), back.workers.end());
    path.takes = {{0, microbatches, 2}};
    back.takes = {{1, microbatches, 2}};
    return makePlacement(workers, microbatches, {path, back});
  }

  /// Makes each path forward only, or freezes the same stages of all.
  void freeze() {
    PathBackward backward;
    backward.isNone = draw(8) == 0;
    for (int64_t s = 0; s < table.placement.getNumStages(0); ++s)
      if (!backward.isNone && draw(2))
        backward.frozen.push_back(s);
    std::vector<Path> paths = table.placement.getPaths();
    for (Path &path : paths)
      path.backward = backward;
    table.placement = llvm::cantFail(table.placement.withPaths(paths));
  }

  void append(Cell cell) {
    const Placement &placement = table.placement;
    Row &row = table.rows[placement.workerOf(placement.globalStage(cell))];
    if (draw(8) == 0)
      row.push_back(Cell::idle(1 + draw(3)));
    row.push_back(cell);
  }

  /// Runs a cell and makes ready the cells that waited only for it.
  void run(Cell cell) {
    append(cell);
    int64_t stage = cell.getStage(), microbatch = cell.getUnit();
    if (cell.is(Phase::Forward)) {
      runBetween(cell);
      if (stage + 1 < numStages(microbatch))
        ready.emplace_back(stage + 1, Phase::Forward, microbatch);
      else
        releaseBackward(stage, microbatch);
      return;
    }
    StageBackward kind = table.placement.backwardOf(cell);
    if (cell.is(Phase::InputGrad) && kind == StageBackward::Whole)
      ready.push_back(cell.withPhase(Phase::WeightGrad));
    bool waitsForOther = cell.isIn(kSplitBackward) &&
                         !cell.is(gradientPhase(table.gradientAfter, kind));
    if (stage > 0 && !waitsForOther)
      releaseBackward(stage - 1, microbatch);
  }

  int64_t numStages(int64_t microbatch) const {
    return table.placement.getNumStages(table.placement.pathOf(microbatch));
  }

  void releaseBackward(int64_t stage, int64_t microbatch) {
    Cell backward(stage, draw(2) ? Phase::Backward : Phase::InputGrad,
                  microbatch);
    PhaseSet starts = backwardStarts(table.placement.backwardOf(backward));
    if (starts.isEmpty())
      return;
    ready.push_back(starts.contains(Phase::Backward)
                        ? backward
                        : backward.withPhase(Phase::InputGrad));
  }

  /// Adds copies and R to some forwards.
  void runBetween(Cell forward) {
    if (table.placement.backwardOf(forward) == StageBackward::None)
      return;
    if (draw(4) == 0) {
      append(forward.withPhase(Phase::Offload));
      if (draw(2))
        append(forward.withPhase(Phase::OffloadJoin));
      append(forward.withPhase(Phase::Reload));
    }
    if (draw(6) == 0)
      append(forward.withPhase(Phase::Recompute));
  }

  /// Overlaps neighbours if the table stays sound.
  void overlap(Row &row) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      if (draw(4) != 0)
        continue;
      row[i] = row[i].withOverlap(true);
      if (isPossible())
        ++i;
      else
        row[i] = row[i].withOverlap(false);
    }
  }

  bool isPossible() const {
    TableView view = table.view();
    for (int64_t row = 0, e = view.rows.size(); row < e; ++row)
      if (verifyRow(table.placement, row, view.rows[row]))
        return false;
    return !verifyTable(view);
  }

  std::minstd_rand random;
  Table table;
  std::vector<Cell> ready;
};

inline Table makeRandomTable(uint32_t seed) { return RandomTable(seed).make(); }
inline Table makeFrozenTable(uint32_t seed) {
  return RandomTable(seed, /*freezes=*/true).make();
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_RANDOMTABLES_H
