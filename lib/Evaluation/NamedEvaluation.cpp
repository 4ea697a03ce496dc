//===- NamedEvaluation.cpp - Results and what they are of -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps rows, and builds the task graph when it is first asked for.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;

void NamedTable::keepRows() {
  auto copies = std::make_shared<std::vector<Row>>();
  copies->reserve(table.rows.size());
  for (llvm::ArrayRef<Cell> &row : table.rows) {
    copies->emplace_back(row.begin(), row.end());
    row = copies->back();
  }
  kept = std::move(copies);
}

llvm::Error NamedEvaluation::checkHasCells() const {
  if (!cellsOfLongTable)
    return llvm::Error::success();
  return formatError(
      "{0} of {1} microbatches has more cells than a table may have ({2}): it "
      "is timed by its period, and has neither cells nor pictures; choose "
      "fewer microbatches",
      name, placement.getNumMicrobatches(), kMaxTableCells);
}

const Execution &NamedEvaluation::getExecution() const {
  assert(!cellsOfLongTable && "a long table has no execution");
  if (evaluation.execution)
    return *evaluation.execution;
  std::call_once(onDemand->once, [&] {
    // A walk ends only if the rows do not wait for each other, and its times
    // add up; so the graph has no cycle and the same times.
    onDemand->execution =
        llvm::cantFail(expandTotals(tableView(), evaluation.totals, timing),
                       "a table that was walked has a graph");
  });
  return *onDemand->execution;
}
