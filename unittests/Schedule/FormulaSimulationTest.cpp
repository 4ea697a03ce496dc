//===- FormulaSimulationTest.cpp - General forms against tables -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Wherever a formula gives a value for given times, it is the idle of the
// family's table run with those times; and its peak is the table's.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "PipeSched/Schedule/Generators.h"

using namespace pipesched;
using Times = FormulaInputs::Times;

/// Unequal in every way that a formula tells apart: W above and below F and I,
/// the backward above and below the forward, messages short, long and longer
/// than everything.
static constexpr Times kTimes[] = {
    {10, 10, 10, 0},   {10, 10, 10, 1}, {10, 10, 10, 5}, {10, 10, 10, 6},
    {10, 10, 10, 500}, {10, 13, 7, 0},  {10, 13, 7, 4},  {40, 10, 5, 9},
    {40, 10, 5, 0},    {5, 50, 30, 0},  {5, 50, 30, 20}, {10, 10, 30, 0},
    {10, 20, 15, 0},   {30, 10, 20, 0}, {20, 10, 10, 0}, {20, 10, 10, 10},
    {3, 10, 14, 0},    {14, 15, 1, 0},  {10, 5, 5, 3},   {10, 10, 15, 0},
    {10, 30, 20, 0},   {10, 4, 2, 2},
};

/// Where the formula has a value, it is that of the table; counts the values.
static int64_t checkTimes(llvm::StringRef family, const Table &table,
                          FormulaInputs inputs) {
  int64_t numValues = 0;
  double chunks = static_cast<double>(inputs.stages) / inputs.workers;
  for (const Times &times : kTimes) {
    SCOPED_TRACE(testing::Message()
                 << "F=" << times.forwardPs << " I=" << times.inputGradPs
                 << " W=" << times.weightGradPs << " Tc=" << times.commPs);
    inputs.times = times;
    FormulaResult result = llvm::cantFail(evaluateFormula(family, inputs));
    EXPECT_FALSE(result.generalConditions.empty());
    if (!result.bubbleRatioGeneral)
      continue;
    EXPECT_FALSE(result.generalSource.empty());
    double share = times.forwardPs + times.inputGradPs + times.weightGradPs;
    double makespan = simulate(table, times).makespan;
    EXPECT_NEAR(*result.bubbleRatioGeneral,
                1 - inputs.microbatches * chunks * share / makespan, 1e-14);
    ++numValues;
  }
  return numValues;
}

static FormulaInputs inputsOf(const Table &table) {
  FormulaInputs inputs;
  inputs.workers = table.placement.getNumWorkers();
  inputs.stages = table.placement.getMaxStages();
  inputs.microbatches = table.placement.getNumMicrobatches();
  inputs.paths = table.placement.getNumPaths();
  return inputs;
}

static void checkPeak(llvm::StringRef family, const Table &table,
                      const FormulaInputs &inputs) {
  EXPECT_EQ(llvm::cantFail(evaluateFormula(family, inputs)).peakActivations,
            largest(measure(table).peakActivations));
}

/// All sizes of a family that needs no options beside the number of chunks;
/// `leastValues` is how many values all of them give at least.
template <typename Generate>
static void checkFamily(llvm::StringRef family, int64_t maxChunks,
                        int64_t leastValues, Generate &&generate) {
  int64_t numValues = 0;
  for (int64_t workers = 1; workers <= 8; ++workers)
    for (int64_t microbatches = 1; microbatches <= 24; ++microbatches)
      for (int64_t chunks = 1; chunks <= maxChunks; ++chunks) {
        SCOPED_TRACE(testing::Message()
                     << family.str() << " D=" << workers
                     << " N=" << microbatches << " V=" << chunks);
        llvm::Expected<Table> table =
            generate(makeLinear(workers, microbatches), chunks);
        if (!table) {
          llvm::consumeError(table.takeError());
          continue;
        }
        FormulaInputs inputs = inputsOf(*table);
        checkPeak(family, *table, inputs);
        numValues += checkTimes(family, *table, inputs);
      }
  EXPECT_GE(numValues, leastValues);
}

TEST(FormulaSimulation, OneStagePerWorker) {
  int64_t all = 8 * 24 * std::size(kTimes);
  checkFamily("gpipe", 1, all, [](const Placement &placement, int64_t) {
    return generateGPipe(placement);
  });
  checkFamily("1f1b", 1, all, [](const Placement &placement, int64_t) {
    return generate1F1B(placement);
  });
  checkFamily("eager-1f1b", 1, all / 2,
              [](const Placement &placement, int64_t) {
                return generateEager1F1B(placement);
              });
}

TEST(FormulaSimulation, ZeroBubble) {
  checkFamily("zb-h1", 1, 1500, [](const Placement &placement, int64_t) {
    return generateZBH1(placement);
  });
  checkFamily("zb-h2", 1, 1500, [](const Placement &placement, int64_t) {
    return generateZBH2(placement);
  });
  checkFamily("interleaved-zb", 4, 3000,
              [](const Placement &placement, int64_t chunks) {
                InterleavedOptions options;
                options.chunks = chunks;
                return generateInterleavedZB(placement, options);
              });
}

