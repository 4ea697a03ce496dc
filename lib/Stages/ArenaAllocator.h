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

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <vector>

namespace pipesched {

/// An arena that grows. A free piece may have readers: instructions that have
/// to end before it is written again.
///
///   | used | free | used | free, read by send 3 | free | used |
///
/// Pieces are taken first from the free ones that nobody reads, lowest address
/// first; then from those whose readers all may be waited for; else the arena
/// grows. O(free pieces) per call.
class ArenaAllocator {
public:
  static constexpr int64_t kAlignment = 64;
  /// Larger arenas are refused, so that no sum of sizes overflows.
  static constexpr int64_t kMaxBytes = int64_t(1) << 60;

  struct Taken {
    int64_t offset;
    llvm::SmallVector<uint32_t, 2> readers; ///< to wait for
  };

  enum class Reader { Done, MayWaitFor, MayNotWaitFor };

  /// Takes `bytes`, at most kMaxBytes, rounded up to the alignment. `classify`
  /// says whether a reader has ended, may be waited for, or neither. Must not
  /// be called again once the arena is larger than kMaxBytes.
  Taken take(int64_t bytes,
             llvm::function_ref<Reader(uint32_t reader)> classify);

  /// Gives back what take() gave for the same number of bytes.
  void give(int64_t offset, int64_t bytes, llvm::ArrayRef<uint32_t> readers);

  /// Appends to `numbers` everything that decides which pieces the arena will
  /// give out. `describeReader` does so for a reader.
  void describe(std::vector<int64_t> &numbers,
                llvm::function_ref<void(uint32_t reader)> describeReader) const;

  /// Replaces each reader by `replace(reader)`.
  void replaceReaders(llvm::function_ref<uint32_t(uint32_t reader)> replace);

  /// The size of the arena in bytes.
  int64_t getSize() const { return size; }

  static int64_t align(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Readers of one piece are a list, so that pieces are moved as plain bytes.
  struct ReaderNode {
    uint32_t reader, next;
  };
  struct Piece {
    int64_t begin, end;
    uint32_t readers; ///< the first, or kNone
    bool isBlocked;   ///< has a reader that may not be waited for
  };

  std::optional<Taken>
  takeUnread(int64_t bytes,
             llvm::function_ref<Reader(uint32_t reader)> classify);
  std::optional<Taken> takeWaiting(int64_t bytes);
  void forgetReaders(Piece &piece,
                     llvm::function_ref<Reader(uint32_t reader)> classify);
  Taken cut(std::size_t first, int64_t bytes);
  uint32_t makeNode(uint32_t reader);
  void drop(uint32_t node);

  std::vector<Piece> free; ///< ascending, not overlapping
  std::vector<ReaderNode> nodes;
  uint32_t unusedNodes = kNone; ///< a list
  int64_t size = 0;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H
