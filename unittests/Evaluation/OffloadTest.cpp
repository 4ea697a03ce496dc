//===- OffloadTest.cpp - Costs and savings of offload ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the memory limit of addOffload with the memory of timed tables, and
// checks times with fast copies.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Offload.h"
#include "../Support/AllFamilies.h"
#include "../Support/RandomTables.h"
#include "PipeSched/Evaluation/MemoryBudget.h"

using namespace pipesched;

static CostInputs profileOf(int64_t forward, int64_t inputGrad,
                            int64_t weightGrad, int64_t offload, int64_t reload,
                            int64_t comm) {
  Profile profile;
  auto set = [&](Phase phase, int64_t ps) { profile.phasePs[phase] = {ps}; };
  set(Phase::Forward, forward);
  set(Phase::InputGrad, inputGrad);
  set(Phase::WeightGrad, weightGrad);
  set(Phase::Offload, offload);
  set(Phase::Reload, reload);
  set(Phase::Recompute, forward);
  set(Phase::Logits, inputGrad);
  set(Phase::LogitsGrad, weightGrad);
  set(Phase::Lookup, forward);
  set(Phase::LookupGrad, forward);
  profile.commPs = {comm};
  profile.sendPs = {comm / 2};
  CostInputs costs;
  costs.profile = profile;
  return costs;
}

/// Copies that are free, as long as a cell, or much longer.
static std::vector<CostInputs> someTimes() {
  return {profileOf(10, 10, 10, 0, 0, 0), profileOf(7, 5, 9, 8, 3, 2),
          profileOf(10, 13, 4, 95, 60, 5), profileOf(3, 4, 5, 1, 77, 50)};
}

static constexpr Transport kTransports[] = {
    Transport::Overlap, Transport::Delay, Transport::Blocking};

static void expectFits(const Table &table, int64_t memory) {
  for (const CostInputs &costs : someTimes())
    for (Transport transport : kTransports) {
      TimingOptions timing;
      timing.transport = transport;
      MemoryBudget budget = {MemoryBudget::Unit::Activations, memory};
      for (MemoryTimes times : {MemoryTimes::Any, MemoryTimes::Given}) {
        llvm::Error error =
            verifyMemory(table.view(), costs, budget, times, timing);
        EXPECT_EQ(llvm::toString(std::move(error)), "");
      }
    }
}

static int64_t makespanOf(const Table &table, const CostInputs &costs) {
  Evaluation evaluation =
      llvm::cantFail(evaluateTable(table.view(), "", costs, TimingOptions()));
  return evaluation.totals.makespanPs;
}

/// Tables that already have copies, joins, R and pairs.
TEST(OffloadCosts, MemoryIsKeptToInAnyTable) {
  int64_t numFits = 0;
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = makeRandomTable(seed);
    OffloadOptions options;
    options.ahead = seed % 4;
    options.memory = 1 + seed % 7;
    llvm::Expected<OffloadChange> change = addOffload(table.view(), options);
    if (!change) {
      llvm::consumeError(change.takeError());
      continue;
    }
    ++numFits;
    table.rows = std::move(change->rows);
    expectFits(table, options.memory);
  }
  EXPECT_GT(numFits, 500);
}

/// Copies that take no time do not change the step.
TEST(OffloadCosts, FreeCopiesMoveNothing) {
  CostInputs costs = profileOf(7, 5, 9, 0, 0, 2);
  forAllFamilies(5, 10, {}, [&](const Family &, const Table &table) {
    Table result = table;
    result.rows = llvm::cantFail(addOffload(table.view())).rows;
    EXPECT_EQ(makespanOf(result, costs), makespanOf(table, costs));
  });
}

/// Neither do copies shorter than every compute cell, as each has one to hide
/// it.
TEST(OffloadCosts, ShortCopiesMoveNothing) {
  CostInputs costs = profileOf(7, 5, 9, 5, 5, 2);
  forAllFamilies(5, 10, {}, [&](const Family &, const Table &table) {
    Table result = table;
    result.rows = llvm::cantFail(addOffload(table.view())).rows;
    EXPECT_EQ(makespanOf(result, costs), makespanOf(table, costs));
  });
}
