//===- RecomputeTest.cpp - Time and memory of recomputation ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares R cells with backwards that recompute by themselves, over all
// families: the same work, the same memory if a stage is one block, and no more
// time.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Recompute.h"
#include "../Support/AllFamilies.h"
#include "PipeSched/Evaluation/Evaluate.h"

using namespace pipesched;

/// One layer per stage, with times that are not whole picoseconds.
static ModelFacts modelOf(const Placement &placement) {
  BlockFacts block;
  block.name = "layer";
  block.count = placement.getMaxStages();
  block.parameters = 3;
  block.activationBytes = 1000;
  block.weightGradBytes = 600;
  block.recomputedBytes = 70;
  block.coreBytes = 400;
  block.kernels = {
      {"linear", Engine::Matrix, {1000, 1}, {1100, 1}, {900, 1}, true, false},
      {"core", Engine::Matrix, {500, 1}, {1200, 1}, {}, true, true}};
  ModelFacts model;
  model.name = "toy";
  model.boundaryBytes = 50;
  model.sequence = 27720; // equal slices up to 12
  model.blocks = {block};
  return model;
}

/// 7 FLOPs take 1 ns; a byte of a message occupies 50 ps or nothing.
static SystemFacts systemOf(bool hasSlowNetwork) {
  SystemFacts system;
  system.name = "toy";
  system.matrix.flopsPerSecond = 7000000000;
  system.memory.bytesPerSecond = 1000000000000000;
  system.network.bytesPerSecond =
      hasSlowNetwork ? 1000000000 : 1000000000000000;
  system.network.latencyPs = hasSlowNetwork ? 5000 : 0;
  system.memoryBytes = 1 << 20;
  return system;
}

static CostInputs costsOf(const Placement &placement, Recompute recompute,
                          bool hasSlowNetwork = false) {
  CostInputs costs;
  costs.model = modelOf(placement);
  costs.model->recompute = recompute;
  costs.recompute = recompute;
  costs.system = systemOf(hasSlowNetwork);
  return costs;
}

static Table recompute(Table table, const RecomputeOptions &options = {}) {
  table.rows = llvm::cantFail(addRecompute(table.view(), options)).rows;
  return table;
}

static Execution execute(const Table &table, const CostInputs &costs,
                         const TimingOptions &options = {}) {
  return llvm::cantFail(executeTable(table.view(), costs, options));
}

static int64_t phasePs(const Execution &execution, Phase phase) {
  return execution.stageCosts.stages[0].cells.alonePs(phase);
}

/// Calls `check(with R cells, with recomputation in the backward)`.
template <typename Check>
static void compareAll(bool hasSlowNetwork, const TimingOptions &options,
                       Check &&check) {
  for (Recompute kind : {Recompute::Full, Recompute::Selective})
    forAllFamilies(5, 10, {}, [&](const Family &, const Table &table) {
      if (hasShards(table))
        return; // the model has no head to divide
      CostInputs costs = costsOf(table.placement, kind, hasSlowNetwork);
      check(execute(recompute(table), costs, options),
            execute(table, costs, options));
    });
}

TEST(RecomputeCosts, CellsAreTheSameWork) {
  compareAll(true, {}, [](const Execution &cells, const Execution &implied) {
    EXPECT_EQ(cells.idle.busyPs, implied.idle.busyPs);
    EXPECT_EQ(cells.traffic.bytesSent, implied.traffic.bytesSent);
  });
}

/// In both ways a stage of one block is whole again during its backward.
TEST(RecomputeCosts, CellsTakeTheSameMemoryForOneBlock) {
  compareAll(false, {}, [](const Execution &cells, const Execution &implied) {
    for (auto [a, b] :
         llvm::zip_equal(cells.memory->workers, implied.memory->workers)) {
      EXPECT_EQ(a.peakActivationBytes, b.peakActivationBytes);
      EXPECT_EQ(a.persistentBytes(), b.persistentBytes());
    }
  });
}

/// R does not wait for the gradient, so nothing starts later. Receives are at
/// their consumers, in the same order with and without R.
TEST(RecomputeCosts, CellsTakeNoMoreTime) {
  TimingOptions options = {Transport::Delay, ReceivePlacement::Consumer};
  auto check = [](const Execution &cells, const Execution &implied) {
    EXPECT_LE(cells.timeline.makespanPs, implied.timeline.makespanPs);
  };
  for (bool hasSlowNetwork : {false, true})
    compareAll(hasSlowNetwork, options, check);
  // Transports with queues, if receives in this order do not deadlock.
  options.transport = Transport::Overlap;
  for (llvm::StringRef family : {"gpipe", "1f1b", "eager-1f1b", "zb-h1"})
    for (int64_t n = 1; n <= 12; ++n) {
      Table table = llvm::cantFail(generate(*findFamily(family), 4, n, {}));
      CostInputs costs = costsOf(table.placement, Recompute::Full, true);
      check(execute(recompute(table), costs, options),
            execute(table, costs, options));
    }
}

