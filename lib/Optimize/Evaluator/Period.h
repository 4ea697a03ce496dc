//===- Period.h - Steps without a barrier -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The period of a plan: the maximum cycle ratio of its rows, which restart when
// they have ended.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_PERIOD_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_PERIOD_H

#include "Evaluator.h"

namespace pipesched::optimize {

/// Computes the period of a plan. Every worker repeats its row: the first cell
/// of a step follows the last cell of the previous step, and workers wait for
/// each other only through messages. At the end of its row a worker has freed
/// all activations, so its memory is the memory of one step. Let x be the
/// starts of the rows and e(x) the ends that follow from them. The period is
/// the least P for which some x satisfies x >= e(x) - P. x grows from 0 by that
/// rule. If the starts of some rows determine each other in a cycle, the cycle
/// has a ratio: the length of its paths over the number of its rows. It bounds
/// P from below and becomes the next P (Howard's policy iteration,
/// Cochet-Terrasson et al. 1998). Ratios are rounded up to a tick. Each round
/// evaluates the plan once.
template <bool Copies>
class PeriodEvaluator {
public:
  explicit PeriodEvaluator(const Encoding &encoding);

  int64_t evaluate(const Plan &plan, int64_t limit);
  /// The same for a plan that differs from the last kept plan only at positions
  /// [`begin`, `end`) of one row.
  int64_t evaluateFrom(const Plan &plan, uint32_t worker, uint32_t begin,
                       uint32_t end, int64_t limit);
  void keep();
  void discard();

  TracedTime endAt(uint32_t position) const {
    return evaluator.endAt(position);
  }
  /// The row with the longest span.
  uint32_t lastRow() const;
  std::vector<Row> rowsOf(const Plan &plan);

private:
  bool hasCycle(int64_t &period);
  bool delayRows(int64_t period);

  const Encoding &encoding;
  Evaluator<TracedTime, Copies> evaluator;
  std::vector<int64_t> offsets, keptOffsets; ///< by worker: starts of rows
  std::vector<uint32_t> origins; ///< by worker: the row that delayed it
  std::vector<int64_t> lengths;  ///< by worker: of the path from there
  std::vector<uint32_t> visits;  ///< by worker, of hasCycle()
};

extern template class PeriodEvaluator<false>;
extern template class PeriodEvaluator<true>;

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_PERIOD_H
