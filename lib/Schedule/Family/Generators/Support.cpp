//===- Support.cpp - Common code of generators ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placements that replace the given one, checks of sizes, and the empty table.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include "PipeSched/Schedule/Edit/Backward.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <optional>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

bool pipesched::isPlainLinear(const Placement &placement) {
  const Path &path = placement.getPath(0);
  if (placement.getNumPaths() != 1 || !path.getStageLengths().empty() ||
      path.getNumStages() != placement.getNumWorkers())
    return false;
  return llvm::all_of(llvm::enumerate(path.workers), [](auto stage) {
    return stage.value() == static_cast<int64_t>(stage.index());
  });
}

Expected<Placement> pipesched::replacePaths(const Placement &placement,
                                            std::vector<Path> paths) {
  return Placement::create(placement.getNumWorkers(),
                           placement.getNumMicrobatches(), std::move(paths),
                           placement.getNumSlices());
}

Expected<Placement> pipesched::assignInTurns(const Placement &placement) {
  if (placement.isAssigned())
    return placement;
  int64_t numPaths = placement.getNumPaths();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  if (numMicrobatches < numPaths)
    return formatError("{0} microbatches: {1} paths need at least {1}",
                       numMicrobatches, numPaths);
  std::vector<std::vector<MicrobatchRange>> takes;
  takes.reserve(numPaths);
  for (int64_t path = 0; path < numPaths; ++path)
    takes.push_back({{path, numMicrobatches, numPaths}});
  return placement.withTakes(takes);
}

Expected<Placement> pipesched::placeChunks(const Placement &placement,
                                           std::optional<int64_t> chunks,
                                           StringRef family) {
  if (chunks && isPlainLinear(placement)) {
    Expected<Path> path = placeInterleaved(placement.getNumWorkers(), *chunks);
    if (!path)
      return path.takeError();
    return replacePaths(placement, {std::move(*path)});
  }
  Expected<int64_t> found = readChunks(placement, family);
  if (!found)
    return found.takeError();
  if (chunks && *chunks != *found)
    return formatError("{0} is asked for {1} chunks, but the path has {2} "
                       "stages on each worker",
                       family, *chunks, *found);
  return placement;
}

Expected<Placement> pipesched::placeVPath(const Placement &placement,
                                          StringRef family) {
  if (isPlainLinear(placement))
    return replacePaths(placement, {placeV(placement.getNumWorkers())});
  if (Error error = checkVPath(placement, family))
    return std::move(error);
  return placement;
}

Error pipesched::checkTableSize(const Placement &placement, StringRef family,
                                int64_t cellsPerPair) {
  if (placement.getNumPairs() <= kMaxTableCells / cellsPerPair)
    return Error::success();
  return formatError("{0} of {1} microbatches on {2} workers has {3} cells: a "
                     "table may have {4} at most",
                     family, placement.getNumMicrobatches(),
                     placement.getNumWorkers(),
                     placement.getNumPairs() * cellsPerPair, kMaxTableCells);
}

Error pipesched::checkGradientAfterInput(const GeneratorOptions &options,
                                         StringRef family) {
  if (options.gradientAfter != GradientAfter::WeightGrad)
    return Error::success();
  return formatError("{0} delays W, so it must send the gradient after I; "
                     "after W it would wait for itself",
                     family);
}

Table pipesched::splitIfAsked(Table table, const GeneratorOptions &options) {
  if (!options.splitBackward)
    return table;
  SplitOptions split;
  split.gradientAfter = options.gradientAfter;
  // This cannot fail: the size was checked, and no B is half of a pair.
  BackwardChange change = llvm::cantFail(splitBackward(table.view(), split));
  table.rows = std::move(change.rows);
  table.gradientAfter = change.gradientAfter;
  return table;
}

Table pipesched::makeEmptyTable(const Placement &placement,
                                GradientAfter gradientAfter,
                                int64_t cellsPerPair) {
  Table table;
  table.placement = placement;
  table.gradientAfter = gradientAfter;
  table.rows.resize(placement.getNumWorkers());
  for (auto [worker, row] : llvm::enumerate(table.rows))
    row.resize(placement.getNumLocalPairs(worker) * cellsPerPair);
  return table;
}

std::string pipesched::nearestOf(int64_t value, int64_t most,
                                 llvm::function_ref<bool(int64_t)> isValid) {
  int64_t start = std::clamp<int64_t>(value, 1, most);
  int64_t below = start, above = start;
  while (below >= 1 && !isValid(below))
    --below;
  while (above <= most && !isValid(above))
    ++above;
  if (below < 1 || above > most || below == above)
    return llvm::formatv("the nearest is {0}", below < 1 ? above : below);
  return llvm::formatv("the nearest are {0} and {1}", below, above);
}
