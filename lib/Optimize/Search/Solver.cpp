//===- Solver.cpp - Search for schedules ----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the seeds, then runs the searches and proofs of a portfolio.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Search/Solver.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "Portfolio.h"
#include "StaticSeeds.h"

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Seeds
//===----------------------------------------------------------------------===//

namespace {
/// Turns seeds into plans to start from, and keeps the best that fits the
/// memory.
class SeedReader {
public:
  SeedReader(const Encoding &encoding, BestSolution &best)
      : encoding(encoding), best(best) {}

  void read(const Seed &seed);

  std::vector<Candidate> candidates;

private:
  bool hasExtras(const Plan &plan) const;
  template <typename Evaluation>
  void offerRows(const Plan &plan, llvm::StringRef name);

  const Encoding &encoding;
  BestSolution &best;
};
} // namespace

/// Whether rows offload or recompute anything.
bool SeedReader::hasExtras(const Plan &plan) const {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    for (uint32_t i = 0; i < plan.sizes[worker]; ++i) {
      Token token = plan.tokens[encoding.rowBegins[worker] + i];
      if (encoding.kinds[token.kind].type > CellType::WeightGrad)
        return true;
    }
  return false;
}

template <typename Evaluation>
void SeedReader::offerRows(const Plan &plan, llvm::StringRef name) {
  Evaluation evaluation(encoding);
  if (evaluation.evaluate(plan, best.getObjective() - 1) != kInfeasible)
    best.offer(evaluation.rowsOf(plan), name);
}

/// To split backwards and put microbatches in order makes no schedule without
/// copies and recompute worse. Of other schedules the original rows are offered
/// as well.
void SeedReader::read(const Seed &seed) {
  std::optional<Plan> plan = planOf(encoding, seed.rows);
  bool isPeriod = encoding.problem.objective == Objective::Period;
  if (!plan || hasExtras(*plan))
    best.offer(seed.rows, seed.name);
  if (!plan)
    return;
  if (hasExtras(*plan) && isPeriod)
    offerRows<PeriodEvaluator<true>>(*plan, seed.name);
  else if (hasExtras(*plan))
    offerRows<MakespanEvaluator<true>>(*plan, seed.name);
  else if (plan->fitsMemory(encoding) && isPeriod)
    offerRows<PeriodEvaluator<false>>(*plan, seed.name);
  else if (plan->fitsMemory(encoding))
    offerRows<MakespanEvaluator<false>>(*plan, seed.name);
  candidates.push_back({std::move(*plan), seed.name});
}

/// Reads the seeds, and the best rows that fixed rules make of them if these
/// are better. When the time is over, one that fits the memory is enough.
static void readSeeds(const Problem &problem, ArrayRef<Seed> seeds,
                      const SharedState &shared, const BestSolution &best,
                      SeedReader &reader) {
  for (const Seed &seed : seeds)
    if (!shared.isInterrupted() && (!best || shared.hasTime()))
      reader.read(seed);
  auto mustStop = [&] { return shared.isInterrupted() || !shared.hasTime(); };
  if (std::optional<Seed> seed =
          bestStaticSeed(problem, seeds, best.getObjective(), mustStop))
    reader.read(*seed);
}

//===----------------------------------------------------------------------===//
// Solve
//===----------------------------------------------------------------------===//

static Status statusOf(const SharedState &shared, const SolverResult &result,
                       int64_t objective) {
  if (objective <= result.lowerBound)
    return Status::Optimal;
  if (shared.isGoal(objective))
    return Status::GapReached;
  return shared.isInterrupted() ? Status::Interrupted : Status::TimeLimit;
}

Expected<SolverResult> optimize::solve(const Problem &problem,
                                       ArrayRef<Seed> seeds,
                                       const SolverOptions &options) {
  if (llvm::Error error = checkProblem(problem))
    return std::move(error);
  if (llvm::Error error = checkCapacity(problem))
    return std::move(error);
  if (llvm::Error error = checkTime(problem, options.timeLimitSeconds))
    return std::move(error);
  SharedState shared(options);
  Bound bound = quickBound(problem);
  shared.raiseBound(bound.value, bound.name);
  shared.startRound();
  Encoding encoding(problem);
  BestSolution best(problem);
  SeedReader reader(encoding, best);
  readSeeds(problem, seeds, shared, best, reader);
  SolverResult result;
  if (best) {
    result.bestSeed = best.getObjective();
    result.bestSeedName = best.getOrigin();
    shared.tell(SharedState::kNoRank, result.bestSeed);
  }
  if (!best || !shared.isGoal(result.bestSeed))
    Portfolio(encoding, shared, best).run(reader.candidates);
  if (!best)
    return llvm::createStringError("no schedule found that fits the memory");
  shared.fill(result);
  result.status = statusOf(shared, result, best.getObjective());
  result.origin = best.getOrigin();
  result.solution = best.take();
  return result;
}
