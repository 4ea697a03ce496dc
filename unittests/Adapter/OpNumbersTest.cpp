//===- OpNumbersTest.cpp - Numbers of ops by their addresses --------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever the addresses of ops, each has its number and no other address has
// one. Ops are only addresses here.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Adapter/OpNumbers.h"
#include "gtest/gtest.h"
#include <map>
#include <random>

using namespace mlir;
using namespace pipesched;

static const Operation *at(uintptr_t address) {
  return reinterpret_cast<const Operation *>(address);
}

/// Numbers ops in this order, and compares each number, and those of the
/// addresses around, after each insertion if `always`, else after the last.
static void check(OpNumbers &numbers, llvm::ArrayRef<uintptr_t> addresses,
                  bool always) {
  numbers.clear();
  std::map<uintptr_t, uint32_t> expected;
  auto compare = [&] {
    for (auto [address, number] : expected) {
      ASSERT_EQ(numbers.lookup(at(address)), number) << address;
      for (uintptr_t other : {address - 64, address + 64})
        if (expected.lower_bound(other - 63) ==
            expected.upper_bound(other + 63))
          ASSERT_EQ(numbers.lookup(at(other)), OpNumbers::kNone) << other;
    }
    EXPECT_EQ(numbers.lookup(nullptr), OpNumbers::kNone);
  };
  for (uintptr_t address : addresses) {
    uint32_t number = expected.size();
    numbers.insert(at(address), number);
    expected[address] = number;
    if (always)
      compare();
  }
  compare();
}

namespace {
constexpr uintptr_t kBase = uintptr_t(0x7f3a) << 28;
} // namespace

TEST(OpNumbers, KnowsNothingAtFirst) {
  OpNumbers numbers;
  EXPECT_EQ(numbers.lookup(nullptr), OpNumbers::kNone);
  EXPECT_EQ(numbers.lookup(at(kBase)), OpNumbers::kNone);
}

TEST(OpNumbers, FindsOpsInARowUpAndDown) {
  OpNumbers numbers;
  for (intptr_t step : {64, 80, 176, 1000, -64, -144, -1008}) {
    std::vector<uintptr_t> addresses;
    for (int i = 0; i < 100; ++i)
      addresses.push_back(kBase + i * step);
    check(numbers, addresses, /*always=*/true);
  }
}

TEST(OpNumbers, FindsOpsOfSeveralAreas) {
  OpNumbers numbers;
  std::vector<uintptr_t> addresses;
  for (uintptr_t area : {4, 1, 9, 0})
    for (uintptr_t i = 0; i < 300 * (area + 1); ++i)
      addresses.push_back(kBase + (area << 30) + 160 * i);
  check(numbers, addresses, /*always=*/false);
}

TEST(OpNumbers, FindsScatteredOps) {
  OpNumbers numbers;
  std::mt19937_64 random(7);
  for (unsigned shift : {12, 20, 28, 40})
    for (size_t size : {5, 100, 3000}) {
      std::map<uintptr_t, bool> taken;
      std::vector<uintptr_t> addresses;
      while (addresses.size() < size) {
        uintptr_t address = kBase + (random() >> (64 - shift)) * 112;
        if (taken.lower_bound(address - 111) ==
            taken.upper_bound(address + 111)) {
          taken[address] = true;
          addresses.push_back(address);
        }
      }
      check(numbers, addresses, /*always=*/size <= 100);
    }
}

TEST(OpNumbers, FindsOpsBesideAFirstOneFarAway) {
  OpNumbers numbers;
  std::vector<uintptr_t> addresses = {64};
  for (uintptr_t i = 0; i < 5000; ++i)
    addresses.push_back(kBase + 208 * i);
  check(numbers, addresses, /*always=*/false);
}
