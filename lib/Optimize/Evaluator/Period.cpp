//===- Period.cpp - Steps without a barrier -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the period by policy iteration on the starts of rows.
//
//===----------------------------------------------------------------------===//

#include "Period.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;

template <bool Copies>
PeriodEvaluator<Copies>::PeriodEvaluator(const Encoding &encoding)
    : encoding(encoding), evaluator(encoding), offsets(encoding.numWorkers),
      keptOffsets(encoding.numWorkers), origins(encoding.numWorkers),
      lengths(encoding.numWorkers), visits(encoding.numWorkers) {}

/// Delays rows that would start before their previous step ends. Returns
/// whether a row was delayed.
template <bool Copies>
bool PeriodEvaluator<Copies>::delayRows(int64_t period) {
  bool hasDelayed = false;
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    TracedTime end = evaluator.endOfRow(worker);
    if (end.time - period <= offsets[worker])
      continue;
    hasDelayed = true;
    origins[worker] = end.origin;
    lengths[worker] = end.time - offsets[end.origin];
  }
  if (!hasDelayed)
    return false;
  // Change all starts only now, because the lengths belong to paths from the
  // old starts.
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    offsets[worker] =
        std::max(offsets[worker], evaluator.endOfRow(worker).time - period);
  return true;
}

/// Raises the period to the largest ratio of a cycle of rows that delay each
/// other. Returns whether the period has grown.
template <bool Copies>
bool PeriodEvaluator<Copies>::hasCycle(int64_t &period) {
  std::fill(visits.begin(), visits.end(), 0);
  int64_t before = period;
  for (uint32_t first = 0; first < encoding.numWorkers; ++first) {
    uint32_t mark = first + 1, worker = first;
    while (worker != kNone && visits[worker] == 0) {
      visits[worker] = mark;
      worker = origins[worker];
    }
    if (worker == kNone || visits[worker] != mark)
      continue;
    int64_t length = 0, count = 0;
    uint32_t at = worker;
    do {
      length += lengths[at];
      ++count;
      at = origins[at];
    } while (at != worker);
    period = std::max(period, (length + count - 1) / count);
  }
  return period > before;
}

template <bool Copies>
int64_t PeriodEvaluator<Copies>::evaluate(const Plan &plan, int64_t limit) {
  int64_t period = 0;
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    period = std::max(period, plan.remaining[encoding.rowBegins[worker]]);
  std::fill(origins.begin(), origins.end(), kNone);
  int64_t least = *std::min_element(offsets.begin(), offsets.end());
  for (int64_t &offset : offsets)
    offset -= least;
  while (period <= limit) {
    if (evaluator.evaluate(plan, kInfeasible - 1, offsets) == kInfeasible)
      return kInfeasible;
    if (!delayRows(period)) {
      if constexpr (!Copies)
        evaluator.startLate(plan, offsets);
      return period;
    }
    // At the new period, another row may delay a row than before.
    if (hasCycle(period))
      std::fill(origins.begin(), origins.end(), kNone);
  }
  return kInfeasible;
}

template <bool Copies>
int64_t PeriodEvaluator<Copies>::evaluateFrom(const Plan &plan, uint32_t worker,
                                              uint32_t begin, uint32_t end,
                                              int64_t limit) {
  if constexpr (!Copies) {
    int64_t period = evaluator.periodFrom(plan, worker, begin, end, limit);
    if (period != kUndecided)
      return period;
    evaluator.discard();
  }
  return evaluate(plan, limit);
}

template <bool Copies>
void PeriodEvaluator<Copies>::keep() {
  keptOffsets = offsets;
  if constexpr (!Copies)
    evaluator.keep();
}

template <bool Copies>
void PeriodEvaluator<Copies>::discard() {
  offsets = keptOffsets;
  if constexpr (!Copies)
    evaluator.discard();
}

template <bool Copies>
std::vector<Row> PeriodEvaluator<Copies>::rowsOf(const Plan &plan) {
  if (evaluate(plan, kInfeasible - 1) == kInfeasible)
    return {};
  std::vector<Row> rows = evaluator.rowsOf(plan, offsets);
  discard();
  return rows;
}

template <bool Copies>
uint32_t PeriodEvaluator<Copies>::lastRow() const {
  uint32_t last = 0;
  auto span = [&](uint32_t worker) {
    return evaluator.endOfRow(worker).time - offsets[worker];
  };
  for (uint32_t worker = 1; worker < encoding.numWorkers; ++worker)
    if (span(worker) > span(last))
      last = worker;
  return last;
}

template class optimize::PeriodEvaluator<false>;
template class optimize::PeriodEvaluator<true>;
