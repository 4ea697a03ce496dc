//===- CellTest.cpp - Packing and printing of cells -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The packed form is part of the bytecode format; the text is part of the IR,
// diagnostics and CSV. Limits are the largest stage and the largest microbatch.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;

TEST(Cell, KeepsItsPartsAtTheirLimits) {
  Cell cell(Cell::kMaxStages - 1, Phase::Reload, Cell::kMaxMicrobatches, true);
  EXPECT_EQ(cell.getStage(), Cell::kMaxStages - 1);
  EXPECT_EQ(cell.getPhase(), Phase::Reload);
  EXPECT_EQ(cell.getUnit(), Cell::kMaxMicrobatches);
  EXPECT_TRUE(cell.overlapsNext());
  EXPECT_EQ(Cell::fromRaw(cell.getRaw()), cell);
}

TEST(Cell, ChangesOnePartAndKeepsTheOthers) {
  Cell cell(5, Phase::Forward, 7);
  EXPECT_EQ(cell.withOverlap(true), Cell(5, Phase::Forward, 7, true));
  EXPECT_EQ(cell.withOverlap(true).withOverlap(false), cell);
  EXPECT_EQ(cell.withPhase(Phase::WeightGrad), Cell(5, Phase::WeightGrad, 7));
}

TEST(Cell, StoresCodesOfPhases) {
  // The codes of files of version 0.
  static constexpr char kLetters[] = "FBIWRDUOGdu_";
  for (uint64_t code = 0; code < 12; ++code) {
    std::optional<Cell> cell = fromStored(code << 56 | 7);
    ASSERT_TRUE(cell);
    EXPECT_EQ(phaseLetter(cell->getPhase()), kLetters[code]);
    EXPECT_EQ(toStored(*cell), code << 56 | 7);
  }
  EXPECT_FALSE(fromStored(uint64_t(kMaxPhaseCode + 1) << 56));
  EXPECT_FALSE(fromStored(uint64_t(255) << 56));
  // Idle entries have slots and no stage.
  EXPECT_FALSE(fromStored(uint64_t(11) << 56));
  EXPECT_FALSE(fromStored(uint64_t(11) << 56 | uint64_t(1) << 32 | 1));
  Cell pair(3, Phase::Reload, 5, /*overlapsNext=*/true);
  EXPECT_EQ(fromStored(toStored(pair)), pair);
}

TEST(Cell, PrintsWhatItWasParsedFrom) {
  for (const char *text : {"2F0", "0B1", "3I2", "3W2", "1R4", "0D3", "0U3",
                           "0d3", "0u3", "1O0", "1G1", "_", "_12"})
    EXPECT_EQ(parseCell(text).str(), text);
}

TEST(Cell, LettersAndPhasesAreInverse) {
  kAllPhases.forEach([](Phase phase) {
    EXPECT_EQ(phaseFromLetter(phaseLetter(phase)), phase);
    EXPECT_EQ(phaseFromCode(traitsOf(phase).code), phase);
  });
  EXPECT_FALSE(phaseFromLetter('Q'));
  EXPECT_FALSE(phaseFromLetter('f'));
}

TEST(Cell, CountsUnitSlots) {
  EXPECT_EQ(unitSlots(parseCell("0F0")), 1);
  EXPECT_EQ(unitSlots(parseCell("0B0")), 2);
  EXPECT_EQ(unitSlots(parseCell("0O0")), 1);
  EXPECT_EQ(unitSlots(parseCell("0D0")), 0);
  EXPECT_EQ(unitSlots(parseCell("0d0")), 0);
  EXPECT_EQ(unitSlots(parseCell("_12")), 12);
}
