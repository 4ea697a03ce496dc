//===- WideDivisionTest.cpp - Tests of divisions of 128 bits --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares quotients with the compiler's, for numbers of all sizes.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/WideDivision.h"
#include "gtest/gtest.h"
#include <random>

using namespace pipesched;

static void expectQuotient(__int128 number, uint64_t divisor) {
  EXPECT_TRUE(divideWide(number, divisor) ==
              number / static_cast<__int128>(divisor))
      << static_cast<int64_t>(number >> 64) << ":"
      << static_cast<uint64_t>(number) << " / " << divisor;
}

TEST(WideDivision, AsTheCompilers) {
  std::mt19937_64 random(7);
  constexpr uint64_t kFactors = 1'000'000'000'000;
  for (int round = 0; round < 20'000; ++round) {
    uint64_t divisor = random() >> round % 64;
    auto number = static_cast<__int128>(
        ((static_cast<unsigned __int128>(random()) << 64) | random()) >>
        (1 + round % 127));
    if (divisor != 0)
      expectQuotient(number, divisor);
    expectQuotient(number, kFactors);
    expectQuotient(number, 1'000'000);
  }
}

TEST(WideDivision, AtItsLimits) {
  constexpr __int128 kLargest =
      static_cast<__int128>(~static_cast<unsigned __int128>(0) >> 1);
  for (uint64_t divisor : {uint64_t(1), uint64_t(2), (uint64_t(1) << 32) - 1,
                           (uint64_t(1) << 32) + 1, ~uint64_t(0)})
    for (__int128 number :
         {__int128(0), __int128(divisor) - 1, __int128(divisor),
          (__int128(1) << 96) - 1, __int128(1) << 96, kLargest})
      expectQuotient(number, divisor);
}
