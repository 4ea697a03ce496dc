//===- ArenaAllocator.h - Offsets of tensors that live ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives out pieces of an arena, and takes them back while messages or copies
// may still be reading them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H
#define PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H

#include "IntervalTree.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace pipesched {

/// An arena that grows. A free piece may have readers: instructions that have
/// to end before it is written again.
///
///   | used | free | used | free, read by send 3 | free | used |
///
/// Pieces are taken first from the free ones that nobody reads, lowest address
/// first; then from those whose readers all may be waited for; else the arena
/// grows. The owner says when that changes for a reader. O(log(free pieces))
/// per call, and as much for each reader of a piece.
class ArenaAllocator {
public:
  static constexpr int64_t kAlignment = 64;
  /// Larger arenas are refused, so that no sum of sizes overflows.
  static constexpr int64_t kMaxBytes = int64_t(1) << 60;

  struct Taken {
    int64_t offset;
    llvm::SmallVector<uint32_t, 2> readers; ///< to wait for
  };

  /// Only ever goes from the last one towards the first.
  enum class Reader { Done, MayWaitFor, MayNotWaitFor };

  /// Readers are numbers of `firstReader` or more; memory is that of the
  /// greatest one, counted from there.
  explicit ArenaAllocator(uint32_t firstReader = 0)
      : firstReader(firstReader) {}

  /// Takes `bytes`, at most kMaxBytes, rounded up to the alignment. Must not be
  /// called again once the arena is larger than kMaxBytes.
  Taken take(int64_t bytes);

  /// Gives back what take() gave for the same number of bytes. `classify` says
  /// what a reader is at this moment.
  void give(int64_t offset, int64_t bytes, llvm::ArrayRef<uint32_t> readers,
            llvm::function_ref<Reader(uint32_t reader)> classify);

  /// Notes that a reader has ended, or may now be waited for. It may be one
  /// that reads nothing.
  void noteDone(uint32_t reader);
  void noteMayWaitFor(uint32_t reader);

  /// Appends to `numbers` everything that decides which pieces the arena will
  /// give out. `describeReader` does so for a reader.
  void describe(std::vector<int64_t> &numbers,
                llvm::function_ref<void(uint32_t reader)> describeReader) const;

  /// Puts `replace(reader)` in place of each reader; it is what that one was.
  /// Different readers must stay different.
  void replaceReaders(llvm::function_ref<uint32_t(uint32_t reader)> replace);

  /// The size of the arena in bytes.
  int64_t getSize() const { return size; }
  /// Into how many pieces what is free falls apart.
  uint32_t getNumPieces() const {
    return unread.intervals().size() + read.size();
  }

  static int64_t align(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// One reader of one piece, in two lists: of the piece, and of the reader.
  struct ReaderNode {
    uint32_t reader; ///< kNone once it is done
    uint32_t piece;
    uint32_t nextOfPiece;
    uint32_t nextOfReader, previousOfReader;
  };
  /// What is known of a piece in `read`, by its number there.
  struct ReadPiece {
    uint32_t firstNode = kNone;
    uint32_t numReaders = 0;  ///< that are not done
    uint32_t numBlocking = 0; ///< of those: that may not be waited for
  };
  struct KnownReader {
    uint32_t firstNode = kNone;
    uint32_t lastTake = 0; ///< the last take() that listed it
    bool isBlocking = false;
  };

  void use(int64_t begin, int64_t end);
  Taken takeRead(int64_t begin, int64_t end);
  void listReaders(uint32_t piece, Taken &taken);
  int64_t findEndPiece() const;
  KnownReader *find(uint32_t reader);
  KnownReader &makeKnown(uint32_t reader);
  uint32_t makeNode(uint32_t reader, uint32_t piece);
  void link(uint32_t node);
  void unlink(uint32_t node);
  void erasePiece(uint32_t piece);

  /// Free pieces that nobody reads; those and what is read by none that may
  /// not be waited for.
  AddressSet unread, unblocked;
  IntervalTree read; ///< free pieces with readers
  std::vector<ReadPiece> readPieces;
  std::vector<ReaderNode> nodes;
  uint32_t unusedNodes = kNone; ///< a list by `nextOfPiece`
  uint32_t firstReader;
  std::vector<KnownReader> known; ///< from `firstReader` on
  uint32_t numTakes = 0;          ///< from pieces that are read
  int64_t size = 0;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H
