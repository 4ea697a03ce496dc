//===- EvaluatorTest.cpp - Times of plans ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans after random moves: timing from the first change gives the same times
// as timing the whole plan. The rows have these times too and keep the rules.
// Moves can be undone.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Optimize/Search/Heuristics.h"
#include "../../lib/Optimize/Search/LocalSearch.h"
#include "../Support/TestEffort.h"
#include "DiverseProblems.h"

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

/// Makes a change anywhere. False: none was made.
bool drawMove(Mover &mover, const Encoding &encoding, Plan &plan,
              Random &random) {
  uint32_t worker = random.below(encoding.numWorkers);
  if (plan.sizes[worker] == 0)
    return false;
  uint32_t place = random.below(plan.sizes[worker]);
  return mover.draw(plan, worker, encoding.rowBegins[worker] + place, random);
}

/// The makespan after a change.
template <bool Copies>
int64_t evaluateMove(MakespanEvaluator<Copies> &evaluator, const Mover &mover,
                     const Plan &plan, int64_t limit) {
  return mover.isGlobal()
             ? evaluator.evaluate(plan, limit)
             : evaluator.evaluateFrom(plan, mover.getWorker(), mover.getBegin(),
                                      mover.getEnd(), limit);
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
    if (!drawMove(mover, encoding, plan, random)) {
      expectSame(encoding, plan, before);
      continue;
    }
    int64_t expected = fresh.evaluate(plan, kNoLimit);
    int64_t found = evaluateMove(evaluator, mover, plan, kNoLimit);
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
    DiverseProblem search(seed);
    if (search.problem.techniques.offload)
      walk<true>(search.problem, seed);
    else
      walk<false>(search.problem, seed);
    if (HasFatalFailure())
      return;
  }
}

/// Accepts plans as annealing does, up to a limit a little above the last plan.
template <bool Copies>
void walkWithin(const Problem &problem, uint64_t seed) {
  Encoding encoding(problem);
  Random random(seed);
  Plan plan = runOneByOne(encoding);
  MakespanEvaluator<Copies> evaluator(encoding), fresh(encoding);
  int64_t value = evaluator.evaluate(plan, kNoLimit);
  evaluator.keep();
  Mover mover(encoding);
  for (unsigned i = 0; i < 600; ++i) {
    if (!drawMove(mover, encoding, plan, random))
      continue;
    int64_t limit = value + int64_t(random.below(8)) - 2;
    int64_t expected = fresh.evaluate(plan, limit);
    int64_t found = evaluateMove(evaluator, mover, plan, limit);
    ASSERT_EQ(found, expected);
    if (found == kInfeasible || random.chance(0.2)) {
      evaluator.discard();
      mover.undo(plan);
      continue;
    }
    evaluator.keep();
    value = found;
    for (uint32_t row = 0; row < encoding.numWorkers; ++row)
      for (uint32_t k = 0; k < plan.sizes[row]; ++k) {
        uint32_t pos = encoding.rowBegins[row] + k;
        ASSERT_EQ(evaluator.endAt(pos), fresh.endAt(pos));
      }
  }
}

void walkAny(const Problem &problem, uint64_t seed) {
  if (problem.techniques.offload)
    walkWithin<true>(problem, seed);
  else
    walkWithin<false>(problem, seed);
}

TEST(Evaluator, RefusesWhatIsAboveTheLimit) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    for (StageFacts &facts : search.problem.stages) {
      facts.weightGrad = seed % 8 == 0 ? 0 : facts.weightGrad;
      if (seed % 16 == 0)
        facts.forward = facts.inputGrad = 0;
    }
    walkAny(search.problem, seed);
    if (HasFatalFailure())
      return;
  }
}

/// Rows of many workers wait for each other and for slow copies, so that a
/// change reaches a row several times, earlier or later than before.
TEST(Evaluator, TimesManyRowsInOrder) {
  for (uint32_t seed = 0; seed < 48; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem =
        makeProblem(llvm::cantFail(Placement::create(6, 16, {placeLinear(6)})));
    problem.techniques.offload = seed % 3 != 0;
    problem.techniques.recompute = seed % 3 != 1;
    problem.memoryTimes = seed & 1 ? MemoryTimes::Any : MemoryTimes::Given;
    problem.sharedCopyQueue = seed & 2;
    problem.capacity.assign(6, 12);
    for (StageFacts &facts : problem.stages) {
      facts.forward += seed * 7 % 5;
      facts.offload = facts.reload = 5 + 3 * (seed % 9);
    }
    problem.stages[seed % 6].inputGrad += 4;
    walkAny(problem, seed);
    if (HasFatalFailure())
      return;
  }
}

