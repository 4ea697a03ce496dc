//===- MemoryBudgetTest.cpp - Memory budgets of workers -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/MemoryBudget.h"
#include "../Support/AllFamilies.h"
#include "PipeSched/Schedule/Edit/Recompute.h"

using namespace pipesched;

static MemoryBudget read(llvm::StringRef text) {
  return llvm::cantFail(parseMemoryBudget(text));
}

/// The finding as text, or empty if the table keeps to the budget.
static std::string check(const Table &table, llvm::StringRef budget,
                         const CostInputs &costs = {},
                         const TimingOptions &options = {},
                         MemoryTimes times = MemoryTimes::Given) {
  llvm::Error error =
      verifyMemory(table.view(), costs, read(budget), times, options);
  return llvm::toString(std::move(error));
}

/// 100 bytes of activations per stage; F keeps 10 of them for R; parameters of
/// 1 + 2 + 4 bytes.
static CostInputs hundredPerStage(int64_t stages) {
  BlockFacts block;
  block.name = "layer";
  block.count = stages;
  block.parameters = 1;
  block.activationBytes = 100;
  block.recomputedBytes = 10;
  CostInputs costs;
  costs.model.emplace();
  costs.model->sequence = 27720; // equal slices up to 12
  costs.model->weightBytesPerParameter = 1;
  costs.model->gradientBytesPerParameter = 2;
  costs.model->optimizerBytesPerParameter = 4;
  costs.model->blocks = {block};
  return costs;
}

TEST(MemoryBudget, ReadsActivationsBytesAndSystem) {
  EXPECT_EQ(read("4").unit, MemoryBudget::Unit::Activations);
  EXPECT_EQ(read("4").amount, 4);
  EXPECT_EQ(read("system").unit, MemoryBudget::Unit::System);
  auto bytes = [](llvm::StringRef text) {
    MemoryBudget budget = read(text);
    EXPECT_EQ(budget.unit, MemoryBudget::Unit::Bytes);
    return budget.amount;
  };
  EXPECT_EQ(bytes("4096B"), 4096);
  EXPECT_EQ(bytes("2kB"), 2000);
  EXPECT_EQ(bytes("64.5GB"), 64500000000);
  EXPECT_EQ(bytes("80GiB"), int64_t(80) << 30);
  EXPECT_EQ(bytes("1.125KiB"), 1152);
  EXPECT_EQ(bytes("0.001KiB"), 1); // 1.024
  EXPECT_EQ(bytes("8191.999PiB"), 9223370910954868965);
  EXPECT_EQ(bytes("9223372036854775807B"), INT64_MAX);
}

