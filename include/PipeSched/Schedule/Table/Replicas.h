//===- Replicas.h - Blocks that are on several paths ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every path places the whole model. The stages of all paths cut it into
// pieces; each path has one replica of a piece.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_REPLICAS_H
#define PIPESCHED_SCHEDULE_TABLE_REPLICAS_H

#include "PipeSched/Schedule/Table/Placement.h"
#include "llvm/ADT/Sequence.h"

namespace pipesched {

/// Blocks `begin` to `end` - 1 of a model, in the numbering of Replicas.
struct BlockSpan {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  friend bool operator==(BlockSpan a, BlockSpan b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

/// The pieces of a placement, in the order of the model:
///
///   path 0    |    stage 0    |    stage 1    |     on [0, 1]
///   path 1    | stage 0 |       stage 1       |     on [1, 0]
///   pieces    |    0    |  1  |       2       |
///   segments  |               0               |
///
/// A segment ends at a block where a stage of every path ends. Blocks are the
/// model's layers if all paths state `blocks`; otherwise they are parts of the
/// model that divide the stages of all paths (stageLengths): quarters for two
/// paths of four stages each. Blocks that are pinned to the first and the last
/// stage of each path (embedding, head) belong to the first and the last piece.
/// If such a stage has no other blocks, an empty piece represents it.
class Replicas {
public:
  /// Creates the pieces of a placement, which must outlive the result. O(stages
  /// log stages). Errors: as for stageLengths, also for paths without lengths;
  /// stages that hold the same blocks, if only some of them train.
  static llvm::Expected<Replicas> create(const Placement &placement);

  int64_t getNumBlocks() const { return cuts.back(); }
  int64_t getNumPieces() const { return segments.size(); }
  BlockSpan blocksOf(int64_t piece) const {
    return {cuts[piece], cuts[piece + 1]};
  }
  /// The blocks of neighbouring pieces; empty without pieces.
  BlockSpan blocksOf(llvm::iota_range<int64_t> pieces) const {
    return {cuts[*pieces.begin()], cuts[*pieces.end()]};
  }
  int64_t segmentOf(int64_t piece) const { return segments[piece]; }
  /// Whether the piece is a whole segment, so that each stage that holds it
  /// holds nothing else.
  bool isSegment(int64_t piece) const {
    bool begins = piece == 0 || segmentOf(piece) != segmentOf(piece - 1);
    bool ends =
        piece + 1 == getNumPieces() || segmentOf(piece) != segmentOf(piece + 1);
    return begins && ends;
  }

  /// The pieces that contain some of these blocks. For an empty span, the empty
  /// piece at its place, if there is one. Logarithmic.
  llvm::iota_range<int64_t> piecesIn(BlockSpan blocks) const;
  /// The pieces that a stage holds; none if it has no blocks and is neither the
  /// first nor the last of its path.
  llvm::iota_range<int64_t> piecesOf(int64_t globalStage) const {
    return llvm::seq(firstPieces[globalStage], endPieces[globalStage]);
  }
  int64_t firstPieceOf(int64_t globalStage) const {
    return firstPieces[globalStage];
  }
  int64_t endPieceOf(int64_t globalStage) const {
    return endPieces[globalStage];
  }
  BlockSpan blocksOfStage(int64_t globalStage) const {
    return blocksOf(piecesOf(globalStage));
  }
  /// The global stage of a path that holds a piece. O(log stages).
  int64_t holderOf(int64_t piece, int64_t path) const;
  /// Whether workers other than this one hold the piece. Linear in paths.
  bool isHeldElsewhere(int64_t piece, int64_t worker) const;

private:
  llvm::Error checkKinds() const;
  void cutPath(int64_t path, llvm::ArrayRef<int64_t> begins);

  const Placement *placement = nullptr;
  std::vector<int64_t> cuts;                   ///< pieces + 1
  std::vector<int64_t> segments;               ///< by piece
  std::vector<int64_t> firstPieces, endPieces; ///< by global stage
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_REPLICAS_H
