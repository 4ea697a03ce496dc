//===- LocalSearch.cpp - Moves and annealing ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulated annealing. The largest objective with which a plan is accepted is
// drawn before the plan is evaluated, so that most evaluations end early.
//
//===----------------------------------------------------------------------===//

#include "LocalSearch.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;
using namespace pipesched::optimize;

/// Evaluations between two calls of shouldStop; fewer if they would time more
/// than kStopCells cells.
static constexpr uint64_t kStopInterval = 256, kStopCells = uint64_t(1) << 22;
/// Accepted plans between two searches for the critical path.
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

/// The position in the row of a cell that ends at `time` and may delay the one
/// at `pos`: compute or a copy before it, an offload that frees memory, or
/// compute after a reload that is issued later than its place. kNone: there is
/// no such cell.
template <typename Objective>
uint32_t Annealing<Objective>::endingAt(uint32_t worker, uint32_t pos,
                                        int64_t time) const {
  uint32_t begin = encoding.rowBegins[worker];
  auto typeAt = [&](uint32_t at) {
    return encoding.kinds[plan.tokens[at].kind].type;
  };
  bool isCopy = typeAt(pos) >= CellType::Offload;
  for (uint32_t at = pos; at-- > begin;)
    if (timeOf(objective.endAt(at)) == time &&
        (isCopy || typeAt(at) != CellType::Reload))
      return at;
  if (typeAt(pos) != CellType::Reload)
    return kNone;
  for (uint32_t at = pos + 1; at < begin + plan.sizes[worker]; ++at)
    if (timeOf(objective.endAt(at)) == time && typeAt(at) != CellType::Reload)
      return at;
  return kNone;
}

/// The position of the cell that determines the start of the one at `pos`: it
/// sends its message, is its copy, runs before it in the row or in a queue, or
/// frees its memory. kNone at the start of a row.
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
  if (encoding.offload) {
    bool isReload = kind.type == CellType::Reload;
    if (isReload || kind.type == CellType::InputGrad) {
      Token copy = encoding.sibling(token, isReload ? CellType::Offload
                                                    : CellType::Reload);
      if (plan.has(copy) &&
          timeOf(objective.endAt(plan.positions[copy.cell])) == start)
        return plan.positions[copy.cell];
    }
    if (uint32_t cause = endingAt(worker, pos, start); cause != kNone)
      return cause;
  }
  return pos == encoding.rowBegins[worker] ? kNone : pos - 1;
}

template <typename Objective>
void Annealing<Objective>::trace() {
  critical.clear();
  uint32_t worker = objective.lastRow();
  uint32_t pos = encoding.rowBegins[worker] + plan.sizes[worker] - 1;
  // Limit the length of the path: its ends decrease only if copies take time.
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

/// How much of the way from `begin` to `end` is behind `now`, from 0 to 1.
static double shareOf(double now, double begin, double end) {
  return now < end ? (now - begin) / (end - begin) : 1;
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
  const uint64_t interval =
      std::clamp<uint64_t>(kStopCells / encoding.numCells, 1, kStopInterval);
  const double begun = stopper.getProgress();
  double temperature = cooling.from;
  while (true) {
    // Every 4096 draws count as one evaluation, so that a run ends even if none
    // of them changes the plan.
    if (evaluations - asked >= interval || ++draws % 4096 == 0) {
      evaluations += draws % 4096 == 0;
      numEvaluations += evaluations - asked;
      if (stopper.shouldStop(evaluations - asked, bestObjective))
        return false;
      asked = evaluations;
      double done = shareOf(stopper.getProgress(), begun, cooling.until);
      if (done >= 1 && evaluations >= cooling.leastEvaluations)
        return true;
      temperature = cooling.from * std::pow(cooling.to / cooling.from, done);
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
            : objective.evaluateFrom(plan, worker, mover.getBegin(),
                                     mover.getEnd(), limit);
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
}

template class optimize::Annealing<MakespanEvaluator<false>>;
template class optimize::Annealing<MakespanEvaluator<true>>;
template class optimize::Annealing<PeriodEvaluator<false>>;
template class optimize::Annealing<PeriodEvaluator<true>>;
