//===- GeneratorPropertiesTest.cpp - All small sizes of the families ------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For D <= 8, N <= 24, V <= 4: complete and acyclic, idle slots and peaks as
// the closed forms say, for every size that is not refused. F, I and W take one
// slot each, so that a stage's share of a microbatch is three.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "PipeSched/Schedule/Generators.h"

using namespace pipesched;
using llvm::Expected;

static constexpr int64_t kMaxWorkersTried = 8, kMaxMicrobatchesTried = 24,
                         kMaxChunksTried = 4;

/// Calls `check(D, N, V)` for all of them.
template <typename Check>
static void forAllSizes(Check &&check, int64_t maxChunks = kMaxChunksTried) {
  for (int64_t workers = 1; workers <= kMaxWorkersTried; ++workers)
    for (int64_t microbatches = 1; microbatches <= kMaxMicrobatchesTried;
         ++microbatches)
      for (int64_t chunks = 1; chunks <= maxChunks; ++chunks) {
        SCOPED_TRACE(testing::Message() << "D=" << workers << " N="
                                        << microbatches << " V=" << chunks);
        check(workers, microbatches, chunks);
      }
}

/// Slots beyond the work of the busiest worker.
static int64_t idleSlots(const TableMetrics &metrics) {
  return metrics.slots - largest(metrics.busySlots);
}

/// Slots from the first to the last cell of a worker, less its work; the most.
static int64_t idleWithin(const TableMetrics &metrics) {
  int64_t most = 0;
  for (size_t worker = 0; worker < metrics.busySlots.size(); ++worker)
    most = std::max(most, metrics.slots - metrics.fillSlots[worker] -
                              metrics.drainSlots[worker] -
                              metrics.busySlots[worker]);
  return most;
}

TEST(GeneratorProperties, Eager1F1B) {
  forAllSizes(
      [](int64_t workers, int64_t microbatches, int64_t) {
        TableMetrics metrics = measure(llvm::cantFail(
            generateEager1F1B(makeLinear(workers, microbatches))));
        EXPECT_EQ(idleSlots(metrics), 3 * (workers - 1));
        for (int64_t r = 0; r < workers; ++r)
          EXPECT_EQ(metrics.peakActivations[r],
                    std::min(microbatches, 2 * (workers - r) - 1));
      },
      1);
}

TEST(GeneratorProperties, ZBH1) {
  forAllSizes(
      [](int64_t workers, int64_t microbatches, int64_t) {
        TableMetrics metrics = measure(
            llvm::cantFail(generateZBH1(makeLinear(workers, microbatches))));
        EXPECT_EQ(largest(metrics.peakActivations),
                  std::min(workers, microbatches));
        if (microbatches < workers)
          return;
        EXPECT_EQ(idleSlots(metrics), workers - 1);
        EXPECT_EQ(idleWithin(metrics), workers - 1);
      },
      1);
}

TEST(GeneratorProperties, ZBH2) {
  forAllSizes(
      [](int64_t workers, int64_t microbatches, int64_t) {
        TableMetrics metrics = measure(
            llvm::cantFail(generateZBH2(makeLinear(workers, microbatches))));
        EXPECT_EQ(largest(metrics.peakActivations),
                  std::min(2 * workers - 1, microbatches));
        if (microbatches < 2 * workers - 1)
          return;
        EXPECT_EQ(idleSlots(metrics), workers - 1);
        EXPECT_EQ(idleWithin(metrics), 0);
      },
      1);
}

static LoopOptions withChunks(int64_t chunks) {
  LoopOptions options;
  options.chunks = chunks;
  return options;
}

/// Idle slots of a loop whose last round over the workers has `count`
/// microbatches: below D, each worker waits for them once per further chunk.
static int64_t loopIdle(int64_t workers, int64_t chunks, int64_t count) {
  return 3 *
         (workers - 1 + (chunks - 1) * std::max<int64_t>(0, workers - count));
}

TEST(GeneratorProperties, LoopedBFS) {
  forAllSizes([](int64_t workers, int64_t microbatches, int64_t chunks) {
    TableMetrics metrics = measure(llvm::cantFail(generateLoopedBFS(
        makeLinear(workers, microbatches), withChunks(chunks))));
    EXPECT_EQ(idleSlots(metrics), loopIdle(workers, chunks, microbatches));
    for (int64_t peak : metrics.peakActivations)
      EXPECT_EQ(peak, microbatches * chunks);
  });
}

TEST(GeneratorProperties, MpmdCircular) {
  forAllSizes([](int64_t workers, int64_t microbatches, int64_t chunks) {
    TableMetrics metrics = measure(llvm::cantFail(generateMpmdCircular(
        makeLinear(workers, microbatches), withChunks(chunks))));
    int64_t lastPhase = (microbatches - 1) % workers + 1;
    EXPECT_EQ(idleSlots(metrics), loopIdle(workers, chunks, lastPhase));
    for (int64_t peak : metrics.peakActivations)
      EXPECT_EQ(peak, microbatches * chunks);
  });
}

/// The rules of PyTorch (no group) and Megatron (a group).
static bool isGroupDefined(int64_t workers, int64_t microbatches,
                           std::optional<int64_t> group) {
  if (!group)
    return microbatches % std::max<int64_t>(1, microbatches / workers) == 0;
  if (*group == microbatches)
    return true;
  int64_t rest = microbatches % *group;
  return *group >= workers && *group < microbatches &&
         (rest == 0 || rest >= workers);
}

