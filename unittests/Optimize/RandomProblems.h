//===- RandomProblems.h - Random problems and rows --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows as the optimizer writes them: without overlap, with backwards all split
// or all whole, and with joins anywhere after their copies. A seed always gives
// the same problem and rows.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_RANDOMPROBLEMS_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_RANDOMPROBLEMS_H

#include "../Support/RandomTables.h"
#include "TestProblems.h"

namespace pipesched::optimize::test {

/// `table` may be unable to run, because joins and whole backwards may make a
/// cycle.
class RandomProblem {
public:
  explicit RandomProblem(uint32_t seed) : random(seed) {
    table = makeRandomTable(seed);
    table.slots.clear();
    problem = makeProblem(table.placement);
    problem.gradientAfter = table.gradientAfter;
    problem.sharedCopyQueue = draw(3) == 0;
    problem.techniques.splitBackward = draw(4) != 0;
    for (StageFacts &facts : problem.stages)
      drawFacts(facts);
    for (Row &row : table.rows)
      rewrite(row);
  }

  bool canRun() const {
    TableView view = table.view();
    for (auto [row, cells] : llvm::enumerate(view.rows))
      if (verifyRow(table.placement, row, cells))
        return false;
    return !verifyTable(view);
  }

  Table table;
  Problem problem;

private:
  int64_t draw(int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  }
  void drawFacts(StageFacts &facts) {
    facts.forward = 1 + draw(9);
    facts.inputGrad = 1 + draw(9);
    facts.weightGrad = 1 + draw(9);
    facts.recompute = draw(9);
    facts.offload = draw(30);
    facts.reload = draw(30);
    facts.activationDelay = draw(4);
    facts.gradientDelay = draw(4);
    facts.activation = draw(9);
    facts.checkpoint = draw(facts.activation + 1);
    facts.freedByInputGrad = draw(facts.activation + 3) - 2;
  }
  void rewrite(Row &row) {
    Row split;
    for (Cell cell : row) {
      cell = cell.withOverlap(false);
      bool isSplit = problem.techniques.splitBackward;
      if (cell.is(Phase::Recompute) &&
          llvm::is_contained(row, cell.withPhase(Phase::Offload)))
        continue; // not both offloaded and recomputed
      if (cell.is(Phase::Backward) && isSplit) {
        split.push_back(cell.withPhase(Phase::InputGrad));
        split.push_back(cell.withPhase(Phase::WeightGrad));
      } else if (cell.is(Phase::InputGrad) && !isSplit) {
        split.push_back(cell.withPhase(Phase::Backward));
      } else if (!cell.is(Phase::WeightGrad) || isSplit) {
        split.push_back(cell);
      }
    }
    row = std::move(split);
    addJoins(row);
  }
  void addJoins(Row &row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!row[i].isCopy() || draw(2))
        continue;
      Phase phase =
          row[i].is(Phase::Offload) ? Phase::OffloadJoin : Phase::ReloadJoin;
      Cell join = row[i].withPhase(phase);
      if (llvm::is_contained(row, join))
        continue;
      size_t at = i + 1 + draw(row.size() - i);
      row.insert(row.begin() + at, join);
    }
  }

  std::minstd_rand random;
};

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_RANDOMPROBLEMS_H
