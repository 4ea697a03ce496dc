//===- Schedule.cpp - C API for schedule tables ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads problems and generates the tables for them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Schedule.h"
#include "Rows.h"
#include "Wrap.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

static std::vector<int64_t> readLengths(const int64_t *lengths,
                                        intptr_t numStages) {
  return lengths ? std::vector<int64_t>(lengths, lengths + numStages)
                 : std::vector<int64_t>();
}

static llvm::Expected<Path> readPath(const PipeschedPath &given) {
  auto workers = readArray("workers of stages", given.workers, given.numStages);
  if (!workers)
    return workers.takeError();
  auto takes = readArray("ranges of a path", given.takes, given.numTakes);
  if (!takes)
    return takes.takeError();
  Path path;
  path.workers.assign(workers->begin(), workers->end());
  for (const PipeschedRange &range : *takes)
    path.takes.push_back({range.begin, range.end, range.step});
  path.blocks = readLengths(given.blocks, given.numStages);
  path.weights = readLengths(given.weights, given.numStages);
  return path;
}

llvm::Expected<std::vector<Path>>
pipesched::readPaths(const PipeschedProblem &problem) {
  auto given = readArray("paths", problem.paths, problem.numPaths);
  if (!given)
    return given.takeError();
  std::vector<Path> paths;
  for (const PipeschedPath &each : *given) {
    llvm::Expected<Path> path = readPath(each);
    if (!path)
      return path.takeError();
    paths.push_back(std::move(*path));
  }
  return paths;
}

llvm::Expected<Problem> pipesched::readProblem(const PipeschedProblem &given) {
  llvm::Expected<const Family *> family = lookUpFamily(readText(given.family));
  if (!family)
    return family.takeError();
  Problem problem;
  problem.family = *family;
  problem.workers = given.numWorkers;
  problem.microbatches = given.numMicrobatches;
  auto options = readArray("options", given.options, given.numOptions);
  if (!options)
    return options.takeError();
  for (const PipeschedOption &option : *options)
    if (llvm::Error error = setOption(problem.options, readText(option.name),
                                      readText(option.value)))
      return std::move(error);
  if (given.numSlices != 0)
    problem.options.slices = given.numSlices;
  auto paths = readPaths(given);
  if (!paths)
    return paths.takeError();
  problem.paths = std::move(*paths);
  return problem;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

PipeschedTable pipeschedTableGenerate(PipeschedProblem given,
                                      MlirStringCallback onError,
                                      void *userData) {
  llvm::Expected<Problem> problem = readProblem(given);
  if (!problem) {
    passError(onError, userData, problem.takeError());
    return {nullptr};
  }
  llvm::Expected<Table> table = generate(*problem);
  if (!table) {
    passError(onError, userData, table.takeError());
    return {nullptr};
  }
  return wrap(new GeneratedTable{std::move(*problem), std::move(*table)});
}

void pipeschedTableDestroy(PipeschedTable table) { delete unwrap(table); }

intptr_t pipeschedTableGetNumWorkers(PipeschedTable table) {
  return table.ptr ? unwrap(table)->table.rows.size() : 0;
}

/// The row of a worker; null if there is none.
static const Row *findRow(PipeschedTable table, intptr_t worker) {
  bool isThere = worker >= 0 && worker < pipeschedTableGetNumWorkers(table);
  return isThere ? &unwrap(table)->table.rows[worker] : nullptr;
}

intptr_t pipeschedTableGetRowSize(PipeschedTable table, intptr_t worker) {
  const Row *row = findRow(table, worker);
  return row ? row->size() : 0;
}

MlirLogicalResult pipeschedTableGetRow(PipeschedTable table, intptr_t worker,
                                       intptr_t numCells, PipeschedCell *cells,
                                       MlirStringCallback onError,
                                       void *userData) {
  const Row *row = findRow(table, worker);
  llvm::Error error =
      row ? writeRow(*row, unwrap(table)->table.placement.getNumSlices(),
                     numCells, cells)
          : llvm::createStringError(
                "expected a worker below " +
                llvm::Twine(pipeschedTableGetNumWorkers(table)) + ", found " +
                llvm::Twine(worker));
  if (!error)
    return mlirLogicalResultSuccess();
  passError(onError, userData, std::move(error));
  return mlirLogicalResultFailure();
}