/// Calls `check(D, N, V, group, result)` for every group up to one too many;
/// the group in the call is the one that the rule gives.
template <typename Generate, typename Check>
static void forAllGroups(Generate &&generate, Check &&check) {
  forAllSizes([&](int64_t workers, int64_t microbatches, int64_t chunks) {
    InterleavedOptions options;
    options.chunks = chunks;
    for (int64_t group = 0; group <= microbatches + 1; ++group) {
      SCOPED_TRACE(testing::Message() << "group " << group);
      if (group > 0)
        options.group = group;
      Expected<Table> table =
          generate(makeLinear(workers, microbatches), options);
      bool isDefined = isGroupDefined(workers, microbatches, options.group);
      EXPECT_EQ(static_cast<bool>(table), isDefined);
      if (!table) {
        llvm::consumeError(table.takeError());
        continue;
      }
      int64_t numGroups = std::max<int64_t>(1, microbatches / workers);
      check(workers, microbatches, chunks,
            options.group.value_or(microbatches / numGroups), *table);
    }
  });
}

TEST(GeneratorProperties, Interleaved1F1B) {
  forAllGroups(generateInterleaved1F1B, [](int64_t workers,
                                           int64_t microbatches, int64_t chunks,
                                           int64_t group, const Table &table) {
    TableMetrics metrics = measure(table);
    EXPECT_EQ(idleSlots(metrics), loopIdle(workers, chunks, microbatches));
    for (int64_t r = 0; r < workers; ++r)
      EXPECT_EQ(metrics.peakActivations[r],
                std::min((chunks - 1) * group + 2 * (workers - 1 - r) + 1,
                         microbatches * chunks));
  });
}

TEST(GeneratorProperties, InterleavedZB) {
  forAllGroups(generateInterleavedZB, [](int64_t workers, int64_t microbatches,
                                         int64_t chunks, int64_t group,
                                         const Table &table) {
    TableMetrics metrics = measure(table);
    EXPECT_EQ(table.gradientAfter, GradientAfter::InputGrad);
    EXPECT_EQ(largest(metrics.peakActivations),
              std::min((chunks - 1) * group + workers, microbatches * chunks));
    if (microbatches >= workers) {
      EXPECT_EQ(idleSlots(metrics), workers - 1);
      EXPECT_EQ(idleWithin(metrics), workers - 1);
    }
  });
}

/// Calls `check(D, N, pairs, construction, result)`.
template <typename Check>
static void forAllChimeras(Check &&check) {
  forAllSizes(
      [&](int64_t workers, int64_t microbatches, int64_t pairs) {
        for (ChimeraConstruction construction :
             {ChimeraConstruction::Concat, ChimeraConstruction::Doubling,
              ChimeraConstruction::Halving}) {
          SCOPED_TRACE(testing::Message()
                       << "construction " << static_cast<int>(construction));
          ChimeraOptions options;
          options.pairs = pairs;
          options.construction = construction;
          check(workers, microbatches, pairs, construction,
                generateChimera(makeLinear(workers, microbatches), options));
        }
      },
      kMaxWorkersTried / 2);
}

TEST(GeneratorProperties, Chimera) {
  forAllChimeras([](int64_t workers, int64_t microbatches, int64_t pairs,
                    ChimeraConstruction construction, Expected<Table> table) {
    bool isHalving = construction == ChimeraConstruction::Halving;
    // Every path has an even number of halves where microbatches come in rounds
    // of two per path, or the last round is one for every path short of it.
    bool isDefined = workers % (2 * pairs) == 0 && microbatches >= 2 * pairs &&
                     (!isHalving || microbatches % (4 * pairs) == 0);
    ASSERT_EQ(static_cast<bool>(table), isDefined);
    if (!table)
      return llvm::consumeError(table.takeError());
    TableMetrics metrics = measure(*table);
    bool isConcat = construction == ChimeraConstruction::Concat;
    int64_t unit = workers * (isConcat ? 1 : 2);
    EXPECT_EQ(largest(metrics.peakActivations), std::min(microbatches, unit));
    if (microbatches % unit != 0)
      return;
    // With B = 2F: whole units lose a ramp each, doubled ones only one ramp.
    int64_t ramp = workers / pairs - 2, units = microbatches / unit;
    EXPECT_EQ(2 * idleSlots(metrics),
              isConcat ? 2 * ramp * (2 + (units - 1)) : 3 * ramp);
  });
}

TEST(GeneratorProperties, ChimeraHoldsAtLeastHalfOfAUnit) {
  for (int64_t workers : {2, 4, 6, 8})
    for (int64_t peak :
         measure(llvm::cantFail(generateChimera(makeLinear(workers, workers))))
             .peakActivations) {
      EXPECT_GE(peak, workers / 2 + 1);
      EXPECT_LE(peak, workers);
    }
}

TEST(GeneratorProperties, Hanayo) {
  forAllSizes(
      [](int64_t workers, int64_t microbatches, int64_t waves) {
        HanayoOptions options;
        options.waves = waves;
        // The literature's times: a backward as long as a forward.
        options.slots.assign(2 * waves * workers, StageSlots{2, 1, 1});
        Table table = llvm::cantFail(
            generateHanayo(makeLinear(workers, microbatches), options));
        ASSERT_TRUE(isSound(table));
        if (microbatches != workers && microbatches != 2 * workers)
          return;
        FormulaInputs::Times times{2, 1, 1, 0};
        EXPECT_EQ(simulate(table, times).makespan,
                  4 * (2 * waves * microbatches + workers - 1));
      },
      3);
}
