//===- LongTablesTest.cpp - Schedules that are not written out ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Results by a shorter table equal those of the whole one where both can be
// done, and the rows of families grow by whole periods.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Evaluation/LongTables.h"
#include "../Support/ErrorText.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/Evaluation/Summary.h"
#include "gtest/gtest.h"

using namespace pipesched;

/// Without an optimizer step, and with one.
static constexpr std::optional<ReductionPlace> kSteps[] = {
    std::nullopt, ReductionPlace::End, ReductionPlace::Eager};

static Problem problemOf(llvm::StringRef family, int64_t workers,
                         int64_t microbatches) {
  Problem problem;
  problem.family = findFamily(family);
  problem.workers = workers;
  problem.microbatches = microbatches;
  return problem;
}

/// Families whose rows and times repeat with equal stages.
static constexpr llvm::StringLiteral kRepeating[] = {
    "1f1b",   "eager-1f1b", "zb-h1",   "zb-h2",    "interleaved-1f1b", "zb-v",
    "v-half", "v-min",      "chimera", "dualpipe", "dualpipe-v"};

static CostInputs equalStages() {
  CostInputs costs;
  costs.profile.emplace();
  auto set = [&](Phase phase, int64_t ps) {
    costs.profile->phasePs[phase] = {ps};
  };
  set(Phase::Forward, 1000);
  set(Phase::Backward, 2100);
  set(Phase::InputGrad, 1100);
  set(Phase::WeightGrad, 900);
  set(Phase::AllReduce, 700);
  set(Phase::Optimizer, 300);
  return costs;
}

static void expectSame(const Evaluation &found, const Evaluation &wanted) {
  EXPECT_EQ(found.totals.makespanPs, wanted.totals.makespanPs);
  EXPECT_EQ(found.totals.freeMakespanPs, wanted.totals.freeMakespanPs);
  EXPECT_EQ(found.totals.idle.busyPs, wanted.totals.idle.busyPs);
  for (const IdleCause &cause : kIdleCauses)
    EXPECT_EQ(found.totals.idle.*cause.ps, wanted.totals.idle.*cause.ps);
  EXPECT_EQ(found.totals.traffic.messages, wanted.totals.traffic.messages);
  EXPECT_EQ(found.totals.traffic.bytesSent, wanted.totals.traffic.bytesSent);
  EXPECT_EQ(found.table->slots, wanted.table->slots);
  EXPECT_EQ(found.table->busySlots, wanted.table->busySlots);
  EXPECT_EQ(found.table->bubbleRatio, wanted.table->bubbleRatio);
  EXPECT_EQ(found.table->peakActivations, wanted.table->peakActivations);
  EXPECT_EQ(found.table->meanRetentionSlots, wanted.table->meanRetentionSlots);
  EXPECT_EQ(found.formula.has_value(), wanted.formula.has_value());
  if (found.formula && wanted.formula)
    EXPECT_EQ(found.formula->bubbleRatio, wanted.formula->bubbleRatio);
  EXPECT_TRUE(found.totals.leavesOutPath);
}

TEST(LongTables, AsTheWholeTable) {
  CostInputs costs = equalStages();
  for (llvm::StringRef family : kRepeating)
    for (int64_t workers : {4, 6})
      for (std::optional<ReductionPlace> step : kSteps) {
        SCOPED_TRACE(testing::Message() << family.str() << " D=" << workers
                                        << " step=" << step.has_value());
        Configuration configuration;
        configuration.problem =
            problemOf(family, workers, 64 * 8 * workers * 3);
        configuration.optimizerStep = step;
        NamedEvaluation found =
            llvm::cantFail(evaluateLongTable(configuration, costs));
        Table table = llvm::cantFail(makeTable(configuration));
        Evaluation wanted = llvm::cantFail(evaluateTable(
            table.view(), step ? "" : family, costs, TimingOptions()));
        expectSame(found.evaluation, wanted);
        EXPECT_EQ(found.placement.getNumMicrobatches(),
                  configuration.problem.microbatches);
      }
}

