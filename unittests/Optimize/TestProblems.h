//===- TestProblems.h - Problems for tests of the optimizer -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems with equal stages, and rows from text.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_TESTPROBLEMS_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_TESTPROBLEMS_H

#include "../Support/TestTables.h"
#include "PipeSched/Optimize/Problem/Solution.h"

namespace pipesched::optimize::test {

/// F, I and W take 10, 12 and 8; messages 1; copies 5; R 10. An activation has
/// 4 units and a checkpoint 1.
inline StageFacts makeFacts() {
  StageFacts facts;
  facts.forward = 10;
  facts.inputGrad = 12;
  facts.weightGrad = 8;
  facts.recompute = 10;
  facts.offload = facts.reload = 5;
  facts.activationDelay = facts.gradientDelay = 1;
  facts.activation = 4;
  facts.checkpoint = 1;
  return facts;
}

inline Problem makeProblem(Placement placement) {
  Problem problem;
  problem.name = "test";
  problem.placement = std::move(placement);
  problem.stages.assign(problem.placement.getNumGlobalStages(), makeFacts());
  problem.capacity.assign(problem.placement.getNumWorkers(), 1000);
  problem.techniques = {/*splitBackward=*/true, /*offload=*/true,
                        /*recompute=*/true};
  return problem;
}

inline llvm::Expected<Solution> timeRows(const Problem &problem,
                                         const std::vector<Row> &rows) {
  std::vector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  return optimize::timeRows(problem, views);
}

inline llvm::Expected<Solution>
timeRows(const Problem &problem, std::initializer_list<llvm::StringRef> texts) {
  std::vector<Row> rows;
  for (llvm::StringRef text : texts)
    rows.push_back(parseRow(text));
  return timeRows(problem, rows);
}

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_TESTPROBLEMS_H
