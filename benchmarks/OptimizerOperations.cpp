//===- OptimizerOperations.cpp - Benchmarks of lib/Optimize ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inner loop of the search: computing all times of a plan, and annealing,
// per evaluation.
//
//===----------------------------------------------------------------------===//

#include "../lib/Optimize/Search/Heuristics.h"
#include "../lib/Optimize/Search/LocalSearch.h"
#include "Measure.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using namespace pipesched::bench;
using namespace pipesched::optimize;

/// The workers of all problems, and the evaluations of one annealing run.
static constexpr int64_t kSearchWorkers = 8;
static constexpr uint64_t kNumEvaluations = 20'000;

namespace {
/// Memory for this many microbatches on a linear path, with copies if they are
/// few.
struct Kind {
  const char *name;
  int64_t activations;
  bool offload;
  Objective objective;
};
constexpr Kind kKinds[] = {
    {"makespan", 6, false, Objective::Makespan},
    {"period", 6, false, Objective::Period},
    {"offload", 3, true, Objective::Makespan},
};

/// Counts evaluations and never stops.
class Counter : public Stopper {
public:
  bool shouldStop(uint64_t more, int64_t) override {
    evaluations += more;
    return false;
  }
  /// One run is all of the limits; further runs continue from there.
  double getProgress() const override {
    return double(evaluations) / double(kNumEvaluations);
  }

  uint64_t evaluations = 0;
};
} // namespace

static Problem makeProblem(const Kind &kind, int64_t numMicrobatches) {
  Problem problem;
  problem.placement = take(Placement::create(kSearchWorkers, numMicrobatches,
                                             {placeLinear(kSearchWorkers)}));
  StageFacts facts;
  facts.forward = facts.offload = facts.reload = 100;
  facts.inputGrad = 120;
  facts.weightGrad = 80;
  facts.activationDelay = facts.gradientDelay = 5;
  facts.activation = 1;
  problem.stages.assign(kSearchWorkers, facts);
  problem.capacity.assign(kSearchWorkers, kind.activations);
  problem.techniques.offload = kind.offload;
  problem.objective = kind.objective;
  return problem;
}

/// A list schedule; with copies it is made for twice the memory and then fitted
/// to the limit.
static Plan makePlan(const Encoding &encoding) {
  Random random(1);
  std::vector<int64_t> capacity = encoding.capacity;
  for (int64_t &bytes : capacity)
    bytes *= encoding.offload ? 2 : 1;
  Evaluator<int64_t, false> unbounded(encoding);
  while (true) {
    DispatchRule rule = drawRule(encoding, capacity, random);
    std::optional<Plan> plan = dispatch(encoding, rule, random);
    if (!plan)
      continue;
    if (!encoding.offload)
      return std::move(*plan);
    unbounded.evaluate(*plan, kInfeasible - 1);
    std::vector<int64_t> ends(plan->tokens.size());
    for (uint32_t pos = 0; pos < ends.size(); ++pos)
      ends[pos] = unbounded.endAt(pos);
    plan = fitMemory(encoding, *plan, ends, {/*lead=*/2}, random,
                     [] { return false; });
    if (plan && MakespanEvaluator<true>(encoding).evaluate(
                    *plan, kInfeasible - 1) != kInfeasible)
      return std::move(*plan);
  }
}

template <typename Objective>
static void evaluate(benchmark::State &state, const Encoding &encoding) {
  Plan plan = makePlan(encoding);
  Objective objective(encoding);
  for (auto _ : state)
    benchmark::DoNotOptimize(objective.evaluate(plan, kInfeasible - 1));
  state.counters["evaluations"] =
      benchmark::Counter(state.iterations(), benchmark::Counter::kIsRate);
}

template <typename Objective>
static void anneal(benchmark::State &state, const Encoding &encoding) {
  Plan plan = makePlan(encoding);
  Annealing<Objective> annealing(encoding, /*seed=*/1);
  Counter counter;
  for (auto _ : state)
    annealing.run(plan,
                  {/*from=*/15, /*to=*/1, /*until=*/counter.getProgress() + 1},
                  counter);
  state.counters["evaluations"] =
      benchmark::Counter(counter.evaluations, benchmark::Counter::kIsRate);
}

template <typename Objective>
static void measureBoth(const Kind &kind, int64_t numMicrobatches) {
  int64_t numCells = 3 * kSearchWorkers * numMicrobatches;
  auto add = [&](const char *operation,
                 void (*run)(benchmark::State &, const Encoding &)) {
    std::string name =
        llvm::formatv("{0}/{1}/{2}", operation, kind.name, numCells);
    benchmark::RegisterBenchmark(
        name.c_str(), [=, &kind](benchmark::State &state) {
          Problem problem = makeProblem(kind, numMicrobatches);
          run(state, Encoding(problem));
        });
  };
  add("optimize-evaluate", evaluate<Objective>);
  add("optimize-anneal", anneal<Objective>);
}

void bench::registerOptimizer() {
  for (const Kind &kind : kKinds)
    for (int64_t numMicrobatches : {16, 64, 256}) {
      if (kind.offload)
        measureBoth<MakespanEvaluator<true>>(kind, numMicrobatches);
      else if (kind.objective == Objective::Period)
        measureBoth<PeriodEvaluator<false>>(kind, numMicrobatches);
      else
        measureBoth<MakespanEvaluator<false>>(kind, numMicrobatches);
    }
}
