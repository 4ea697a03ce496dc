//===- ArenaAllocator.cpp - Offsets of tensors that live for a while ------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// First fit over the free pieces; neighbours that nobody reads are one piece.
//
//===----------------------------------------------------------------------===//

#include "ArenaAllocator.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

/// Drops readers that are done, joins neighbours without readers, and notes
/// which pieces may not be waited for.
void ArenaAllocator::forgetDone(
    llvm::function_ref<Reader(uint32_t reader)> classify) {
  isBlocked.clear();
  std::size_t kept = 0;
  for (Piece &piece : free) {
    llvm::erase_if(piece.readers, [&](uint32_t reader) {
      return classify(reader) == Reader::Done;
    });
    bool joins = kept > 0 && free[kept - 1].end == piece.begin &&
                 free[kept - 1].readers.empty() && piece.readers.empty();
    if (joins) {
      free[kept - 1].end = piece.end;
      continue;
    }
    isBlocked.push_back(llvm::any_of(piece.readers, [&](uint32_t reader) {
      return classify(reader) == Reader::MayNotWaitFor;
    }));
    if (&free[kept] != &piece)
      free[kept] = std::move(piece);
    ++kept;
  }
  free.resize(kept);
}

/// Takes `bytes` from the begin of piece `first` and the pieces that touch it.
ArenaAllocator::Taken ArenaAllocator::cut(std::size_t first, int64_t bytes) {
  Taken taken{free[first].begin, {}};
  int64_t end = taken.offset + bytes;
  std::size_t last = first;
  for (; last < free.size() && free[last].begin < end; ++last)
    for (uint32_t reader : free[last].readers)
      if (!llvm::is_contained(taken.readers, reader))
        taken.readers.push_back(reader);
  Piece &rest = free[last - 1];
  std::size_t erased = last;
  if (rest.end > end) {
    rest.begin = end;
    --erased;
  }
  free.erase(free.begin() + first, free.begin() + erased);
  isBlocked.erase(isBlocked.begin() + first, isBlocked.begin() + erased);
  return taken;
}

/// Looks for touching free pieces of `bytes` together.
std::optional<ArenaAllocator::Taken> ArenaAllocator::takeFree(int64_t bytes,
                                                              bool mayWait) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < free.size(); ++i) {
    bool isUsable = mayWait ? !isBlocked[i] : free[i].readers.empty();
    if (!isUsable) {
      first = i + 1;
      continue;
    }
    if (first < i && free[i - 1].end != free[i].begin)
      first = i;
    if (free[i].end - free[first].begin >= bytes)
      return cut(first, bytes);
  }
  return std::nullopt;
}

ArenaAllocator::Taken
ArenaAllocator::take(int64_t bytes,
                     llvm::function_ref<Reader(uint32_t reader)> classify) {
  bytes = align(bytes);
  if (bytes == 0)
    return {0, {}};
  forgetDone(classify);
  for (bool mayWait : {false, true})
    if (std::optional<Taken> taken = takeFree(bytes, mayWait))
      return std::move(*taken);
  // Grow, using the last piece if it is free.
  int64_t begin = size;
  if (!free.empty() && free.back().end == size && !isBlocked.back())
    begin = free.back().begin;
  if (begin == size) {
    size += bytes;
    return {begin, {}};
  }
  free.back().end = size = begin + bytes;
  return cut(free.size() - 1, bytes);
}

void ArenaAllocator::give(int64_t offset, int64_t bytes,
                          llvm::ArrayRef<uint32_t> readers) {
  bytes = align(bytes);
  if (bytes == 0)
    return;
  auto next = llvm::partition_point(
      free, [&](const Piece &piece) { return piece.begin < offset; });
  free.insert(next,
              Piece{offset, offset + bytes, {readers.begin(), readers.end()}});
}
