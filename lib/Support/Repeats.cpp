//===- Repeats.cpp - Repetitions in a row ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts in the middle of a row, because schedules are regular there:
//
//   F F F F | F B F B F B .. F B F B | B B B B
//             <------- middle ------>
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Repeats.h"
#include <algorithm>

using namespace pipesched;

static constexpr uint32_t kMaxPeriod = 2048;
static constexpr uint32_t kMinTimes = 4; ///< fewer repetitions are not worth it
/// Fewer elements are not worth it.
static constexpr uint32_t kMinElements = 64;

namespace {
class RepeatFinder {
public:
  explicit RepeatFinder(FollowsFunction follows) : follows(follows) {}

  /// Appends the stretches of elements [`begin`, `end`).
  void divide(uint32_t begin, uint32_t end);

  std::vector<Stretch> stretches;

private:
  Stretch findBest(uint32_t begin, uint32_t end) const;
  Stretch extend(uint32_t begin, uint32_t end, uint32_t period) const;
  void addPlain(uint32_t begin, uint32_t end);

  FollowsFunction follows;
};
} // namespace

/// Returns all periods around the middle of [`begin`, `end`); none if the
/// elements there do not repeat.
Stretch RepeatFinder::extend(uint32_t begin, uint32_t end,
                             uint32_t period) const {
  uint32_t middle = begin + (end - begin) / 2;
  // The end of the elements that another repetition of the stretch follows.
  uint32_t first = middle, last = middle;
  while (last < middle + period && follows(last, period, middle))
    ++last;
  if (last < middle + period)
    return {middle, period, 0};
  while (last + period < end && follows(last, period, middle))
    ++last;
  while (first > begin && follows(first - 1, period, middle))
    --first;
  return {first, period, (last + period - first) / period};
}

Stretch RepeatFinder::findBest(uint32_t begin, uint32_t end) const {
  Stretch best{begin, end - begin, 1};
  uint32_t covered = 0;
  uint32_t longest = std::min((end - begin) / kMinTimes, kMaxPeriod);
  for (uint32_t period = 1; period <= longest; ++period) {
    Stretch found = extend(begin, end, period);
    uint32_t length = found.period * found.times;
    if (found.times < kMinTimes || length <= covered)
      continue;
    best = found;
    covered = length;
    if (covered >= (end - begin) / 2)
      break;
  }
  return best;
}

/// Adjacent elements without repetition are one stretch.
void RepeatFinder::addPlain(uint32_t begin, uint32_t end) {
  if (begin == end)
    return;
  if (!stretches.empty() && stretches.back().times == 1)
    stretches.back().period += end - begin;
  else
    stretches.push_back({begin, end - begin, 1});
}

void RepeatFinder::divide(uint32_t begin, uint32_t end) {
  if (end - begin < kMinElements)
    return addPlain(begin, end);
  Stretch best = findBest(begin, end);
  if (best.times > 1) {
    divide(begin, best.begin);
    stretches.push_back(best);
    return divide(best.end(), end);
  }
  uint32_t middle = begin + (end - begin) / 2;
  divide(begin, middle);
  divide(middle, end);
}

std::vector<Stretch> pipesched::findRepeats(uint32_t count,
                                            FollowsFunction follows) {
  RepeatFinder finder(follows);
  finder.divide(0, count);
  return std::move(finder.stretches);
}
