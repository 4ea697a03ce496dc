//===- AsymmetricPlacementTest.cpp - Halves of unequal length -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the rule over all small sizes and ratios: the halves have the given
// ratio and all workers equal work. Also checks the weights of the paper's
// study, and refusals with bounds and nearest sizes.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include <numeric>

using namespace pipesched;
using Weights = std::vector<int64_t>;

static const Asymmetry kWays[] = {Asymmetry::Halves, Asymmetry::Ramp,
                                  Asymmetry::Ends, Asymmetry::Middle};

static int64_t sumOf(llvm::ArrayRef<int64_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t(0));
}

static int64_t gcdOf(llvm::ArrayRef<int64_t> values) {
  int64_t divisor = 0;
  for (int64_t value : values)
    divisor = std::gcd(divisor, value);
  return divisor;
}

static Weights weightsOf(int64_t stages, Ratio ratio, Asymmetry way) {
  return llvm::cantFail(asymmetricWeights(stages, ratio, way));
}

/// Every accepted ratio gives halves in that ratio, and opposite stages with
/// equal sums; returns whether it was accepted.
static bool checkRule(int64_t stages, Ratio ratio, Asymmetry way) {
  llvm::Expected<Weights> weights = asymmetricWeights(stages, ratio, way);
  if (!weights) {
    llvm::consumeError(weights.takeError());
    return false;
  }
  llvm::ArrayRef<int64_t> all = *weights;
  EXPECT_EQ(int64_t(all.size()), stages);
  using Wide = __int128; // products of accepted ratios may not fit 64 bits
  EXPECT_TRUE(Wide(sumOf(all.take_front(stages / 2))) * ratio.second ==
              Wide(sumOf(all.take_back(stages / 2))) * ratio.first);
  for (int64_t stage = 0; stage < stages; ++stage) {
    EXPECT_GE(all[stage], 1);
    EXPECT_EQ(all[stage] + all[stages - 1 - stage], all.front() + all.back());
  }
  EXPECT_EQ(gcdOf(all), 1);
  return true;
}

TEST(AsymmetricPlacement, HoldsTheRatioOnHalvesAndWorkers) {
  int64_t accepted = 0;
  for (int64_t stages = 2; stages <= 16; stages += 2)
    for (int64_t first = 1; first <= 6; ++first)
      for (int64_t second = 1; second <= 6; ++second)
        for (Asymmetry way : kWays)
          accepted += checkRule(stages, {first, second}, way);
  // Halves and equal ratios are never refused.
  EXPECT_GE(accepted, 8 * 36 + 3 * 8 * 6);
}

TEST(AsymmetricPlacement, FollowsItsWay) {
  EXPECT_EQ(weightsOf(4, {1, 2}, Asymmetry::Halves), Weights({1, 1, 2, 2}));
  EXPECT_EQ(weightsOf(4, {2, 4}, Asymmetry::Halves), Weights({1, 1, 2, 2}));
  EXPECT_EQ(weightsOf(4, {1, 2}, Asymmetry::Ramp), Weights({3, 5, 7, 9}));
  EXPECT_EQ(weightsOf(4, {1, 2}, Asymmetry::Ends), Weights({1, 3, 3, 5}));
  EXPECT_EQ(weightsOf(4, {1, 2}, Asymmetry::Middle), Weights({3, 1, 5, 3}));
  EXPECT_EQ(weightsOf(6, {1, 1}, Asymmetry::Ramp), Weights(6, 1));
  EXPECT_EQ(weightsOf(2, {1, 2}, Asymmetry::Ends), Weights({1, 2}));
}

/// The bounds that the message of a refusal names are accepted.
TEST(AsymmetricPlacement, RefusesRatiosThatLeaveNothing) {
  EXPECT_EQ(errorOf(asymmetricWeights(8, {1, 4}, Asymmetry::Ramp)),
            "the ratio 1:4 as a ramp leaves a stage of 8 empty; expected a "
            "ratio between 3:11 and 11:3");
  EXPECT_FALSE(checkRule(8, {3, 11}, Asymmetry::Ramp));
  EXPECT_TRUE(checkRule(8, {300000001, 1000000000}, Asymmetry::Ramp));
  EXPECT_EQ(errorOf(asymmetricWeights(8, {5, 3}, Asymmetry::Ends)),
            "the ratio 5:3 as unequal ends leaves a stage of 8 empty; expected "
            "a ratio between 3:5 and 5:3");
  EXPECT_TRUE(checkRule(8, {49, 30}, Asymmetry::Middle));
}

TEST(AsymmetricPlacement, TakesTheLargestSizes) {
  constexpr int64_t most = Ratio::kMaxPart;
  for (Asymmetry way : kWays)
    EXPECT_TRUE(checkRule(65536, {most, most - 1}, way));
  EXPECT_TRUE(checkRule(65536, {1, most}, Asymmetry::Halves));
  EXPECT_EQ(
      errorOf(asymmetricWeights(1 << 24, {most, most - 1}, Asymmetry::Ramp)),
      "the weights for a ratio of 1000000000:999999999 over 16777216 "
      "stages add up to more than 2^63 - 1");
  EXPECT_EQ(errorOf(asymmetricWeights(3, {1, 2}, Asymmetry::Halves)),
            "a path of 3 stages has no two halves: expected an even number "
            "from 2 to 16777216");
}

TEST(AsymmetricPlacement, ReadsRatios) {
  Ratio ratio = llvm::cantFail(parseRatio("3: 7"));
  EXPECT_EQ(ratio.first, 3);
  EXPECT_EQ(ratio.second, 7);
  for (llvm::StringRef text : {"", "1", "1:", ":2", "1:2:3", "a:b", "1.5:2"})
    EXPECT_EQ(errorOf(parseRatio(text)),
              "'" + text.str() +
                  "' is not a ratio: expected two numbers such as 1:2");
  EXPECT_EQ(errorOf(parseRatio("0:2")),
            "a part of the ratio 0:2 is 0: it must be 1 to 1000000000");
  EXPECT_EQ(errorOf(parseRatio("1:1000000001")),
            "a part of the ratio 1:1000000001 is 1000000001: it must be 1 to "
            "1000000000");
}
