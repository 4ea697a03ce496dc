//===- SumsTest.cpp - Sums over groups of workers -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All element types, the order of additions, and groups that overlap.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace runtime_test;

/// Sums the vector that `make` gives for each of the members, and returns the
/// result of each.
template <typename T>
static std::vector<std::vector<T>> sumOver(std::vector<int32_t> members,
                                           std::vector<std::vector<T>> values,
                                           int32_t elementType) {
  Sizes sizes;
  sizes.workers = static_cast<int64_t>(values.size());
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([&](const Worker &w) {
    auto &own = values[static_cast<size_t>(w.index)];
    pipesched_rt_all_reduce(
        w.context, own.data(), static_cast<int64_t>(own.size()), elementType, 0,
        members.data(), static_cast<int32_t>(members.size()), 3);
    return w.wait(3);
  }),
            0)
      << world.error();
  return values;
}

TEST(Sums, OfEveryWideType) {
  auto f32 = sumOver<float>({0, 1, 2}, {{1, 2}, {10, 20}, {100, 0.5f}},
                            PIPESCHED_RT_F32);
  auto f64 = sumOver<double>({0, 1}, {{1e300}, {1e-300}}, PIPESCHED_RT_F64);
  auto i32 = sumOver<int32_t>({0, 1}, {{INT32_MAX}, {1}}, PIPESCHED_RT_I32);
  auto i64 = sumOver<int64_t>({0, 1}, {{INT64_MIN}, {-1}}, PIPESCHED_RT_I64);
  for (const auto &got : f32)
    EXPECT_EQ(got, (std::vector<float>{111, 22.5f}));
  for (const auto &got : f64)
    EXPECT_EQ(got[0], 1e300);
  for (const auto &got : i32)
    EXPECT_EQ(got[0], INT32_MIN);
  for (const auto &got : i64)
    EXPECT_EQ(got[0], INT64_MAX);
}

TEST(Sums, AddInTheOrderOfTheMembers) {
  const std::vector<std::vector<float>> values = {{1e8f}, {1}, {-1e8f}};
  for (int repetition = 0; repetition < 20; ++repetition) {
    EXPECT_EQ(sumOver<float>({0, 1, 2}, values, PIPESCHED_RT_F32)[1][0], 0);
    EXPECT_EQ(sumOver<float>({0, 2, 1}, values, PIPESCHED_RT_F32)[1][0], 1);
  }
}

TEST(Sums, KeepTheSignOfZero) {
  auto got = sumOver<float>({0, 1}, {{-0.0f}, {-0.0f}}, PIPESCHED_RT_F32);
  EXPECT_TRUE(std::signbit(got[0][0]));
}

TEST(Sums, OfManyAndOfNoElements) {
  for (size_t count : {0, 511, 512, 513, 100003}) {
    std::vector<std::vector<int64_t>> values(3, std::vector<int64_t>(count));
    for (size_t i = 0; i < count; ++i)
      for (size_t worker = 0; worker < 3; ++worker)
        values[worker][i] = static_cast<int64_t>(i * (worker + 1));
    auto got = sumOver<int64_t>({2, 0, 1}, values, PIPESCHED_RT_I64);
    size_t numWrong = 0;
    for (const auto &of : got)
      for (size_t i = 0; i < count; ++i)
        numWrong += of[i] != static_cast<int64_t>(i * 6);
    EXPECT_EQ(numWrong, 0u);
  }
}

TEST(Sums, OfOneMemberChangeNothing) {
  EXPECT_EQ(sumOver<float>({0}, {{1.5f}}, PIPESCHED_RT_F32)[0][0], 1.5f);
}

//===----------------------------------------------------------------------===//
// 16 bits, against a slow definition
//===----------------------------------------------------------------------===//

namespace {
/// A floating-point format of 16 bits by its definition (IEEE 754, 3.4).
struct Format {
  int mantissaBits, bias;

  double decode(uint16_t bits) const {
    int exponentBits = 15 - mantissaBits;
    int exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
    double mantissa = bits & ((1 << mantissaBits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponentBits) - 1)
      return mantissa ? std::nan("") : sign * INFINITY;
    double one = std::ldexp(1, mantissaBits);
    return exponent == 0
               ? sign * std::ldexp(mantissa / one, 1 - bias)
               : sign * std::ldexp(1 + mantissa / one, exponent - bias);
  }

  uint16_t infinity() const {
    return static_cast<uint16_t>(0x7fff & ~((1 << mantissaBits) - 1));
  }

  /// Rounds to nearest, ties to even, by looking for the neighbours.
  uint16_t encode(double value) const {
    if (std::isnan(value))
      return infinity() + 1;
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double size = std::fabs(value);
    if (std::isinf(size))
      return sign | infinity();
    uint16_t below = 0, above = infinity(); // the largest that is not larger
    while (above - below > 1) {
      uint16_t middle = static_cast<uint16_t>((below + above) / 2);
      (decode(middle) <= size ? below : above) = middle;
    }
    // Beyond the largest number, infinity counts as the next power of two.
    double next = above == infinity()
                      ? 2 * decode(above - 1) - decode(above - 2)
                      : decode(above);
    double toBelow = size - decode(below), toAbove = next - size;
    bool isUp = toAbove < toBelow || (toAbove == toBelow && (below & 1));
    return sign | (isUp ? above : below);
  }
};
} // namespace

static const Format f16 = {10, 15}, bf16 = {7, 127};

static bool isSame(const Format &format, uint16_t one, uint16_t other) {
  return one == other ||
         (std::isnan(format.decode(one)) && std::isnan(format.decode(other)));
}

