//===- Placement.cpp - Paths of microbatches through the workers ----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks paths and indexes them, so that loops over cells look everything up in
// constant time. Placements.cpp has the placements of the literature.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <numeric>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// Several paths need arrays by microbatch; this limits their size.
static constexpr int64_t kMaxAssignedMicrobatches = int64_t(1) << 28;

static Error checkSizes(int64_t numWorkers, int64_t numMicrobatches,
                        size_t numPaths) {
  if (numWorkers < 1 || numWorkers > kMaxWorkers)
    return formatError("{0} workers: there must be 1 to {1}", numWorkers,
                       kMaxWorkers);
  if (numMicrobatches < 1 || numMicrobatches > Cell::kMaxMicrobatches)
    return formatError("{0} microbatches: there must be 1 to {1}",
                       numMicrobatches, Cell::kMaxMicrobatches);
  if (numPaths == 0)
    return formatError("there is no path: at least one is needed");
  if (static_cast<int64_t>(numPaths) > Cell::kMaxMicrobatches)
    return formatError("{0} paths: there may be {1} at most", numPaths,
                       Cell::kMaxMicrobatches);
  return Error::success();
}

static Error checkStages(int64_t pathNumber, const Path &path,
                         int64_t numWorkers) {
  if (path.workers.empty())
    return formatError("path {0} is empty: it needs the worker of each stage",
                       pathNumber);
  if (path.getNumStages() > Cell::kMaxStages)
    return formatError("path {0} has {1} stages: there may be {2} at most",
                       pathNumber, path.getNumStages(), Cell::kMaxStages);
  for (auto [stage, worker] : llvm::enumerate(path.workers))
    if (worker < 0 || worker >= numWorkers)
      return formatError("path {0} puts stage {1} on worker {2}, which is not "
                         "one of the {3} workers (0 to {4})",
                         pathNumber, stage, worker, numWorkers, numWorkers - 1);
  return Error::success();
}

/// Checks that there is one length per stage, and returns their sum. Errors
/// call the lengths `name`.
static Expected<int64_t> sumLengths(int64_t pathNumber, const Path &path,
                                    llvm::ArrayRef<int64_t> lengths,
                                    llvm::StringRef name) {
  if (lengths.size() != path.workers.size())
    return formatError("path {0} has {1} stages but {2} for {3}", pathNumber,
                       path.workers.size(), name, lengths.size());
  int64_t total = 0;
  for (int64_t length : lengths) {
    std::optional<int64_t> sum = llvm::checkedAdd(total, length);
    if (!sum)
      return formatError("the {0} of path {1} add up to more than 2^63 - 1",
                         name, pathNumber);
    total = *sum;
  }
  return total;
}

static Error checkBlocks(int64_t pathNumber, const Path &path) {
  if (path.blocks.empty())
    return Error::success();
  for (auto [stage, blocks] : llvm::enumerate(path.blocks))
    if (blocks < 0)
      return formatError("stage {0} of path {1} has {2} blocks: there cannot "
                         "be fewer than 0",
                         stage, pathNumber, blocks);
  Expected<int64_t> total = sumLengths(pathNumber, path, path.blocks, "blocks");
  if (!total)
    return total.takeError();
  if (*total == 0)
    return formatError("path {0} has no block on any stage", pathNumber);
  return Error::success();
}

static Error checkWeights(int64_t pathNumber, const Path &path) {
  if (path.weights.empty())
    return Error::success();
  if (!path.blocks.empty())
    return formatError("path {0} has blocks and weights: its stages are as "
                       "long as one of them says",
                       pathNumber);
  for (auto [stage, weight] : llvm::enumerate(path.weights))
    if (weight < 1)
      return formatError("stage {0} of path {1} has weight {2}: it must be 1 "
                         "or more",
                         stage, pathNumber, weight);
  return sumLengths(pathNumber, path, path.weights, "weights").takeError();
}