/// Accepts plans by their periods as annealing does. The decision from only the
/// changed rows equals an evaluation of the whole plan.
void walkPeriods(const Problem &problem, uint64_t seed) {
  Encoding encoding(problem);
  Random random(seed);
  Plan plan = runOneByOne(encoding);
  PeriodEvaluator<false> evaluator(encoding);
  int64_t value = evaluator.evaluate(plan, kNoLimit);
  evaluator.keep();
  Mover mover(encoding);
  for (unsigned i = 0; i < 400; ++i) {
    if (!drawMove(mover, encoding, plan, random))
      continue;
    int64_t limit =
        i % 8 == 0 ? kNoLimit : value + int64_t(random.below(6)) - 1;
    int64_t expected = PeriodEvaluator<false>(encoding).evaluate(plan, limit);
    int64_t found =
        mover.isGlobal()
            ? evaluator.evaluate(plan, limit)
            : evaluator.evaluateFrom(plan, mover.getWorker(), mover.getBegin(),
                                     mover.getEnd(), limit);
    ASSERT_EQ(found, expected);
    if (found == kInfeasible || random.chance(0.2)) {
      evaluator.discard();
      mover.undo(plan);
      continue;
    }
    evaluator.keep();
    value = found;
  }
}

TEST(Evaluator, FindsPeriodsAfterChanges) {
  uint32_t numSeeds = numRounds(600);
  for (uint32_t seed = 0; seed < numSeeds; ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    search.problem.techniques.offload = false;
    llvm::Error error = checkCapacity(search.problem);
    bool isImpossible = bool(error);
    llvm::consumeError(std::move(error));
    if (isImpossible)
      continue;
    if (seed % 16 == 0)
      search.problem.stages.front().forward = 0; // times each plan anew
    walkPeriods(search.problem, seed);
    if (HasFatalFailure())
      return;
  }
}

/// Many rows with separate slack, and rows that delay each other.
TEST(Evaluator, FindsPeriodsOfLongRows) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem =
        makeProblem(llvm::cantFail(Placement::create(4, 20, {placeLinear(4)})));
    problem.techniques.offload = false;
    problem.techniques.recompute = seed & 1;
    problem.capacity.assign(4, seed & 2 ? 9 : 20);
    problem.stages[seed % 4].inputGrad += seed & 4 ? 9 : 0;
    walkPeriods(problem, seed);
    if (HasFatalFailure())
      return;
  }
}

/// Tails that are updated after moves equal tails that are computed from
/// scratch, and the longest chain through a cell is no longer than the step.
TEST(Tails, AreThoseOfThePlan) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    Encoding encoding(search.problem);
    Random random(seed);
    Plan plan = runOneByOne(encoding);
    MakespanEvaluator<true> evaluator(encoding);
    Tails<int64_t> tails(encoding), fresh(encoding);
    tails.compute(plan, {});
    Mover mover(encoding);
    for (unsigned i = 0; i < 100; ++i) {
      if (!drawMove(mover, encoding, plan, random))
        continue;
      int64_t makespan = evaluator.evaluate(plan, kNoLimit);
      if (makespan == kInfeasible) {
        mover.undo(plan);
        continue;
      }
      fresh.compute(plan, {});
      if (mover.isGlobal())
        tails.compute(plan, {});
      else
        tails.update(plan, mover.getWorker(), mover.getBegin(), mover.getEnd());
      for (uint32_t row = 0; row < encoding.numWorkers; ++row)
        for (uint32_t k = 0; k < plan.sizes[row]; ++k) {
          uint32_t pos = encoding.rowBegins[row] + k;
          Token token = plan.tokens[pos];
          if (encoding.kinds[token.kind].isCopy())
            continue;
          ASSERT_EQ(tails[token.cell], fresh[token.cell]);
          ASSERT_LE(evaluator.endAt(pos) + tails[token.cell], makespan);
        }
    }
  }
}

/// 0U0 gets its memory where it is issued: after 0F1, which joins 0D0.
TEST(Evaluator, JoinsOffloadsForTheirMemory) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(1, 2, {placeLinear(1)})));
  problem.capacity = {4};
  problem.techniques.recompute = false;
  Encoding encoding(problem);
  auto rows = [&](llvm::StringRef text) {
    std::optional<Plan> plan = planOf(encoding, {parseRow(text)});
    return MakespanEvaluator<true>(encoding).rowsOf(*plan);
  };
  EXPECT_EQ(rows("0F0 0D0 0F1 0I1 0W1 0U0 0I0 0W0"),
            std::vector<Row>{parseRow("0F0 0D0 0d0 0F1 0I1 0W1 0U0 0I0 0W0")});
  // The end of 0W1 frees the memory, so the reload is issued after it.
  EXPECT_EQ(rows("0F0 0D0 0F1 0I1 0U0 0W1 0I0 0W0"),
            std::vector<Row>{parseRow("0F0 0D0 0d0 0F1 0I1 0W1 0U0 0I0 0W0")});
  // 0F1 leaves no memory for the reload.
  EXPECT_EQ(rows("0F0 0D0 0F1 0U0 0I0 0W0 0I1 0W1"), std::vector<Row>());
}

} // namespace
