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

static Path readPath(const PipeschedPath &given) {
  Path path;
  path.workers.assign(given.workers, given.workers + given.numStages);
  for (const PipeschedRange &range :
       llvm::ArrayRef(given.takes, given.numTakes))
    path.takes.push_back({range.begin, range.end, range.step});
  path.blocks = readLengths(given.blocks, given.numStages);
  path.weights = readLengths(given.weights, given.numStages);
  return path;
}

std::vector<Path> pipesched::readPaths(const PipeschedProblem &problem) {
  std::vector<Path> paths;
  for (const PipeschedPath &path :
       llvm::ArrayRef(problem.paths, problem.numPaths))
    paths.push_back(readPath(path));
  return paths;
}

llvm::Expected<Problem> pipesched::readProblem(const PipeschedProblem &given) {
  llvm::Expected<const Family *> family = lookUpFamily(unwrap(given.family));
  if (!family)
    return family.takeError();
  Problem problem;
  problem.family = *family;
  problem.workers = given.numWorkers;
  problem.microbatches = given.numMicrobatches;
  for (const PipeschedOption &option :
       llvm::ArrayRef(given.options, given.numOptions))
    if (llvm::Error error = setOption(problem.options, unwrap(option.name),
                                      unwrap(option.value)))
      return std::move(error);
  problem.paths = readPaths(given);
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
  return unwrap(table)->table.rows.size();
}

intptr_t pipeschedTableGetRow(PipeschedTable table, intptr_t worker,
                              const PipeschedCell **cells) {
  static_assert(sizeof(Cell) == sizeof(PipeschedCell),
                "rows are passed as they are stored");
  const Row &row = unwrap(table)->table.rows[worker];
  *cells = reinterpret_cast<const PipeschedCell *>(row.data());
  return row.size();
}
