//===- FormulaExecutionTest.cpp - Level 1 against level 3 -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For every family and random times: if the report has a general bubble ratio,
// it is the idle ratio of the execution with transport `delay`.
//
//===----------------------------------------------------------------------===//

#include "../Support/FamilyCases.h"
#include "PipeSched/Evaluation/Summary.h"
#include <random>

using namespace pipesched;

namespace {
class FormulaExecution : public testing::TestWithParam<const Family *> {};
} // namespace

static Profile makeProfile(int64_t forward, int64_t inputGrad,
                           int64_t weightGrad, int64_t comm) {
  Profile profile;
  auto set = [&](Phase phase, int64_t ps) { profile.phasePs[phase] = {ps}; };
  set(Phase::Forward, forward);
  set(Phase::Backward, inputGrad + weightGrad);
  set(Phase::InputGrad, inputGrad);
  set(Phase::WeightGrad, weightGrad);
  set(Phase::Logits, inputGrad);
  set(Phase::LogitsGrad, forward);
  set(Phase::Lookup, 0);
  set(Phase::LookupGrad, 0);
  profile.commPs = {comm};
  return profile;
}

/// Half of the times have free messages, a quarter have equal phases.
static Profile randomProfile(std::mt19937 &random) {
  auto upTo = [&](int64_t most) {
    return static_cast<int64_t>(random() % most) + 1;
  };
  int64_t comm = random() % 2 == 0 ? 0 : upTo(20);
  if (random() % 4 == 0)
    return makeProfile(40, 40, 40, comm);
  return makeProfile(upTo(99), upTo(99), upTo(99), comm);
}

static Evaluation evaluate(const Table &table, llvm::StringRef family,
                           const Profile &profile,
                           const FamilyOptions &options) {
  CostInputs costs;
  costs.profile = profile;
  TimingOptions timing;
  timing.transport = Transport::Delay;
  return llvm::cantFail(
      evaluateTable(table.view(), family, costs, timing, options));
}

/// Returns whether there was a value to compare.
static bool compare(const Evaluation &evaluation) {
  if (!evaluation.formula || !evaluation.formula->bubbleRatioGeneral)
    return false;
  EXPECT_NEAR(*evaluation.formula->bubbleRatioGeneral,
              summarize(evaluation.totals).idleRatio, 1e-12);
  return true;
}

TEST_P(FormulaExecution, AgreeWhereThereIsAFormula) {
  const Family &family = *GetParam();
  std::mt19937 random;
  int64_t numValues = 0;
  for (int64_t workers : {1, 2, 3, 4, 6})
    for (int64_t microbatches : {1, 2, 5, 8, 12, 24})
      forAllOptions(family, workers, microbatches, [&](const FamilyCase &one) {
        llvm::Expected<Table> table = one.generate();
        if (!table)
          return llvm::consumeError(table.takeError());
        for (int round = 0; round < 4; ++round)
          numValues += compare(evaluate(*table, family.name,
                                        randomProfile(random), one.options));
      });
  bool hasNone = family.name == "zb-auto" || family.name == "greedy" ||
                 family.name == "hanayo" || family.name == "vocab-v-half";
  EXPECT_EQ(numValues > 0, !hasNone);
}

INSTANTIATE_TEST_SUITE_P(All, FormulaExecution,
                         testing::ValuesIn(allFamilies()), printFamily);

/// The formula of waves holds for rows that were made for the times.
TEST(FormulaExecution, OfGreedyWavesTakesItsTimes) {
  FamilyOptions options;
  Placement wave =
      llvm::cantFail(placeFamily(*findFamily("hanayo"), 4, 8, options));
  const Family &greedy = *findFamily("greedy");
  Profile profile = makeProfile(20, 10, 10, 0);
  Table unit = llvm::cantFail(generate(greedy, wave, options));
  EXPECT_FALSE(compare(evaluate(unit, "greedy", profile, options)));
  options.slots.assign(8, StageSlots(2, 1, 1));
  Table timed = llvm::cantFail(generate(greedy, wave, options));
  EXPECT_TRUE(compare(evaluate(timed, "greedy", profile, options)));
  EXPECT_FALSE(
      compare(evaluate(timed, "greedy", makeProfile(20, 15, 5, 0), options)));
  EXPECT_FALSE(
      compare(evaluate(timed, "greedy", makeProfile(20, 20, 20, 0), options)));
}

TEST(FormulaExecution, OfGreedyRowsIsNotThatOfAnotherOrder) {
  Placement linear = llvm::cantFail(placeFamily(*findFamily("greedy"), 4, 8));
  Table table = llvm::cantFail(generate(*findFamily("greedy"), linear));
  Evaluation evaluation =
      evaluate(table, "greedy", makeProfile(10, 10, 10, 0), {});
  EXPECT_DOUBLE_EQ(evaluation.formula->bubbleRatio, 3.0 / 11);
  EXPECT_FALSE(evaluation.formula->bubbleRatioGeneral);
  EXPECT_EQ(evaluation.formula->generalConditions,
            "no general form is known: the order is that of greedy, not that "
            "of 1f1b");
}