static Error checkTakes(int64_t pathNumber, const Path &path,
                        int64_t numMicrobatches) {
  for (const MicrobatchRange &range : path.takes) {
    if (range.step < 1)
      return formatError("path {0} takes [{1}:{2}:{3}]: the step must be 1 or "
                         "more",
                         pathNumber, range.begin, range.end, range.step);
    if (range.begin >= range.end)
      return formatError("path {0} takes [{1}:{2}:{3}], which is empty",
                         pathNumber, range.begin, range.end, range.step);
    if (range.begin < 0 || range.end > numMicrobatches)
      return formatError("path {0} takes [{1}:{2}:{3}], which is not within "
                         "the {4} microbatches (0 to {5})",
                         pathNumber, range.begin, range.end, range.step,
                         numMicrobatches, numMicrobatches - 1);
  }
  return Error::success();
}

static bool contains(const Path &path, int64_t microbatch) {
  return llvm::any_of(path.takes, [&](const MicrobatchRange &range) {
    return range.begin <= microbatch && microbatch < range.end &&
           (microbatch - range.begin) % range.step == 0;
  });
}

static Error onTwoPaths(llvm::ArrayRef<Path> paths, int64_t microbatch,
                        int64_t second) {
  int64_t first = 0;
  while (!contains(paths[first], microbatch))
    ++first;
  if (first == second)
    return formatError("path {0} takes microbatch {1} twice", first,
                       microbatch);
  return formatError("microbatch {0} is on path {1} and on path {2}",
                     microbatch, first, second);
}

/// Checks that every microbatch is on exactly one path. Stops at the first one
/// on two paths, so that ranges cost no more than microbatches.
static Error checkCover(llvm::ArrayRef<Path> paths, int64_t numMicrobatches) {
  llvm::BitVector taken(numMicrobatches);
  for (auto [pathNumber, path] : llvm::enumerate(paths))
    for (const MicrobatchRange &range : path.takes)
      for (int64_t i = 0, n = range.size(); i < n; ++i) {
        int64_t microbatch = range.begin + i * range.step;
        if (taken.test(microbatch))
          return onTwoPaths(paths, microbatch, pathNumber);
        taken.set(microbatch);
      }
  if (int missing = taken.find_first_unset(); missing >= 0)
    return formatError("microbatch {0} is on no path", missing);
  return Error::success();
}

static Error checkPath(int64_t number, const Path &path, int64_t numWorkers,
                       int64_t numMicrobatches) {
  if (Error error = checkStages(number, path, numWorkers))
    return error;
  if (Error error = checkBlocks(number, path))
    return error;
  if (Error error = checkWeights(number, path))
    return error;
  return checkTakes(number, path, numMicrobatches);
}

char PathError::ID = 0;

Expected<Placement> Placement::create(int64_t numWorkers,
                                      int64_t numMicrobatches,
                                      std::vector<Path> paths,
                                      int64_t numSlices) {
  if (Error error = checkSizes(numWorkers, numMicrobatches, paths.size()))
    return std::move(error);
  if (numSlices < 1 || numSlices > Cell::kMaxMicrobatches / numMicrobatches)
    return formatError("{0} slices of each of {1} microbatches: there may be 1 "
                       "to {2}",
                       numSlices, numMicrobatches,
                       Cell::kMaxMicrobatches / numMicrobatches);
  for (auto [number, path] : llvm::enumerate(paths))
    if (Error error = checkPath(number, path, numWorkers, numMicrobatches))
      return llvm::make_error<PathError>(number,
                                         llvm::toString(std::move(error)));
  Placement placement;
  placement.numWorkers = numWorkers;
  placement.numMicrobatches = numMicrobatches;
  placement.numSlices = numSlices;
  placement.paths = std::move(paths);
  if (Error error = placement.assignMicrobatches())
    return std::move(error);
  placement.indexStages();
  return placement;
}

