//===- EvaluateTest.cpp - All levels together -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/TestSupport.h"
#include "PipeSched/Evaluation/Summary.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

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

TEST(Evaluate, FormulaTakesTheTimesOfUniformStages) {
  // GPipe, D = 4, N = 8, T = 30, messages of 5: idle (D-1)T + 2(D-1)Tc = 120.
  Placement placement =
      llvm::cantFail(Placement::create(4, 8, {placeLinear(4)}));
  Table table = llvm::cantFail(generateGPipe(placement));
  CostInputs costs;
  costs.profile = profileOf(10, 20, 5);
  TimingOptions options;
  options.transport = Transport::Delay;
  Evaluation evaluation =
      llvm::cantFail(evaluateTable(table.view(), "gpipe", costs, options));
  EXPECT_EQ(evaluation.totals.makespanPs, 8 * 30 + 120);
  ASSERT_TRUE(evaluation.formula->bubbleRatioGeneral)
      << evaluation.formula->generalConditions;
  EXPECT_DOUBLE_EQ(*evaluation.formula->bubbleRatioGeneral, 120.0 / 360.0);

  costs.profile->phasePs[Phase::Forward] = {10, 11, 10, 10};
  evaluation =
      llvm::cantFail(evaluateTable(table.view(), "gpipe", costs, options));
  EXPECT_FALSE(evaluation.formula->bubbleRatioGeneral);
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

TEST(Evaluate, PhasesInUse) {
  Table table = makeTable(1, {0}, {"_ 0F0 0D0 0d0 0U0 0I0 0W0"});
  PhaseSet expected = PhaseSet(Phase::Forward) | PhaseSet(Phase::Offload) |
                      PhaseSet(Phase::Reload) | PhaseSet(Phase::InputGrad) |
                      PhaseSet(Phase::WeightGrad);
  EXPECT_EQ(phasesInUse(table.view()), expected);
  EXPECT_EQ(phasesInUse(lower(table)), expected);
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

//===----------------------------------------------------------------------===//
// Published numbers
//===----------------------------------------------------------------------===//

int64_t picoseconds(const llvm::json::Object &times, llvm::StringRef key) {
  return std::llround(*times.getNumber(key) * 1e9);
}

/// Tables 4, 5 and 9 of arXiv 2401.10241: the bubble rates of 1F1B that its
/// authors computed from profiled times, to four digits.
TEST(Evaluate, PublishedBubbleRatesOf1F1B) {
  auto buffer = llvm::MemoryBuffer::getFile(ZERO_BUBBLE_JSON);
  ASSERT_TRUE(buffer);
  llvm::json::Value file =
      llvm::cantFail(llvm::json::parse((*buffer)->getBuffer()));
  const llvm::json::Array &rows = *file.getAsObject()->getArray("rows");
  ASSERT_EQ(rows.size(), 6u);
  for (const llvm::json::Value &value : rows) {
    const llvm::json::Object &row = *value.getAsObject();
    const llvm::json::Object &times = *row.getObject("profiled_ms");
    CostInputs costs;
    costs.profile = profileOf(picoseconds(times, "F"),
                              picoseconds(times, "I") + picoseconds(times, "W"),
                              picoseconds(times, "comm"));
    Table table =
        oneF(*row.getInteger("workers"), *row.getInteger("microbatches"));
    TimingOptions options;
    options.transport = Transport::Delay;
    Evaluation evaluation =
        llvm::cantFail(evaluateTable(table.view(), "1f1b", costs, options));
    double published =
        *row.getObject("published_bubble_rate")->getNumber("1F1B");
    EXPECT_NEAR(summarize(evaluation.totals).spanBubbleRatio, published,
                0.5e-4);
  }
}

} // namespace
