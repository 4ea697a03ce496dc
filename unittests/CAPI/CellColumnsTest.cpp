//===- CellColumnsTest.cpp - Cells as columns of the C API ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The columns of evaluated cells against the rows of the tables they come from,
// for every family, and against what an optimizer step adds to them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/Evaluation.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <string>
#include <vector>

namespace {

/// One entry of the columns.
struct Entry {
  int64_t worker, index, stage, phase, microbatch, startPs, endPs;
};

/// The columns of an evaluation, each as long as there are cells, so that the
/// address sanitizer sees what is written behind their end.
std::vector<Entry> readCells(PipeschedEvaluation evaluation) {
  size_t count = pipeschedEvaluationGetNumCells(evaluation);
  std::vector<int32_t> worker(count), index(count), stage(count), number(count);
  std::vector<int8_t> phase(count);
  std::vector<int64_t> start(count), end(count);
  pipeschedEvaluationGetCells(
      evaluation,
      {worker.data(), index.data(), stage.data(), phase.data(), number.data(),
       nullptr, start.data(), end.data(), nullptr, nullptr, nullptr});
  std::vector<Entry> entries;
  for (size_t i = 0; i < count; ++i)
    entries.push_back(
        {worker[i], index[i], stage[i], phase[i], number[i], start[i], end[i]});
  return entries;
}

void append(MlirStringRef text, void *to) {
  static_cast<std::string *>(to)->append(text.data, text.length);
}

/// Calls `check` with the table of a problem, if the family has one.
template <typename Check>
void forTable(const PipeschedProblem &problem, Check &&check) {
  std::string error;
  PipeschedTable table = pipeschedTableGenerate(problem, append, &error);
  if (pipeschedTableIsNull(table))
    return;
  check(table);
  pipeschedTableDestroy(table);
}

std::vector<Entry> evaluate(const PipeschedProblem &problem,
                            PipeschedOptimizerStep step) {
  PipeschedConfiguration configuration = {};
  configuration.problem = problem;
  configuration.optimizerStep = step;
  std::string error;
  PipeschedEvaluation evaluation =
      pipeschedConfigurationEvaluate(&configuration, append, &error);
  EXPECT_FALSE(pipeschedEvaluationIsNull(evaluation)) << error;
  if (pipeschedEvaluationIsNull(evaluation))
    return {};
  std::vector<Entry> entries = readCells(evaluation);
  pipeschedEvaluationDestroy(evaluation);
  return entries;
}

bool isJoin(const PipeschedCell &cell) {
  return cell.phase == PipeschedPhaseOffloadJoin ||
         cell.phase == PipeschedPhaseReloadJoin ||
         cell.phase == PipeschedPhaseIdle;
}

/// Compares the entries of a worker with the row it has in the table; an
/// optimizer step adds O and G cells. Returns the entry after them.
size_t expectRow(PipeschedTable table, int64_t worker,
                 const std::vector<Entry> &entries, size_t next) {
  intptr_t length = pipeschedTableGetRowSize(table, worker);
  std::vector<PipeschedCell> cells(length);
  EXPECT_TRUE(mlirLogicalResultIsSuccess(pipeschedTableGetRow(
      table, worker, length, cells.data(), nullptr, nullptr)));
  intptr_t given = 0;
  int64_t index = 0;
  for (; next < entries.size() && entries[next].worker == worker; ++next) {
    const Entry &entry = entries[next];
    EXPECT_EQ(entry.index, index++);
    EXPECT_LE(0, entry.startPs);
    EXPECT_LE(entry.startPs, entry.endPs);
    if (entry.phase == PipeschedPhaseOptimizer ||
        entry.phase == PipeschedPhaseAllReduce)
      continue;
    while (given < length && isJoin(cells[given]))
      ++given;
    EXPECT_LT(given, length);
    if (given >= length)
      return entries.size();
    PipeschedCell cell = cells[given++];
    EXPECT_EQ(entry.phase, cell.phase);
    EXPECT_EQ(entry.stage, cell.stage);
    EXPECT_EQ(entry.microbatch, cell.number);
  }
  EXPECT_EQ(given, length);
  return next;
}

void expectColumns(PipeschedTable table, const PipeschedProblem &problem) {
  for (PipeschedOptimizerStep step :
       {PipeschedOptimizerStepNone, PipeschedOptimizerStepOverlapped,
        PipeschedOptimizerStepExposed}) {
    std::vector<Entry> entries = evaluate(problem, step);
    size_t next = 0;
    for (int64_t worker = 0; worker < problem.numWorkers; ++worker)
      next = expectRow(table, worker, entries, next);
    EXPECT_EQ(next, entries.size());
  }
}

} // namespace

TEST(CellColumns, AreTheRowsOfEveryFamily) {
  for (intptr_t family = 0; family < pipeschedGetNumFamilies(); ++family)
    for (int64_t workers = 1; workers <= 4; ++workers)
      for (int64_t microbatches : {1, 2, 4, 6, 8}) {
        PipeschedProblem problem = {};
        problem.family = pipeschedGetFamily(family).name;
        problem.numWorkers = workers;
        problem.numMicrobatches = microbatches;
        SCOPED_TRACE(testing::Message()
                     << std::string(problem.family.data, problem.family.length)
                     << " D=" << workers << " N=" << microbatches);
        forTable(problem,
                 [&](PipeschedTable table) { expectColumns(table, problem); });
      }
}

/// Both workers of Chimera have a G for each of their two stages.
TEST(CellColumns, NameTheGCellsOfEachWorker) {
  PipeschedProblem problem = {};
  problem.family = mlirStringRefCreateFromCString("chimera");
  problem.numWorkers = problem.numMicrobatches = 2;
  std::vector<std::string> found;
  for (const Entry &entry : evaluate(problem, PipeschedOptimizerStepOverlapped))
    if (entry.phase == PipeschedPhaseAllReduce)
      found.push_back(std::to_string(entry.worker) + ": " +
                      std::to_string(entry.stage) + "G" +
                      std::to_string(entry.microbatch));
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found,
            (std::vector<std::string>{"0: 0G0", "0: 1G1", "1: 0G1", "1: 1G0"}));
}
