//===- CellTest.cpp - Packing and printing of cells -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// For any division of a backward, all that is allocated is freed.
TEST(Phases, FreeWhatTheyAllocate) {
  constexpr HeldAmounts held{
      /*activation=*/100, /*kept=*/30,
      /*inputGrad=*/40,   /*shard=*/7,
      /*lookupSum=*/0,    /*lookupPart=*/5,
      /*lookupGrad=*/3};
  auto sum = [&](PhaseSet phases) {
    int64_t amount = 0;
    phases.forEach([&](Phase phase) {
      const PhaseMemory &memory = traitsOf(phase).memory;
      amount += changeOf(memory.atStart, held) + changeOf(memory.atEnd, held);
    });
    return amount;
  };
  EXPECT_EQ(sum({Phase::Forward, Phase::Backward}), 0);
  EXPECT_EQ(sum({Phase::Forward, Phase::InputGrad, Phase::WeightGrad}), 0);
  EXPECT_EQ(sum(kCopyPhases), 0);
  EXPECT_EQ(sum(Phase::Logits), 7);
  EXPECT_EQ(sum(kSpreadPhases), 0);
  EXPECT_EQ(sum(Phase::Lookup), 5);
  EXPECT_EQ(sum({Phase::Lookup, Phase::LookupSum}), 0);
  EXPECT_EQ(sum(Phase::GradientBroadcast), 3);
  // F keeps 30 of 100 at its end where there is an R.
  EXPECT_EQ(sum({Phase::Forward, Phase::Recompute, Phase::Backward}),
            held.activation - held.kept);
}
