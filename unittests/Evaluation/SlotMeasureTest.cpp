//===- SlotMeasureTest.cpp - Slots by blocks and by durations -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lengths by hand, rounding, and a comparison of tables in slots of durations
// with timelines with free messages.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/SlotMeasure.h"
#include "../Support/AllFamilies.h"
#include "PipeSched/Evaluation/Evaluate.h"

using namespace pipesched;
using Stages = std::vector<StageSlots>;

static constexpr CellsInUse kWhole{PhaseSet(Phase::Forward) |
                                   PhaseSet(Phase::Backward)};

static Placement onBlocks(std::vector<std::vector<int64_t>> blocks) {
  std::vector<Path> paths;
  for (std::vector<int64_t> &counts : blocks) {
    Path path = placeLinear(2);
    path.blocks = std::move(counts);
    path.takes = {{static_cast<int64_t>(paths.size()), 2,
                   static_cast<int64_t>(blocks.size())}};
    paths.push_back(std::move(path));
  }
  return makePlacement(2, 2, std::move(paths));
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

TEST(SlotsByBlocks, AreTheBlocksOfPaths) {
  EXPECT_TRUE(
      llvm::cantFail(slotsByBlocks(onBlocks({{20, 40}}), nullptr)) ==
      Stages({StageSlots::makeWeighted(20), StageSlots::makeWeighted(40)}));
  EXPECT_TRUE(
      llvm::cantFail(slotsByBlocks(onBlocks({{20, 40}, {60, 0}}), nullptr)) ==
      Stages({StageSlots::makeWeighted(20), StageSlots::makeWeighted(40),
              StageSlots::makeWeighted(60), StageSlots::makeWeighted(0)}));
}

TEST(SlotsByBlocks, AreAtMost2To61) {
  EXPECT_EQ(errorOf(slotsByBlocks(onBlocks({{1, int64_t(1) << 62}}), nullptr)),
            "a stage of 4611686018427387904 slots is longer than "
            "2305843009213693952");
}

//===----------------------------------------------------------------------===//
// Durations
//===----------------------------------------------------------------------===//

using Times = std::vector<std::pair<int64_t, int64_t>>;

static StageCosts stageCostsOf(const Times &stages) {
  StageCosts stageCosts;
  for (auto [forward, backward] : stages) {
    CellCosts &cells = stageCosts.stages.emplace_back().cells;
    cells.set(Phase::Forward, forward);
    cells.set(Phase::Backward, backward);
    cells.set(Phase::Optimizer, 1); // not used
  }
  return stageCosts;
}

static Stages wholeSlots(const Times &stages) {
  Stages slots;
  for (auto [forward, backward] : stages) {
    slots.emplace_back(forward, StageSlots::kUnknown, StageSlots::kUnknown);
    slots.back().set(Phase::Backward, backward);
  }
  return slots;
}

TEST(SlotsByDurations, AreExactWithoutALength) {
  auto slots = llvm::cantFail(slotsByDurations(
      makeLinear(2, 1), stageCostsOf({{600, 900}, {1500, 0}}), kWhole, {}));
  EXPECT_EQ(slots.slotPs, 300);
  EXPECT_EQ(slots.largestErrorPs, 0);
  EXPECT_TRUE(slots.stages == wholeSlots({{2, 3}, {5, 0}}));
}

TEST(SlotsByDurations, AreRoundedToTheNearest) {
  auto slots = llvm::cantFail(slotsByDurations(
      makeLinear(2, 1), stageCostsOf({{149, 150}, {1, 0}}), kWhole,
      /*slotPs=*/100));
  EXPECT_EQ(slots.slotPs, 100);
  EXPECT_EQ(slots.largestErrorPs, 99); // 1 ps takes a slot, 0 ps none
  EXPECT_TRUE(slots.stages == wholeSlots({{1, 2}, {1, 0}}));
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  slots = llvm::cantFail(slotsByDurations(
      makeLinear(1, 1), stageCostsOf({{most, most}}), kWhole, most - 1));
  EXPECT_TRUE(slots.stages == wholeSlots({{1, 1}}));
}

TEST(SlotsByDurations, NeedATime) {
  EXPECT_EQ(errorOf(slotsByDurations(makeLinear(1, 1), stageCostsOf({{0, 0}}),
                                     kWhole, {})),
            "no cell takes time, so that a slot has no length; give it one");
}

/// A stage has slots by phase, which slices of equal times share.
TEST(SlotsByDurations, AreOfEqualSlices) {
  StageCosts stageCosts = stageCostsOf({{400, 200}, {400, 200}});
  CellCosts sliced(2);
  for (int64_t slice : {0, 1}) {
    sliced.set(Phase::Forward, 400, slice);
    sliced.set(Phase::Backward, 200, slice);
    sliced.set(Phase::Recompute, slice, slice); // not used
  }
  stageCosts.stages[1].cells = sliced;
  auto slots = llvm::cantFail(
      slotsByDurations(makeLinear(2, 1), stageCosts, kWhole, {}));
  EXPECT_TRUE(slots.stages == wholeSlots({{2, 1}, {2, 1}}));
  stageCosts.stages[1].cells.set(Phase::Backward, 201, /*slice=*/1);
  EXPECT_EQ(errorOf(slotsByDurations(makeLinear(2, 1), stageCosts, kWhole, {})),
            "slices of global stage 1 take different times, but all its cells "
            "of a phase have the same slots");
}

TEST(SlotsByDurations, HavePairsOfTheirOwn) {
  StageCosts stageCosts = stageCostsOf({{200, 400}});
  stageCosts.stages[0].overlappedPs = 500;
  CellsInUse cells = kWhole;
  EXPECT_FALSE(
      llvm::cantFail(slotsByDurations(makeLinear(1, 1), stageCosts, cells, {}))
          .stages[0]
          .overlapped);
  cells.isOverlapped = true;
  auto slots =
      llvm::cantFail(slotsByDurations(makeLinear(1, 1), stageCosts, cells, {}));
  EXPECT_EQ(slots.slotPs, 100);
  EXPECT_EQ(slots.stages[0].overlapped, 5);
}

//===----------------------------------------------------------------------===//
// The timeline
//===----------------------------------------------------------------------===//

/// Random times in units of 10 ps, one per stage; the same seed gives the same.
static std::vector<int64_t> timesOf(const Placement &placement,
                                    uint64_t &state) {
  std::vector<int64_t> times;
  for (int64_t i = 0; i < placement.getPath(0).getNumStages(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    times.push_back(10 * static_cast<int64_t>((state >> 33) % 6));
  }
  return times;
}

static Profile profileOf(const Placement &placement, uint64_t &state) {
  Profile profile;
  for (Phase phase :
       {Phase::Forward, Phase::Backward, Phase::InputGrad, Phase::WeightGrad})
    profile.phasePs[phase] = timesOf(placement, state);
  profile.overlappedPs = timesOf(placement, state);
  profile.phasePs[Phase::Forward].front() = 10; // not all times are 0
  return profile;
}

static void expectTimeline(const Table &table, const Execution &execution,
                           int64_t slotPs) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  EXPECT_EQ(slots.numSlots * slotPs, execution.timeline.makespanPs);
  for (size_t row = 0; row < table.rows.size(); ++row) {
    llvm::ArrayRef<uint32_t> tasks = execution.graph.row(row);
    const uint32_t *task = tasks.begin();
    for (size_t i = 0; i < table.rows[row].size(); ++i) {
      if (i > 0 && table.rows[row][i - 1].overlapsNext())
        continue; // one task with the first half
      ASSERT_NE(task, tasks.end());
      EXPECT_EQ(slots.start[index.rowBegin(row) + i] * slotPs,
                execution.timeline.startPs[*task++]);
    }
    EXPECT_EQ(task, tasks.end());
  }
}

TEST(SlotsByDurations, AreTheTimelineWhereMessagesAreFree) {
  uint64_t state = 1;
  forAllFamilies(4, 8, {}, [&](const Family &, const Table &generated) {
    if (generated.placement.getNumSlices() > 1)
      return; // slices divide these times in whole picoseconds, unevenly
    if (hasShards(generated))
      return; // shards have no times here
    Table table = generated;
    CostInputs costs;
    costs.profile = profileOf(table.placement, state);
    CellsInUse cells = cellsInUse(table.view());
    StageCosts stageCosts =
        llvm::cantFail(computeStageCosts(table.placement, costs, cells.phases));
    auto slots = llvm::cantFail(
        slotsByDurations(table.placement, stageCosts, cells, std::nullopt));
    EXPECT_EQ(slots.slotPs % 10, 0);
    table.slots = std::move(slots.stages);
    ASSERT_FALSE(verifySlotLengths(table.view()));
    Execution execution = llvm::cantFail(executeProgram(
        llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival)),
        table.placement, costs, Transport::Delay));
    expectTimeline(table, execution, slots.slotPs);
  });
}
