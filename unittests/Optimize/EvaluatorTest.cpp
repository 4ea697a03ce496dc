//===- EvaluatorTest.cpp - The search's times are those of the rows -------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans after random moves: times from the first change on are those from
// nothing, those of the rows are the same and keep the rules; moves can be
// taken back.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Optimize/Heuristics.h"
#include "../../lib/Optimize/LocalSearch.h"
#include "SearchProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

constexpr int64_t kNoLimit = kInfeasible - 1;

void expectSame(const Encoding &encoding, const Plan &a, const Plan &b) {
  ASSERT_EQ(a.sizes, b.sizes);
  EXPECT_EQ(a.positions, b.positions);
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    for (uint32_t i = 0; i < a.sizes[worker]; ++i) {
      uint32_t pos = encoding.rowBegins[worker] + i;
      EXPECT_EQ(a.tokens[pos], b.tokens[pos]);
      EXPECT_EQ(a.levels[pos], b.levels[pos]);
      EXPECT_EQ(a.remaining[pos], b.remaining[pos]);
    }
}

template <bool Copies>
void walk(const Problem &problem, uint64_t seed) {
  Encoding encoding(problem);
  Random random(seed);
  Plan plan = runOneByOne(encoding);
  MakespanEvaluator<Copies> evaluator(encoding), fresh(encoding);
  ASSERT_NE(evaluator.evaluate(plan, kNoLimit), kInfeasible);
  evaluator.keep();
  Mover mover(encoding);
  int64_t lastMakespan = kInfeasible;
  for (unsigned i = 0; i < 400; ++i) {
    Plan before = plan;
    uint32_t worker = random.below(encoding.numWorkers);
    uint32_t place = random.below(plan.sizes[worker]);
    if (!mover.draw(plan, worker, encoding.rowBegins[worker] + place, random)) {
      expectSame(encoding, plan, before);
      continue;
    }
    int64_t expected = fresh.evaluate(plan, kNoLimit);
    int64_t found =
        mover.isGlobal()
            ? evaluator.evaluate(plan, kNoLimit)
            : evaluator.evaluateFrom(plan, worker, mover.getBegin(), kNoLimit);
    ASSERT_EQ(found, expected);
    if (found == kInfeasible || random.chance(0.3)) {
      evaluator.discard();
      mover.undo(plan);
      expectSame(encoding, plan, before);
      continue;
    }
    evaluator.keep();
    lastMakespan = found;
  }
  llvm::Expected<Solution> solution =
      test::timeRows(problem, fresh.rowsOf(plan));
  ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
  if (lastMakespan != kInfeasible)
    EXPECT_EQ(solution->makespan, lastMakespan);
  llvm::Error error = verifySolution(problem, *solution);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  PeriodEvaluator<Copies> period(encoding);
  EXPECT_EQ(period.evaluate(plan, kNoLimit), solution->period);
}

TEST(Evaluator, TimesAreThoseOfTheRows) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    SearchProblem search(seed);
    if (search.problem.freedoms.offload)
      walk<true>(search.problem, seed);
    else
      walk<false>(search.problem, seed);
    if (HasFatalFailure())
      return;
  }
}

TEST(Evaluator, GivesUpAboveTheLimit) {
  SearchProblem search(3);
  Encoding encoding(search.problem);
  Plan plan = runOneByOne(encoding);
  MakespanEvaluator<true> evaluator(encoding);
  int64_t makespan = evaluator.evaluate(plan, kNoLimit);
  EXPECT_EQ(evaluator.evaluate(plan, makespan), makespan);
  EXPECT_EQ(evaluator.evaluate(plan, makespan - 1), kInfeasible);
}

/// 0U0 gets its memory where it is issued: behind 0F1, which joins 0D0.
TEST(Evaluator, JoinsOffloadsForTheirMemory) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(1, 2, {placeLinear(1)})));
  problem.capacity = {4};
  problem.freedoms.recompute = false;
  Encoding encoding(problem);
  auto rows = [&](llvm::StringRef text) {
    std::optional<Plan> plan = planOf(encoding, {parseRow(text)});
    return MakespanEvaluator<true>(encoding).rowsOf(*plan);
  };
  EXPECT_EQ(rows("0F0 0D0 0F1 0I1 0W1 0U0 0I0 0W0"),
            std::vector<Row>{parseRow("0F0 0D0 0d0 0F1 0I1 0W1 0U0 0I0 0W0")});
  // Memory comes with the end of 0W1: the reload is put off.
  EXPECT_EQ(rows("0F0 0D0 0F1 0I1 0U0 0W1 0I0 0W0"),
            std::vector<Row>{parseRow("0F0 0D0 0d0 0F1 0I1 0W1 0U0 0I0 0W0")});
  // 0F1 leaves no memory for the reload.
  EXPECT_EQ(rows("0F0 0D0 0F1 0U0 0I0 0W0 0I1 0W1"), std::vector<Row>());
}

} // namespace
