//===- BalanceLayersTest.cpp - Layers divided, against brute force --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries all divisions of small models: none may have a shorter longest stage or
// be more even with the same longest stage.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "../Support/ErrorText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace pipesched;
using Counts = std::vector<int64_t>;
using Workers = std::vector<int32_t>;

static LayerLoads makeLoads(int64_t first, int64_t last,
                            std::vector<LayerLoads::Run> runs) {
  LayerLoads loads;
  loads.first = first;
  loads.last = last;
  loads.runs = std::move(runs);
  return loads;
}

static Workers linear(int64_t stages) {
  Workers workers(stages);
  std::iota(workers.begin(), workers.end(), 0);
  return workers;
}

/// The loads layer by layer.
static std::vector<int64_t> expand(const LayerLoads &loads) {
  std::vector<int64_t> layers;
  for (LayerLoads::Run run : loads.runs)
    layers.insert(layers.end(), run.count, run.each);
  return layers;
}

static std::vector<int64_t> stageLoads(llvm::ArrayRef<int64_t> counts,
                                       const LayerLoads &loads) {
  std::vector<int64_t> layers = expand(loads), result;
  auto next = layers.begin();
  for (int64_t count : counts) {
    result.push_back(std::accumulate(next, next + count, int64_t(0)));
    next += count;
  }
  result.front() += loads.first;
  result.back() += loads.last;
  return result;
}

static std::vector<int64_t> workerLoads(llvm::ArrayRef<int64_t> counts,
                                        const LayerLoads &loads,
                                        llvm::ArrayRef<int32_t> workers) {
  std::vector<int64_t> result(*llvm::max_element(workers) + 1, 0);
  for (auto [worker, load] :
       llvm::zip_equal(workers, stageLoads(counts, loads)))
    result[worker] += load;
  return result;
}

static std::vector<int64_t> descending(std::vector<int64_t> values) {
  llvm::sort(values, std::greater<>());
  return values;
}

static int64_t largest(const std::vector<int64_t> &values) {
  return *llvm::max_element(values);
}

static double sumOfSquares(llvm::ArrayRef<int64_t> values) {
  double sum = 0;
  for (int64_t value : values)
    sum += double(value) * double(value);
  return sum;
}

/// Calls `visit` with every way to give `layers` to `stages`.
template <typename Visit>
static void forEachDivision(int64_t stages, int64_t layers, Visit visit) {
  Counts counts(stages, 0);
  auto fill = [&](auto &self, int64_t stage, int64_t left) -> void {
    if (stage == stages - 1) {
      counts[stage] = left;
      visit(counts);
      return;
    }
    for (counts[stage] = 0; counts[stage] <= left; ++counts[stage])
      self(self, stage + 1, left - counts[stage]);
  };
  fill(fill, 0, layers);
}

TEST(BalanceLayers, EqualLayersFollowTheirRule) {
  auto divide = [](const Workers &workers, int64_t layers, int64_t first = 0,
                   int64_t last = 0, int64_t each = 1) {
    return llvm::cantFail(
        balanceLayers(workers, makeLoads(first, last, {{layers, each}})));
  };
  EXPECT_EQ(divide(linear(4), 8), Counts({2, 2, 2, 2}));
  // The remainder goes to the last stages.
  EXPECT_EQ(divide(linear(4), 10), Counts({2, 2, 3, 3}));
  EXPECT_EQ(divide(linear(4), 3), Counts({0, 1, 1, 1}));
  EXPECT_EQ(divide(linear(4), 6, 1, 1), Counts({1, 2, 2, 1}));
  EXPECT_EQ(divide(linear(4), 9, 0, 100, 10), Counts({3, 3, 3, 0}));
  EXPECT_EQ(divide(linear(1), 7, 3, 4), Counts({7}));
  // Workers 1 and 0 then have 3 of 6 layers each; the V's last stage is on
  // worker 0.
  EXPECT_EQ(divide({0, 1, 1, 0}, 6), Counts({1, 1, 2, 2}));
  EXPECT_EQ(divide({0, 1, 1, 0}, 5), Counts({1, 1, 2, 1}));
  // A head as heavy as three layers leaves its worker three layers fewer.
  EXPECT_EQ(divide({0, 1, 0, 1}, 9, 0, 3), Counts({3, 3, 3, 0}));
  // Layers that take no time are divided by number.
  EXPECT_EQ(divide(linear(2), 4, 5, 0, 0), Counts({2, 2}));
}

