//===- ArenaAllocatorTest.cpp - The first piece that fits is taken --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the allocator with first fit over a list that is searched from its
// beginning.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Stages/ArenaAllocator.h"
#include "../Support/TestEffort.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>

using namespace pipesched;

namespace {
using Reader = ArenaAllocator::Reader;

/// First fit by its definition.
class PlainAllocator {
public:
  using Taken = ArenaAllocator::Taken;

  Taken take(int64_t bytes,
             llvm::function_ref<Reader(uint32_t reader)> classify) {
    bytes = ArenaAllocator::align(bytes);
    if (bytes == 0)
      return {0, {}};
    update(classify);
    for (auto mayUse : {isUnread, mayWaitFor})
      for (std::size_t i = 0; i < free.size(); ++i) {
        std::size_t last = i;
        while (mayUse(free[last]) && free[last].end - free[i].begin < bytes &&
               last + 1 < free.size() && free[last + 1].begin == free[last].end)
          ++last;
        if (mayUse(free[last]) && free[last].end - free[i].begin >= bytes)
          return cut(i, last, bytes);
      }
    if (free.empty() || free.back().end != size || free.back().isBlocked) {
      size += bytes;
      return {size - bytes, {}};
    }
    free.back().end = size = free.back().begin + bytes;
    return cut(free.size() - 1, free.size() - 1, bytes);
  }

  void give(int64_t offset, int64_t bytes, llvm::ArrayRef<uint32_t> readers) {
    bytes = ArenaAllocator::align(bytes);
    if (bytes == 0)
      return;
    free.push_back({offset, offset + bytes, {readers.begin(), readers.end()}});
    llvm::sort(
        free, [](const Piece &a, const Piece &b) { return a.begin < b.begin; });
  }

  int64_t getSize() const { return size; }

private:
  struct Piece {
    int64_t begin, end;
    std::vector<uint32_t> readers;
    bool isBlocked = false;
  };

  static bool isUnread(const Piece &piece) { return piece.readers.empty(); }
  static bool mayWaitFor(const Piece &piece) { return !piece.isBlocked; }

  /// Forgets readers that are done, and joins what nobody reads.
  void update(llvm::function_ref<Reader(uint32_t reader)> classify) {
    std::vector<Piece> joined;
    for (Piece &piece : free) {
      llvm::erase_if(piece.readers, [&](uint32_t reader) {
        return classify(reader) == Reader::Done;
      });
      piece.isBlocked = llvm::any_of(piece.readers, [&](uint32_t reader) {
        return classify(reader) == Reader::MayNotWaitFor;
      });
      if (!joined.empty() && joined.back().end == piece.begin &&
          isUnread(joined.back()) && isUnread(piece))
        joined.back().end = piece.end;
      else
        joined.push_back(std::move(piece));
    }
    free = std::move(joined);
  }

  Taken cut(std::size_t first, std::size_t last, int64_t bytes) {
    Taken taken{free[first].begin, {}};
    for (std::size_t i = first; i <= last; ++i)
      for (uint32_t reader : free[i].readers)
        if (!llvm::is_contained(taken.readers, reader))
          taken.readers.push_back(reader);
    free[last].begin = taken.offset + bytes;
    bool isUsedUp = free[last].begin == free[last].end;
    free.erase(free.begin() + first, free.begin() + last + isUsedUp);
    return taken;
  }

  std::vector<Piece> free;
  int64_t size = 0;
};

/// Both allocators, and readers that end or may be waited for at random.
class Comparison {
public:
  Comparison(unsigned seed, int64_t mostBytes)
      : random(seed), mostBytes(mostBytes) {}

  void step() {
    unsigned choice = number(10);
    if (choice < 4)
      take();
    else if (choice < 8)
      give();
    else
      changeReader();
  }

  /// Gives all back, and takes it as one piece.
  void takeAll() {
    while (!used.empty())
      give();
    for (uint32_t reader = 0; reader < standings.size(); ++reader)
      set(reader, Reader::Done);
    int64_t size = tested.getSize();
    auto isDone = [](uint32_t) { return Reader::Done; };
    EXPECT_EQ(tested.take(size, isDone).offset, 0);
    EXPECT_EQ(tested.getSize(), size);
  }

private:
  struct Used {
    int64_t offset, bytes;
  };

  unsigned number(unsigned end) { return random() % end; }
  Reader classify(uint32_t reader) const { return standings[reader]; }
  auto classifier() {
    return [this](uint32_t reader) { return classify(reader); };
  }
  void set(uint32_t index, Reader standing) {
    standings[index] = standing;
    if (standing == Reader::Done)
      tested.noteDone(index);
  }

  void take() {
    int64_t bytes = number(8) ? 1 + number(mostBytes) : 0;
    ArenaAllocator::Taken found = tested.take(bytes, classifier());
    ArenaAllocator::Taken wanted = plain.take(bytes, classifier());
    EXPECT_EQ(found.offset, wanted.offset);
    EXPECT_EQ(found.readers, wanted.readers);
    EXPECT_EQ(tested.getSize(), plain.getSize());
    used.push_back({found.offset, bytes});
    for (uint32_t reader : wanted.readers)
      set(reader, Reader::Done); // the owner waits
  }

  void give() {
    if (used.empty())
      return;
    std::swap(used[number(used.size())], used.back());
    auto [offset, bytes] = used.pop_back_val();
    llvm::SmallVector<uint32_t, 4> readers;
    for (unsigned i = number(4); i-- > 0;) {
      // A new reader, or one that reads other pieces, too.
      if (standings.empty() || number(2))
        standings.push_back(Reader(number(3)));
      readers.push_back(standings.size() - 1 -
                        number(std::min<unsigned>(standings.size(), 12)));
    }
    tested.give(offset, bytes, readers, classifier());
    plain.give(offset, bytes, readers);
  }

  void changeReader() {
    if (standings.empty())
      return;
    uint32_t index = number(standings.size());
    if (standings[index] != Reader::Done)
      set(index, Reader(number(unsigned(standings[index]))));
  }

  std::mt19937 random;
  int64_t mostBytes;
  ArenaAllocator tested;
  PlainAllocator plain;
  llvm::SmallVector<Used> used;
  std::vector<Reader> standings; ///< by reader
};
} // namespace

TEST(ArenaAllocator, TakesWhatFirstFitTakes) {
  for (int round = 0; round < numRounds(200); ++round) {
    Comparison comparison(round, round % 2 ? 64 : 1000);
    for (int i = 0; i < 1000 && !testing::Test::HasFailure(); ++i)
      comparison.step();
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
}

TEST(ArenaAllocator, IsOnePieceWhenAllIsGivenBack) {
  for (int round = 0; round < numRounds(20); ++round) {
    Comparison comparison(round, 1000);
    for (int i = 0; i < 500; ++i)
      comparison.step();
    comparison.takeAll();
  }
}