TEST(FormulaSimulation, Loops) {
  int64_t all = 4 * 8 * 24 * std::size(kTimes);
  auto withChunks = [](int64_t chunks) {
    LoopOptions options;
    options.chunks = chunks;
    return options;
  };
  checkFamily("looped-bfs", 4, all,
              [&](const Placement &placement, int64_t chunks) {
                return generateLoopedBFS(placement, withChunks(chunks));
              });
  checkFamily("mpmd-circular", 4, all,
              [&](const Placement &placement, int64_t chunks) {
                return generateMpmdCircular(placement, withChunks(chunks));
              });
  checkFamily("interleaved-1f1b", 4, 5000,
              [](const Placement &placement, int64_t chunks) {
                InterleavedOptions options;
                options.chunks = chunks;
                return generateInterleaved1F1B(placement, options);
              });
}

TEST(FormulaSimulation, InterleavedGroups) {
  InterleavedOptions options;
  options.chunks = 3;
  for (int64_t group : {6, 7, 9, 10, 11, 18}) {
    SCOPED_TRACE(testing::Message() << "group " << group);
    options.group = group;
    Placement placement = makeLinear(4, 18);
    Table table = llvm::cantFail(generateInterleaved1F1B(placement, options));
    FormulaInputs inputs = inputsOf(table);
    inputs.group = group;
    checkPeak("interleaved-1f1b", table, inputs);
    EXPECT_GT(checkTimes("interleaved-1f1b", table, inputs), 0);
    table = llvm::cantFail(generateInterleavedZB(placement, options));
    checkPeak("interleaved-zb", table, inputs);
    EXPECT_GT(checkTimes("interleaved-zb", table, inputs), 0);
  }
}

TEST(FormulaSimulation, Chimera) {
  for (ChimeraConstruction construction :
       {ChimeraConstruction::Concat, ChimeraConstruction::Doubling,
        ChimeraConstruction::Halving})
    for (int64_t workers = 2; workers <= 8; workers += 2)
      for (int64_t pairs = 1; pairs <= workers / 2; ++pairs)
        for (int64_t microbatches = 2 * pairs; microbatches <= 32;
             ++microbatches) {
          ChimeraOptions options;
          options.pairs = pairs;
          options.construction = construction;
          llvm::Expected<Table> table =
              generateChimera(makeLinear(workers, microbatches), options);
          if (!table) {
            llvm::consumeError(table.takeError());
            continue;
          }
          SCOPED_TRACE(testing::Message()
                       << "D=" << workers << " N=" << microbatches
                       << " pairs=" << pairs
                       << " construction=" << static_cast<int>(construction));
          FormulaInputs inputs = inputsOf(*table);
          inputs.construction = construction;
          checkPeak("chimera", *table, inputs);
          int64_t unit =
              workers * (construction == ChimeraConstruction::Concat ? 1 : 2);
          EXPECT_EQ(checkTimes("chimera", *table, inputs) > 0,
                    microbatches % unit == 0);
        }
}

/// The idle slots of Li and Hoefler's table with a backward of two slots.
TEST(FormulaSimulation, ChimerasAnchors) {
  auto slots = [](int64_t workers, int64_t microbatches) {
    Table table =
        llvm::cantFail(generateChimera(makeLinear(workers, microbatches)));
    return measure(table).slots;
  };
  EXPECT_EQ(slots(8, 8), 36);
  EXPECT_EQ(slots(8, 16), 66);
  EXPECT_EQ(slots(4, 16), 58);
}

TEST(FormulaSimulation, Hanayo) {
  Times times{20, 10, 10, 0};
  for (int64_t workers = 1; workers <= 8; ++workers)
    for (int64_t microbatches : {workers, 2 * workers})
      for (int64_t waves = 1; waves <= 3; ++waves) {
        SCOPED_TRACE(testing::Message() << "D=" << workers << " N="
                                        << microbatches << " W=" << waves);
        HanayoOptions options;
        options.waves = waves;
        options.slots.assign(2 * waves * workers, StageSlots{2, 1, 1});
        Table table = llvm::cantFail(
            generateHanayo(makeLinear(workers, microbatches), options));
        FormulaInputs inputs = inputsOf(table);
        inputs.times = times;
        FormulaResult result =
            llvm::cantFail(evaluateFormula("hanayo", inputs));
        double work = 40.0 * 2 * waves * microbatches;
        EXPECT_NEAR(*result.bubbleRatioGeneral,
                    1 - work / simulate(table, times).makespan, 1e-14);
        EXPECT_DOUBLE_EQ(*result.bubbleRatioGeneral, result.bubbleRatio);
        EXPECT_EQ(result.peakActivations,
                  largest(measure(table).peakActivations));
      }
}
