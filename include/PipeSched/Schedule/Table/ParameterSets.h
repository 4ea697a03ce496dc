//===- ParameterSets.h - Blocks that a worker holds ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A worker holds each block once, however many of its stages use it: one copy
// of the parameters, one gradient, one optimizer state
// (docs/Dialects/RationalePipe.md, "A worker holds a block once").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_PARAMETERSETS_H
#define PIPESCHED_SCHEDULE_TABLE_PARAMETERSETS_H

#include "PipeSched/Schedule/Table/Replicas.h"

namespace pipesched {

/// A parameter set of a worker is a run of blocks that the same stages of the
/// worker hold. Sets are numbered worker by worker, and within a worker in the
/// order of the model:
///
///   path 0    |   stage 0   |    stage 1    |     on [0, 0]
///   path 1    | stage 0 |      stage 1      |     on [1, 0]
///
///   worker 0  |  set 0  | 1 |    set 2      |
///   worker 1  |  set 3  |
///
/// Set 1 has stage 0 of path 0 and stage 1 of path 1. Replicas.h defines the
/// common blocks of two stages, as for all-reduces: they are layers of the
/// model if all paths state `blocks`, else fractions of the model. The
/// embedding belongs to the first block, the head to the last.
///
/// One of the stages owns the set: its O steps the blocks and its G reduces
/// their gradients. The owner is the stage that ends last in the model. If
/// several end together, it is the stage that starts first, then the stage of
/// the lowest path. In the picture stage 1 of path 1 owns sets 1 and
/// 2. So a stage owns its blocks from the first one up to where an owner that
/// ends later starts: one run, and the runs of a worker in the order of their
/// ends are in the order of the model. The all-reduces of G cells in that order
/// cannot deadlock.
class ParameterSets {
public:
  /// Creates the sets of a placement, which must outlive the result; its
  /// microbatches need not be assigned. O(stages log stages) and linear in the
  /// stages of all sets (getStages). Errors: as for Replicas.
  static llvm::Expected<ParameterSets> create(const Placement &placement);

  const Replicas &getReplicas() const { return replicas; }

  //===--------------------------------------------------------------------===//
  // By worker
  //===--------------------------------------------------------------------===//

  int64_t getNumSets() const { return owners.size(); }
  llvm::iota_range<int64_t> setsOfWorker(int64_t worker) const {
    return llvm::seq(setBegins[worker], setBegins[worker + 1]);
  }

  //===--------------------------------------------------------------------===//
  // By set
  //===--------------------------------------------------------------------===//

  /// The global stages that hold the set, ascending; the owner is among them.
  llvm::ArrayRef<int64_t> stagesOf(int64_t set) const {
    return llvm::ArrayRef(stages).slice(stageBegins[set], stageBegins[set + 1] -
                                                              stageBegins[set]);
  }
  int64_t ownerOf(int64_t set) const { return owners[set]; }
  int64_t workerOf(int64_t set) const {
    return placement->workerOf(owners[set]);
  }
  llvm::iota_range<int64_t> piecesOf(int64_t set) const {
    return llvm::seq(pieceBegins[set], pieceEnds[set]);
  }
  /// The first block and the block after the last, in the numbering of
  /// Replicas. Empty if the set has only blocks pinned to an end of the model.
  BlockSpan blocksOf(int64_t set) const {
    return replicas.blocksOf(piecesOf(set));
  }

  //===--------------------------------------------------------------------===//
  // By global stage
  //===--------------------------------------------------------------------===//

  /// The sets of the stage's worker whose blocks the stage holds; empty if it
  /// holds no blocks.
  llvm::iota_range<int64_t> setsOf(int64_t globalStage) const {
    return llvm::seq(firstSets[globalStage], endSets[globalStage]);
  }
  /// The sets that a stage owns. They come first in setsOf.
  llvm::iota_range<int64_t> ownedSetsOf(int64_t globalStage) const {
    return llvm::seq(firstSets[globalStage], ownedEnds[globalStage]);
  }
  bool ownsAny(int64_t globalStage) const {
    return firstSets[globalStage] != ownedEnds[globalStage];
  }
  /// Whether the stage owns all blocks that it holds.
  bool ownsAll(int64_t globalStage) const {
    return ownedEnds[globalStage] == endSets[globalStage];
  }
  /// The pieces that a stage owns. They come first among the pieces that it
  /// holds.
  llvm::iota_range<int64_t> ownedPiecesOf(int64_t globalStage) const;
  /// The blocks that a stage owns; empty if it owns none.
  BlockSpan ownedBlocksOf(int64_t globalStage) const {
    return replicas.blocksOf(ownedPiecesOf(globalStage));
  }
  /// Whether workers other than its own hold blocks that a stage owns. Linear
  /// in its pieces and in paths.
  bool isReplicated(int64_t globalStage) const;

  /// Explains why a stage that owns no blocks has no O or G (`phase`): "worker
  /// 1 holds the blocks of stage 1 of path 1 with stage 1 of path 0, whose O
  /// steps them (1O0)".
  std::string describeOwners(int64_t globalStage, Phase phase) const;

  /// Calls `visit(other)` once for each stage that holds blocks which the stage
  /// owns, itself included. The O and the G of the stage wait for the weight
  /// gradients of all these stages.
  template <typename Visit>
  void forEachUser(int64_t globalStage, Visit &&visit) const {
    for (int64_t set : ownedSetsOf(globalStage))
      for (int64_t other : stagesOf(set))
        if (set == std::max(firstSets[other], firstSets[globalStage]))
          visit(other);
  }

  //===--------------------------------------------------------------------===//
  // As arrays
  //===--------------------------------------------------------------------===//

  /// Sets by worker: worker w has sets [w] to [w + 1] - 1.
  llvm::ArrayRef<int64_t> getSetBegins() const { return setBegins; }
  /// The stages of all sets, one set after the other.
  llvm::ArrayRef<int64_t> getStages() const { return stages; }

private:
  explicit ParameterSets(Replicas replicas) : replicas(std::move(replicas)) {}
  void addWorker(llvm::ArrayRef<int64_t> local);
  void addStages(llvm::ArrayRef<int64_t> local, int64_t firstSet);
  bool yields(int64_t stage, int64_t other) const;

  Replicas replicas;
  const Placement *placement = nullptr;
  std::vector<int64_t> setBegins = {0};   ///< by worker, D + 1
  std::vector<int64_t> stageBegins = {0}; ///< by set, and the end
  std::vector<int64_t> stages;
  std::vector<int64_t> owners, pieceBegins, pieceEnds; ///< by set
  std::vector<int64_t> firstSets, endSets, ownedEnds;  ///< by global stage
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PARAMETERSETS_H
