//===- GreedyTest.cpp - The greedy rule and its tables --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The paper's anchors (arXiv 2605.24006), the rule compared with a slot-by-slot
// search over all cells, and placements, weights and refusals.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/TestEffort.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include <cmath>

using namespace pipesched;
using Rows = std::vector<std::string>;

static Placement makeBidirectional(int64_t workers, int64_t microbatches) {
  return makePlacement(workers, microbatches,
                       llvm::cantFail(placeBidirectional(
                           workers, microbatches, 1, Assign::Alternate)));
}

TEST(Greedy, GivesThePapersChimeraSlots) {
  auto slots = [](int64_t workers, int64_t microbatches) {
    return measure(llvm::cantFail(generateGreedy(
                       makeBidirectional(workers, microbatches))))
        .slots;
  };
  EXPECT_EQ(slots(8, 8), 36);
  EXPECT_EQ(slots(8, 16), 65);
  EXPECT_EQ(slots(4, 16), 55);
}

/// The paper's second finding: the bubble of the table is above the formula.
TEST(Greedy, ChimeraIsWorseThanItsFormula) {
  auto percents = [](int64_t workers, int64_t microbatches) {
    Placement placement = makeBidirectional(workers, microbatches);
    FormulaInputs inputs{workers, workers, microbatches, std::nullopt};
    inputs.paths = 2;
    llvm::StringRef family = formulaFamilyOf("greedy", placement);
    FormulaResult formula = llvm::cantFail(evaluateFormula(family, inputs));
    TableMetrics table = measure(llvm::cantFail(generateGreedy(placement)));
    return std::pair(std::lround(100 * formula.bubbleRatio),
                     std::lround(100 * table.bubbleRatio));
  };
  EXPECT_EQ(percents(8, 16), std::pair(16l, 26l));
  EXPECT_EQ(percents(4, 16), std::pair(6l, 13l));
}

TEST(Hanayo, GivesThePapersSlots) {
  HanayoOptions options;
  options.waves = 2;
  Table table = llvm::cantFail(generateHanayo(makeLinear(8, 8), options));
  EXPECT_EQ(measure(table).slots, 124);
  EXPECT_EQ(table.gradientAfter, GradientAfter::WeightGrad);
}

TEST(Greedy, Refuses) {
  Placement two = makePlacement(2, 1, {pathOn({0, 1}), pathOn({1, 0})});
  EXPECT_EQ(errorOf(generateGreedy(two)),
            "1 microbatches: 2 paths need at least 2");
  GreedyOptions options;
  options.slots = {{1, 1, 1}};
  EXPECT_EQ(errorOf(generateGreedy(makeLinear(2, 2), options)),
            "slots for 1 stages, but the paths have 2");
  options.slots = {{1, 1, 1}, {1, -1, 1}};
  EXPECT_EQ(errorOf(generateGreedy(makeLinear(2, 2), options)),
            "-1 slots for I of stage 1 of path 0: expected at least 0, and at "
            "most 4611686018427387904 in total");
  options.slots = {{1, 1, 1}, {1, int64_t(1) << 62, 1}};
  EXPECT_EQ(errorOf(generateGreedy(makeLinear(2, 2), options)),
            "4611686018427387904 slots for I of stage 1 of path 0: expected at "
            "least 0, and at most 4611686018427387904 in total");
}

//===----------------------------------------------------------------------===//
// The rule, slot by slot
//===----------------------------------------------------------------------===//

namespace {
/// A cell that waits to be run: when and in which order it became ready.
struct Ready {
  Cell cell;
  int64_t since, number, position;
};

/// The rule as the paper states it, without any queue.
class SlotBySlot {
public:
  SlotBySlot(const Placement &placement, const GreedyOptions &options)
      : rows(placement.getNumWorkers()), starts(rows.size()),
        placement(placement), options(options), ready(rows.size()),
        running(rows.size()), until(rows.size(), -1) {
    run();
  }

  void run() {
    for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m)
      release(Cell(0, Phase::Forward, m), 0);
    int64_t left = placement.getNumPairs() * (options.splitBackward ? 3 : 2);
    for (int64_t slot = 0; left > 0; ++slot) {
      for (size_t worker = 0; worker < rows.size(); ++worker)
        if (until[worker] == slot)
          finish(running[worker], slot);
      for (size_t worker = 0; worker < rows.size(); ++worker)
        left -= startOn(worker, slot);
    }
  }

  std::vector<Row> rows;
  std::vector<std::vector<int64_t>> starts; ///< slots of the cells

private:
  int64_t slotsOf(Cell cell) const {
    if (options.slots.empty())
      return unitSlots(cell);
    return options.slots[placement.globalStage(cell)].of(cell.getPhase());
  }

