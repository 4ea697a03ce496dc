//===- SliceExchangeTest.cpp - Attention evened out among workers ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Partners of slices against the rows of SlimPipe, in which all workers are at
// one time as many forwards on as the first is, less their number; bytes and
// times of the exchange by hand.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "../Support/ErrorText.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "ToyArchitecture.h"
#include "gtest/gtest.h"

using namespace pipesched;

static Table generateSliced(llvm::StringRef family, int64_t workers,
                            int64_t chunks, int64_t slices,
                            int64_t microbatches) {
  FamilyOptions options;
  if (chunks > 1)
    options.chunks = chunks;
  options.slices = slices;
  return llvm::cantFail(generate(*llvm::cantFail(lookUpFamily(family)), workers,
                                 microbatches, options));
}

static std::vector<TokenSpan> evenSlices(int64_t number, int64_t size = 16) {
  std::vector<TokenSpan> slices;
  for (int64_t i = 0; i < number; ++i)
    slices.push_back({i * size, (i + 1) * size});
  return slices;
}

/// The forwards of a row in order.
static std::vector<Cell> forwardsOf(llvm::ArrayRef<Cell> row) {
  std::vector<Cell> forwards;
  for (Cell cell : row)
    if (cell.is(Phase::Forward))
      forwards.push_back(cell);
  return forwards;
}

/// The publication's rule for the work of each worker: by worker, the slices by
/// length; the i-th shortest is paired with the i-th longest.
static std::vector<int64_t> partnersOf(llvm::ArrayRef<int64_t> slices) {
  std::vector<std::pair<int64_t, int64_t>> sorted;
  for (auto [worker, slice] : llvm::enumerate(slices))
    sorted.push_back({slice, worker});
  llvm::sort(sorted);
  std::vector<int64_t> partners(slices.size());
  for (size_t i = 0; i < sorted.size(); ++i)
    partners[sorted[i].second] = sorted[sorted.size() - 1 - i].second;
  return partners;
}

TEST(SliceExchange, PairsWhatSlimPipeRunsAtOneTime) {
  for (auto [workers, chunks, slices] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{2, 1, 4},
                                                          {4, 1, 4},
                                                          {4, 1, 8},
                                                          {3, 1, 6},
                                                          {8, 1, 16},
                                                          {4, 2, 4},
                                                          {4, 2, 8},
                                                          {3, 3, 9},
                                                          {2, 4, 6},
                                                          {8, 5, 16},
                                                          {3, 2, 8}}) {
    SCOPED_TRACE(llvm::formatv("{0} workers, {1} chunks, {2} slices", workers,
                               chunks, slices)
                     .str());
    Table table = generateSliced("slimpipe", workers, chunks, slices, 4);
    std::vector<std::vector<Cell>> forwards;
    for (llvm::ArrayRef<Cell> row : table.view().rows)
      forwards.push_back(forwardsOf(row));
    std::vector<SlicePartner> pairs =
        llvm::cantFail(pairSlices(table.placement, evenSlices(slices)));
    for (int64_t at = workers; at < int64_t(forwards[0].size()); ++at) {
      std::vector<int64_t> running;
      for (int64_t worker = 0; worker < workers; ++worker)
        running.push_back(
            table.placement.sliceOf(forwards[worker][at - worker].getUnit()));
      std::vector<int64_t> wanted = partnersOf(running);
      for (int64_t worker = 0; worker < workers; ++worker) {
        Cell cell = forwards[worker][at - worker];
        SlicePartner found =
            pairs[table.placement.globalStage(cell) * slices + running[worker]];
        int64_t partner = wanted[worker];
        bool isAlone = running[partner] == running[worker];
        EXPECT_EQ(found.slice, isAlone ? -1 : running[partner]);
        EXPECT_EQ(found.worker, isAlone ? -1 : partner);
      }
    }
  }
}

TEST(SliceExchange, NeedsWorkersInStep) {
  auto check = [](const Table &table) {
    return llvm::toString(
        checkSliceExchange(table.placement, table.view().rows));
  };
  for (int64_t workers : {1, 2, 3, 8})
    for (int64_t slices : {8, 12})
      for (int64_t microbatches : {1, 2, 5}) {
        for (int64_t chunks : {1, 2})
          EXPECT_EQ(check(generateSliced("slimpipe", workers, chunks, slices,
                                         microbatches)),
                    "");
        EXPECT_EQ(
            check(generateSliced("terapipe", workers, 1, slices, microbatches)),
            "");
      }
  EXPECT_EQ(check(generateSliced("seq1f1b", 4, 1, 4, 4)),
            "slice-exchange=pairs needs workers that compute successive slices "
            "at the same time, as in slimpipe: worker 0 would run 8 forwards "
            "before its first backward, as worker 1 runs 6, and it runs 7");
  EXPECT_EQ(check(generateSliced("zb-v", 2, 1, 4, 4)),
            "slice-exchange=pairs needs stages that go around the workers, and "
            "stage 2 is on worker 1 instead of 0");
}

static ModelFacts toyModel(Attention attention = Attention::Fused) {
  ExpansionOptions options;
  options.microbatchSize = 2;
  return llvm::cantFail(
      expandArchitecture(toyArchitecture(attention), options));
}

