//===- Random.h - Repeatable random numbers ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers that are the same for the same seed on every machine
// (SplitMix64, Steele, Lea and Flood 2014).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_RANDOM_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_RANDOM_H

#include <cstdint>

namespace pipesched::optimize {

class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// Returns a number in [0, bound); `bound` is above 0.
  uint32_t below(uint32_t bound) {
    return uint32_t((next() >> 32) * uint64_t(bound) >> 32);
  }
  /// Returns a number in [0, 1).
  double unit() { return double(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }

private:
  uint64_t state;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_RANDOM_H
