//===- Repeats.h - Repetitions in a row -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the repetitions in a row. The rows of long schedules repeat the same
// few cells between their first and their last microbatches.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_REPEATS_H
#define PIPESCHED_SUPPORT_REPEATS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <vector>

namespace pipesched {

/// Elements [`begin`, `begin + period`) of a row and their repetitions: `times`
/// periods in all, which is 1 if they are not repeated.
struct Stretch {
  uint32_t begin, period, times;

  uint32_t end() const { return begin + period * times; }
  friend bool operator==(const Stretch &a, const Stretch &b) {
    return a.begin == b.begin && a.period == b.period && a.times == b.times;
  }
};

/// Whether element `i + period` follows from element `i` in the same way as
/// element `anchor + period` follows from `anchor`.
using FollowsFunction =
    llvm::function_ref<bool(uint32_t i, uint32_t period, uint32_t anchor)>;

/// Divides a row of `count` elements into stretches, in order and without gaps.
/// Looks around the middle of the row for the shortest period (up to 2,048
/// elements) whose repetitions cover half of the row, else the one that covers
/// most; then the same for the rest on both sides. It is a heuristic: a row may
/// have repetitions that it does not find. Takes O(count log count) calls of
/// `follows` for rows that repeat, or that have few equal elements.
std::vector<Stretch> findRepeats(uint32_t count, FollowsFunction follows);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_REPEATS_H