/// No other division has lower loads, highest first: of workers, and of stages
/// if each worker holds one.
TEST(BalanceLayers, EqualLayersAreOptimal) {
  const Workers paths[] = {{0, 1, 2},      {0, 1, 1, 0},    {0, 1, 0, 1},
                           {0, 1, 2, 3},   {2, 0, 1, 1, 0}, {0, 0, 0, 1},
                           {0, 1, 2, 0, 1}};
  for (const Workers &workers : paths)
    for (int64_t layers = 1; layers <= 9; ++layers)
      for (int64_t first : {0, 3, 7})
        for (int64_t last : {0, 2, 11}) {
          LayerLoads loads = makeLoads(first, last, {{layers, 3}});
          Counts counts = llvm::cantFail(balanceLayers(workers, loads));
          EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t(0)),
                    layers);
          auto ours = descending(workerLoads(counts, loads, workers));
          auto best = ours;
          forEachDivision(workers.size(), layers, [&](const Counts &other) {
            best =
                std::min(best, descending(workerLoads(other, loads, workers)));
          });
          EXPECT_EQ(ours, best);
        }
}

/// Given the layers of each worker, its stages are as even as possible.
TEST(BalanceLayers, StagesOfAWorkerAreEven) {
  for (int64_t layers = 0; layers <= 8; ++layers) {
    LayerLoads loads = makeLoads(2, 5, {{layers + 1, 3}});
    Workers one = {0, 0, 0};
    auto ours = descending(
        stageLoads(llvm::cantFail(balanceLayers(one, loads)), loads));
    auto best = ours;
    forEachDivision(3, layers + 1, [&](const Counts &other) {
      best = std::min(best, descending(stageLoads(other, loads)));
    });
    EXPECT_EQ(ours, best);
  }
}

/// For layers that differ, compared with all divisions: the longest stage is as
/// short as possible, and no other division with that stage is more even.
TEST(BalanceLayers, DifferentLayersAreOptimal) {
  const std::vector<LayerLoads::Run> models[] = {
      {{3, 2}, {4, 5}},
      {{1, 9}, {6, 2}},
      {{5, 1}, {1, 8}, {3, 2}},
      {{2, 4}, {0, 7}, {2, 3}, {3, 6}},
      {{3, 0}, {2, 5}, {2, 0}},
      {{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 3}, {1, 2}, {1, 1}}};
  for (const std::vector<LayerLoads::Run> &runs : models)
    for (int64_t stages = 1; stages <= 6; ++stages)
      for (int64_t first : {0, 4})
        for (int64_t last : {0, 3, 30}) {
          LayerLoads loads = makeLoads(first, last, runs);
          Counts counts = llvm::cantFail(balanceLayers(linear(stages), loads));
          std::vector<int64_t> ours = stageLoads(counts, loads);
          int64_t shortest = largest(ours);
          double evenest = sumOfSquares(ours);
          forEachDivision(
              stages, expand(loads).size(), [&](const Counts &other) {
                std::vector<int64_t> theirs = stageLoads(other, loads);
                EXPECT_GE(largest(theirs), shortest);
                if (largest(theirs) == shortest)
                  evenest = std::min(evenest, sumOfSquares(theirs));
              });
          EXPECT_EQ(sumOfSquares(ours), evenest);
        }
}

/// A slow stage gets fewer layers: no other division has lower loads times
/// weights, and a weight that all stages have changes nothing.
TEST(BalanceLayers, WeightsAreOptimal) {
  auto weigh = [](std::vector<int64_t> loads, llvm::ArrayRef<int64_t> weights) {
    for (auto [load, weight] : llvm::zip_equal(loads, weights))
      load *= weight;
    return loads;
  };
  const std::vector<int64_t> all[] = {
      {2, 1, 1}, {10, 13, 10}, {1, 1, 30}, {3, 2, 5}};
  const std::vector<LayerLoads::Run> models[] = {{{9, 3}}, {{2, 7}, {6, 2}}};
  for (const std::vector<int64_t> &weights : all)
    for (const std::vector<LayerLoads::Run> &runs : models)
      for (int64_t last : {0, 5}) {
        LayerLoads loads = makeLoads(1, last, runs);
        Counts counts =
            llvm::cantFail(balanceLayers(linear(3), loads, weights));
        auto ours = descending(weigh(stageLoads(counts, loads), weights));
        auto best = ours;
        forEachDivision(3, expand(loads).size(), [&](const Counts &other) {
          best = std::min(best,
                          descending(weigh(stageLoads(other, loads), weights)));
        });
        // Layers that differ make the longest stage shortest, and no more.
        EXPECT_EQ(ours.front(), best.front());
        if (runs.size() == 1)
          EXPECT_EQ(ours, best);
        EXPECT_EQ(llvm::cantFail(balanceLayers(linear(3), loads, {{7, 7, 7}})),
                  llvm::cantFail(balanceLayers(linear(3), loads)));
      }
  // Worker 0 has two stages, and half the layers of the others.
  EXPECT_EQ(llvm::cantFail(balanceLayers(
                {0, 1, 1, 0}, makeLoads(0, 0, {{9, 1}}), {2, 1, 1, 2})),
            Counts({1, 3, 3, 2}));
}

