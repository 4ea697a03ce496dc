//===- HeuristicsTest.cpp - Construction of plans -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// List schedules are complete, fit the memory and do not deadlock. Fitted and
// repeated plans keep the rules.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Optimize/Search/Heuristics.h"
#include "DiverseProblems.h"

using namespace pipesched;
using namespace pipesched::optimize;
using namespace pipesched::optimize::test;

namespace {

constexpr int64_t kNoLimit = kInfeasible - 1;

std::vector<int64_t> endsOf(const Encoding &encoding, const Plan &plan) {
  Evaluator<int64_t, false> evaluator(encoding);
  EXPECT_NE(evaluator.evaluate(plan, kNoLimit), kInfeasible);
  std::vector<int64_t> ends(plan.tokens.size());
  for (uint32_t pos = 0; pos < ends.size(); ++pos)
    ends[pos] = evaluator.endAt(pos);
  return ends;
}

/// Whether each worker can hold one activation of each of its stages, the room
/// that list scheduling reserves.
bool holdsOneOfEach(const Problem &problem) {
  std::vector<int64_t> needed(problem.capacity.size());
  for (size_t stage = 0; stage < problem.stages.size(); ++stage)
    needed[problem.placement.workerOf(stage)] +=
        problem.stages[stage].activation +
        std::max<int64_t>(0, -problem.stages[stage].freedByInputGrad);
  for (size_t worker = 0; worker < needed.size(); ++worker)
    if (needed[worker] > problem.capacity[worker])
      return false;
  return true;
}

TEST(Dispatch, NeverGetsStuck) {
  unsigned count = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    search.problem.gradientAfter = GradientAfter::InputGrad;
    if (!holdsOneOfEach(search.problem))
      continue;
    ++count;
    Encoding encoding(search.problem);
    Random random(seed);
    for (unsigned i = 0; i < 10; ++i) {
      DispatchRule rule = drawRule(encoding, encoding.capacity, random);
      std::optional<Plan> plan = dispatch(encoding, rule, random);
      ASSERT_TRUE(plan.has_value());
      EXPECT_TRUE(plan->isComplete(encoding));
      std::vector<Row> rows = Evaluator<int64_t, false>(encoding).rowsOf(*plan);
      Solution solution = llvm::cantFail(test::timeRows(search.problem, rows));
      llvm::Error error = verifySolution(search.problem, solution);
      EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
    }
  }
  EXPECT_GT(count, 50u);
}

TEST(FitMemory, KeepsTheRules) {
  unsigned count = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    DiverseProblem search(seed);
    Problem &problem = search.problem;
    if (!problem.techniques.offload && !problem.techniques.recompute)
      continue;
    Encoding encoding(problem);
    Random random(seed);
    std::vector<int64_t> open(problem.capacity.size(), 1000);
    std::optional<Plan> plan =
        dispatch(encoding, drawRule(encoding, open, random), random);
    if (!plan)
      continue;
    FitRule rule = {1 + random.unit(), random.unit(), 0};
    std::optional<Plan> fitted =
        fitMemory(encoding, *plan, endsOf(encoding, *plan), rule, random,
                  [] { return false; });
    if (!fitted)
      continue;
    EXPECT_TRUE(fitted->isComplete(encoding));
    std::vector<Row> rows = Evaluator<int64_t, true>(encoding).rowsOf(*fitted);
    if (rows.empty())
      continue; // reloads may find no memory in time
    ++count;
    Solution solution = llvm::cantFail(test::timeRows(problem, rows));
    llvm::Error error = verifySolution(problem, solution);
    EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  }
  EXPECT_GT(count, 50u);
}

TEST(FitMemory, RefusesWhatHasCopies) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(1, 2, {placeLinear(1)})));
  problem.capacity = {4};
  Encoding encoding(problem);
  Random random(1);
  auto fits = [&](llvm::StringRef row) {
    std::optional<Plan> plan = planOf(encoding, {parseRow(row)});
    std::vector<int64_t> ends = endsOf(encoding, *plan);
    return fitMemory(encoding, *plan, ends, FitRule(), random,
                     [] { return false; })
        .has_value();
  };
  EXPECT_TRUE(fits("0F0 0F1 0I1 0W1 0I0 0W0"));
  EXPECT_FALSE(fits("0F0 0D0 0F1 0I1 0W1 0U0 0I0 0W0"));
  EXPECT_FALSE(fits("0F0 0F1 0I1 0W1 0R0 0I0 0W0"));
}

/// Fits a row of three activations into room for two. They are needed again in
/// the order of F, and an offload takes `offload` ticks.
std::string fitInto(int64_t offload) {
  Problem problem =
      makeProblem(llvm::cantFail(Placement::create(1, 3, {placeLinear(1)})));
  problem.capacity = {8};
  problem.techniques.recompute = false;
  problem.stages.front().offload = offload;
  Encoding encoding(problem);
  Random random(1);
  std::optional<Plan> plan =
      planOf(encoding, {parseRow("0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2")});
  std::optional<Plan> fitted =
      fitMemory(encoding, *plan, endsOf(encoding, *plan), FitRule(), random,
                [] { return false; });
  std::string text;
  for (uint32_t pos = 0; fitted && pos < fitted->sizes[0]; ++pos)
    text += (pos ? " " : "") + encoding.cellOf(fitted->tokens[pos]).str();
  return text;
}

TEST(FitMemory, PutsOutWhatIsNeededLast) {
  EXPECT_EQ(fitInto(4), "0F0 0F1 0D1 0F2 0I0 0W0 0U1 0I1 0W1 0I2 0W2");
  // Its offload would be so late that 0D0 comes first. The reload 0U0 then
  // takes the memory that 0D1 frees.
  EXPECT_EQ(fitInto(6), "0F0 0D0 0F1 0D1 0F2 0U0 0I0 0W0 0U1 0I1 0W1 0I2 0W2");
}

std::string repeat(llvm::StringRef row, int64_t from, int64_t to,
                   uint32_t first, uint32_t count) {
  Problem smaller =
      makeProblem(llvm::cantFail(Placement::create(1, from, {placeLinear(1)})));
  Problem larger =
      makeProblem(llvm::cantFail(Placement::create(1, to, {placeLinear(1)})));
  Encoding fromEncoding(smaller), toEncoding(larger);
  std::optional<Plan> plan = planOf(fromEncoding, {parseRow(row)});
  std::optional<Plan> longer =
      repeatMiddle(fromEncoding, *plan, toEncoding, first, count);
  if (!longer)
    return "";
  EXPECT_TRUE(longer->isComplete(toEncoding));
  std::string text;
  for (uint32_t pos = 0; pos < longer->sizes[0]; ++pos)
    text += (pos ? " " : "") + toEncoding.cellOf(longer->tokens[pos]).str();
  return text;
}

TEST(RepeatMiddle, RepeatsWhatHasOneOfEach) {
  llvm::StringRef row = "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2";
  EXPECT_EQ(repeat(row, 3, 5, 0, 1),
            "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0F4 0I3 0W3 0I4 0W4");
  EXPECT_EQ(repeat(row, 3, 5, 1, 1), ""); // no forward there
  EXPECT_EQ(repeat(row, 3, 6, 0, 2), ""); // not a multiple
}

} // namespace
