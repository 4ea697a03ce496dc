//===- ArenaAllocator.cpp - First-fit allocation --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocates by first fit, in time that grows with the number of free pieces.
//
//===----------------------------------------------------------------------===//

#include "ArenaAllocator.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

/// Joins a piece without readers with adjacent pieces without readers.
void ArenaAllocator::addUnread(int64_t begin, int64_t end) {
  auto next = unread.lower_bound(begin);
  if (next != unread.end() && next->first == end) {
    end = next->second;
    next = unread.erase(next);
  }
  if (next != unread.begin() && std::prev(next)->second == begin)
    std::prev(next)->second = end;
  else
    unread.insert(next, {begin, end});
}

void ArenaAllocator::noteDone(uint32_t reader) {
  if (!readers.erase(reader))
    return;
  for (auto piece = read.begin(); piece != read.end();) {
    auto &[begin, known] = *piece;
    llvm::erase(known.readers, reader);
    if (known.readers.empty()) {
      addUnread(begin, known.end);
      piece = read.erase(piece);
    } else {
      ++piece;
    }
  }
}

std::optional<int64_t> ArenaAllocator::findUnread(int64_t bytes) const {
  for (auto [begin, end] : unread)
    if (end - begin >= bytes)
      return begin;
  return std::nullopt;
}

static bool mayWaitFor(llvm::ArrayRef<uint32_t> readers,
                       ArenaAllocator::Classify classify) {
  return llvm::none_of(readers, [&](uint32_t reader) {
    return classify(reader) == ArenaAllocator::Reader::MayNotWaitFor;
  });
}

/// Finds the first adjacent pieces that have `bytes` together, among pieces
/// without readers or whose readers may be waited for.
std::optional<int64_t> ArenaAllocator::findRun(int64_t bytes,
                                               Classify classify) const {
  int64_t begin = 0, end = 0;
  auto free = unread.begin();
  auto add = [&](int64_t pieceBegin, int64_t pieceEnd) {
    if (pieceBegin != end)
      begin = pieceBegin;
    end = pieceEnd;
    return end - begin >= bytes;
  };
  for (const auto &[pieceBegin, piece] : read) {
    for (; free != unread.end() && free->first < pieceBegin; ++free)
      if (add(free->first, free->second))
        return begin;
    if (mayWaitFor(piece.readers, classify) && add(pieceBegin, piece.end))
      return begin;
  }
  for (; free != unread.end(); ++free)
    if (add(free->first, free->second))
      return begin;
  return std::nullopt;
}

/// Returns the start of the last piece if it may be taken and reaches the end
/// of the arena; otherwise the end of the arena.
int64_t ArenaAllocator::findEndPiece(Classify classify) const {
  if (!unread.empty() && unread.rbegin()->second == size)
    return unread.rbegin()->first;
  if (!read.empty() && read.rbegin()->second.end == size &&
      mayWaitFor(read.rbegin()->second.readers, classify))
    return read.rbegin()->first;
  return size;
}

/// Takes the free pieces of a range, and lists their readers. The unused rest
/// of the last piece keeps its readers.
ArenaAllocator::Taken ArenaAllocator::use(int64_t begin, int64_t end) {
  Taken taken{begin, {}};
  for (auto piece = unread.lower_bound(begin);
       piece != unread.end() && piece->first < end;) {
    int64_t pieceEnd = piece->second;
    piece = unread.erase(piece);
    if (pieceEnd > end)
      unread.insert(piece, {end, pieceEnd});
  }
  for (auto piece = read.lower_bound(begin);
       piece != read.end() && piece->first < end;) {
    ReadPiece used = std::move(piece->second);
    piece = read.erase(piece);
    for (uint32_t reader : used.readers)
      if (!llvm::is_contained(taken.readers, reader))
        taken.readers.push_back(reader);
    if (used.end > end)
      read.insert(piece, {end, std::move(used)});
  }
  return taken;
}

ArenaAllocator::Taken ArenaAllocator::take(int64_t bytes, Classify classify) {
  bytes = align(bytes);
  if (bytes == 0)
    return {0, {}};
  std::optional<int64_t> begin = findUnread(bytes);
  if (!begin)
    begin = findRun(bytes, classify);
  if (!begin) {
    begin = findEndPiece(classify);
    Taken taken = use(*begin, size);
    size = *begin + bytes;
    return taken;
  }
  return use(*begin, *begin + bytes);
}

void ArenaAllocator::give(int64_t offset, int64_t bytes,
                          llvm::ArrayRef<uint32_t> givenReaders,
                          Classify classify) {
  bytes = align(bytes);
  if (bytes == 0)
    return;
  ReadPiece piece{offset + bytes, {}};
  for (uint32_t reader : givenReaders)
    if (classify(reader) != Reader::Done)
      piece.readers.push_back(reader);
  readers.insert(piece.readers.begin(), piece.readers.end());
  if (piece.readers.empty())
    addUnread(offset, offset + bytes);
  else
    read.try_emplace(offset, std::move(piece));
}
