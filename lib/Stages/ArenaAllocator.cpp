//===- ArenaAllocator.cpp - Offsets of tensors that live for a while ------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// First fit. What is free is in up to three trees, so that no piece is looked
// at that does not fit, and a piece moves when its last reader ends:
//
//                 | free | read, may be waited for | read, blocked | free |
//   unread        |======|                                         |======|
//   unblocked     |================================|               |======|
//   read                 |=========================|===============|
//
//===----------------------------------------------------------------------===//

#include "ArenaAllocator.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//

/// Null if it never was a reader.
ArenaAllocator::KnownReader *ArenaAllocator::find(uint32_t reader) {
  return reader - firstReader < known.size() ? &known[reader - firstReader]
                                             : nullptr;
}

ArenaAllocator::KnownReader &ArenaAllocator::makeKnown(uint32_t reader) {
  if (!find(reader))
    known.resize(reader - firstReader + 1);
  return known[reader - firstReader];
}

uint32_t ArenaAllocator::makeNode(uint32_t reader, uint32_t piece) {
  ReaderNode made{reader, piece, kNone, kNone, kNone};
  if (unusedNodes == kNone) {
    nodes.push_back(made);
    return nodes.size() - 1;
  }
  uint32_t node = std::exchange(unusedNodes, nodes[unusedNodes].nextOfPiece);
  nodes[node] = made;
  return node;
}

/// Puts a node into the list of its reader.
void ArenaAllocator::link(uint32_t node) {
  uint32_t &first = makeKnown(nodes[node].reader).firstNode;
  nodes[node].previousOfReader = kNone;
  nodes[node].nextOfReader = first;
  if (first != kNone)
    nodes[first].previousOfReader = node;
  first = node;
}

void ArenaAllocator::unlink(uint32_t node) {
  auto [reader, piece, nextOfPiece, next, previous] = nodes[node];
  (previous == kNone ? find(reader)->firstNode : nodes[previous].nextOfReader) =
      next;
  if (next != kNone)
    nodes[next].previousOfReader = previous;
}

void ArenaAllocator::noteMayWaitFor(uint32_t reader) {
  KnownReader *found = find(reader);
  if (!found || !std::exchange(found->isBlocking, false))
    return;
  for (uint32_t node = found->firstNode; node != kNone;
       node = nodes[node].nextOfReader) {
    uint32_t piece = nodes[node].piece;
    if (--readPieces[piece].numBlocking == 0)
      unblocked.add(read.getBegin(piece), read.getEnd(piece));
  }
}

void ArenaAllocator::noteDone(uint32_t reader) {
  KnownReader *found = find(reader);
  if (!found)
    return;
  noteMayWaitFor(reader);
  for (uint32_t node = std::exchange(found->firstNode, kNone); node != kNone;) {
    uint32_t piece = nodes[node].piece;
    nodes[node].reader = kNone;
    node = nodes[node].nextOfReader;
    if (--readPieces[piece].numReaders > 0)
      continue;
    unread.add(read.getBegin(piece), read.getEnd(piece));
    erasePiece(piece);
  }
}

/// Forgets that a piece is read.
void ArenaAllocator::erasePiece(uint32_t piece) {
  for (uint32_t node = readPieces[piece].firstNode; node != kNone;) {
    if (nodes[node].reader != kNone)
      unlink(node);
    uint32_t next = nodes[node].nextOfPiece;
    nodes[node].nextOfPiece = std::exchange(unusedNodes, node);
    node = next;
  }
  read.erase(piece);
}

