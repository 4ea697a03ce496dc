//===- LocalSearch.h - Moves and annealing ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves on rows, and simulated annealing with these moves.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_SEARCH_LOCALSEARCH_H
#define PIPESCHED_LIB_OPTIMIZE_SEARCH_LOCALSEARCH_H

#include "../Evaluator/Period.h"
#include "Random.h"

namespace pipesched::optimize {

/// Evaluates the makespan of plans, with the interface of PeriodEvaluator.
template <bool Copies>
class MakespanEvaluator : public Evaluator<int64_t, Copies> {
public:
  explicit MakespanEvaluator(const Encoding &encoding)
      : Evaluator<int64_t, Copies>(encoding), encoding(encoding) {}

  uint32_t lastRow() const {
    uint32_t last = 0;
    for (uint32_t worker = 1; worker < encoding.numWorkers; ++worker)
      if (this->endOfRow(worker) > this->endOfRow(last))
        last = worker;
    return last;
  }

private:
  const Encoding &encoding;
};

/// A change of a plan that can be undone. Changes in one row: neighbouring
/// blocks or two cells are exchanged; or copies and recompute of a microbatch
/// are added, removed, or moved to another microbatch, after which forwards may
/// move earlier into the freed memory, or later until they fit. A change in all
/// rows of a path: two microbatches are exchanged in the backwards, which helps
/// only if one of them then stays offloaded longer. Otherwise, cells of one
/// stage and phase keep their order.
class Mover {
public:
  explicit Mover(const Encoding &encoding)
      : encoding(encoding), sent(sentMessages(encoding)) {}

  /// Draws a change near `position` of the worker's row and makes it. Returns
  /// false if the plan is unchanged, because the change would violate an order,
  /// or exceed the memory even if every cell waited for all earlier offloads.
  bool draw(Plan &plan, uint32_t worker, uint32_t position, Random &random);
  void undo(Plan &plan) const;

  uint32_t getWorker() const { return worker; }
  /// The first position at which the row differs; getEnd() is one past the
  /// last.
  uint32_t getBegin() const { return begin; }
  uint32_t getEnd() const { return end; }
  /// Whether the change may be anywhere in any row.
  bool isGlobal() const { return !patches.empty(); }

private:
  bool areFree(const Plan &plan, Token earlier, Token later) const;
  uint32_t reach(const Plan &plan, uint32_t position, uint32_t most,
                 bool isForward) const;
  bool rotate(Plan &plan, uint32_t first, uint32_t middle, uint32_t last);
  bool drawInsertion(Plan &plan, uint32_t position, Random &random);
  bool drawBlock(Plan &plan, uint32_t position, Random &random);
  bool drawExchange(Plan &plan, uint32_t position, Random &random);
  // Draws a change of the offloaded or recomputed activations.
  bool drawEviction(Plan &plan, uint32_t position, Random &random);
  bool drawToggle(Plan &plan, Token forward, Random &random);
  bool drawTransfer(Plan &plan, Token forward, Random &random);
  CellType evictionOf(const Plan &plan, Token forward) const;
  CellType drawKind(Random &random) const;
  void keepOnDevice(Plan &plan, Token forward);
  void evict(Plan &plan, Token forward, CellType back, Random &random);
  void insert(Plan &plan, uint32_t position, Token token);
  void pullForward(Plan &plan, Token forward, Random &random);
  bool delayForMemory(Plan &plan);
  bool applyEviction(Plan &plan, Token first, Token second, Random &random);
  bool drawRelabel(Plan &plan, uint32_t position, Random &random);
  bool relabel(Plan &plan, Token first, Token second);
  void replace(Plan &plan, Token from, Token to);
  bool areOrdered(const Plan &plan) const;
  void save(const Plan &plan, uint32_t from, uint32_t to);
  bool fits(const Plan &plan) const;
  bool apply(Plan &plan, uint32_t last);

  const Encoding &encoding;
  std::vector<Sent> sent; ///< by kind
  uint32_t worker = 0, begin = 0, end = 0, size = 0;
  bool isWholeRow = false;
  std::vector<Token> saved;
  std::vector<Token> ordered, delayed; ///< buffers of delayForMemory
  struct Patch {
    uint32_t position;
    Token before;
  };
  std::vector<Patch> patches; ///< of all rows
};

/// The length of an annealing run and the fall of its temperature.
struct Cooling {
  double from = 0, to = 0;       ///< temperatures, in ticks
  double until = 1;              ///< progress at which it ends
  uint64_t leastEvaluations = 0; ///< it does not end before this many
};

/// Decides when a search must stop; searches ask every few hundred evaluations.
class Stopper {
public:
  virtual ~Stopper() = default;
  /// `evaluations` counts evaluations since the last call; `best` is the best
  /// objective of this search.
  virtual bool shouldStop(uint64_t evaluations, int64_t best) = 0;
  /// The used share of the limits, from 0 to 1.
  virtual double getProgress() const = 0;
  /// The progress at which the search must stop for now.
  virtual double getEnd() const { return 1; }
};

/// Runs annealing, and keeps the best plan of all runs.
template <typename Objective>
class Annealing {
public:
  Annealing(const Encoding &encoding, uint64_t seed)
      : encoding(encoding), objective(encoding), mover(encoding), random(seed) {
  }

  /// Returns the objective of a plan, and keeps the plan if it is the best.
  int64_t offer(const Plan &plan);
  /// Anneals from a feasible plan. Returns false if the search must stop.
  bool run(const Plan &from, const Cooling &cooling, Stopper &stopper);

  const Plan &getBest() const { return best; }
  int64_t getBestObjective() const { return bestObjective; }
  /// The plan that the last run ended with.
  const Plan &getLast() const { return plan; }
  int64_t getLastObjective() const { return value; }
  /// The best plan of all runs, and its objective.
  uint64_t getNumEvaluations() const { return numEvaluations; }
  Random &getRandom() { return random; }
  Objective &getObjective() { return objective; }

private:
  void trace();
  uint32_t endingAt(uint32_t worker, uint32_t pos, int64_t time) const;
  uint32_t waitOf(uint32_t worker, uint32_t pos) const;
  std::pair<uint32_t, uint32_t> drawPlace();

  const Encoding &encoding;
  Objective objective;
  Mover mover;
  Random random;
  Plan plan, best;
  int64_t value = kInfeasible; ///< objective of `plan`
  int64_t bestObjective = kInfeasible;
  uint64_t numEvaluations = 0;
  std::vector<std::pair<uint32_t, uint32_t>> critical; ///< worker, position
};

extern template class Annealing<MakespanEvaluator<false>>;
extern template class Annealing<MakespanEvaluator<true>>;
extern template class Annealing<PeriodEvaluator<false>>;
extern template class Annealing<PeriodEvaluator<true>>;

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_SEARCH_LOCALSEARCH_H
