//===- Placements.cpp - Placements of the literature ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear, interleaved, V, wave and bidirectional paths. Errors for sizes that
// do not divide name the nearest that do.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

static bool isWorkerCount(int64_t numWorkers) {
  return numWorkers >= 1 && numWorkers <= kMaxWorkers;
}

/// Checks the number of stages, waves or pairs per worker. It must be at least
/// 1, and a path must not get more stages than it may have. Errors call the
/// number `name`, as the option is called.
static Error checkStageFactor(int64_t numWorkers, int64_t factor,
                              int64_t stagesPerUnit, const char *name) {
  if (!isWorkerCount(numWorkers))
    return formatError("{0} workers: there must be 1 to {1}", numWorkers,
                       kMaxWorkers);
  int64_t most = Cell::kMaxStages / (numWorkers * stagesPerUnit);
  if (factor < 1 || factor > most)
    return formatError("{0} {1}: there must be 1 to {2} with {3} workers, for "
                       "at most {4} stages",
                       factor, name, most, numWorkers, Cell::kMaxStages);
  return Error::success();
}

static void appendDown(Path &path, int64_t numWorkers) {
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    path.workers.push_back(worker);
}

static void appendUp(Path &path, int64_t numWorkers) {
  for (int64_t worker = numWorkers; worker-- > 0;)
    path.workers.push_back(worker);
}

Path pipesched::placeLinear(int64_t numWorkers) {
  Path path;
  if (isWorkerCount(numWorkers))
    appendDown(path, numWorkers);
  return path;
}

Expected<Path> pipesched::placeInterleaved(int64_t numWorkers, int64_t chunks) {
  if (Error error = checkStageFactor(numWorkers, chunks, 1, "chunks"))
    return std::move(error);
  Path path;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    appendDown(path, numWorkers);
  return path;
}

Path pipesched::placeV(int64_t numWorkers) {
  Path path = placeLinear(numWorkers);
  if (!path.workers.empty())
    appendUp(path, numWorkers);
  return path;
}

Expected<Path> pipesched::placeWave(int64_t numWorkers, int64_t waves) {
  if (Error error = checkStageFactor(numWorkers, waves, 2, "waves"))
    return std::move(error);
  Path path;
  for (int64_t wave = 0; wave < waves; ++wave) {
    appendDown(path, numWorkers);
    appendUp(path, numWorkers);
  }
  return path;
}

/// The divisors of `number` next below and above `value`, or the largest one.
static std::string nearestDivisors(int64_t number, int64_t value) {
  int64_t below = std::min(std::max<int64_t>(value, 1), number);
  while (number % below != 0)
    --below;
  int64_t above = std::min(std::max<int64_t>(value, 1), number);
  while (number % above != 0)
    ++above;
  if (below == above)
    return llvm::formatv("the nearest is {0}", below);
  return llvm::formatv("the nearest are {0} and {1}", below, above);
}

static Error checkNumPairs(int64_t numWorkers, int64_t pairs) {
  if (numWorkers < 2 || numWorkers > kMaxWorkers)
    return formatError("{0} workers: a bidirectional placement takes an even "
                       "number from 2 to {1}",
                       numWorkers, kMaxWorkers);
  if (numWorkers % 2 != 0)
    return formatError("{0} workers: a bidirectional placement takes an even "
                       "number; the nearest are {1} and {2}",
                       numWorkers, numWorkers - 1, numWorkers + 1);
  if (pairs < 1 || (numWorkers / 2) % pairs != 0)
    return formatError("{0} pairs: the number of pairs must divide half of the "
                       "{1} workers; {2}",
                       pairs, numWorkers,
                       nearestDivisors(numWorkers / 2, pairs));
  if (2 * pairs * numWorkers > Cell::kMaxStages)
    return formatError("{0} pairs on {1} workers make {2} stages: there may be "
                       "{3} at most",
                       pairs, numWorkers, 2 * pairs * numWorkers,
                       Cell::kMaxStages);
  return Error::success();
}

static Error checkShares(int64_t numMicrobatches, int64_t numPaths,
                         Assign assign) {
  if (numMicrobatches < numPaths)
    return formatError("{0} microbatches: {1} paths need at least {1}",
                       numMicrobatches, numPaths);
  if (assign == Assign::Halves && numMicrobatches % numPaths != 0) {
    int64_t below = numMicrobatches / numPaths * numPaths;
    return formatError("{0} microbatches are no equal parts for {1} paths; the "
                       "nearest numbers are {2} and {3}",
                       numMicrobatches, numPaths, below, below + numPaths);
  }
  return Error::success();
}

static MicrobatchRange shareOf(int64_t path, int64_t numPaths,
                               int64_t numMicrobatches, Assign assign) {
  if (assign == Assign::Alternate)
    return {path, numMicrobatches, numPaths};
  int64_t part = numMicrobatches / numPaths;
  return {path * part, (path + 1) * part, 1};
}

Expected<std::vector<Path>>
pipesched::placeBidirectional(int64_t numWorkers, int64_t numMicrobatches,
                              int64_t pairs, Assign assign) {
  if (Error error = checkNumPairs(numWorkers, pairs))
    return std::move(error);
  int64_t numPaths = 2 * pairs;
  if (Error error = checkShares(numMicrobatches, numPaths, assign))
    return std::move(error);
  std::vector<Path> paths(numPaths);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    Path &down = paths[2 * pair], &up = paths[2 * pair + 1];
    int64_t first = pair * numWorkers / pairs;
    for (int64_t stage = 0; stage < numWorkers; ++stage)
      down.workers.push_back((first + stage) % numWorkers);
    up.workers.assign(down.workers.rbegin(), down.workers.rend());
  }
  for (int64_t path = 0; path < numPaths; ++path)
    paths[path].takes = {shareOf(path, numPaths, numMicrobatches, assign)};
  return paths;
}
