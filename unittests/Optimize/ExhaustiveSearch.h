//===- ExhaustiveSearch.h - All schedules of a tiny problem -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the least makespan: tries, tick by tick, every cell that can start then
// but not a tick earlier. Uses only the rules of a problem, and no bounds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_EXHAUSTIVESEARCH_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_EXHAUSTIVESEARCH_H

#include "PipeSched/Optimize/Problem/Problem.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <optional>
#include <set>

namespace pipesched::optimize::test {

/// Searches breadth first, with a set of states per tick. For one path, or one
/// for each slice.
class ExhaustiveSearch {
public:
  explicit ExhaustiveSearch(const Problem &problem)
      : problem(problem), numStages(problem.placement.getNumStages(0)),
        numPairs(numStages * problem.placement.getNumMicrobatches()) {
    for (const StageFacts &facts : problem.stages)
      longestDelay =
          std::max({longestDelay, facts.activationDelay, facts.gradientDelay});
  }

  /// Nothing: no schedule takes `mostTicks` or less.
  std::optional<int64_t> findMakespan(int64_t mostTicks) {
    std::set<State> states = {State(numPairs * kNumCellTypes, kNotYet)};
    for (int64_t tick = 0; tick <= mostTicks && !states.empty(); ++tick) {
      std::set<State> next;
      for (const State &state : states) {
        if (isOver(state))
          return tick;
        State choice = state;
        isFirstTick = tick == 0;
        start(choice, state, 0, next);
      }
      states = std::move(next);
    }
    return std::nullopt;
  }

private:
  enum CellType { F, I, W, R, D, U, kNumCellTypes };
  /// Ticks until the end of each cell, by pair of microbatch and stage and by
  /// type. Negative: ticks since its end.
  using State = std::vector<int8_t>;
  static constexpr int8_t kNotYet = 127;
  static constexpr int8_t kNever = 126;  ///< an R that will not run
  static constexpr int8_t kWanted = 125; ///< an R that has to run
  static constexpr int8_t kLongAgo = -20;

  int8_t at(const State &state, int64_t pair, CellType type) const {
    return state[pair * kNumCellTypes + type];
  }
  static bool hasStarted(int8_t ticks) { return ticks < kWanted; }
  static bool isDone(int8_t ticks, int64_t delay = 0) {
    return ticks <= -delay;
  }
  int64_t stageOf(int64_t pair) const { return pair % numStages; }
  /// A microbatch, or a slice of one; with its stage a pair.
  int64_t unitOf(int64_t pair) const { return pair / numStages; }
  int64_t sliceOf(int64_t pair) const {
    return unitOf(pair) % problem.numSlices;
  }
  int64_t globalStageOf(int64_t pair) const {
    int64_t path = problem.placement.pathOf(unitOf(pair));
    return problem.placement.stageOffset(path) + stageOf(pair);
  }
  int64_t workerOf(int64_t pair) const {
    return problem.placement.workerOf(globalStageOf(pair));
  }
  const StageFacts &factsOf(int64_t pair) const {
    return problem.stages[globalStageOf(pair)];
  }
  /// The same stage and microbatch, with another slice.
  int64_t withSlice(int64_t pair, int64_t slice) const {
    return pair + (slice - sliceOf(pair)) * numStages;
  }
  /// Whether a type of cell of a slice of the microbatch is over.
  bool isOver(const State &state, int64_t pair, int64_t slice,
              CellType type) const {
    return slice < 0 || slice == problem.numSlices ||
           isDone(at(state, withSlice(pair, slice), type));
  }
  bool isSliceReady(const State &state, int64_t pair, CellType type) const {
    int64_t slice = sliceOf(pair);
    switch (type) {
    case F:
      return isOver(state, pair, slice - 1, F);
    case I:
      for (int64_t other = 0; other < problem.numSlices; ++other)
        if (hasStarted(at(state, withSlice(pair, other), D)) &&
            !isOver(state, pair, other, U))
          return false;
      return isOver(state, pair, slice + 1, I);
    case W:
      return isOver(state, pair, slice + 1, W);
    case D:
      return isOver(state, pair, problem.numSlices - 1, F);
    default:
      return true;
    }
  }
  CellType lastStep() const { return problem.techniques.splitBackward ? W : I; }

