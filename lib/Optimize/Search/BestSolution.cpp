//===- BestSolution.cpp - The best solution so far ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifies every solution before it is taken.
//
//===----------------------------------------------------------------------===//

#include "BestSolution.h"

using namespace pipesched;
using namespace pipesched::optimize;

void BestSolution::offer(Solution offered, llvm::StringRef name) {
  if (objectiveOf(problem, offered) >= getObjective())
    return;
  if (llvm::Error error = verifySolution(problem, offered))
    return llvm::consumeError(std::move(error));
  solution = std::move(offered);
  origin = name.str();
}

void BestSolution::offer(llvm::ArrayRef<Row> rows, llvm::StringRef name) {
  std::vector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  llvm::Expected<Solution> timed = timeRows(problem, views);
  if (!timed)
    return llvm::consumeError(timed.takeError());
  offer(std::move(*timed), name);
}