  void release(Cell cell, int64_t slot) {
    int64_t stages = placement.getNumStages(placement.pathOf(cell));
    int64_t position = cell.is(Phase::Forward)
                           ? cell.getStage()
                           : 2 * stages - 1 - cell.getStage();
    int64_t worker = placement.workerOf(placement.globalStage(cell));
    ready[worker].push_back({cell, slot, numReady++, position});
  }

  void finish(Cell cell, int64_t slot) {
    int64_t stage = cell.getStage(), microbatch = cell.getUnit();
    int64_t stages = placement.getNumStages(placement.pathOf(cell));
    Phase backward = options.splitBackward ? Phase::InputGrad : Phase::Backward;
    bool isAfterInput = options.gradientAfter == GradientAfter::InputGrad;
    if (cell.is(Phase::Forward) && stage + 1 < stages)
      return release(Cell(stage + 1, Phase::Forward, microbatch), slot);
    if (cell.is(Phase::Forward))
      return release(Cell(stage, backward, microbatch), slot);
    if (cell.is(Phase::InputGrad))
      release(Cell(stage, Phase::WeightGrad, microbatch), slot);
    if (stage > 0 &&
        (cell.is(Phase::Backward) || cell.is(Phase::InputGrad) == isAfterInput))
      release(Cell(stage - 1, backward, microbatch), slot);
  }

  bool startOn(size_t worker, int64_t slot) {
    std::vector<Ready> &cells = ready[worker];
    if (until[worker] > slot || cells.empty())
      return false;
    auto best = std::min_element(
        cells.begin(), cells.end(), [](const Ready &a, const Ready &b) {
          return std::tuple(-a.position, a.since, a.number) <
                 std::tuple(-b.position, b.since, b.number);
        });
    running[worker] = best->cell;
    until[worker] = slot + slotsOf(best->cell);
    rows[worker].push_back(best->cell);
    starts[worker].push_back(slot);
    cells.erase(best);
    return true;
  }

  const Placement &placement;
  const GreedyOptions &options;
  std::vector<std::vector<Ready>> ready;
  std::vector<Cell> running;
  std::vector<int64_t> until;
  int64_t numReady = 0;
};
} // namespace

/// Stages of one to four times their unit slots, with W longer than I.
static std::vector<StageSlots> unevenSlots(const Placement &placement) {
  std::vector<StageSlots> slots;
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    int64_t weight = 1 + stage * stage % 4;
    slots.emplace_back(weight, weight, weight + stage % 2);
  }
  return slots;
}

/// The rows that the rule makes, each cell at the slot at which it started.
static void expectTheRule(const Placement &placement,
                          const GreedyOptions &options) {
  Table table = llvm::cantFail(generateGreedy(placement, options));
  EXPECT_TRUE(isSound(table));
  SlotBySlot rule(table.placement, options);
  EXPECT_EQ(printRows(table.rows), printRows(rule.rows));
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  for (size_t row = 0; row < table.rows.size(); ++row)
    EXPECT_EQ(llvm::ArrayRef(slots.start)
                  .slice(index.rowBegin(row), table.rows[row].size()),
              llvm::ArrayRef(rule.starts[row]));
}

/// Whole backwards, or split ones with the gradient after W or I; in unit slots
/// and others.
static void expectTheRule(const Placement &placement) {
  for (bool splitBackward : {false, true})
    for (GradientAfter gradientAfter :
         {GradientAfter::InputGrad, GradientAfter::WeightGrad}) {
      GreedyOptions options;
      options.splitBackward = splitBackward;
      options.gradientAfter = gradientAfter;
      expectTheRule(placement, options);
      options.slots = unevenSlots(placement);
      expectTheRule(placement, options);
    }
}

TEST(Greedy, IsTheRuleOnEveryPlacement) {
  for (int64_t workers = 1; workers <= mostWorkers(); ++workers)
    for (int64_t microbatches = 1; microbatches <= mostMicrobatches();
         microbatches += 3)
      for (int64_t chunks = 1; chunks <= 4; ++chunks) {
        SCOPED_TRACE(testing::Message() << "D=" << workers << " N="
                                        << microbatches << " V=" << chunks);
        Path loop = llvm::cantFail(placeInterleaved(workers, chunks));
        Path wave = llvm::cantFail(placeWave(workers, chunks));
        expectTheRule(makePlacement(workers, microbatches, {loop}));
        expectTheRule(makePlacement(workers, microbatches, {wave}));
        if (microbatches > 1)
          expectTheRule(
              makePlacement(workers, microbatches, {loop, placeV(workers)}));
      }
}

TEST(Greedy, IsTheRuleOnMirroredPaths) {
  for (int64_t workers = 2; workers <= 8; workers += 2)
    for (int64_t microbatches = 2; microbatches <= 24; ++microbatches)
      expectTheRule(makeBidirectional(workers, microbatches));
}
