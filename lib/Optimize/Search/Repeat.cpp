//===- Repeat.cpp - More microbatches by repetition -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Extends a plan by repeating the part in its middle that recurs:
//
//   F0 F1 | I0 W0 F2 | I1 W1 F3 | I2 W2 I3 W3       from 0, count 1
//   F0 F1 | I0 W0 F2 | I1 W1 F3 | I2 W2 F4 | ...    one microbatch more
//
//===----------------------------------------------------------------------===//

#include "Heuristics.h"

using namespace pipesched;
using namespace pipesched::optimize;

/// Whether [begin, end) has exactly `count` F, I and W of each stage of the
/// worker, and of every other kind `count` or none.
static bool isPattern(const Encoding &encoding, const Plan &plan,
                      uint32_t worker, uint32_t begin, uint32_t end,
                      uint32_t count) {
  for (uint32_t stage : encoding.stagesOf[worker]) {
    uint32_t counts[kNumCellTypes] = {};
    for (uint32_t pos = begin; pos < end; ++pos)
      if (encoding.kinds[plan.tokens[pos].kind].stage == stage)
        ++counts[plan.tokens[pos].kind % kNumCellTypes];
    for (uint32_t type = 0; type < kNumCellTypes; ++type) {
      bool isNeeded = type < 2u + encoding.splitBackward;
      if (counts[type] != count && (isNeeded || counts[type] != 0))
        return false;
    }
  }
  return true;
}

std::optional<Plan> optimize::repeatMiddle(const Encoding &from,
                                           const Plan &plan, const Encoding &to,
                                           uint32_t first, uint32_t count) {
  uint32_t more = to.kinds.front().count - from.kinds.front().count;
  if (more % count != 0)
    return std::nullopt;
  Plan longer(to);
  auto copy = [&](uint32_t worker, uint32_t begin, uint32_t end,
                  uint32_t shift) {
    for (uint32_t pos = begin; pos < end; ++pos) {
      Token token = plan.tokens[pos];
      const KindFacts &kind = from.kinds[token.kind];
      longer.append(
          to, worker,
          to.token(kind.stage, kind.type, from.rankOf(token) + shift));
    }
  };
  for (uint32_t worker = 0; worker < from.numWorkers; ++worker) {
    uint32_t row = from.rowBegins[worker], end = row + plan.sizes[worker];
    if (row == end)
      continue;
    uint32_t stage = from.stagesOf[worker].back();
    auto inputAt = [&](uint32_t rank) {
      return plan.positions[from.token(stage, CellType::InputGrad, rank).cell];
    };
    uint32_t begin = inputAt(first), next = inputAt(first + count);
    if (begin > next || !isPattern(from, plan, worker, begin, next, count))
      return std::nullopt;
    copy(worker, row, begin, 0);
    for (uint32_t shift = 0; shift <= more; shift += count)
      copy(worker, begin, next, shift);
    copy(worker, next, end, more);
  }
  longer.refreshAll(to);
  return longer;
}
