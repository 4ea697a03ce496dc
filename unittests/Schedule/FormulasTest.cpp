//===- FormulasTest.cpp - Refusals and reasons of formulas ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What formulas refuse, and why there is no general form. FormulaSimulationTest
// compares values with tables.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Formulas.h"
#include "../Support/TestTables.h"
#include "gtest/gtest.h"

using namespace pipesched;
using Times = FormulaInputs::Times;

namespace {
struct Refusal {
  llvm::StringRef family;
  int64_t workers, stages, microbatches;
  const char *message;
};
struct NoGeneralForm {
  llvm::StringRef family;
  int64_t stages;
  std::optional<Times> times;
  const char *conditions;
};
} // namespace

static const Refusal kRefusals[] = {
    {"1f1c", 4, 4, 8,
     "no closed formula is known for family '1f1c', the closest is '1f1b'"},
    {"greedy", 4, 4, 8,
     "no closed formula is known for family 'greedy': a greedy table has none "
     "but those of linear, bidirectional and wave placements"},
    {"zb-auto", 4, 8, 8,
     "no closed formula is known for family 'zb-auto': it is the shortest of "
     "several that the memory allows"},
    {"gpipe", 4, 8, 8,
     "the formula of gpipe holds for one stage per worker, found 8 stages on 4 "
     "workers"},
    {"gpipe", 4, 4, 0,
     "a formula needs at least one worker, stage, microbatch and slice, found "
     "4, 4, 0 and 1"},
    {"looped-bfs", 4, 6, 8,
     "the formula of looped-bfs holds for the same number of stages on every "
     "worker, found 6 stages on 4 workers"},
    {"chimera", 4, 4, 8,
     "the formula of chimera holds for pairs of paths whose number divides "
     "half of the workers, found 1 paths on 4 workers"},
    {"hanayo", 4, 4, 8,
     "the formula of hanayo holds for whole waves of 8 stages on 4 workers, "
     "found 4"},
    {"v-half", 4, 4, 8,
     "the formula of v-half holds for two stages per worker, found 4 stages on "
     "4 workers"},
    {"dualpipe", 4, 4, 8,
     "the formula of dualpipe holds for two paths and even numbers of workers "
     "and microbatches, found 1, 4 and 8"},
    {"dualpipe-v", 4, 8, 7,
     "the formula of dualpipe-v holds for at least two microbatches per "
     "worker, found 7 on 4 workers"},
};

TEST(Formulas, RefuseOtherFamiliesAndSizes) {
  for (const Refusal &one : kRefusals)
    EXPECT_EQ(errorOf(evaluateFormula(
                  one.family, {one.workers, one.stages, one.microbatches})),
              one.message);
}

static const NoGeneralForm kNoGeneralForms[] = {
    {"1f1b", 4, std::nullopt,
     "the times of the stages differ, or none are known"},
    {"v-min", 8, Times{1, 1, 2, 0},
     "no general form is known: it takes F = I = W, N >= 2D, equal stages, "
     "free messages"},
    {"zb-v", 8, Times{1, 1, 1, 1},
     "no general form is known: it takes N >= 2D-1, I >= F >= W and free "
     "messages"},
    {"dualpipe-v", 8, Times{1, 2, 1, 0},
     "no general form is known: it takes F = I, F&B = F + B and free messages"},
    {"dualpipe-v", 8, Times{2, 2, 2, 0, 5},
     "no general form is known: it takes F = I, F&B = F + B and free messages"},
};

TEST(Formulas, SayWhyThereIsNoGeneralForm) {
  for (const NoGeneralForm &one : kNoGeneralForms) {
    FormulaResult result = llvm::cantFail(
        evaluateFormula(one.family, {4, one.stages, 8, one.times}));
    EXPECT_FALSE(result.bubbleRatioGeneral);
    EXPECT_EQ(result.generalConditions, one.conditions);
  }
}

TEST(Formulas, FreeWorkHasNoBubble) {
  FormulaResult result =
      llvm::cantFail(evaluateFormula("gpipe", {4, 4, 8, Times{}}));
  EXPECT_EQ(result.bubbleRatioGeneral, 0.0);
}

TEST(Formulas, OfGreedyIsThatOfItsPlacement) {
  auto familyOf = [](int64_t workers, std::vector<Path> paths) {
    return formulaFamilyOf("greedy",
                           makePlacement(workers, 8, std::move(paths)));
  };
  EXPECT_EQ(familyOf(4, {placeLinear(4)}), "1f1b");
  EXPECT_EQ(familyOf(4, {llvm::cantFail(placeWave(4, 2))}), "hanayo");
  EXPECT_EQ(familyOf(4, llvm::cantFail(
                            placeBidirectional(4, 8, 2, Assign::Alternate))),
            "chimera");
  EXPECT_EQ(familyOf(4, {pathOn({0, 2, 1})}), "greedy");
  EXPECT_EQ(formulaFamilyOf("gpipe", makeLinear(4, 8)), "gpipe");
}
