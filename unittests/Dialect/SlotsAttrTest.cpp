//===- SlotsAttrTest.cpp - Slot lengths as attributes and back ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shortest form means the same as the lengths from which it was made, also
// if some are equal.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;
using Stages = std::vector<StageSlots>;

namespace {
struct SlotsAttrTest : testing::Test {
  SlotsAttrTest() { context.loadDialect<PipeDialect>(); }

  std::string print(const Placement &placement, const Stages &stages) {
    SlotsAttr slots = SlotsAttr::get(&context, placement, stages);
    if (!slots)
      return "";
    std::string text;
    llvm::raw_string_ostream(text) << slots;
    return text;
  }

  MLIRContext context;
};
} // namespace

static Placement onPaths(std::vector<std::vector<int32_t>> workers) {
  std::vector<Path> paths;
  int64_t number = 0, numPaths = workers.size();
  paths.reserve(numPaths);
  for (std::vector<int32_t> &path : workers)
    paths.push_back(pathOn(std::move(path), {{number++, numPaths, numPaths}}));
  return makePlacement(2, numPaths, std::move(paths));
}

static StageSlots pairOf(StageSlots slots, int64_t overlapped) {
  slots.overlapped = overlapped;
  return slots;
}

TEST_F(SlotsAttrTest, IsShort) {
  Placement line = onPaths({{0, 1}});
  StageSlots unit, whole(4, StageSlots::kUnknown, StageSlots::kUnknown);
  whole.set(Phase::Backward, 9);
  EXPECT_EQ(print(line, {}), "");
  EXPECT_EQ(print(line, {unit, unit}), "");
  EXPECT_EQ(print(line, Stages(2, StageSlots::makeWeighted(3))),
            "#pipe.slots<3>");
  EXPECT_EQ(print(line, {StageSlots::makeWeighted(3), unit}),
            "#pipe.slots<[3, 1]>");
  EXPECT_EQ(print(line, {StageSlots(2, 1, 1), StageSlots(3, 1, 5)}),
            "#pipe.slots<F = [2, 3], W = [1, 5]>");
  EXPECT_EQ(print(line, {whole, whole}), "#pipe.slots<F = 4, B = 9>");
  EXPECT_EQ(print(line, {pairOf(unit, 2), pairOf(unit, 3)}),
            "#pipe.slots<FB = [2, 3]>");
}

TEST_F(SlotsAttrTest, SaysOncePerPathWhatPathsShare) {
  Stages stages = {StageSlots::makeWeighted(1), StageSlots::makeWeighted(2),
                   StageSlots::makeWeighted(1), StageSlots::makeWeighted(2)};
  EXPECT_EQ(print(onPaths({{0, 1}, {1, 0}}), stages), "#pipe.slots<[1, 2]>");
  EXPECT_EQ(print(onPaths({{0, 1, 0, 1}}), stages),
            "#pipe.slots<[1, 2, 1, 2]>");
  EXPECT_EQ(print(onPaths({{0}, {0, 1, 0}}), stages),
            "#pipe.slots<[1, 2, 1, 2]>");
}

TEST_F(SlotsAttrTest, SaysWhatTheLengthsSay) {
  uint64_t state = 1;
  auto next = [&](int64_t most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state >> 33) % (most + 1);
  };
  auto someSlots = [&](bool isWhole, bool hasPairs) {
    StageSlots slots(next(2), next(2), next(2));
    if (isWhole)
      slots = StageSlots(next(2), StageSlots::kUnknown, StageSlots::kUnknown);
    if (isWhole || next(1))
      slots.set(Phase::Backward, next(4));
    for (Phase phase : {Phase::Recompute, Phase::Optimizer, Phase::AllReduce})
      if (next(1))
        slots.set(phase, next(2));
    return hasPairs ? pairOf(slots, next(3)) : slots;
  };
  // The weight, phases that compute, and pairs.
  std::vector<int64_t> unitCounts(kComputePhases.size() + 2, 0);
  unitCounts.front() = 1;
  for (auto &workers : std::vector<std::vector<std::vector<int32_t>>>{
           {{0}}, {{0, 1, 1}}, {{0, 1}, {1, 0}}, {{0}, {0, 1}, {1, 1, 0}}}) {
    Placement placement = onPaths(workers);
    for (int64_t trial = 0; trial < 2000; ++trial) {
      bool isWhole = next(1), hasPairs = next(1), isUniform = next(1);
      StageSlots first = someSlots(isWhole, hasPairs);
      Stages stages;
      while (static_cast<int64_t>(stages.size()) <
             placement.getNumGlobalStages())
        stages.push_back(isUniform ? first : someSlots(isWhole, hasPairs));
      SlotsAttr slots = SlotsAttr::get(&context, placement, stages);
      if (!slots)
        slots = SlotsAttr::get(&context, unitCounts, {1});
      EXPECT_TRUE(llvm::cantFail(slots.toStages(placement)) == stages)
          << print(placement, stages);
    }
  }
}