TEST(MemoryBudget, NamesTheWorkerTheCellAndWhatItHolds) {
  Table table = makeTable(
      makeLinear(2, 3), {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"});
  EXPECT_EQ(check(table, "3"), "");
  EXPECT_EQ(check(table, "2"),
            "worker 0 holds 3 activations at cell 2 (0F2), 1 activation more "
            "than the budget of 2 activations\nnote: they are those of 0F0, "
            "0F1, 0F2");
  CostInputs costs = hundredPerStage(2);
  EXPECT_EQ(check(table, "307B", costs), "");
  EXPECT_EQ(check(table, "100B", costs),
            "worker 0 holds 307 bytes at cell 2 (0F2), 207 bytes more than the "
            "budget of 100 bytes\nnote: 1 byte of weights, 2 bytes of "
            "gradients, 4 bytes of optimizer state and 300 bytes of "
            "activations, of 3 microbatches\nnote: 1 more worker is over the "
            "budget: 1");
  EXPECT_EQ(check(table, "1.5KiB", costs), "");
  costs.model->blocks[0].activationBytes = 1 << 20;
  EXPECT_EQ(check(table, "1.5KiB", costs),
            "worker 0 holds 3145735 bytes (3.0 MiB) at cell 2 (0F2), 3144199 "
            "bytes (3.0 MiB) more than the budget of 1536 bytes (1.5 KiB)\n"
            "note: 1 byte of weights, 2 bytes of gradients, 4 bytes of "
            "optimizer state and 3145728 bytes (3.0 MiB) of activations, of 3 "
            "microbatches\nnote: 1 more worker is over the budget: 1");
}

TEST(MemoryBudget, ListsAtMostEight) {
  Table table = llvm::cantFail(generate(*findFamily("gpipe"), 12, 12, {}));
  EXPECT_EQ(check(table, "11"),
            "worker 0 holds 12 activations at cell 11 (0F11), 1 activation "
            "more than the budget of 11 activations\nnote: they are those of "
            "0F0, 0F1, 0F2, 0F3, 0F4, 0F5, 0F6, 0F7 and 4 more\nnote: 11 more "
            "workers are over the budget: 1, 2, 3, 4, 5, 6, 7, 8 and 3 more");
}

/// An offloaded activation no longer counts when its copy ends, so time
/// matters.
TEST(MemoryBudget, CopiesGoByTime) {
  Table table =
      makeTable(makeLinear(1, 3), {"0F0 0D0 0F1 0F2 0B2 0B1 0U0 0B0"});
  CostInputs costs;
  costs.profile.emplace();
  auto set = [&](Phase phase, int64_t ps) {
    costs.profile->phasePs[phase] = {ps};
  };
  set(Phase::Forward, 10);
  set(Phase::Backward, 20);
  set(Phase::Offload, 10);
  EXPECT_EQ(check(table, "2", costs), "");
  EXPECT_EQ(check(table, "1", costs),
            "worker 0 holds 2 activations at cell 2 (0F1), 1 activation more "
            "than the budget of 1 activation");
  set(Phase::Offload, 11);
  EXPECT_EQ(check(table, "2", costs),
            "worker 0 holds 3 activations at cell 3 (0F2), 1 activation more "
            "than the budget of 2 activations");
  // Copies are free, since nothing gives their times.
  EXPECT_EQ(check(table, "2"), "");
}

TEST(MemoryBudget, SystemIsTheMemoryOfItsWorkers) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  CostInputs costs = hundredPerStage(1);
  EXPECT_EQ(check(table, "system", costs),
            "has no system, whose memory is to be the budget");
  costs.system.emplace();
  costs.system->name = "s";
  EXPECT_EQ(check(table, "system", costs),
            "has a system, 's', that does not say how much memory it has");
  costs.system->memoryBytes = 53;
  costs.system->accelerators = 2;
  EXPECT_EQ(check(table, "system", costs),
            "worker 0 holds 107 bytes at cell 0 (0F0), 1 byte more than the "
            "budget of 106 bytes\nnote: 1 byte of weights, 2 bytes of "
            "gradients, 4 bytes of optimizer state and 100 bytes of "
            "activations, of 1 microbatch");
  costs.system->accelerators = 3;
  EXPECT_EQ(check(table, "system", costs), "");
  costs.model.reset();
  EXPECT_EQ(check(table, "system", costs),
            "has no model, which a memory budget in bytes needs; a number "
            "without a unit counts activations");
}

/// The report's peaks are budgets that just suffice, under any transport.
TEST(MemoryBudget, IsThePeakOfTheTable) {
  RecomputeOptions recompute;
  for (int64_t keep : {-1, 0, 2})
    forAllFamilies(5, 10, {}, [&](const Family &, Table table) {
      recompute.keep = std::max<int64_t>(keep, 0);
      if (keep >= 0)
        table.rows = llvm::cantFail(addRecompute(table.view(), recompute)).rows;
      int64_t peak = largest(measure(table).peakActivations);
      for (Transport transport :
           {Transport::Overlap, Transport::Delay, Transport::Blocking}) {
        auto fits = [&](int64_t amount, MemoryTimes times) {
          MemoryBudget budget{MemoryBudget::Unit::Activations, amount};
          llvm::Error error =
              verifyMemory(table.view(), {}, budget, times, {transport});
          bool isFine = !error;
          llvm::consumeError(std::move(error));
          return isFine;
        };
        for (MemoryTimes times : {MemoryTimes::Any, MemoryTimes::Given}) {
          EXPECT_TRUE(fits(peak, times));
          EXPECT_FALSE(fits(peak - 1, times));
        }
      }
    });
}
