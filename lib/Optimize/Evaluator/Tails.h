//===- Tails.h - Longest chains after cells ---------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The longest chain from the end of each cell of a plan to the end of the step,
// updated where a row has changed.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_TAILS_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_TAILS_H

#include "Encoding.h"

namespace pipesched::optimize {

/// The message that cells of a kind send.
struct Sent {
  uint32_t distance = 0;   ///< to the cell that waits for it
  uint32_t worker = kNone; ///< of that cell; kNone: none waits
  int64_t delay = 0;
  int64_t duration = 0; ///< of that cell
};

/// The messages of all kinds, by kind.
std::vector<Sent> sentMessages(const Encoding &encoding);

/// By cell: the least time from its end to the end of the last cell that rows
/// and messages allow, without regard to copies and memory. Plans must be
/// feasible.
class Tails {
public:
  explicit Tails(const Encoding &encoding);

  void compute(const Plan &plan);
  /// Updates tails after cells of [begin, end) of a row have changed places,
  /// been added or been removed.
  void update(const Plan &plan, uint32_t worker, uint32_t begin, uint32_t end);
  int64_t operator[](uint32_t cell) const { return tails[cell]; }

private:
  /// Positions of a row whose tails have to be updated, the last one first.
  struct Dirt {
    uint32_t begin = kNone, end = 0;
  };

  int64_t tailOf(Token token, int64_t behind) const;
  bool goBack(const Plan &plan, uint32_t worker);
  int64_t behind(const Plan &plan, uint32_t worker, uint32_t pos) const;
  void walkBack(const Plan &plan, uint32_t worker);

  const Encoding &encoding;
  std::vector<Sent> sent;     ///< by kind
  std::vector<int64_t> tails; ///< by cell
  std::vector<Dirt> dirt;     ///< by worker
  uint32_t numDirty = 0;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_TAILS_H
