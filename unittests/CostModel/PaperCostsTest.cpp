//===- PaperCostsTest.cpp - Costs of stages, as published -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The durations recovered from the paper's runtimes (arXiv 2605.24006, table
// I).
//
//===----------------------------------------------------------------------===//

#include "../Support/ToyCosts.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace pipesched;

static constexpr PhaseSet kSplit = PhaseSet(Phase::Forward) |
                                   PhaseSet(Phase::InputGrad) |
                                   PhaseSet(Phase::WeightGrad);

/// Costs of the paper's 16-block stages, microbatch 16, at scaled compute
/// and network, with the fitted efficiencies.
static StageCost paperStage(double computeScale, double networkScale) {
  Architecture arch;
  arch.hidden = arch.attentionWidth = arch.sequence = 4096;
  arch.feedforward = 16384;
  arch.layers = 128;
  arch.attentionHeads = arch.keyValueHeads = 80;
  arch.attention = Attention::Unfused;
  arch.dropout = true;
  ExpansionOptions options;
  options.microbatchSize = 16;
  ModelFacts model = llvm::cantFail(expandArchitecture(arch, options));

  SystemFacts system;
  system.matrix.flopsPerSecond = std::llround(computeScale * 1e15);
  system.matrix.efficiency.points = {{0, 425400}};
  system.vector = system.matrix;
  system.memory = {34000000000000, 50000, {{{0, 420700}}}};
  system.network = {std::llround(networkScale * 50e9), 500000, {}};
  Placement placement =
      llvm::cantFail(Placement::create(8, 4, {placeLinear(8)}));
  return llvm::cantFail(costRoofline(placement, model, system, kSplit))
      .stages[0];
}

static void expectWithin(double share, int64_t foundPs, double seconds) {
  EXPECT_NEAR(double(foundPs) * 1e-12 / seconds, 1, share) << seconds << " s";
}

/// Durations inverted from the printed runtimes.
TEST(Paper, StageDurations) {
  StageCost baseline = paperStage(1, 1);
  expectWithin(0.015, ps(baseline, Phase::Forward), 1.8823);
  expectWithin(0.015, ps(baseline, Phase::InputGrad), 1.9665);
  expectWithin(0.015, ps(baseline, Phase::WeightGrad), 1.0070);
  StageCost slow = paperStage(0.1, 1);
  expectWithin(0.015, ps(slow, Phase::Forward), 12.266);
  expectWithin(0.015, ps(slow, Phase::InputGrad), 13.832);
  expectWithin(0.015, ps(slow, Phase::WeightGrad), 10.060);
}

/// Runtimes that table I prints, by the closed forms behind its two tables:
/// Chimera 14 F + 11 I + 11 W + 24 c, Hanayo (47 F + 39 I + 38 W) / 4 + 87 c.
TEST(Paper, RuntimesOfTableOne) {
  struct Row {
    double network, compute, chimera, hanayo;
  };
  for (Row row : {Row{10, 10, 24.56, 21.20}, Row{10, 1, 59.08, 50.95},
                  Row{10, 0.1, 434.54, 374.63}, Row{1, 10, 24.79, 22.04},
                  Row{1, 1, 59.32, 51.79}, Row{1, 0.1, 434.77, 375.47}}) {
    StageCost cost = paperStage(row.compute, row.network);
    int64_t f = ps(cost, Phase::Forward), i = ps(cost, Phase::InputGrad),
            w = ps(cost, Phase::WeightGrad),
            c = cost.activation.occupancyPs + cost.activation.latencyPs;
    expectWithin(0.015, 14 * f + 11 * i + 11 * w + 24 * c, row.chimera);
    expectWithin(0.015, (47 * f + 39 * i + 38 * w) / 4 + 87 * c, row.hanayo);
  }
}
