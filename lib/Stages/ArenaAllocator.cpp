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

uint32_t ArenaAllocator::makeNode(uint32_t reader) {
  if (unusedNodes == kNone) {
    nodes.push_back({reader, kNone});
    return nodes.size() - 1;
  }
  uint32_t node = std::exchange(unusedNodes, nodes[unusedNodes].next);
  nodes[node] = {reader, kNone};
  return node;
}

void ArenaAllocator::drop(uint32_t node) {
  nodes[node].next = std::exchange(unusedNodes, node);
}

/// Drops the readers of a piece that have ended, and notes whether some
/// remaining reader may not be waited for.
void ArenaAllocator::forgetReaders(
    Piece &piece, llvm::function_ref<Reader(uint32_t reader)> classify) {
  piece.isBlocked = false;
  for (uint32_t *link = &piece.readers; *link != kNone;) {
    uint32_t node = *link;
    Reader reader = classify(nodes[node].reader);
    if (reader == Reader::Done) {
      *link = nodes[node].next;
      drop(node);
      continue;
    }
    piece.isBlocked |= reader == Reader::MayNotWaitFor;
    link = &nodes[node].next;
  }
}

/// Takes `bytes` from the start of piece `first` and from the pieces that touch
/// it.
ArenaAllocator::Taken ArenaAllocator::cut(std::size_t first, int64_t bytes) {
  Taken taken{free[first].begin, {}};
  int64_t end = taken.offset + bytes;
  std::size_t last = first;
  for (; last < free.size() && free[last].begin < end; ++last)
    for (uint32_t node = free[last].readers; node != kNone;
         node = nodes[node].next)
      if (!llvm::is_contained(taken.readers, nodes[node].reader))
        taken.readers.push_back(nodes[node].reader);
  Piece &rest = free[last - 1];
  std::size_t erased = last;
  if (rest.end > end) {
    rest.begin = end;
    --erased;
  }
  for (std::size_t i = first; i < erased; ++i)
    while (free[i].readers != kNone)
      drop(std::exchange(free[i].readers, nodes[free[i].readers].next));
  free.erase(free.begin() + first, free.begin() + erased);
  return taken;
}

/// Looks for a free piece that nobody reads. On the way it drops readers that
/// have ended and joins neighbours without readers. It leaves what lies behind
/// the piece as it is.
std::optional<ArenaAllocator::Taken> ArenaAllocator::takeUnread(
    int64_t bytes, llvm::function_ref<Reader(uint32_t reader)> classify) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < free.size(); ++i) {
    Piece &piece = free[i];
    if (piece.readers != kNone)
      forgetReaders(piece, classify);
    bool joins = kept > 0 && free[kept - 1].end == piece.begin &&
                 free[kept - 1].readers == kNone && piece.readers == kNone;
    if (joins)
      free[kept - 1].end = piece.end;
    else if (kept++ != i)
      free[kept - 1] = piece;
    const Piece &last = free[kept - 1];
    if (last.readers == kNone && last.end - last.begin >= bytes) {
      free.erase(free.begin() + kept, free.begin() + i + 1);
      return cut(kept - 1, bytes);
    }
  }
  free.resize(kept);
  return std::nullopt;
}

/// Looks for touching free pieces of `bytes` together whose readers may be
/// waited for. Called after takeUnread() has found nothing.
std::optional<ArenaAllocator::Taken>
ArenaAllocator::takeWaiting(int64_t bytes) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < free.size(); ++i) {
    if (free[i].isBlocked) {
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
  if (std::optional<Taken> taken = takeUnread(bytes, classify))
    return std::move(*taken);
  if (std::optional<Taken> taken = takeWaiting(bytes))
    return std::move(*taken);
  // Grow, using the last piece if it is free.
  int64_t begin = size;
  if (!free.empty() && free.back().end == size && !free.back().isBlocked)
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
  Piece piece{offset, offset + bytes, kNone, /*isBlocked=*/false};
  uint32_t last = kNone;
  for (uint32_t reader : readers) {
    uint32_t node = makeNode(reader);
    (last == kNone ? piece.readers : nodes[last].next) = node;
    last = node;
  }
  free.insert(next, piece);
}

/// Leaves out `isBlocked`: it means nothing between calls, because each use
/// sets it first.
void ArenaAllocator::describe(
    std::vector<int64_t> &numbers,
    llvm::function_ref<void(uint32_t reader)> describeReader) const {
  numbers.push_back(size);
  numbers.push_back(free.size());
  for (const Piece &piece : free) {
    numbers.push_back(piece.begin);
    numbers.push_back(piece.end);
    std::size_t place = numbers.size();
    numbers.push_back(0); // the number of readers, filled in below
    for (uint32_t node = piece.readers; node != kNone;
         node = nodes[node].next) {
      describeReader(nodes[node].reader);
      ++numbers[place];
    }
  }
}

void ArenaAllocator::replaceReaders(
    llvm::function_ref<uint32_t(uint32_t reader)> replace) {
  for (const Piece &piece : free)
    for (uint32_t node = piece.readers; node != kNone; node = nodes[node].next)
      nodes[node].reader = replace(nodes[node].reader);
}
