//===- LocalSearch.cpp - Better plans from a plan -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulated annealing. Whether a plan is taken is drawn before it is evaluated,
// as the largest objective that it may have, so that most evaluations end
// early.
//
//===----------------------------------------------------------------------===//

#include "LocalSearch.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;
using namespace pipesched::optimize;

/// Evaluations between two questions whether to stop.
static constexpr uint64_t kStopInterval = 256;
/// Plans taken between two looks for the critical path.
static constexpr uint32_t kTraceInterval = 16;

template <typename Objective>
int64_t Annealing<Objective>::offer(const Plan &other) {
  int64_t value = objective.evaluate(other, kInfeasible - 1);
  objective.discard();
  if (value < bestObjective) {
    bestObjective = value;
    best = other;
  }
  return value;
}

/// The position whose cell lets that at `pos` start when it does: its message,
/// a copy, or the compute ahead of it; kNone at the start of a row.
template <typename Objective>
uint32_t Annealing<Objective>::waitOf(uint32_t worker, uint32_t pos) const {
  Token token = plan.tokens[pos];
  const KindFacts &kind = encoding.kinds[token.kind];
  int64_t start = timeOf(objective.endAt(pos)) - kind.duration;
  if (kind.waitsOn != kNone) {
    uint32_t source = plan.positions[token.cell + kind.waitsFor];
    if (timeOf(objective.endAt(source)) + kind.delay == start)
      return source;
  }
  uint32_t begin = encoding.rowBegins[worker];
  if (kind.step == Step::InputGrad && encoding.offload) {
    Token reload = encoding.sibling(token, Step::Reload);
    if (plan.has(reload) &&
        timeOf(objective.endAt(plan.positions[reload.cell])) == start)
      return plan.positions[reload.cell];
  }
  return pos == begin ? kNone : pos - 1;
}

template <typename Objective>
void Annealing<Objective>::trace() {
  critical.clear();
  uint32_t worker = objective.lastRow();
  uint32_t pos = encoding.rowBegins[worker] + plan.sizes[worker] - 1;
  // Ends go down along the way, except from a copy to the cell ahead of it.
  while (pos != kNone && critical.size() < plan.tokens.size()) {
    worker = encoding.kinds[plan.tokens[pos].kind].worker;
    critical.push_back({worker, pos});
    pos = waitOf(worker, pos);
  }
}

template <typename Objective>
std::pair<uint32_t, uint32_t> Annealing<Objective>::drawPlace() {
  if (!critical.empty() && random.chance(0.6)) {
    std::pair<uint32_t, uint32_t> place =
        critical[random.below(critical.size())];
    uint32_t begin = encoding.rowBegins[place.first];
    if (place.second < begin + plan.sizes[place.first])
      return place;
  }
  uint32_t worker = random.below(encoding.numWorkers);
  while (plan.sizes[worker] == 0)
    worker = worker + 1 == encoding.numWorkers ? 0 : worker + 1;
  return {worker,
          encoding.rowBegins[worker] + random.below(plan.sizes[worker])};
}

template <typename Objective>
bool Annealing<Objective>::run(const Plan &from, const Cooling &cooling,
                               Stopper &stopper) {
  plan = from;
  value = objective.evaluate(plan, kInfeasible - 1);
  objective.keep();
  trace();
  uint64_t evaluations = 0, asked = 0, draws = 0;
  uint32_t taken = 0;
  double temperature = cooling.from;
  double factor = std::pow(cooling.to / cooling.from,
                           double(kStopInterval) / double(cooling.evaluations));
  while (evaluations < cooling.evaluations) {
    // Draws without a change count a little, so that every run ends.
    if (evaluations - asked >= kStopInterval || ++draws % 4096 == 0) {
      evaluations += draws % 4096 == 0;
      if (stopper.shouldStop(evaluations - asked, bestObjective))
        return false;
      asked = evaluations;
      temperature *= factor;
    }
    auto [worker, position] = drawPlace();
    if (!mover.draw(plan, worker, position, random))
      continue;
    ++evaluations;
    double slack = -temperature * std::log(1 - random.unit());
    int64_t limit = value + int64_t(slack);
    int64_t changed =
        mover.isGlobal()
            ? objective.evaluate(plan, limit)
            : objective.evaluateFrom(plan, worker, mover.getBegin(), limit);
    if (changed == kInfeasible) {
      objective.discard();
      mover.undo(plan);
      continue;
    }
    objective.keep();
    value = changed;
    if (value < bestObjective) {
      bestObjective = value;
      best = plan;
    }
    if (++taken % kTraceInterval == 0)
      trace();
  }
  return !stopper.shouldStop(evaluations - asked, bestObjective);
}

template class optimize::Annealing<MakespanEvaluator<false>>;
template class optimize::Annealing<MakespanEvaluator<true>>;
template class optimize::Annealing<PeriodEvaluator<false>>;
template class optimize::Annealing<PeriodEvaluator<true>>;