/// The drain of a pipeline hides R in all workers but the last: N (F + R + B)
/// and a ramp of F and B. A backward that recomputes by itself has its R in the
/// ramp too.
TEST(RecomputeCosts, TheDrainHidesARecompute) {
  for (llvm::StringRef family : {"gpipe", "1f1b"})
    for (int64_t workers = 1; workers <= 6; ++workers)
      for (int64_t n = 1; n <= 12; ++n) {
        Table table =
            llvm::cantFail(generate(*findFamily(family), workers, n, {}));
        CostInputs costs = costsOf(table.placement, Recompute::Full);
        costs.system->network.latencyPs = 0;
        costs.model->boundaryBytes = 0;
        Execution cells = execute(recompute(table), costs);
        int64_t forward = phasePs(cells, Phase::Forward);
        int64_t backward = phasePs(cells, Phase::Backward);
        int64_t again = phasePs(cells, Phase::Recompute);
        EXPECT_EQ(again, forward);
        int64_t ramp = forward + backward;
        EXPECT_EQ(cells.timeline.makespanPs,
                  n * (ramp + again) + (workers - 1) * ramp);
        EXPECT_EQ(execute(table, costs).timeline.makespanPs,
                  (n + workers - 1) * (ramp + again));
      }
}

/// Boundaries of all microbatches in flight, and one stage's whole activations.
TEST(RecomputeCosts, PeakIsBoundariesAndOneWorkingSet) {
  struct Case {
    Recompute kind;
    int64_t kept;
  };
  for (Case given :
       {Case{Recompute::Full, 70}, Case{Recompute::Selective, 600}})
    for (int64_t workers = 1; workers <= 6; ++workers)
      for (int64_t n = 1; n <= 12; ++n)
        for (llvm::StringRef name : {"gpipe", "1f1b"}) {
          Table table =
              llvm::cantFail(generate(*findFamily(name), workers, n, {}));
          std::vector<int64_t> inFlight = measure(table).peakActivations;
          Execution execution =
              execute(recompute(table), costsOf(table.placement, given.kind));
          for (int64_t r = 0; r < workers; ++r)
            EXPECT_EQ(execution.memory->workers[r].peakActivationBytes,
                      inFlight[r] * given.kept + 1000 - given.kept);
        }
}

/// Kept activations are whole from F to B, activations recomputed ahead from
/// their R. Backwards run in reverse order, so all kept ones are held at the
/// same time.
TEST(RecomputeCosts, KeepAndAheadCostWhatTheySay) {
  FamilyOptions oneChunk;
  oneChunk.chunks = 1;
  for (int64_t keep : {0, 1, 2})
    for (int64_t ahead : {0, 1, 2}) {
      Table table =
          llvm::cantFail(generate(*findFamily("looped-bfs"), 4, 8, oneChunk));
      RecomputeOptions options;
      options.keep = keep;
      options.ahead = ahead;
      Execution execution = execute(recompute(table, options),
                                    costsOf(table.placement, Recompute::Full));
      // Worker 0 waits long enough for all R that may run ahead.
      EXPECT_EQ(execution.memory->workers[0].peakActivationBytes,
                keep * 1000 + (8 - keep) * 70 + (1 + ahead) * 930);
    }
}

/// R cells state themselves which part they recompute; the model's setting
/// applies to backwards without R.
TEST(RecomputeCosts, CellsGoBeforeTheModel) {
  Table table =
      recompute(llvm::cantFail(generate(*findFamily("1f1b"), 2, 2, {})));
  CostInputs costs = costsOf(table.placement, Recompute::Full);
  Execution expected = execute(table, costs);
  for (Recompute model :
       {Recompute::None, Recompute::Selective, Recompute::Full}) {
    costs.model->recompute = model;
    Execution execution = execute(table, costs);
    EXPECT_EQ(execution.timeline.startPs, expected.timeline.startPs);
    EXPECT_EQ(execution.memory->workers[0].peakActivationBytes,
              expected.memory->workers[0].peakActivationBytes);
  }
}

TEST(RecomputeCosts, ProfilesGiveRForSelectiveCells) {
  Table table =
      recompute(llvm::cantFail(generate(*findFamily("1f1b"), 1, 1, {})));
  CostInputs costs;
  costs.profile.emplace();
  auto set = [&](Phase phase, int64_t ps) {
    costs.profile->phasePs[phase] = {ps};
  };
  set(Phase::Forward, 10);
  set(Phase::Backward, 20);
  EXPECT_EQ(execute(table, costs).timeline.makespanPs, 10 + 10 + 20);
  costs.recompute = Recompute::Selective;
  EXPECT_EQ(errorOf(evaluateTable(table.view(), "", costs, {})),
            "the schedule recomputes selectively, the profile gives no R");
  set(Phase::Recompute, 3);
  EXPECT_EQ(execute(table, costs).timeline.makespanPs, 10 + 3 + 20);
  // A profile with only F does not change the roofline time of R.
  CostInputs both = costsOf(table.placement, Recompute::Selective);
  both.profile.emplace();
  both.profile->phasePs[Phase::Forward] = {10};
  EXPECT_EQ(phasePs(execute(table, both), Phase::Recompute), 71429);
  both.recompute = Recompute::Full;
  EXPECT_EQ(phasePs(execute(table, both), Phase::Recompute), 10);
}
