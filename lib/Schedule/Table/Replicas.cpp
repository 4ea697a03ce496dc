//===- Replicas.cpp - Blocks that are on several paths --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sorts the first blocks of the stages of all paths. They are the cuts between
// the pieces.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Replicas.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <numeric>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

/// Scales the lengths of each path to one total and returns it. (stageLengths
/// does not scale if no path has lengths.)
static Expected<int64_t> scaleToOneTotal(const Placement &placement,
                                         std::vector<int64_t> &lengths) {
  auto stagesOf = [&](int64_t path) {
    return llvm::MutableArrayRef(lengths).slice(placement.stageOffset(path),
                                                placement.getNumStages(path));
  };
  auto totalOf = [&](int64_t path) {
    ArrayRef<int64_t> stages = stagesOf(path);
    return std::accumulate(stages.begin(), stages.end(), int64_t(0));
  };
  int64_t common = 1;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t total = totalOf(path);
    std::optional<int64_t> multiple =
        llvm::checkedMul(common / std::gcd(common, total), total);
    if (!multiple)
      return formatError("the stages of the paths have no common measure "
                         "below 2^63");
    common = *multiple;
  }
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t scale = common / totalOf(path);
    for (int64_t &length : stagesOf(path))
      length *= scale;
  }
  return common;
}

/// The first block of each stage.
static std::vector<int64_t> beginsOf(const Placement &placement,
                                     ArrayRef<int64_t> lengths) {
  std::vector<int64_t> begins;
  begins.reserve(lengths.size());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t begin = 0;
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
      begins.push_back(begin);
      begin += lengths[begins.size() - 1];
    }
  }
  return begins;
}

/// Cuts the model at the first blocks of all stages. A first or last stage
/// without blocks doubles the cut at its end of the model:
///
///   path 0, blocks [0, 2, 2]    ||   1   |   2   |
///   path 1, blocks [2, 2, 0]     |   0   |   1   ||
///   cuts                        00       2       44
static std::vector<int64_t> cutsOf(const Placement &placement,
                                   ArrayRef<int64_t> begins, int64_t total) {
  std::vector<int64_t> cuts(begins.begin(), begins.end());
  cuts.push_back(total);
  llvm::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  auto anyPath = [&](auto isEmpty) {
    return llvm::any_of(llvm::seq(placement.getNumPaths()), [&](int64_t path) {
      return placement.getNumStages(path) > 1 &&
             isEmpty(begins.slice(placement.stageOffset(path),
                                  placement.getNumStages(path)));
    });
  };
  if (anyPath([](ArrayRef<int64_t> stages) { return stages[1] == 0; }))
    cuts.insert(cuts.begin(), 0);
  if (anyPath([&](ArrayRef<int64_t> stages) { return stages.back() == total; }))
    cuts.push_back(total);
  return cuts;
}

/// Returns the cut at which a stage with the first block `block` starts. For
/// block 0 this is the last of several equal cuts, otherwise the first. Not for
/// the first stage of a path.
static int64_t cutAt(ArrayRef<int64_t> cuts, int64_t block) {
  if (block == 0)
    return llvm::upper_bound(cuts, 0) - cuts.begin() - 1;
  return llvm::lower_bound(cuts, block) - cuts.begin();
}

void Replicas::cutPath(int64_t path, ArrayRef<int64_t> begins) {
  int64_t first = placement->stageOffset(path);
  int64_t end = placement->stageOffset(path + 1);
  for (int64_t stage = first; stage < end; ++stage) {
    int64_t cut = stage == first ? 0 : cutAt(cuts, begins[stage]);
    firstPieces.push_back(cut);
    if (stage != first)
      endPieces.push_back(cut);
  }
  endPieces.push_back(cuts.size() - 1);
}

/// Checks that of the stages that hold the same blocks, either all train or
/// none.
Error Replicas::checkKinds() const {
  auto trains = [&](int64_t stage) {
    return placement->backwardOf(stage) == StageBackward::Whole;
  };
  if (placement->trainsAll())
    return Error::success();
  for (int64_t piece = 0; piece != getNumPieces(); ++piece)
    for (int64_t path = 1; path < placement->getNumPaths(); ++path) {
      int64_t one = holderOf(piece, 0), other = holderOf(piece, path);
      if (trains(one) == trains(other))
        continue;
      return formatError(
          "stage {0} of path 0 and stage {1} of path {2} have the same blocks, "
          "and one of them trains: {3}",
          one, other - placement->stageOffset(path), path,
          placement->describeBackward(trains(one) ? other : one));
    }
  return Error::success();
}

Expected<Replicas> Replicas::create(const Placement &placement) {
  Expected<std::vector<int64_t>> lengths = stageLengths(placement);
  if (!lengths)
    return lengths.takeError();
  Expected<int64_t> total = scaleToOneTotal(placement, *lengths);
  if (!total)
    return total.takeError();
  std::vector<int64_t> begins = beginsOf(placement, *lengths);
  Replicas replicas;
  replicas.placement = &placement;
  replicas.cuts = cutsOf(placement, begins, *total);
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    replicas.cutPath(path, begins);

  // Count, for each piece, the paths with a non-empty stage that starts there.
  int64_t numPieces = replicas.cuts.size() - 1;
  std::vector<int64_t> numBegins(numPieces, 0);
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage)
    if (!replicas.piecesOf(stage).empty())
      ++numBegins[replicas.firstPieces[stage]];
  int64_t segment = -1;
  for (int64_t count : numBegins) {
    segment += count == placement.getNumPaths();
    replicas.segments.push_back(segment);
  }
  if (Error error = replicas.checkKinds())
    return std::move(error);
  return replicas;
}

llvm::iota_range<int64_t> Replicas::piecesIn(BlockSpan blocks) const {
  int64_t end = llvm::lower_bound(cuts, blocks.end) - cuts.begin();
  if (blocks.size() > 0)
    return llvm::seq(llvm::upper_bound(cuts, blocks.begin) - cuts.begin() - 1,
                     std::min(end, getNumPieces()));
  bool isPiece = end < getNumPieces() && blocksOf(end) == blocks;
  return llvm::seq(end, end + isPiece);
}

int64_t Replicas::holderOf(int64_t piece, int64_t path) const {
  auto begin = firstPieces.begin() + placement->stageOffset(path);
  auto end = firstPieces.begin() + placement->stageOffset(path + 1);
  return std::upper_bound(begin, end, piece) - firstPieces.begin() - 1;
}

bool Replicas::isHeldElsewhere(int64_t piece, int64_t worker) const {
  return llvm::any_of(llvm::seq(placement->getNumPaths()), [&](int64_t path) {
    return placement->workerOf(holderOf(piece, path)) != worker;
  });
}
