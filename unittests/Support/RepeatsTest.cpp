//===- RepeatsTest.cpp - What repeats in a row ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Repeats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <string>

using namespace pipesched;

namespace pipesched {
static void PrintTo(const Stretch &stretch, std::ostream *os) {
  *os << stretch.begin << ": " << stretch.period << " x " << stretch.times;
}
} // namespace pipesched

/// The stretches of a row of letters, equal ones being alike.
static std::vector<Stretch> repeatsOf(const std::string &row) {
  return findRepeats(row.size(), [&](uint32_t i, uint32_t period, uint32_t) {
    return row[i] == row[i + period];
  });
}

static std::string times(int count, const std::string &part) {
  std::string row;
  for (int i = 0; i < count; ++i)
    row += part;
  return row;
}

TEST(Repeats, FindsTheMiddleOfARow) {
  std::string row = "abcdefg" + times(50, "xyz") + "hijk";
  EXPECT_THAT(repeatsOf(row),
              testing::ElementsAre(Stretch{0, 7, 1}, Stretch{7, 3, 50},
                                   Stretch{157, 4, 1}));
}

TEST(Repeats, FindsTwoPartsOfARow) {
  std::string row = times(80, "f") + times(60, "bw");
  std::vector<Stretch> found = repeatsOf(row);
  uint32_t covered = 0;
  for (Stretch stretch : found)
    if (stretch.times > 1)
      covered += stretch.end() - stretch.begin;
  EXPECT_EQ(covered, 200u);
}

TEST(Repeats, PrefersWhatCoversHalfToTheShortest) {
  // Around the middle "y" repeats, but only four times.
  std::string row = times(41, "xyyyyz");
  EXPECT_THAT(repeatsOf(row), testing::ElementsAre(Stretch{0, 6, 41}));
}

TEST(Repeats, TakesTheWayInWhichElementsFollow) {
  // 0 2 4 .. grow by 2; from 200 on they grow by 3.
  std::vector<int> row;
  for (int i = 0; i < 100; ++i)
    row.push_back(2 * i);
  for (int i = 0; i < 20; ++i)
    row.push_back(200 + 3 * i);
  auto follows = [&](uint32_t i, uint32_t period, uint32_t anchor) {
    return row[i + period] - row[i] == row[anchor + period] - row[anchor];
  };
  std::vector<Stretch> found = findRepeats(row.size(), follows);
  EXPECT_EQ(found.front(), (Stretch{0, 1, 101}));
}

TEST(Repeats, LeavesNothingOut) {
  for (uint32_t size : {0, 1, 63, 64, 65, 1000}) {
    std::string row;
    for (uint32_t i = 0; i < size; ++i)
      row += static_cast<char>('a' + i * i % 23);
    uint32_t end = 0;
    for (Stretch stretch : repeatsOf(row)) {
      EXPECT_EQ(stretch.begin, end);
      EXPECT_GT(stretch.end(), end);
      end = stretch.end();
    }
    EXPECT_EQ(end, size);
  }
}