TEST(BalanceLayers, TakesTheLargestNumbers) {
  int64_t half = INT64_MAX / 2;
  Counts counts =
      llvm::cantFail(balanceLayers(linear(3), makeLoads(0, 1, {{half, 2}})));
  EXPECT_EQ(counts[0] + counts[1] + counts[2], half);
  EXPECT_LE(counts[0] - counts[2], 1);
  EXPECT_EQ(errorOf(balanceLayers(linear(3), makeLoads(1, 1, {{half, 2}}))),
            "the layers add up to more than 2^63 - 1");
  EXPECT_EQ(errorOf(balanceLayers(linear(3), makeLoads(0, 0, {}))),
            "there are no layers to divide");
  EXPECT_EQ(errorOf(balanceLayers(linear(1024),
                                  makeLoads(0, 0, {{16383, 1}, {1, 2}}))),
            "16384 layers that differ cannot be balanced over 1024 stages: "
            "their product may be 16777216 at most");
}

//===----------------------------------------------------------------------===//
// Exactly
//===----------------------------------------------------------------------===//

TEST(DivideExactly, OrNotAtAll) {
  auto divide = [](int64_t stages, int64_t layers, int64_t first = 0,
                   int64_t last = 0) {
    return divideExactly(stages, layers, first, last);
  };
  EXPECT_EQ(llvm::cantFail(divide(4, 8)), Counts({2, 2, 2, 2}));
  EXPECT_EQ(llvm::cantFail(divide(4, 6, 1, 1)), Counts({1, 2, 2, 1}));
  EXPECT_EQ(llvm::cantFail(divide(1, 5, 1, 2)), Counts({5}));
  EXPECT_EQ(errorOf(divide(4, 30)),
            "30 layers cannot be divided evenly over 4 stages; the nearest "
            "numbers that can: 28 and 32");
  EXPECT_EQ(errorOf(divide(4, 30, 1)),
            "30 layers and 1 for the ends cannot be divided evenly over 4 "
            "stages; the nearest numbers of layers that can: 27 and 31");
  EXPECT_EQ(errorOf(divide(4, 2, 6)),
            "an even share of 2 layers leaves no room for the 6 that the first "
            "stage holds beside layers");
  EXPECT_EQ(errorOf(divide(2, INT64_MAX, 1)),
            "the layers add up to more than 2^63 - 1");
}

//===----------------------------------------------------------------------===//
// StageCosts
//===----------------------------------------------------------------------===//

/// 1 TFLOP/s: one FLOP takes 1 ps.
TEST(CostLayers, AddsWhatAMicrobatchTakes) {
  SystemFacts system;
  system.name = "toy";
  system.matrix.flopsPerSecond = system.vector.flopsPerSecond = 1000000000000;
  system.memory.bytesPerSecond = 1000000000000;
  ModelFacts model;
  auto addBlock = [&](BlockPosition position, int64_t count, int64_t flops) {
    BlockFacts block;
    block.position = position;
    block.count = count;
    Kernel kernel;
    kernel.forward.flops = flops;
    kernel.inputGrad.flops = 10 * flops;
    kernel.weightGrad.flops = 100 * flops;
    block.kernels.push_back(kernel);
    model.blocks.push_back(block);
  };
  addBlock(BlockPosition::First, 2, 1);
  addBlock(BlockPosition::Layer, 4, 2);
  addBlock(BlockPosition::Layer, 3, 3);
  addBlock(BlockPosition::Last, 1, 4);
  LayerLoads loads = llvm::cantFail(costLayers(model, system));
  EXPECT_EQ(loads.first, 2 * 111);
  EXPECT_EQ(loads.last, 4 * 111);
  ASSERT_EQ(loads.runs.size(), 2u);
  EXPECT_EQ(loads.runs[1].count, 3);
  EXPECT_EQ(loads.runs[1].each, 3 * 111);
  model.recompute = Recompute::Full;
  EXPECT_EQ(llvm::cantFail(costLayers(model, system)).last, 4 * 112);
  system.accelerators = 2;
  llvm::Expected<LayerLoads> refused = costLayers(model, system);
  ASSERT_FALSE(refused);
  EXPECT_EQ(llvm::toString(refused.takeError()),
            "a worker of 'toy' has 2 accelerators and no 'link' among them");
}