/// Counts sums of three that are not the one sum in f32, rounded once.
static size_t numWrongSums(const Format &format, int32_t elementType,
                           std::vector<std::vector<uint16_t>> values) {
  auto got = sumOver<uint16_t>({0, 1, 2}, values, elementType);
  size_t numWrong = 0;
  for (size_t i = 0; i < values[0].size(); ++i) {
    float sum = static_cast<float>(format.decode(values[0][i]));
    sum += static_cast<float>(format.decode(values[1][i]));
    sum += static_cast<float>(format.decode(values[2][i]));
    numWrong += !isSame(format, got[2][i], format.encode(sum));
  }
  return numWrong;
}

TEST(Sums, OfSixteenBitsRoundOnce) {
  std::mt19937 random(1);
  std::vector<std::vector<uint16_t>> values(3, std::vector<uint16_t>(65536));
  for (auto [format, elementType] :
       {std::pair(f16, PIPESCHED_RT_F16), std::pair(bf16, PIPESCHED_RT_BF16)}) {
    for (size_t i = 0; i < 65536; ++i) {
      values[0][i] = static_cast<uint16_t>(i);
      values[1][i] = values[2][i] = 0;
    }
    EXPECT_EQ(numWrongSums(format, elementType, values), 0u);
    for (size_t i = 0; i < 65536; ++i) {
      values[1][i] = static_cast<uint16_t>(random());
      values[2][i] = static_cast<uint16_t>(random());
    }
    EXPECT_EQ(numWrongSums(format, elementType, values), 0u);
    // Close to each other, so that most sums must be rounded.
    for (size_t i = 0; i < 65536; ++i) {
      values[1][i] = static_cast<uint16_t>(i ^ (random() & 0x3ff));
      values[2][i] = static_cast<uint16_t>(i ^ (random() & 0x8fff));
    }
    EXPECT_EQ(numWrongSums(format, elementType, values), 0u);
  }
}

//===----------------------------------------------------------------------===//
// Several groups
//===----------------------------------------------------------------------===//

TEST(Sums, OfGroupsThatOverlap) {
  Sizes sizes;
  sizes.workers = 4;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  const std::vector<std::vector<int32_t>> groups = {
      {0, 1, 2, 3}, {0, 1}, {1, 2}, {3, 0}};
  std::atomic<int> numWrong = 0;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  // Each worker starts the sums of its groups in another order.
                  int64_t data[4];
                  for (size_t i = 0; i < 4; ++i) {
                    size_t group = (i + static_cast<size_t>(w.index)) % 4;
                    data[group] = (w.index + 1) * 10;
                    for (int32_t member : groups[group])
                      if (member == w.index)
                        pipesched_rt_all_reduce(
                            w.context, &data[group], 1, PIPESCHED_RT_I64,
                            static_cast<int32_t>(group), groups[group].data(),
                            static_cast<int32_t>(groups[group].size()),
                            static_cast<int32_t>(group));
                  }
                  for (size_t group = 0; group < 4; ++group) {
                    if (int32_t status = w.wait(static_cast<int32_t>(group)))
                      return status;
                    int64_t sum = 0;
                    bool isMember = false;
                    for (int32_t member : groups[group]) {
                      sum += (member + 1) * 10;
                      isMember |= member == w.index;
                    }
                    numWrong += isMember && data[group] != sum;
                  }
                  return 0;
                },
                100),
            0)
      << world.error();
  EXPECT_EQ(numWrong, 0);
}

TEST(Sums, OfOneGroupMatchInTheirOrder) {
  Sizes sizes;
  sizes.workers = 3;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  const int32_t members[] = {0, 1, 2};
  std::atomic<int> numWrong = 0;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  int64_t data[8];
                  for (int32_t i = 0; i < 8; ++i) {
                    data[i] = (w.index + 1) << i;
                    pipesched_rt_all_reduce(w.context, &data[i], 1,
                                            PIPESCHED_RT_I64, 0, members, 3, i);
                  }
                  for (int32_t i = 7; i >= 0; --i) {
                    if (int32_t status = w.wait(i))
                      return status;
                    numWrong += data[i] != 6 << i;
                  }
                  return 0;
                },
                100),
            0);
  EXPECT_EQ(numWrong, 0);
}

TEST(Broadcasts, GiveWhatTheRootHas) {
  Sizes sizes;
  sizes.workers = 4;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  const int32_t members[] = {2, 0, 3};
  std::atomic<int> numWrong = 0;
  EXPECT_EQ(
      world.run(
          [&](const Worker &w) {
            if (w.index == 1)
              return 0;
            // Each member is the root in turn, between sums.
            int64_t given[3][5], sums[3];
            for (int32_t i = 0; i < 3; ++i) {
              for (int64_t &each : given[i])
                each = 100 * w.index + i;
              sums[i] = w.index + 1;
              pipesched_rt_broadcast(w.context, given[i], sizeof(given[i]),
                                     members[i], 7, members, 3, i);
              pipesched_rt_all_reduce(w.context, &sums[i], 1, PIPESCHED_RT_I64,
                                      7, members, 3, 3 + i);
            }
            for (int32_t i = 5; i >= 0; --i)
              if (int32_t status = w.wait(i))
                return status;
            for (int32_t i = 0; i < 3; ++i) {
              numWrong += sums[i] != 8;
              for (int64_t each : given[i])
                numWrong += each != 100 * members[i] + i;
            }
            return 0;
          },
          100),
      0)
      << world.error();
  EXPECT_EQ(numWrong, 0);
}