  bool isOver(const State &state) const {
    return llvm::all_of(llvm::seq<int64_t>(0, numPairs), [&](int64_t pair) {
      return isDone(at(state, pair, lastStep()));
    });
  }

  int64_t durationOf(int64_t pair, CellType type) const {
    const StageFacts &facts = factsOf(pair);
    const int64_t durations[] = {facts.forward,    facts.inputGrad,
                                 facts.weightGrad, facts.recompute,
                                 facts.offload,    facts.reload};
    return durations[type];
  }
  int64_t delayBetween(int64_t pair, int64_t other, int64_t delay) const {
    return workerOf(pair) == workerOf(other) ? 0 : delay;
  }

  bool isReady(const State &state, int64_t pair, CellType type) const {
    if (at(state, pair, type) != (type == R ? kWanted : kNotYet) ||
        !isSliceReady(state, pair, type))
      return false;
    int64_t stage = stageOf(pair);
    CellType gradient =
        problem.gradientAfter == GradientAfter::WeightGrad ? lastStep() : I;
    switch (type) {
    case F:
      return stage == 0 ||
             isDone(at(state, pair - 1, F),
                    delayBetween(pair, pair - 1,
                                 factsOf(pair - 1).activationDelay));
    case I:
      if (stage + 1 < numStages &&
          !isDone(
              at(state, pair + 1, gradient),
              delayBetween(pair, pair + 1, factsOf(pair + 1).gradientDelay)))
        return false;
      if (hasStarted(at(state, pair, D)) && !isDone(at(state, pair, U)))
        return false;
      return isDone(at(state, pair, F)) &&
             (at(state, pair, R) == kNever || isDone(at(state, pair, R)));
    case W:
      return problem.techniques.splitBackward && isDone(at(state, pair, I));
    case R:
      return isDone(at(state, pair, F));
    case D:
      return problem.techniques.offload && isDone(at(state, pair, F)) &&
             at(state, pair, R) == kNever &&
             !hasStarted(at(state, withSlice(pair, problem.numSlices - 1), I));
    default:
      return isDone(at(state, pair, D));
    }
  }

  /// The queue of a cell: a worker has one for compute and one or two for
  /// copies.
  int64_t queueOf(int64_t pair, CellType type) const {
    int64_t queue = type < D ? 0 : type == D ? 1 : 2;
    if (queue == 2 && problem.sharedCopyQueue)
      queue = 1;
    return workerOf(pair) * 3 + queue;
  }
  bool isBusy(const State &state, int64_t queue) const {
    for (int64_t pair = 0; pair < numPairs; ++pair)
      for (CellType type : {F, I, W, R, D, U})
        if (queueOf(pair, type) == queue && hasStarted(at(state, pair, type)) &&
            at(state, pair, type) > 0)
          return true;
    return false;
  }

  int64_t memoryOf(const State &state, int64_t pair) const {
    const StageFacts &facts = factsOf(pair);
    int8_t forward = at(state, pair, F);
    if (!hasStarted(forward) || isDone(at(state, pair, lastStep())))
      return 0;
    if (isDone(at(state, pair, I)))
      return facts.activation - facts.freedByInputGrad;
    // For memory at any times, the memory that I leaves counts from its start
    // on.
    if (hasStarted(at(state, pair, I)) &&
        problem.memoryTimes == MemoryTimes::Any &&
        problem.techniques.splitBackward)
      return facts.activation + std::max<int64_t>(0, -facts.freedByInputGrad);
    if (!isDone(forward))
      return facts.activation;
    int8_t recompute = at(state, pair, R);
    if (recompute == kWanted)
      return facts.checkpoint;
    bool isAway = isDone(at(state, pair, D)) && !hasStarted(at(state, pair, U));
    return isAway ? 0 : facts.activation;
  }
  bool fits(const State &state) const {
    std::vector<int64_t> levels(problem.capacity.size(), 0);
    for (int64_t pair = 0; pair < numPairs; ++pair) {
      levels[workerOf(pair)] += memoryOf(state, pair);
      int64_t left = factsOf(pair).leftForSlices;
      bool isThere = left > 0 ? hasStarted(at(state, pair, I))
                              : isDone(at(state, pair, I));
      levels[workerOf(pair)] += isThere ? left : 0;
    }
    for (auto [level, capacity] : llvm::zip(levels, problem.capacity))
      if (level > capacity)
        return false;
    return true;
  }

