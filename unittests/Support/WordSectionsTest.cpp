//===- WordSectionsTest.cpp - Short tables of rows that repeat ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/WordSections.h"
#include "gtest/gtest.h"
#include <random>

using namespace pipesched;

namespace {
/// Rows of words, and the table of their sections.
struct Rows {
  std::vector<uint32_t> words, begins;

  void add(std::initializer_list<uint32_t> row) {
    begins.push_back(words.size());
    words.insert(words.end(), row);
  }

  /// The size of the table; fails unless it reads as the words.
  size_t write() const {
    std::vector<uint32_t> table{7, 8, 9}; // entries in front
    std::vector<WordSection> sections = writeSections(words, begins, table);
    EXPECT_EQ(readSections(sections, table), words);
    EXPECT_EQ(table[0], 7u);
    for (const WordSection &section : sections)
      EXPECT_LE(section.length, kMaxSectionWords);
    return table.size() - 3;
  }
};
} // namespace

/// Microbatches that grow, places that are used in turn: `first` of three,
/// `second` of seven, after a start in which they settle.
static Rows makeRows(uint32_t count) {
  Rows rows;
  for (uint32_t i = 0; i < 9; ++i)
    rows.add({1, i});
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t first = i < 5 ? i : i % 3, second = i < 11 ? 20 + i : 40 + i % 7;
    rows.add({1, i + 9});
    rows.add({2, first, i, second});
  }
  for (uint32_t i = 0; i < 9; ++i)
    rows.add({2, i, count + i, i});
  return rows;
}

TEST(WordSections, DoNotGrowWithRepetitions) {
  size_t small = makeRows(200).write(), large = makeRows(20000).write();
  EXPECT_EQ(small, large);
  EXPECT_LT(large, 300u);
}

TEST(WordSections, KeepWhatDoesNotRepeat) {
  std::mt19937 random(1);
  Rows rows;
  for (int i = 0; i < 3000; ++i)
    if (random() % 2)
      rows.add({static_cast<uint32_t>(random()), 1});
    else
      rows.add({static_cast<uint32_t>(random() % 3), 1,
                static_cast<uint32_t>(random())});
  EXPECT_EQ(rows.write(), rows.words.size());
}

TEST(WordSections, ListAWordThatDoesNotCycle) {
  std::mt19937 random(1);
  Rows rows;
  for (uint32_t i = 0; i < 1000; ++i)
    rows.add({1, i, 2 * i, 5, static_cast<uint32_t>(random())});
  EXPECT_LT(rows.write(), 1100u);
}

TEST(WordSections, ReadAnythingBack) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](uint32_t bound) {
      return static_cast<uint32_t>(random() % bound);
    };
    Rows rows;
    for (uint32_t part = below(4); part > 0; --part) {
      uint32_t cycle = 1 + below(9), step = below(1u << 31), start = below(20);
      for (uint32_t i = below(400); i > 0; --i) {
        uint32_t odd = below(200) == 0;
        rows.add({part + odd, i % cycle + i / cycle * step,
                  i > start ? i % 3 : below(1000)});
        rows.add({9, below(seed % 5 + 1)});
      }
    }
    rows.write();
  }
}

TEST(WordSections, DivideLongRowsOfWords) {
  Rows rows;
  for (uint32_t i = 0; i < 5000; ++i)
    rows.add({i, i, i, i, i});
  EXPECT_EQ(rows.write(), rows.words.size());
}
