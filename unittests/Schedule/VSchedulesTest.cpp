//===- VSchedulesTest.cpp - zb-v, v-half, v-min and zb-auto ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables by hand, the golden files, and for D <= 8, N <= 24: complete and
// acyclic, with the idle slots and peaks of the closed forms. F, I and W take
// one slot each.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/Golden.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;
using Rows = std::vector<std::string>;
using Times = FormulaInputs::Times;

static Placement makeV(int64_t workers, int64_t microbatches) {
  return makePlacement(workers, microbatches, {placeV(workers)});
}

static ZBAutoOptions withMemory(std::optional<int64_t> memory) {
  ZBAutoOptions options;
  options.memory = memory;
  return options;
}

template <typename Check>
static void forAllSizes(Check &&check) {
  for (int64_t workers = 1; workers <= 8; ++workers)
    for (int64_t microbatches = 1; microbatches <= 24; ++microbatches) {
      SCOPED_TRACE(testing::Message()
                   << "D=" << workers << " N=" << microbatches);
      check(workers, microbatches);
    }
}

static FormulaResult evaluate(llvm::StringRef family, int64_t workers,
                              int64_t microbatches,
                              std::optional<Times> times = Times{1, 1, 1, 0}) {
  return llvm::cantFail(evaluateFormula(
      family, FormulaInputs{workers, 2 * workers, microbatches, times}));
}

//===----------------------------------------------------------------------===//
// zb-v
//===----------------------------------------------------------------------===//

TEST(ZBV, FollowsThePathAcrossWorkers) {
  Placement placement = makePlacement(2, 1, {pathOn({1, 0, 0, 1})});
  EXPECT_EQ(printRows(llvm::cantFail(generateZBV(placement)).rows),
            Rows({"1F0 2F0 2I0 2W0 1I0 1W0", "0F0 3F0 3I0 3W0 0I0 0W0"}));
}

//===----------------------------------------------------------------------===//
// v-half and v-min
//===----------------------------------------------------------------------===//

TEST(VHalf, FitsInHalfOf1F1BsMemory) {
  Table table = llvm::cantFail(generateVHalf(makeV(2, 2)));
  EXPECT_EQ(printRows(table.rows),
            Rows({"0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1",
                  "1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 1W0 2W1 1W1"}));
}

/// Others find these by search: ours are no longer and hold no more.
static void expectNoWorse(Table (*generate)(const Placement &placement),
                          int64_t workers, int64_t microbatches,
                          llvm::StringRef name) {
  SCOPED_TRACE(name.str());
  Placement placement = makeV(workers, microbatches);
  TableMetrics ours = measure(generate(placement));
  TableMetrics theirs = measure(loadGoldenTable(name, placement));
  EXPECT_LE(ours.slots, theirs.slots);
  EXPECT_LE(largest(ours.peakActivations), largest(theirs.peakActivations));
}

static Table makeZBV(const Placement &placement) {
  return llvm::cantFail(generateZBV(placement));
}
static Table makeVHalf(const Placement &placement) {
  return llvm::cantFail(generateVHalf(placement));
}
static Table makeVMin(const Placement &placement) {
  return llvm::cantFail(generateVMin(placement));
}
template <int64_t memory>
static Table makeAuto(const Placement &placement) {
  return llvm::cantFail(generateZBAuto(placement, withMemory(memory)));
}

TEST(VSchedules, AreNoWorseThanTheirAuthors) {
  expectNoWorse(makeZBV, 4, 8, "zbpp_zbv_D4_N8");
  expectNoWorse(makeZBV, 8, 24, "zbpp_zbv_D8_N24");
  expectNoWorse(makeVHalf, 4, 8, "zbpp_vhalf_D4_N8");
  expectNoWorse(makeVHalf, 5, 10, "zbpp_vhalf_D5_N10");
  expectNoWorse(makeVHalf, 8, 24, "zbpp_vhalf_D8_N24");
  expectNoWorse(makeVMin, 4, 8, "zbpp_vmin_D4_N8");
  expectNoWorse(makeVMin, 5, 10, "zbpp_vmin_D5_N10");
  expectNoWorse(makeVMin, 8, 24, "zbpp_vmin_D8_N24");
  expectNoWorse(makeAuto<4>, 4, 8, "zbpp_vauto_D4_N8_mem4");
  expectNoWorse(makeAuto<6>, 4, 8, "zbpp_vauto_D4_N8_mem6");
  expectNoWorse(makeAuto<8>, 4, 8, "zbpp_vauto_D4_N8_mem8");
}

//===----------------------------------------------------------------------===//
// zb-auto
//===----------------------------------------------------------------------===//