  /// Whether a start could not be a tick earlier: a cell of its worker ends at
  /// this tick, or the message that it waits for arrives at this tick.
  bool isAsEarlyAsCanBe(const State &state, int64_t pair, CellType type) const {
    if (isFirstTick)
      return true;
    for (int64_t other = 0; other < numPairs; ++other)
      for (CellType before : {F, I, W, R, D, U})
        if (workerOf(other) == workerOf(pair) && at(state, other, before) == 0)
          return true;
    int64_t stage = stageOf(pair);
    if (type == F && stage > 0)
      return at(state, pair - 1, F) ==
             -delayBetween(pair, pair - 1, factsOf(pair - 1).activationDelay);
    CellType gradient =
        problem.gradientAfter == GradientAfter::WeightGrad ? lastStep() : I;
    return type == I && stage + 1 < numStages &&
           at(state, pair + 1, gradient) ==
               -delayBetween(pair, pair + 1, factsOf(pair + 1).gradientDelay);
  }

  /// Starts one cell or none on each queue from this one on, then adds the
  /// states of the next tick. `before` is the state at the start of this tick.
  void start(State &state, const State &before, int64_t queue,
             std::set<State> &next) {
    if (queue == int64_t(problem.capacity.size()) * 3) {
      if (fits(state))
        next.insert(afterOneTick(state));
      return;
    }
    start(state, before, queue + 1, next);
    if (isBusy(state, queue))
      return;
    for (int64_t pair = 0; pair < numPairs; ++pair)
      for (CellType type : {F, I, W, R, D, U})
        if (queueOf(pair, type) == queue && isReady(state, pair, type) &&
            isAsEarlyAsCanBe(before, pair, type))
          startOne(state, before, pair, type, next);
  }
  void startOne(State &state, const State &before, int64_t pair, CellType type,
                std::set<State> &next) {
    State saved = state;
    int64_t queue = queueOf(pair, type);
    state[pair * kNumCellTypes + type] = durationOf(pair, type);
    if (type == F)
      state[pair * kNumCellTypes + R] = kNever;
    start(state, before, queue + 1, next);
    if (type == F && problem.techniques.recompute) {
      state[pair * kNumCellTypes + R] = kWanted;
      start(state, before, queue + 1, next);
    }
    state = std::move(saved);
  }
  /// The state of the next tick in a normal form: ends that are longer ago than
  /// any message takes are all the same, and microbatches, which are
  /// interchangeable, are sorted.
  State afterOneTick(const State &state) const {
    State later = state;
    for (int8_t &ticks : later)
      if (hasStarted(ticks))
        ticks = ticks <= -longestDelay ? kLongAgo : ticks - 1;
    std::vector<State> microbatches;
    int64_t size = numStages * problem.numSlices * kNumCellTypes;
    for (auto begin = later.begin(); begin != later.end(); begin += size)
      microbatches.emplace_back(begin, begin + size);
    llvm::sort(microbatches);
    later.clear();
    for (const State &one : microbatches)
      later.insert(later.end(), one.begin(), one.end());
    return later;
  }

  const Problem &problem;
  int64_t numStages, numPairs;
  int64_t longestDelay = 0;
  bool isFirstTick = true;
};

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_EXHAUSTIVESEARCH_H
