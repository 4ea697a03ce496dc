//===- SweepTest.cpp - Many configurations at once ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sweep gives the same as its configurations one by one, and can be stopped.
// Costs do not depend on when the microbatches are known.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Sweep.h"
#include "gtest/gtest.h"
#include <atomic>
#include <mutex>

using namespace pipesched;

/// All families with 4 workers and 0 to 11 microbatches.
static std::vector<Configuration> makeConfigurations(const CostSources &costs) {
  std::vector<Configuration> configurations;
  for (const Family &family : families())
    for (int64_t microbatches = 0; microbatches < 12; ++microbatches) {
      Configuration configuration;
      configuration.problem.family = &family;
      configuration.problem.workers = 4;
      configuration.problem.microbatches = microbatches;
      configuration.costs = microbatches % 2 ? &costs : nullptr;
      configurations.push_back(configuration);
    }
  return configurations;
}

/// The makespan or the error, as text.
static std::string describe(llvm::Expected<EvaluatedTable> evaluated) {
  if (!evaluated)
    return llvm::toString(evaluated.takeError());
  return std::to_string(evaluated->result.evaluation.totals.makespanPs);
}

static CostSources makeCosts() {
  CostSources costs;
  costs.profile.emplace();
  costs.profile->phasePs[unsigned(Phase::Forward)] = {1000};
  costs.profile->phasePs[unsigned(Phase::InputGrad)] = {1500};
  costs.profile->phasePs[unsigned(Phase::WeightGrad)] = {700};
  costs.profile->commPs = {90};
  return costs;
}

TEST(Sweep, GivesWhatSinglesGive) {
  CostSources costs = makeCosts();
  std::vector<Configuration> configurations = makeConfigurations(costs);
  std::vector<std::string> expected;
  for (const Configuration &configuration : configurations)
    expected.push_back(describe(evaluateConfiguration(configuration)));
  for (unsigned threads : {0u, 1u, 2u, 7u}) {
    std::vector<std::string> found(configurations.size());
    size_t lastDone = 0;
    bool isDone =
        sweep(configurations.size(), threads,
              {[&](size_t i) { return configurations[i]; },
               [&](size_t i, llvm::Expected<EvaluatedTable> evaluated) {
                 found[i] = describe(std::move(evaluated));
               },
               [&](size_t done) {
                 EXPECT_GE(done, lastDone);
                 lastDone = done;
                 return true;
               }});
    EXPECT_TRUE(isDone);
    EXPECT_EQ(lastDone, configurations.size());
    EXPECT_EQ(found, expected) << threads << " threads";
  }
}

TEST(Sweep, PassesErrorsOfConfigurations) {
  std::mutex mutex;
  std::vector<std::string> errors;
  bool isDone =
      sweep(3, 0,
            {[](size_t i) -> llvm::Expected<Configuration> {
               return llvm::createStringError("no configuration %d", int(i));
             },
             [&](size_t, llvm::Expected<EvaluatedTable> evaluated) {
               std::lock_guard<std::mutex> lock(mutex);
               errors.push_back(describe(std::move(evaluated)));
             },
             [](size_t) { return true; }});
  EXPECT_TRUE(isDone);
  llvm::sort(errors);
  EXPECT_EQ(errors, (std::vector<std::string>{"no configuration 0",
                                              "no configuration 1",
                                              "no configuration 2"}));
}

TEST(Sweep, BeginsNoMoreWhenStopped) {
  constexpr size_t kMany = 1000000; // takes hours
  Configuration configuration;
  configuration.problem.family = findFamily("1f1b");
  configuration.problem.workers = configuration.problem.microbatches = 64;
  std::atomic<size_t> consumed = 0;
  bool isDone = sweep(kMany, 0,
                      {[&](size_t) { return configuration; },
                       [&](size_t, llvm::Expected<EvaluatedTable> evaluated) {
                         EXPECT_TRUE(bool(evaluated));
                         ++consumed;
                       },
                       [](size_t) { return false; }});
  EXPECT_FALSE(isDone);
  EXPECT_LT(consumed, kMany);
}

TEST(Sweep, OfNothingIsDone) {
  EXPECT_TRUE(sweep(0, 0,
                    {[](size_t) { return Configuration(); },
                     [](size_t, llvm::Expected<EvaluatedTable>) { FAIL(); },
                     [](size_t) { return true; }}));
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static Architecture makeArchitecture() {
  Architecture architecture;
  architecture.name = "small";
  architecture.hidden = 64;
  architecture.feedforward = 256;
  architecture.sequence = 32;
  architecture.layers = 8;
  architecture.attentionHeads = architecture.keyValueHeads = 4;
  architecture.attentionWidth = 64;
  architecture.globalBatch = 24;
  return architecture;
}

TEST(CostSources, DealTheGlobalBatch) {
  CostSources costs;
  costs.architecture = makeArchitecture();
  EXPECT_EQ(llvm::cantFail(resolveCosts(costs, 8)).model->microbatchSize, 3);
  costs.globalBatch = 32;
  EXPECT_EQ(llvm::cantFail(resolveCosts(costs, 8)).model->microbatchSize, 4);
  costs.microbatchSize = 5;
  EXPECT_EQ(llvm::cantFail(resolveCosts(costs, 7)).model->microbatchSize, 5);
}

TEST(CostSources, SayWhatDoesNotDivide) {
  CostSources costs;
  costs.architecture = makeArchitecture();
  EXPECT_EQ(llvm::toString(resolveCosts(costs, 7).takeError()),
            "the schedule has 7 microbatches, which do not divide the global "
            "batch of 24; numbers that do: 6 and 8");
  costs.architecture->globalBatch = 0;
  EXPECT_EQ(llvm::toString(resolveCosts(costs, 7).takeError()),
            "the schedule has a model without a global batch, 'small'; give "
            "microbatch-size or global-batch");
}

TEST(CostSources, WithoutModelNeedNoSizes) {
  CostSources costs = makeCosts();
  CostInputs resolved = llvm::cantFail(resolveCosts(costs, 7));
  EXPECT_FALSE(resolved.model);
  EXPECT_EQ(resolved.profile, costs.profile);
}