/// Fills `counts` and, if several paths take microbatches, the arrays by unit.
/// On a single path the rank is the microbatch itself.
Error Placement::assignMicrobatches() {
  counts.assign(paths.size(), 0);
  if (llvm::all_of(paths,
                   [](const Path &path) { return path.takes.empty(); })) {
    if (paths.size() == 1)
      counts[0] = getNumUnits();
    return Error::success();
  }
  for (auto [number, path] : llvm::enumerate(paths))
    if (path.takes.empty())
      return formatError("path {0} takes no microbatch", number);
  const Path &first = paths.front();
  MicrobatchRange all = {0, numMicrobatches, 1};
  if (paths.size() == 1 && first.takes.size() == 1 && first.takes[0] == all) {
    counts[0] = getNumUnits();
    return Error::success();
  }
  if (getNumUnits() > kMaxAssignedMicrobatches)
    return formatError("{0} microbatches: there may be {1} at most where paths "
                       "say which ones they take",
                       getNumUnits(), kMaxAssignedMicrobatches);
  if (Error error = checkCover(paths, numMicrobatches))
    return error;
  indexMicrobatches();
  return Error::success();
}

void Placement::indexMicrobatches() {
  if (paths.size() == 1) {
    counts[0] = getNumUnits();
    return;
  }
  pathOfUnit.resize(getNumUnits());
  rankOfUnit.resize(getNumUnits());
  for (auto [number, path] : llvm::enumerate(paths))
    for (const MicrobatchRange &range : path.takes)
      for (int64_t i = 0, n = range.size(); i < n; ++i)
        std::fill_n(pathOfUnit.begin() +
                        unitOf(range.begin + i * range.step, 0),
                    numSlices, number);
  for (int64_t unit = 0; unit < getNumUnits(); ++unit)
    rankOfUnit[unit] = counts[pathOfUnit[unit]]++;
}

void Placement::indexStages() {
  localStageCounts.assign(numWorkers, 0);
  localPairCounts.assign(numWorkers, 0);
  for (auto [number, path] : llvm::enumerate(paths)) {
    pathPairs.push_back(pairOffsets.back());
    stageOffsets.push_back(stageOffsets.back() + path.getNumStages());
    maxStages = std::max(maxStages, path.getNumStages());
    for (int32_t worker : path.workers) {
      pairOffsets.push_back(pairOffsets.back() + counts[number]);
      workerOfStage.push_back(worker);
      localStages.push_back(localStageCounts[worker]++);
      localPairOffsets.push_back(localPairCounts[worker]);
      localPairCounts[worker] += counts[number];
    }
  }
}

Expected<Placement>
Placement::withTakes(llvm::ArrayRef<std::vector<MicrobatchRange>> takes) const {
  if (takes.size() != paths.size())
    return formatError("{0} lists of microbatches for {1} paths", takes.size(),
                       paths.size());
  std::vector<Path> assigned = paths;
  for (auto [path, ranges] : llvm::zip_equal(assigned, takes))
    path.takes = ranges;
  return create(numWorkers, numMicrobatches, std::move(assigned), numSlices);
}

/// The sum of a path's lengths; stages count 1 each if it has none.
static int64_t totalLength(const Path &path) {
  llvm::ArrayRef<int64_t> lengths = path.getStageLengths();
  if (lengths.empty())
    return path.getNumStages();
  return std::accumulate(lengths.begin(), lengths.end(), int64_t(0));
}

Expected<std::vector<int64_t>>
pipesched::stageLengths(const Placement &placement) {
  std::vector<int64_t> result(placement.getNumGlobalStages(), 1);
  if (llvm::all_of(placement.getPaths(), [](const Path &path) {
        return path.getStageLengths().empty();
      }))
    return result;
  int64_t common = 1;
  for (const Path &path : placement.getPaths()) {
    int64_t total = totalLength(path);
    std::optional<int64_t> multiple =
        llvm::checkedMul(common / std::gcd(common, total), total);
    if (!multiple)
      return formatError("the stages of the paths have no common measure "
                         "below 2^63: give blocks or weights that add up to "
                         "the same on every path");
    common = *multiple;
  }
  auto next = result.begin();
  for (const Path &path : placement.getPaths()) {
    int64_t scale = common / totalLength(path);
    llvm::ArrayRef<int64_t> lengths = path.getStageLengths();
    for (int64_t stage = 0; stage < path.getNumStages(); ++stage)
      *next++ = lengths.empty() ? scale : scale * lengths[stage];
  }
  return result;
}
