//===- ArenaAllocator.h - Offsets of live tensors ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocates pieces of an arena. A piece can be freed while messages or copies
// may still be reading it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H
#define PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <optional>

namespace pipesched {

/// An arena that grows. A free piece may have readers: instructions that must
/// end before the piece is written again.
///
///   | used | free | used | free, read by send 3 | free | used |
///
/// Allocation uses free pieces without readers first, lowest address first;
/// then pieces whose readers may all be waited for; otherwise the arena grows.
class ArenaAllocator {
public:
  static constexpr int64_t kAlignment = 64;
  /// Larger arenas are refused, so that no sum of sizes overflows.
  static constexpr int64_t kMaxBytes = int64_t(1) << 60;

  struct Taken {
    int64_t offset;
    llvm::SmallVector<uint32_t, 2> readers; ///< to wait for
  };

  /// The current state of a reader. `Done` only after noteDone() was called.
  enum class Reader { Done, MayWaitFor, MayNotWaitFor };
  using Classify = llvm::function_ref<Reader(uint32_t reader)>;

  /// Allocates `bytes`, at most kMaxBytes, rounded up to the alignment. Must
  /// not be called again once the arena is larger than kMaxBytes.
  Taken take(int64_t bytes, Classify classify);

  /// Frees a place that take() returned for the same number of bytes.
  void give(int64_t offset, int64_t bytes, llvm::ArrayRef<uint32_t> readers,
            Classify classify);

  /// Records that an instruction has ended, whether or not it is a reader.
  void noteDone(uint32_t reader);

  /// The size of the arena in bytes.
  int64_t getSize() const { return size; }

  static int64_t align(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

private:
  struct ReadPiece {
    int64_t end;
    llvm::SmallVector<uint32_t, 2> readers;
  };

  void addUnread(int64_t begin, int64_t end);
  std::optional<int64_t> findUnread(int64_t bytes) const;
  std::optional<int64_t> findRun(int64_t bytes, Classify classify) const;
  int64_t findEndPiece(Classify classify) const;
  Taken use(int64_t begin, int64_t end);

  /// Free pieces by their start: pieces without readers, no two of which touch,
  /// and pieces with readers.
  std::map<int64_t, int64_t> unread;
  std::map<int64_t, ReadPiece> read;
  /// All readers of pieces, and some of earlier ones.
  llvm::DenseSet<uint32_t> readers;
  int64_t size = 0;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_ARENAALLOCATOR_H
