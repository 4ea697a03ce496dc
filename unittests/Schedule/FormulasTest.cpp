//===- FormulasTest.cpp - Closed formulas ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The literature's values, reasons and refusals. FormulaSimulationTest has the
// general forms.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Formulas.h"
#include "../Support/TestTables.h"

using namespace pipesched;
using Times = FormulaInputs::Times;

static FormulaResult evaluate(llvm::StringRef family, int64_t workers,
                              int64_t microbatches,
                              std::optional<Times> times = std::nullopt) {
  return llvm::cantFail(evaluateFormula(
      family, FormulaInputs{workers, workers, microbatches, times}));
}

TEST(Formulas, SayWhyThereIsNoGeneralForm) {
  FormulaResult result = evaluate("1f1b", 4, 8);
  EXPECT_FALSE(result.bubbleRatioGeneral);
  EXPECT_EQ(result.generalConditions,
            "the times of the stages differ, or none are known");
}

TEST(Formulas, FreeWorkHasNoBubble) {
  EXPECT_EQ(evaluate("gpipe", 4, 8, Times{}).bubbleRatioGeneral, 0.0);
}

static std::string refusalOf(llvm::StringRef family,
                             const FormulaInputs &inputs) {
  return errorOf(evaluateFormula(family, inputs));
}

TEST(Formulas, RefuseUnknownFamilies) {
  std::string refusal = refusalOf("1f1c", {4, 4, 8, std::nullopt});
  EXPECT_EQ(refusal,
            "no closed formula is known for family '1f1c', the closest "
            "is '1f1b'");
  refusal = refusalOf("unheard-of", {4, 4, 8, std::nullopt});
  EXPECT_EQ(refusal.find("no closed formula is known for family 'unheard-of' "
                         "(known: gpipe, 1f1b, eager-1f1b, "),
            0u);
  EXPECT_EQ(
      refusalOf("greedy", {4, 4, 8, std::nullopt}),
      "no closed formula is known for family 'greedy': a greedy table has "
      "none but those of linear, bidirectional and wave placements");
}

TEST(Formulas, RefuseOtherSizes) {
  EXPECT_EQ(refusalOf("gpipe", {4, 8, 8, std::nullopt}),
            "the formula of gpipe holds for one stage per worker, found 8 "
            "stages on 4 workers");
  EXPECT_EQ(refusalOf("gpipe", {4, 4, 0, std::nullopt}),
            "a formula needs at least one worker, stage, microbatch and slice, "
            "found 4, 4, 0 and 1");
  EXPECT_EQ(refusalOf("looped-bfs", {4, 6, 8, std::nullopt}),
            "the formula of looped-bfs holds for the same number of stages on "
            "every worker, found 6 stages on 4 workers");
  EXPECT_EQ(refusalOf("chimera", {4, 4, 8, std::nullopt}),
            "the formula of chimera holds for pairs of paths whose number "
            "divides half of the workers, found 1 paths on 4 workers");
  EXPECT_EQ(refusalOf("hanayo", {4, 4, 8, std::nullopt}),
            "the formula of hanayo holds for whole waves of 8 stages on 4 "
            "workers, found 4");
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
