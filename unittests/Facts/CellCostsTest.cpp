//===- CellCostsTest.cpp - Tests of lists of segments ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include <random>

using namespace pipesched;

using Segments = std::vector<Segment>;

static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

static Segment compute(int64_t ps) { return {Resource::Compute, ps}; }
static Segment rows(int64_t ps) { return {Resource::Experts, ps}; }

/// "compute 5, experts 3".
static std::string textOf(llvm::ArrayRef<Segment> segments) {
  std::string text;
  for (const Segment &segment : segments)
    text += (text.empty() ? "" : ", ") + enumName(segment.resource).str() +
            " " + std::to_string(segment.ps);
  return text;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

TEST(CellCosts, CellsAreOneSegmentOfTheirPhase) {
  CellCosts cells;
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Forward)), "");
  kCostedPhases.forEach([&](Phase phase) { cells.set(phase, 7); });
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Forward)), "compute 7");
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Optimizer)), "compute 7");
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::AllReduce)), "replicas 7");
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Offload)), "copy 7");
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Reload)), "copy 7");
  cells.set(Phase::Offload, 0);
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Offload)), "");
  EXPECT_EQ(cells.alonePs(Phase::Offload), 0);
}

TEST(CellCosts, SumsByResource) {
  CellCosts cells;
  llvm::cantFail(cells.setSegments(
      Phase::Forward, {compute(10),
                       rows(2),
                       {},
                       compute(5),
                       rows(1),
                       {Resource::Context, 4, /*hiddenPs=*/6, /*bytes=*/100},
                       {Resource::Sharding, 0, 0, 30}}));
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Forward)),
            "compute 10, experts 2, compute 5, experts 1, context 4, sharding "
            "0");
  EXPECT_EQ(cells.alonePs(Phase::Forward), 22);
  auto on = [&](Resource resource) {
    return cells.on(resource, Phase::Forward);
  };
  EXPECT_EQ(on(Resource::Compute), (Exchange{15, 15, 0}));
  EXPECT_EQ(on(Resource::Experts), (Exchange{3, 3, 0}));
  EXPECT_EQ(on(Resource::Context), (Exchange{10, 4, 100}));
  EXPECT_EQ(on(Resource::Sharding), (Exchange{0, 0, 30}));
  EXPECT_EQ(on(Resource::Copy), Exchange());
}

TEST(CellCosts, PartsAreSplitOffTheCompute) {
  CellCosts cells;
  cells.set(Phase::Forward, 10);
  llvm::cantFail(cells.splitOff(Phase::Forward, rows(4)));
  llvm::cantFail(cells.splitOff(Phase::Forward, {Resource::Context, 1, 7, 50}));
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Forward)),
            "compute 5, experts 4, context 1");
  // A part that is rounded up may be longer than the whole.
  llvm::cantFail(cells.splitOff(Phase::Forward, rows(6)));
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Forward)),
            "experts 4, context 1, experts 5");
  llvm::cantFail(cells.splitOff(Phase::Forward, rows(1)));
  llvm::cantFail(cells.splitOff(Phase::Forward, {Resource::Sharding, 1, 0, 8}));
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Forward)),
            "experts 4, context 1, experts 5, sharding 0");
  EXPECT_EQ(cells.alonePs(Phase::Forward), 10);
}

TEST(CellCosts, SaysWhatDoesNotAddUp) {
  CellCosts cells;
  auto errorOfSegments = [&](Segments segments) {
    return errorOf(cells.setSegments(Phase::Backward, segments));
  };
  EXPECT_EQ(errorOfSegments({compute(kMost), rows(1)}),
            "the segments of B add up to more than 2^63 - 1 ps");
  EXPECT_EQ(errorOfSegments({{Resource::Context, 1, kMost, 0}}),
            "the segments of B on context add up to more than 2^63 - 1 ps or "
            "bytes");
  EXPECT_EQ(errorOfSegments({{Resource::Sharding, 0, 0, kMost},
                             {Resource::Sharding, 0, 0, 1}}),
            "the segments of B on sharding add up to more than 2^63 - 1 ps or "
            "bytes");
  EXPECT_EQ(errorOfSegments({compute(3), {Resource::Experts, 5, -1, 7}}),
            "a segment of B on experts has 5 ps, -1 ps beside others and 7 "
            "bytes; expected numbers of at least 0");
  EXPECT_EQ(textOf(cells.segmentsOf(Phase::Backward)), "")
      << "nothing is stored";
  llvm::cantFail(cells.setSegments(
      Phase::Backward, {compute(kMost), {Resource::Context, 0, kMost, kMost}}));
  EXPECT_EQ(cells.on(Resource::Context, Phase::Backward),
            (Exchange{kMost, 0, kMost}));
}