TEST(LongTables, RowsGrowByPeriods) {
  for (llvm::StringRef family : kRepeating)
    for (int64_t workers : {2, 4, 6})
      for (int64_t period : {workers * 2, workers * 6})
        for (int64_t microbatches : {workers * 40, workers * 56})
          for (std::optional<ReductionPlace> step : kSteps) {
            Configuration configuration;
            configuration.problem = problemOf(family, workers, microbatches);
            configuration.optimizerStep = step;
            EXPECT_TRUE(growsByPeriods(configuration, microbatches, period))
                << family.str() << " " << workers << " " << microbatches;
          }
}

TEST(LongTables, ABillionCells) {
  Configuration configuration;
  configuration.problem = problemOf("1f1b", 64, 8'000'000);
  configuration.numbersAlone = true;
  EvaluatedTable evaluated =
      llvm::cantFail(evaluateConfiguration(configuration));
  const Evaluation &evaluation = evaluated.result.evaluation;
  EXPECT_EQ(evaluation.table->slots, (8'000'000 + 63) * 3);
  EXPECT_EQ(evaluation.totals.traffic.messages, 2 * 63 * 8'000'000LL);
  EXPECT_DOUBLE_EQ(summarize(evaluation.totals).idleRatio, 63.0 / 8'000'063);
}

/// The step of the last worker begins when its backwards are done, and waits
/// for nobody where one worker holds each stage.
TEST(LongTables, ABillionCellsAndTheirStep) {
  CostSources sources;
  sources.profile = equalStages().profile;
  Configuration configuration;
  configuration.problem = problemOf("1f1b", 64, 8'000'000);
  configuration.costs = &sources;
  configuration.numbersAlone = true;
  auto makespan = [&] {
    return llvm::cantFail(evaluateConfiguration(configuration))
        .result.evaluation.totals.makespanPs;
  };
  int64_t withoutStep = makespan();
  configuration.optimizerStep = ReductionPlace::End;
  EXPECT_EQ(makespan(), withoutStep + 700 + 300);
}

TEST(LongTables, HaveNumbersAlone) {
  Configuration configuration;
  configuration.problem = problemOf("zb-h1", 64, 8'000'000);
  NamedEvaluation found =
      std::move(llvm::cantFail(evaluateConfiguration(configuration)).result);
  EXPECT_EQ(found.placement.getNumMicrobatches(), 8'000'000);
  ASSERT_TRUE(found.cellsOfLongTable.has_value());
  EXPECT_TRUE(found.cellsOfLongTable->has(Phase::InputGrad));
  EXPECT_FALSE(found.cellsOfLongTable->has(Phase::Backward));
  EXPECT_EQ(errorOf(found.checkHasCells()),
            "zb-h1 of 8000000 microbatches has more cells than a table may "
            "have (268435456): it is timed by its period, and has neither "
            "cells nor pictures; choose fewer microbatches");

  configuration.problem.microbatches = 1 << 17; // short, if long for a sweep
  found =
      std::move(llvm::cantFail(evaluateConfiguration(configuration)).result);
  EXPECT_FALSE(found.cellsOfLongTable.has_value());
  EXPECT_FALSE(found.evaluation.totals.criticalSteps.empty());
  llvm::cantFail(found.checkHasCells());
}

TEST(LongTables, WhatDoesNotRepeatIsRefused) {
  Configuration configuration;
  configuration.problem = problemOf("gpipe", 64, 8'000'000);
  configuration.numbersAlone = true;
  EXPECT_EQ(errorOf(evaluateConfiguration(configuration)),
            "gpipe of 8000000 microbatches on 64 workers has more cells than a "
            "table may have (268435456), and shorter tables of it do not "
            "repeat themselves: choose fewer microbatches");
}