void ArenaAllocator::replaceReaders(
    llvm::function_ref<uint32_t(uint32_t reader)> replace) {
  std::vector<std::pair<uint32_t, bool>> moved; // nodes; whether they block
  read.forEach([&](uint32_t piece) {
    for (uint32_t node = readPieces[piece].firstNode; node != kNone;
         node = nodes[node].nextOfPiece)
      if (nodes[node].reader != kNone)
        moved.emplace_back(node, find(nodes[node].reader)->isBlocking);
  });
  for (auto [node, isBlocking] : moved)
    *find(nodes[node].reader) = {};
  for (auto [node, isBlocking] : moved) {
    nodes[node].reader = replace(nodes[node].reader);
    makeKnown(nodes[node].reader).isBlocking = isBlocking;
    link(node);
  }
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// Takes away what is free between `begin` and `end`, but not from `read`.
void ArenaAllocator::use(int64_t begin, int64_t end) {
  unread.remove(begin, end);
  unblocked.remove(begin, end);
}

/// Lists the readers of a piece that are not yet listed.
void ArenaAllocator::listReaders(uint32_t piece, Taken &taken) {
  for (uint32_t node = readPieces[piece].firstNode; node != kNone;
       node = nodes[node].nextOfPiece) {
    uint32_t reader = nodes[node].reader;
    if (reader != kNone &&
        std::exchange(find(reader)->lastTake, numTakes) != numTakes)
      taken.readers.push_back(reader);
  }
}

/// Takes what touches and may be waited for. The rest of the last piece keeps
/// its readers.
ArenaAllocator::Taken ArenaAllocator::takeRead(int64_t begin, int64_t end) {
  Taken taken{begin, {}};
  ++numTakes;
  use(begin, end);
  for (;;) {
    uint32_t piece = read.findBehind(begin);
    if (piece == kNone || read.getBegin(piece) >= end)
      return taken;
    listReaders(piece, taken);
    if (read.getEnd(piece) > end)
      read.setBounds(piece, end, read.getEnd(piece));
    else
      erasePiece(piece);
  }
}

/// Where the last piece begins if it may be taken and ends with the arena;
/// else, where the arena ends.
int64_t ArenaAllocator::findEndPiece() const {
  const IntervalTree &intervals = unread.intervals();
  uint32_t piece = intervals.findLast();
  if (piece != kNone && intervals.getEnd(piece) == size)
    return intervals.getBegin(piece);
  piece = read.findLast();
  if (piece != kNone && read.getEnd(piece) == size &&
      readPieces[piece].numBlocking == 0)
    return read.getBegin(piece);
  return size;
}

ArenaAllocator::Taken ArenaAllocator::take(int64_t bytes) {
  bytes = align(bytes);
  if (bytes == 0)
    return {0, {}};
  uint32_t fit = unread.intervals().findFit(bytes);
  if (fit != kNone) {
    int64_t begin = unread.intervals().getBegin(fit);
    use(begin, begin + bytes);
    return {begin, {}};
  }
  fit = unblocked.intervals().findFit(bytes);
  if (fit != kNone) {
    int64_t begin = unblocked.intervals().getBegin(fit);
    return takeRead(begin, begin + bytes);
  }
  int64_t begin = findEndPiece();
  Taken taken = takeRead(begin, size);
  size = begin + bytes;
  return taken;
}

void ArenaAllocator::give(
    int64_t offset, int64_t bytes, llvm::ArrayRef<uint32_t> readers,
    llvm::function_ref<Reader(uint32_t reader)> classify) {
  bytes = align(bytes);
  if (bytes == 0)
    return;
  int64_t end = offset + bytes;
  uint32_t piece = read.insert(offset, end);
  if (piece >= readPieces.size())
    readPieces.resize(piece + 1);
  ReadPiece &own = readPieces[piece] = {};
  uint32_t last = kNone;
  for (uint32_t reader : readers) {
    Reader standing = classify(reader);
    if (standing == Reader::Done)
      continue;
    uint32_t node = makeNode(reader, piece);
    (last == kNone ? own.firstNode : nodes[last].nextOfPiece) = node;
    last = node;
    link(node);
    ++own.numReaders;
    bool isBlocking = standing == Reader::MayNotWaitFor;
    makeKnown(reader).isBlocking = isBlocking;
    own.numBlocking += isBlocking;
  }
  if (own.numBlocking == 0)
    unblocked.add(offset, end);
  if (own.numReaders == 0) {
    unread.add(offset, end);
    erasePiece(piece);
  }
}

void ArenaAllocator::describe(
    std::vector<int64_t> &numbers,
    llvm::function_ref<void(uint32_t reader)> describeReader) const {
  numbers.push_back(size);
  const IntervalTree &intervals = unread.intervals();
  numbers.push_back(intervals.size());
  intervals.forEach([&](uint32_t piece) {
    numbers.push_back(intervals.getBegin(piece));
    numbers.push_back(intervals.getEnd(piece));
  });
  numbers.push_back(read.size());
  read.forEach([&](uint32_t piece) {
    numbers.push_back(read.getBegin(piece));
    numbers.push_back(read.getEnd(piece));
    numbers.push_back(readPieces[piece].numReaders);
    for (uint32_t node = readPieces[piece].firstNode; node != kNone;
         node = nodes[node].nextOfPiece)
      if (nodes[node].reader != kNone)
        describeReader(nodes[node].reader);
  });
}