/// Each cell has the list that was set last, independent of other cells.
TEST(CellCosts, ListsOfCellsAreApart) {
  std::mt19937 random(1);
  auto draw = [&](int count) { return int64_t(random() % count); };
  constexpr int64_t numSlices = 3;
  CellCosts cells(numSlices);
  std::vector<std::string> wanted(numSlices * kNumPhases);
  for (int round = 0; round < 2000; ++round) {
    int64_t slice = draw(numSlices);
    auto phase = static_cast<Phase>(draw(kNumPhases));
    Segments segments;
    for (int64_t i = draw(5); i > 0; --i)
      segments.push_back({static_cast<Resource>(draw(6)), 1 + draw(9)});
    llvm::cantFail(cells.setSegments(phase, segments, slice));
    wanted[slice * kNumPhases + unsigned(phase)] = textOf(segments);
    int64_t ps = 0;
    for (const Segment &segment : segments)
      ps += segment.ps;
    ASSERT_EQ(cells.alonePs(phase, slice), ps);
    for (auto [number, text] : llvm::enumerate(wanted))
      ASSERT_EQ(textOf(cells.segmentsOf(static_cast<Phase>(number % kNumPhases),
                                        int64_t(number / kNumPhases))),
                text);
  }
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

static Placement sliced(int64_t numMicrobatches, int64_t numSlices) {
  return llvm::cantFail(
      Placement::create(1, numMicrobatches, {placeLinear(1)}, numSlices));
}

TEST(CellCosts, CellsHaveTheCostsOfTheirSlice) {
  StageCosts costs;
  costs.stages.emplace_back().cells = CellCosts(2);
  CellCosts &cells = costs.stages[0].cells;
  cells.set(Phase::Forward, 10, /*slice=*/0);
  cells.set(Phase::Forward, 30, /*slice=*/1);
  cells.set(Phase::Optimizer, 5);
  Placement placement = sliced(2, 2);
  llvm::cantFail(costs.checkSlices(placement));
  auto alonePs = [&](Phase phase, int64_t number) {
    return costs.alonePs(placement, Cell(0, phase, number));
  };
  for (int64_t microbatch : {0, 1}) {
    EXPECT_EQ(alonePs(Phase::Forward, placement.unitOf(microbatch, 0)), 10);
    EXPECT_EQ(alonePs(Phase::Forward, placement.unitOf(microbatch, 1)), 30);
  }
  EXPECT_EQ(alonePs(Phase::Optimizer, 0), 5);
  EXPECT_EQ(costs.pairPs(placement, Cell(0, Phase::Forward, 0),
                         Cell(0, Phase::Forward, 3)),
            40u);
}

TEST(CellCosts, SlicesFitThePlacement) {
  StageCosts costs;
  costs.stages.resize(1);
  llvm::cantFail(costs.checkSlices(sliced(3, 2)));
  costs.stages[0].cells.set(Phase::Forward, 9);
  EXPECT_EQ(costs.alonePs(sliced(3, 2), Cell(0, Phase::Forward, 5)), 9);
  costs.stages.emplace_back().cells = CellCosts(3);
  EXPECT_EQ(errorOf(costs.checkSlices(sliced(3, 2))),
            "global stage 1 has costs of 3 slices, microbatches have 2; "
            "expected 1 or 2, or 6 of all microbatches");
  llvm::cantFail(costs.checkSlices(sliced(3, 1)));
}

TEST(CellCosts, StagesAreAppendedSliceBySlice) {
  CellCosts first(2), second(1), all(0);
  first.set(Phase::Forward, 1, /*slice=*/0);
  first.set(Phase::Backward, 2, /*slice=*/1);
  llvm::cantFail(second.setSegments(
      Phase::Forward, {{Resource::Compute, 3}, {Resource::Experts, 4}}));
  all.append(first);
  all.append(second);
  all.append(first);
  ASSERT_EQ(all.getNumSlices(), 5);
  EXPECT_EQ(all.alonePs(Phase::Forward, 0), 1);
  EXPECT_EQ(all.alonePs(Phase::Forward, 2), 7);
  EXPECT_EQ(all.segmentsOf(Phase::Forward, 2),
            second.segmentsOf(Phase::Forward));
  EXPECT_EQ(all.segmentsOf(Phase::Backward, 4),
            first.segmentsOf(Phase::Backward, 1));
  EXPECT_EQ(all.sliceOf(Cell(0, Phase::Backward, 9)), 4);
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

namespace {
/// The cost of a cell as two numbers instead of a list of segments: its time,
/// and the part of it in which rows are on their way.
struct WholeCell {
  uint64_t ps = 0, dispatchPs = 0;

  explicit WholeCell(llvm::ArrayRef<Segment> segments) {
    for (const Segment &segment : segments) {
      ps += segment.ps;
      if (segment.resource == Resource::Experts)
        dispatchPs += segment.ps;
    }
  }
};
} // namespace

/// The formula of whole cells.
static uint64_t wholePairPs(const WholeCell &one, const WholeCell &other) {
  uint64_t dispatches = one.dispatchPs + other.dispatchPs;
  return std::max(
      {one.ps + other.ps - dispatches, dispatches, one.ps, other.ps});
}

TEST(Pairs, TakeWhatWholeCellsTook) {
  std::mt19937_64 random(1);
  auto draw = [&](uint64_t count) { return int64_t(random() % count); };
  int byCompute = 0, byRows = 0, byCell = 0;
  StageCosts costs;
  for (int round = 0; round < 20000; ++round) {
    int64_t scale = draw(2) ? 10 : kMost / 8;
    auto drawCell = [&] {
      Segments segments;
      for (int64_t i = draw(6); i > 0; --i)
        segments.push_back({static_cast<Resource>(draw(4)), draw(scale),
                            draw(scale), draw(scale)});
      return segments;
    };
    Segments first = drawCell(), second = drawCell();
    WholeCell one(first), other(second);
    costs.pairRule = PairRule::Fluid;
    uint64_t fluid = costs.pairPs(first, second);
    ASSERT_EQ(fluid, wholePairPs(one, other));
    uint64_t dispatches = one.dispatchPs + other.dispatchPs;
    byCompute += fluid == one.ps + other.ps - dispatches;
    byRows += fluid == dispatches;
    byCell += fluid == std::max(one.ps, other.ps);
    costs.pairRule = PairRule::InTurn;
    ASSERT_EQ(costs.pairPs(first, second), one.ps + other.ps);
    // Whole segments take no less than divided ones, and no more than in turn.
    costs.pairRule = PairRule::InOrder;
    ASSERT_GE(costs.pairPs(first, second), fluid);
    ASSERT_LE(costs.pairPs(first, second), one.ps + other.ps);
  }
  for (int count : {byCompute, byRows, byCell})
    EXPECT_GT(count, 1000);
}

static uint64_t inOrder(const Segments &first, const Segments &second) {
  StageCosts costs;
  costs.pairRule = PairRule::InOrder;
  return costs.pairPs(first, second);
}

TEST(Pairs, RunSegmentsInOrder) {
  EXPECT_EQ(inOrder({}, {}), 0u);
  EXPECT_EQ(inOrder({compute(5), rows(3)}, {}), 8u);
  EXPECT_EQ(inOrder({}, {rows(3), compute(5)}), 8u);
  EXPECT_EQ(inOrder({compute(5)}, {compute(7)}), 12u);
  EXPECT_EQ(inOrder({rows(5)}, {rows(7)}), 12u);
  // Attention, dispatch, experts and combine of both:
  //
  //   first     | 0  4 |x 4 6| 7   9 |x 9 11|
  //   second           | 4  7 |x 7 9| 9  11 |x 11 13|
  EXPECT_EQ(inOrder({compute(4), rows(2), compute(2), rows(2)},
                    {compute(3), rows(2), compute(2), rows(2)}),
            13u);
  // Rows after all compute of the first cell are hidden; rows at the end of the
  // second are not, whereas divided finely enough they would be.
  EXPECT_EQ(inOrder({compute(10), rows(4)}, {compute(10), rows(4)}), 24u);
  // The first cell computes again at 9 and waits for the second till 14.
  EXPECT_EQ(inOrder({compute(5), rows(4), compute(1)}, {compute(9)}), 15u);
  // Waits for peers are in the lane of compute.
  EXPECT_EQ(inOrder({{Resource::Sharding, 5}}, {compute(5)}), 10u);
  // Both can start; the first cell does.
  EXPECT_EQ(inOrder({compute(1), rows(8)}, {compute(6)}), 9u);
  EXPECT_EQ(inOrder({compute(6)}, {compute(1), rows(8)}), 15u);
}

TEST(Pairs, ExposeWhatNoComputeHides) {
  StageCosts costs;
  costs.stages.resize(2);
  Placement placement =
      llvm::cantFail(Placement::create(2, 2, {placeLinear(2)}));
  Cell first(0, Phase::Forward, 1), second(1, Phase::Backward, 0);
  auto set = [&](Cell cell, Segments segments) {
    llvm::cantFail(costs.stages[cell.getStage()].cells.setSegments(
        cell.getPhase(), segments));
  };
  set(first, {compute(5), rows(4), compute(1)});
  set(second, {compute(3), rows(9)});
  auto dispatches = [&](Cell cell, std::optional<Cell> other) {
    Exchange sum;
    EXPECT_TRUE(costs.addDispatches(placement, cell, other, sum));
    return sum;
  };
  EXPECT_EQ(dispatches(first, std::nullopt), (Exchange{4, 4, 0}));
  EXPECT_EQ(dispatches(second, std::nullopt), (Exchange{9, 9, 0}));
  // Rows of 13 alongside compute of 9.
  EXPECT_EQ(dispatches(first, second), (Exchange{13, 4, 0}));
  // |0 c 5|x 9|10 c|    the second: |5 c 8|   |9 x 18|
  costs.pairRule = PairRule::InOrder;
  EXPECT_EQ(dispatches(first, second), (Exchange{13, 9, 0}));
  costs.pairRule = PairRule::InTurn;
  EXPECT_EQ(dispatches(first, second), (Exchange{13, 13, 0}));
  costs.stages[0].overlappedPs = 1;
  EXPECT_EQ(dispatches(first, second), (Exchange{13, 0, 0}));
  Exchange full = {kMost, 0, 0};
  EXPECT_FALSE(costs.addDispatches(placement, first, second, full));
}