static const BlockFacts &layerOf(const ModelFacts &model) {
  return *llvm::max_element(model.blocks, [](const auto &a, const auto &b) {
    return a.count < b.count;
  });
}

/// FLOPs of the core in F.
static double coreOf(const ModelFacts &model) {
  double sum = 0;
  for (const Kernel &kernel : layerOf(model).kernels)
    if (kernel.seen > 0)
      sum += double(kernel.forward.flops);
  return sum;
}

/// The slice of the last 24 of 96 tokens has 2028 pairs and the first 300, so
/// that 864 go: its 24 queries, with keys and values of 36 tokens. With 2
/// sequences and 2 bytes for each number, queries and outputs have 64 and keys
/// and values 32, plus 4 bytes for each of 4 heads.
TEST(SliceExchange, PassesOnWhatAPartReadsAndWrites) {
  ModelFacts model = toyModel();
  TokenSpan first = {0, 24}, last = {72, 96};
  int64_t queries = 2 * 24 * 64 * 2, statistics = 2 * 24 * 4 * 4,
          keys = 2 * 36 * 2 * 32 * 2;
  for (auto [one, other] : {std::pair(first, last), std::pair(last, first)}) {
    PhaseMap<int64_t> bytes = exchangedBytes(model, layerOf(model), one, other);
    EXPECT_EQ(bytes[Phase::Forward], 2 * queries + statistics + keys);
    EXPECT_EQ(bytes[Phase::InputGrad], 4 * queries + statistics + 2 * keys);
    EXPECT_EQ(bytes[Phase::WeightGrad], 0);
    double half =
        (coreOf(takeSlice(model, one)) + coreOf(takeSlice(model, other))) / 2;
    EXPECT_NEAR(coreOf(takeSlice(model, one, &other)), half, 2);
  }
  PhaseMap<int64_t> none = exchangedBytes(model, layerOf(model), last, last);
  EXPECT_EQ(none[Phase::Forward], 0);
}

static SystemFacts toySystem() {
  SystemFacts system;
  system.name = "toy";
  system.matrix.flopsPerSecond = 1000000000000;
  system.vector.flopsPerSecond = 1000000000000;
  system.memory = {1000000000000000000, 0, {}};
  system.network = {1000000000000, 5, {}};
  return system;
}

/// Two workers and four slices: the second worker computes the slice before the
/// first's, so slice j of worker 0 is paired with j - 1 and of worker 1 with j
/// + 1. A byte takes 1 ps, and each message 5 more.
TEST(SliceExchange, MakesForwardsEqual) {
  Table table = generateSliced("slimpipe", 2, 1, 4, 2);
  ModelFacts model = toyModel();
  SystemFacts system = toySystem();
  PhaseSet phases = {Phase::Forward, Phase::Backward};
  auto cost = [&] {
    return llvm::cantFail(costRoofline(table.placement, model, system, phases));
  };
  StageCosts alone = cost();
  system.sliceExchange = SliceExchange::Pairs;
  StageCosts evened = cost();
  auto layers = [&](int64_t stage, const StageCosts &costs, int64_t slice) {
    return costs.stages[stage].cells.alonePs(Phase::Forward, slice);
  };
  int64_t perStage = layerOf(model).count / 2;
  for (int64_t slice = 0; slice < 4; ++slice) {
    int64_t other = (slice + 3) % 4;
    TokenSpan one = {24 * slice, 24 * slice + 24};
    TokenSpan two = {24 * other, 24 * other + 24};
    int64_t bytes =
        exchangedBytes(model, layerOf(model), one, two)[Phase::Forward];
    double change =
        (coreOf(takeSlice(model, two)) - coreOf(takeSlice(model, one))) / 2;
    // 1 FLOP takes 1 ps on the toy.
    double wait = double(bytes + 10);
    EXPECT_NEAR(double(layers(0, evened, slice) - layers(0, alone, slice)),
                double(perStage) * (change + wait), 4);
    EXPECT_NEAR(double(layers(1, evened, other) - layers(1, alone, other)),
                double(perStage) * (wait - change), 4);
  }
}

TEST(SliceExchange, RefusesWhatItCannotDivide) {
  SystemFacts system = toySystem();
  system.sliceExchange = SliceExchange::Pairs;
  PhaseSet phases = {Phase::Forward, Phase::Backward};
  Table table = generateSliced("slimpipe", 2, 1, 4, 2);
  std::string error = errorOf(costRoofline(
      table.placement, toyModel(Attention::Unfused), system, phases));
  EXPECT_TRUE(llvm::StringRef(error).starts_with(
      "slice-exchange=pairs needs an attention kernel that keeps no scores, "
      "such as attention=fused, and block '"))
      << error;
  system.network = {};
  EXPECT_EQ(errorOf(costRoofline(table.placement, toyModel(), system, phases)),
            "the system has no network between workers");
  EXPECT_EQ(errorOf(pairSlices(generateSliced("seq1f1b", 4, 2, 2, 4).placement,
                               evenSlices(2))),
            "slice-exchange=pairs needs at least as many slices as workers "
            "where these have several stages, and there are 2 slices on 4 "
            "workers");
}
