//===- StaticSeedsTest.cpp - Seeds by fixed rules -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes every family with its activations offloaded or recomputed by the rules
// of the transforms. Seeds that fit the memory are no better than the solver's
// result, even if it searches very little.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Optimize/Search/StaticSeeds.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/Recompute.h"
#include "TestProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// Solves with the seeds and the least possible search.
SolverResult solveBySeeds(const Problem &problem, llvm::ArrayRef<Seed> seeds) {
  SolverOptions options;
  options.maxEvaluations = 1;
  options.timeLimitSeconds = 0;
  return llvm::cantFail(solve(problem, seeds, options));
}

std::vector<Placement> placements(int64_t workers, int64_t microbatches) {
  auto place = [&](std::vector<Path> paths) {
    return llvm::cantFail(
        Placement::create(workers, microbatches, std::move(paths)));
  };
  return {place({placeLinear(workers)}), place({placeV(workers)}),
          place({llvm::cantFail(placeInterleaved(workers, 2))}),
          place(llvm::cantFail(
              placeBidirectional(workers, microbatches, 1, Assign::Halves)))};
}

/// Equal stages that keep `kept` activations and copy in `copy` ticks.
Problem makeTightProblem(const Placement &placement, int64_t kept,
                         int64_t copy) {
  Problem problem = makeProblem(placement);
  for (StageFacts &facts : problem.stages) {
    facts.offload = facts.reload = copy;
    facts.freedByInputGrad = 1;
  }
  problem.capacity.assign(problem.capacity.size(),
                          kept * problem.stages.front().activation);
  return problem;
}

TableView viewOf(const Problem &problem, const Seed &seed) {
  TableView view;
  view.placement = &problem.placement;
  view.gradientAfter = problem.gradientAfter;
  view.rows.assign(seed.rows.begin(), seed.rows.end());
  return view;
}

/// The objective of rows that keep all rules; else the largest number.
int64_t objectiveOfRows(const Problem &problem, const std::vector<Row> &rows) {
  llvm::Expected<Solution> solution = test::timeRows(problem, rows);
  if (!solution) {
    llvm::consumeError(solution.takeError());
    return kNoLimit;
  }
  if (llvm::Error error = verifySolution(problem, *solution)) {
    llvm::consumeError(std::move(error));
    return kNoLimit;
  }
  return objectiveOf(problem, *solution);
}

template <typename Change>
int64_t objectiveOfChange(const Problem &problem,
                          llvm::Expected<Change> change) {
  if (change)
    return objectiveOfRows(problem, change->rows);
  llvm::consumeError(change.takeError());
  return kNoLimit;
}

int64_t bestOffload(const Problem &problem, const Seed &seed, int64_t kept) {
  int64_t best = kNoLimit;
  OffloadOptions options;
  for (OffloadAmount amount : {OffloadAmount::All, OffloadAmount::Half})
    for (int64_t ahead : {1, 2, 4})
      for (int64_t memory : {int64_t(0), kept}) {
        options.amount = amount;
        options.ahead = ahead;
        options.memory = memory;
        best = std::min(
            best, objectiveOfChange(
                      problem, addOffload(viewOf(problem, seed), options)));
      }
  return best;
}

TEST(StaticSeeds, NoneIsBetterThanTheSolver) {
  unsigned numOffloaded = 0, numRecomputed = 0;
  for (auto [workers, microbatches] : {std::pair(2, 4), {4, 8}})
    for (const Placement &placement : placements(workers, microbatches))
      for (int64_t kept : {2, 3, 5})
        for (int64_t copy : {2, 10, 25})
          for (Objective objective : {Objective::Makespan, Objective::Period}) {
            Problem problem = makeTightProblem(placement, kept, copy);
            problem.objective = objective;
            problem.techniques.offload = copy != 25;
            problem.techniques.recompute = copy != 2;
            SCOPED_TRACE(std::to_string(workers) + " workers, keeps " +
                         std::to_string(kept) + ", copies in " +
                         std::to_string(copy));
            if (llvm::Error error = checkCapacity(problem)) {
              llvm::consumeError(std::move(error));
              continue;
            }
            std::vector<Seed> seeds = familySeeds(problem);
            SolverResult result = solveBySeeds(problem, seeds);
            int64_t found = objectiveOf(problem, result.solution);
            for (const Seed &seed : seeds) {
              EXPECT_LE(found, objectiveOfRows(problem, seed.rows));
              if (problem.techniques.offload)
                EXPECT_LE(found, bestOffload(problem, seed, kept)) << seed.name;
              if (problem.techniques.recompute)
                EXPECT_LE(found,
                          objectiveOfChange(
                              problem, addRecompute(viewOf(problem, seed))))
                    << seed.name;
            }
            llvm::StringRef name = result.bestSeedName;
            numOffloaded += name.contains("offloaded");
            numRecomputed += name.contains("recomputed");
          }
  EXPECT_GT(numOffloaded, 3u);
  EXPECT_GT(numRecomputed, 3u);
}

TEST(StaticSeeds, AreBetterThanWhatThereIs) {
  Problem problem = makeTightProblem(
      llvm::cantFail(Placement::create(4, 8, {placeLinear(4)})), 2, 2);
  problem.techniques.recompute = false;
  std::vector<Seed> seeds = familySeeds(problem);
  auto go = [] { return false; };
  std::optional<Seed> best = bestStaticSeed(problem, seeds, kNoLimit, go);
  ASSERT_TRUE(best.has_value());
  int64_t objective = objectiveOfRows(problem, best->rows);
  EXPECT_LT(objective, kNoLimit);
  EXPECT_FALSE(bestStaticSeed(problem, seeds, objective, go));
  EXPECT_TRUE(bestStaticSeed(problem, seeds, objective + 1, go));
  EXPECT_FALSE(bestStaticSeed(problem, seeds, kNoLimit, [] { return true; }));
  EXPECT_FALSE(bestStaticSeed(problem, *best, kNoLimit, go)); // has copies
  problem.techniques.offload = false;
  EXPECT_FALSE(bestStaticSeed(problem, seeds, kNoLimit, go));
}

} // namespace