TEST(ZBAuto, StaysWithinAnyMemory) {
  forAllSizes([](int64_t workers, int64_t microbatches) {
    for (int64_t memory = 2; memory <= 2 * workers + 1; ++memory) {
      SCOPED_TRACE(testing::Message() << "memory " << memory);
      Placement placement = makeV(workers, microbatches);
      TableMetrics metrics = measure(
          llvm::cantFail(generateZBAuto(placement, withMemory(memory))));
      EXPECT_LE(largest(metrics.peakActivations), memory);
    }
  });
}

TEST(ZBAuto, IsNoLongerThanTheFamilyOfItsMemory) {
  forAllSizes([](int64_t workers, int64_t microbatches) {
    Placement placement = makeV(workers, microbatches);
    auto slotsAt = [&](std::optional<int64_t> memory) {
      return measure(
                 llvm::cantFail(generateZBAuto(placement, withMemory(memory))))
          .slots;
    };
    EXPECT_LE(slotsAt(workers + (workers % 2 == 0 ? 2 : 1)),
              measure(makeVHalf(placement)).slots);
    EXPECT_LE(slotsAt(2 * ((workers + 1) / 3 + 1)),
              measure(makeVMin(placement)).slots);
    EXPECT_LE(slotsAt(std::nullopt), measure(makeZBV(placement)).slots);
    EXPECT_EQ(slotsAt(std::nullopt), slotsAt(2 * workers));
  });
}

TEST(ZBAuto, RunsOneMicrobatchAfterTheOtherWhereNoMoreFits) {
  EXPECT_EQ(measure(makeAuto<2>(makeV(4, 8))).peakActivations,
            std::vector<int64_t>(4, 2));
  // Down and up twice, and the last W.
  EXPECT_EQ(measure(makeAuto<2>(makeV(4, 1))).slots, 4 * 4 + 1);
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST(VSchedules, RefuseOtherPlacements) {
  EXPECT_EQ(errorOf(generateZBV(makePlacement(2, 8, {pathOn({1, 0})}))),
            "zb-v takes a V path, down all workers and up again in 4 stages on "
            "2 workers, found 2 stages");
  Placement two = makePlacement(2, 2, {pathOn({0, 1}), pathOn({1, 0})});
  EXPECT_EQ(errorOf(generateVHalf(two)), "v-half takes one path, found 2");
  EXPECT_EQ(errorOf(generateVMin(makePlacement(2, 2, {pathOn({0, 1, 0, 1})}))),
            "v-min takes a wave placement, with stage 2 on worker 1, found it "
            "on worker 0");
  EXPECT_EQ(
      errorOf(generateZBAuto(makePlacement(2, 2, {pathOn({0, 0, 1, 1})}))),
      "zb-auto takes a path that visits every worker before it comes back to "
      "one, found stage 1 on worker 0 again");
}

TEST(VSchedules, RefuseOptionsThatCannotBeMet) {
  GeneratorOptions options;
  options.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(errorOf(generateZBV(makeV(2, 2), options)),
            "zb-v puts W off, so that it sends the gradient after I; after W "
            "it would wait for itself");
  EXPECT_EQ(errorOf(generateZBAuto(makeV(2, 2), withMemory(1))),
            "zb-auto takes a memory of at least 2 activations, one for each "
            "stage of a worker, found 1");
  EXPECT_EQ(errorOf(generateVHalf(makeV(1, Cell::kMaxMicrobatches))),
            "v-half of 2147483647 microbatches on 1 workers has 12884901882 "
            "cells: a table may have 268435456 at most");
}

TEST(VFormulas, Refuse) {
  EXPECT_EQ(errorOf(evaluateFormula("v-half", {4, 4, 8, std::nullopt})),
            "the formula of v-half holds for two stages per worker, found 4 "
            "stages on 4 workers");
  EXPECT_EQ(errorOf(evaluateFormula("zb-auto", {4, 8, 8, std::nullopt})),
            "no closed formula is known for family 'zb-auto': it is the "
            "shortest of several that the memory allows");
}

TEST(VFormulas, SayWhyThereIsNoGeneralForm) {
  EXPECT_EQ(evaluate("v-min", 4, 8, Times{1, 1, 2, 0}).generalConditions,
            "no general form is known: it takes F = I = W, N >= 2D, equal "
            "stages, free messages");
  EXPECT_EQ(evaluate("zb-v", 4, 8, Times{1, 1, 1, 1}).generalConditions,
            "no general form is known: it takes N >= 2D-1, I >= F >= W and "
            "free messages");
  EXPECT_EQ(evaluate("v-half", 4, 8, std::nullopt).generalConditions,
            "the times of the stages differ, or none are known");
}
