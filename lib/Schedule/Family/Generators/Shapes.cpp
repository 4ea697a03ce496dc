//===- Shapes.cpp - Recognizes the shape of a placement -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognizes linear, interleaved, wave and mirrored paths by their workers.
// Refuses other paths and names the first stage that is on an unexpected
// worker.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static Error checkOnePath(const Placement &placement, StringRef family) {
  if (placement.getNumPaths() == 1)
    return Error::success();
  return formatError("{0} takes one path, found {1}", family,
                     placement.getNumPaths());
}

Error pipesched::checkOneStagePerWorker(const Placement &placement,
                                        StringRef family) {
  if (Error error = checkOnePath(placement, family))
    return error;
  int64_t numWorkers = placement.getNumWorkers();
  if (placement.getMaxStages() != numWorkers)
    return formatError("{0} takes one stage per worker, found {1} stages on "
                       "{2} workers",
                       family, placement.getMaxStages(), numWorkers);
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    if (placement.getNumLocalStages(worker) != 1)
      return formatError("{0} takes one stage per worker, found {1} on worker "
                         "{2}",
                         family, placement.getNumLocalStages(worker), worker);
  return Error::success();
}

/// Checks that the first D stages of the first path are on D workers.
static Error checkFirstRound(const Placement &placement, StringRef family) {
  int64_t end = std::min(placement.getNumWorkers(), placement.getNumStages(0));
  for (int64_t stage = 0; stage < end; ++stage)
    if (placement.localStage(stage) != 0)
      return formatError("{0} takes a path that visits every worker before it "
                         "comes back to one, found stage {1} on worker {2} "
                         "again",
                         family, stage, placement.workerOf(stage));
  return Error::success();
}

Expected<int64_t> pipesched::readChunks(const Placement &placement,
                                        StringRef family) {
  if (Error error = checkOnePath(placement, family))
    return std::move(error);
  if (Error error = checkFirstRound(placement, family))
    return std::move(error);
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numStages = placement.getMaxStages();
  if (numStages % numWorkers != 0)
    return formatError("{0} takes the same number of stages on every worker, "
                       "found {1} stages on {2} workers",
                       family, numStages, numWorkers);
  for (int64_t stage = 0; stage < numStages; ++stage) {
    int64_t worker = placement.workerOf(stage);
    int64_t wanted = placement.workerOf(stage % numWorkers);
    if (worker != wanted)
      return formatError("{0} takes an interleaved path, with stage {1} on "
                         "worker {2} as stage {3} is, found it on worker {4}",
                         family, stage, wanted, stage % numWorkers, worker);
  }
  return numStages / numWorkers;
}

Expected<int64_t> pipesched::readWaves(const Placement &placement,
                                       StringRef family) {
  if (Error error = checkOnePath(placement, family))
    return std::move(error);
  if (Error error = checkFirstRound(placement, family))
    return std::move(error);
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numStages = placement.getMaxStages();
  if (numStages % (2 * numWorkers) != 0)
    return formatError(
        "{0} takes a wave placement, of a multiple of {1} stages "
        "on {2} workers, found {3} stages",
        family, 2 * numWorkers, numWorkers, numStages);
  for (int64_t stage = 0; stage < numStages; ++stage) {
    bool isUp = stage / numWorkers % 2 != 0;
    int64_t position = stage % numWorkers;
    int64_t worker = placement.workerOf(stage);
    int64_t wanted =
        placement.workerOf(isUp ? numWorkers - 1 - position : position);
    if (worker != wanted)
      return formatError("{0} takes a wave placement, with stage {1} on worker "
                         "{2}, found it on worker {3}",
                         family, stage, wanted, worker);
  }
  return numStages / (2 * numWorkers);
}

Error pipesched::checkVPath(const Placement &placement, StringRef family) {
  if (Error error = checkOnePath(placement, family))
    return error;
  int64_t numWorkers = placement.getNumWorkers();
  if (placement.getMaxStages() != 2 * numWorkers)
    return formatError("{0} takes a V path, down all workers and up again in "
                       "{1} stages on {2} workers, found {3} stages",
                       family, 2 * numWorkers, numWorkers,
                       placement.getMaxStages());
  return readWaves(placement, family).takeError();
}

static Error checkPairedPath(const Placement &placement, int64_t path,
                             int64_t pairs, StringRef family) {
  int64_t numWorkers = placement.getNumWorkers();
  if (placement.getNumStages(path) != numWorkers)
    return formatError("{0} takes one stage per worker on each path, found {1} "
                       "stages on {2} workers on path {3}",
                       family, placement.getNumStages(path), numWorkers, path);
  int64_t first = path / 2 * (numWorkers / pairs);
  for (int64_t stage = 0; stage < numWorkers; ++stage) {
    int64_t worker = placement.workerOf(placement.stageOffset(path) + stage);
    int64_t downStage = path % 2 == 0 ? stage : numWorkers - 1 - stage;
    int64_t wanted = placement.workerOf((first + downStage) % numWorkers);
    if (worker != wanted)
      return formatError("{0} takes a bidirectional placement, with stage {1} "
                         "of path {2} on worker {3}, found it on worker {4}",
                         family, stage, path, wanted, worker);
  }
  return Error::success();
}

Expected<int64_t> pipesched::readPairs(const Placement &placement,
                                       StringRef family) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numPaths = placement.getNumPaths(), pairs = numPaths / 2;
  if (numPaths % 2 != 0)
    return formatError("{0} takes mirrored pairs of paths, found {1} {2}",
                       family, numPaths, numPaths == 1 ? "path" : "paths");
  if (numWorkers % numPaths != 0)
    return formatError("{0} takes pairs of paths whose number divides half of "
                       "the {1} workers, found {2}",
                       family, numWorkers, pairs);
  if (Error error = checkFirstRound(placement, family))
    return std::move(error);
  for (int64_t path = 0; path < numPaths; ++path)
    if (Error error = checkPairedPath(placement, path, pairs, family))
      return std::move(error);
  return pairs;
}
