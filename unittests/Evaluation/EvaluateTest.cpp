//===- EvaluateTest.cpp - All levels together -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../Support/TestSupport.h"
#include "PipeSched/Evaluation/Summary.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using namespace pipesched::test;

namespace {

Table oneF(int64_t workers, int64_t microbatches, bool split = false) {
  Placement placement = llvm::cantFail(
      Placement::create(workers, microbatches, {placeLinear(workers)}));
  GeneratorOptions options;
  options.splitBackward = split;
  return llvm::cantFail(generate1F1B(placement, options));
}

Profile profileOf(int64_t forward, int64_t backward, int64_t comm = 0) {
  Profile profile;
  profile.phasePs[Phase::Forward] = {forward};
  profile.phasePs[Phase::Backward] = {backward};
  profile.commPs = {comm};
  return profile;
}

TEST(Evaluate, LevelsAgreeWithFreeMessages) {
  for (int64_t workers = 1; workers <= 16; ++workers)
    for (int64_t n = 1; n <= 16; ++n) {
      Table table = oneF(workers, n);
      Evaluation evaluation =
          llvm::cantFail(evaluateTable(table.view(), "1f1b", {}, {}));
      double expected = static_cast<double>(workers - 1) /
                        static_cast<double>(n + workers - 1);
      ASSERT_TRUE(evaluation.formula) << evaluation.formulaReason;
      EXPECT_DOUBLE_EQ(evaluation.formula->bubbleRatio, expected);
      EXPECT_DOUBLE_EQ(evaluation.table->bubbleRatio, expected);
      EXPECT_DOUBLE_EQ(summarize(evaluation.totals).idleRatio, expected);
    }
}

TEST(Evaluate, SaysWhyThereIsNoFormula) {
  Table table = oneF(2, 2);
  Evaluation evaluation =
      llvm::cantFail(evaluateTable(table.view(), "", {}, {}));
  EXPECT_FALSE(evaluation.formula);
  EXPECT_EQ(evaluation.formulaReason, "the rows are of no known family");
}

TEST(Evaluate, TableAndProgramHaveTheSameExecution) {
  Table table = oneF(4, 6, /*split=*/true);
  CostInputs costs;
  costs.profile = profileOf(10, 20, 3);
  costs.profile->phasePs[Phase::InputGrad] = {11};
  costs.profile->phasePs[Phase::WeightGrad] = {9};
  for (Transport transport : kTransports)
    for (ReceivePlacement receives :
         {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
      Evaluation evaluation = llvm::cantFail(
          evaluateTable(table.view(), "1f1b", costs, {transport, receives}));
      Execution execution = llvm::cantFail(executeProgram(
          lower(table, receives), table.placement, costs, transport));
      Execution again = llvm::cantFail(
          executeTable(table.view(), costs, {transport, receives}));
      EXPECT_EQ(again.timeline.startPs, execution.timeline.startPs);
      EXPECT_EQ(evaluation.totals.makespanPs, execution.timeline.makespanPs);
    }
}

TEST(Evaluate, RefusesModelWithoutTimes) {
  Table table = oneF(2, 2);
  CostInputs costs;
  costs.model.emplace();
  costs.model->name = "m";
  costs.model->sequence = 27720; // equal slices up to 12
  llvm::Expected<Evaluation> noSystem =
      evaluateTable(table.view(), "1f1b", costs, {});
  ASSERT_FALSE(noSystem);
  EXPECT_EQ(llvm::toString(noSystem.takeError()),
            "model 'm' has no times: attach a system or a profile");
  costs.model.reset();
  costs.system.emplace();
  costs.system->name = "s";
  llvm::Expected<Evaluation> noModel =
      evaluateTable(table.view(), "1f1b", costs, {});
  ASSERT_FALSE(noModel);
  EXPECT_EQ(llvm::toString(noModel.takeError()),
            "system 's' has nothing to run: attach a model or a profile");
}

Profile makeProfile(int64_t forward, int64_t inputGrad, int64_t weightGrad,
                    int64_t comm) {
  Profile profile;
  auto set = [&](Phase phase, int64_t ps) { profile.phasePs[phase] = {ps}; };
  set(Phase::Forward, forward);
  set(Phase::Backward, inputGrad + weightGrad);
  set(Phase::InputGrad, inputGrad);
  set(Phase::WeightGrad, weightGrad);
  profile.commPs = {comm};
  return profile;
}

Evaluation evaluate(const Table &table, llvm::StringRef family,
                    const Profile &profile, const FamilyOptions &options) {
  CostInputs costs;
  costs.profile = profile;
  TimingOptions timing;
  timing.transport = Transport::Delay;
  return llvm::cantFail(
      evaluateTable(table.view(), family, costs, timing, options));
}

/// Returns whether there was a value to compare.
bool compare(const Evaluation &evaluation) {
  if (!evaluation.formula || !evaluation.formula->bubbleRatioGeneral)
    return false;
  EXPECT_NEAR(*evaluation.formula->bubbleRatioGeneral,
              summarize(evaluation.totals).idleRatio, 1e-12);
  return true;
}

/// The formula of waves holds for rows that were made for the times.
TEST(Evaluate, FormulaOfGreedyWavesTakesItsTimes) {
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

TEST(Evaluate, FormulaOfGreedyRowsIsNotThatOfAnotherOrder) {
  Placement linear = llvm::cantFail(placeFamily(*findFamily("greedy"), 4, 8));
  Table table = llvm::cantFail(generate(*findFamily("greedy"), linear));
  Evaluation evaluation =
      evaluate(table, "greedy", makeProfile(10, 10, 10, 0), {});
  EXPECT_DOUBLE_EQ(evaluation.formula->bubbleRatio, 3.0 / 11);
  EXPECT_FALSE(evaluation.formula->bubbleRatioGeneral);
  EXPECT_EQ(
      evaluation.formula->generalConditions,
      "no general form is known: the order is the one of greedy, not of 1f1b");
}

} // namespace
