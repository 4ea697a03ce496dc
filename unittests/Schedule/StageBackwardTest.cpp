//===- StageBackwardTest.cpp - Stages that do not train -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cells of stages, the starts and peaks of tables by hand, rows of
// families, and their formulas. The starts are from an independent simulator.
//
//===----------------------------------------------------------------------===//

#include "../Support/AllFamilies.h"
#include "../Support/CheckTable.h"
#include "../Support/RandomTables.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Formulas.h"

using namespace pipesched;
using Kind = StageBackward;

static Path frozenPath(std::vector<int32_t> workers,
                       std::vector<int64_t> frozen) {
  Path path = pathOn(std::move(workers));
  path.backward.frozen = std::move(frozen);
  return path;
}

static Path forwardPath(std::vector<int32_t> workers) {
  Path path = pathOn(std::move(workers));
  path.backward.isNone = true;
  return path;
}

TEST(StageBackward, FollowsTheNeedForAGradient) {
  auto kinds = [](PathBackward backward) {
    Path path = pathOn({0, 1, 2, 3});
    path.backward = std::move(backward);
    Placement placement = makePlacement(4, 1, {path});
    std::vector<Kind> found;
    for (int64_t stage = 0; stage != 4; ++stage)
      found.push_back(placement.backwardOf(stage));
    return found;
  };
  using Kinds = std::vector<Kind>;
  EXPECT_EQ(kinds({}), Kinds(4, Kind::Whole));
  EXPECT_EQ(kinds({true, {}}), Kinds(4, Kind::None));
  EXPECT_EQ(kinds({false, {0, 1, 2, 3}}), Kinds(4, Kind::None));
  EXPECT_EQ(kinds({false, {0, 2, 3}}),
            Kinds({Kind::None, Kind::Whole, Kind::Input, Kind::Input}));
}

TEST(StageBackward, OfAllPathsOrOfNone) {
  Placement plain = makePlacement(2, 1, {frozenPath({0, 1}, {})});
  EXPECT_TRUE(plain.trainsAll());
  Path back = frozenPath({1, 0}, {1});
  Path path = pathOn({0, 1}, {{0, 1, 1}});
  back.takes = {{1, 2, 1}};
  Placement both = makePlacement(2, 2, {path, back});
  EXPECT_FALSE(both.trainsAll());
  EXPECT_EQ(both.backwardOf(1), Kind::Whole);
  EXPECT_EQ(both.backwardOf(3), Kind::Input);
  EXPECT_EQ(both.backwardOf(Cell(1, Phase::Forward, 1)), Kind::Input);
}

static std::string refuse(const Path &path) {
  return errorOf(Placement::create(2, 1, {path}));
}

TEST(StageBackward, RefusesFrozenStagesThatThePathLacks) {
  EXPECT_EQ(refuse(frozenPath({0, 1}, {2})),
            "path 0 freezes stage 2, and has stages 0 to 1");
  EXPECT_EQ(refuse(frozenPath({0, 1}, {1, 1})),
            "path 0 freezes stage 1 after stage 1: list each stage once, in "
            "ascending order");
  Path both = frozenPath({0, 1}, {0});
  both.backward.isNone = true;
  EXPECT_EQ(
      refuse(both),
      "path 0 has frozen stages and no backward: expected only one of them");
}

//===----------------------------------------------------------------------===//
// Tables by hand
//===----------------------------------------------------------------------===//

namespace {
struct Times {
  int64_t forward = 10, backward = 20, inputGrad = 10, weightGrad = 10;
};
} // namespace

/// Checks the starts of all cells with free messages, and the most activations
/// of each worker.
static void expectStarts(Table table, const Times &times,
                         std::vector<std::vector<int64_t>> starts,
                         std::vector<int64_t> peaks) {
  StageSlots slots(times.forward, times.inputGrad, times.weightGrad);
  slots.set(Phase::Backward, times.backward);
  table.slots.assign(table.placement.getNumGlobalStages(), slots);
  ASSERT_TRUE(isSound(table));
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment found = llvm::cantFail(alignSlots(view, index));
  for (auto [row, wanted] : llvm::enumerate(starts)) {
    auto begin = found.start.begin() + index.rowBegin(row);
    EXPECT_EQ(std::vector<int64_t>(begin, begin + wanted.size()), wanted)
        << "row " << row;
  }
  EXPECT_EQ(computeMetrics(view, index, found).peakActivations, peaks);
}

TEST(StageBackward, ForwardOnly) {
  expectStarts(makeTable(makePlacement(2, 3, {forwardPath({0, 1})}),
                         {"0F0 0F1 0F2", "1F0 1F1 1F2"}),
               {}, {{0, 10, 20}, {10, 20, 30}}, {1, 1});
  expectStarts(makeTable(makePlacement(3, 4, {forwardPath({0, 1, 2, 0, 1, 2})}),
                         {"0F0 0F1 0F2 3F0 3F1 3F2 0F3 3F3",
                          "1F0 1F1 1F2 4F0 4F1 4F2 1F3 4F3",
                          "2F0 2F1 2F2 5F0 5F1 5F2 2F3 5F3"}),
               {},
               {{0, 10, 20, 30, 40, 50, 60, 90},
                {10, 20, 30, 40, 50, 60, 70, 100},
                {20, 30, 40, 50, 60, 70, 80, 110}},
               {1, 1, 1});
}

TEST(StageBackward, FrozenInFront) {
  expectStarts(
      makeTable(makePlacement(3, 4, {frozenPath({0, 1, 2}, {0, 1})}),
                {"0F0 0F1 0F2 0F3", "1F0 1F1 1F2 1F3",
                 "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"}),
      {},
      {{0, 10, 20, 30}, {10, 20, 30, 40}, {20, 30, 50, 60, 80, 90, 110, 120}},
      {1, 1, 1});
}

TEST(StageBackward, FrozenBehind) {
  std::vector<std::vector<int64_t>> starts = {
      {0, 10, 20, 50, 70, 80, 100, 120},
      {10, 20, 40, 50, 60, 80, 90, 110},
      {20, 30, 40, 50, 60, 70, 90, 100}};
  Table table = makeTable(makePlacement(3, 4, {frozenPath({0, 1, 2}, {1, 2})}),
                          {"0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",
                           "1F0 1F1 1I0 1F2 1I1 1F3 1I2 1I3",
                           "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3"});
  expectStarts(table, {}, starts, {3, 2, 1});
  // A stage without W gives the gradient after I, for any rule.
  table.gradientAfter = GradientAfter::WeightGrad;
  expectStarts(table, {}, starts, {3, 2, 1});
}

TEST(StageBackward, FrozenOnBothSides) {
  expectStarts(makeTable(makePlacement(3, 4, {frozenPath({0, 1, 2}, {0, 2})}),
                         {"0F0 0F1 0F2 0F3", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3",
                          "2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3"}),
               {10, 12, 10, 10},
               {{0, 10, 20, 30},
                {10, 20, 40, 52, 62, 74, 84, 104},
                {20, 30, 40, 50, 62, 72, 84, 94}},
               {1, 2, 1});
}

/// The first violation of rows on two workers, with stage 0 frozen, or all
/// stages after it.
static std::string find(std::vector<int64_t> frozen,
                        std::initializer_list<llvm::StringRef> rows) {
  Table table = makeTable(
      makePlacement(2, 1, {frozenPath({0, 1}, std::move(frozen))}), rows);
  TableView view = table.view();
  for (int64_t row = 0; row != 2; ++row)
    if (auto violation = verifyRow(table.placement, row, view.rows[row]))
      return toString(*violation);
  std::optional<Violation> violation = verifyTable(view);
  return violation ? toString(*violation) : "";
}

TEST(StageBackward, RefusesCellsThatAStageDoesNotRun) {
  std::string alone = "stage 0 of path 0 is frozen and no stage before it "
                      "trains, so it runs only F";
  for (llvm::StringRef cell : {"0B0", "0I0", "0R0", "0D0", "0O0", "0G0"})
    EXPECT_EQ(find({0}, {("0F0 " + cell).str(), "1F0 1B0"}),
              "cell 1 (" + cell.str() + ") must not occur: " + alone);
  std::string input = "stage 1 of path 0 is frozen after a stage that trains, "
                      "so it runs F and, for the gradient of its input, I";
  EXPECT_EQ(find({1}, {"0F0 0B0", "1F0 1B0"}),
            "cell 1 (1B0) must not occur: " + input);
  EXPECT_EQ(find({1}, {"0F0 0B0", "1F0 1I0 1W0"}),
            "cell 2 (1W0) must not occur: " + input);
  EXPECT_EQ(find({1}, {"0F0 0B0", "1F0 1I0 1O0"}),
            "cell 2 (1O0) must not occur: " + input);
  EXPECT_EQ(find({0}, {"0F0", "1F0 1X0 1S0 1Y0 1T0 1B0"}),
            "cell 1 (1X0) belongs to a shard, and stages of path 0 are frozen: "
            "shards need paths whose stages all train");
}

TEST(StageBackward, RefusesMissingCells) {
  EXPECT_EQ(find({1}, {"0F0 0B0", "1F0"}),
            "1I0 is missing: worker 1 runs 1F0 without it, and stage 1 of path "
            "0 is frozen after a stage that trains, so it runs F and, for the "
            "gradient of its input, I");
  EXPECT_EQ(find({0}, {"0F0", "1F0"}),
            "1B0 is missing: worker 1 runs 1F0 but no backward, whole (B) or "
            "split (I and W)");
  EXPECT_EQ(find({0}, {"0F0", "1F0 1I0"}),
            "1W0 is missing: worker 1 runs 1I0 without it");
  EXPECT_EQ(find({1}, {"0F0 0B0", "1F0 1D0 1I0"}),
            "1U0 is missing: worker 1 offloads with 1D0 and never reloads");
  EXPECT_EQ(find({1}, {"0F0 0B0", "1F0 1D0 1U0 1R0 1I0"}), "");
}

TEST(StageBackward, RefusesFrozenBlocksThatAnotherPathTrains) {
  Path path = pathOn({0, 1}, {{0, 1, 1}}), back = frozenPath({1, 0}, {0});
  back.takes = {{1, 2, 1}};
  Table table = makeTable(makePlacement(2, 2, {path, back}),
                          {"0F0 1F1 1B1 0B0", "1F0 0F1 1B0"});
  std::optional<Violation> violation = verifyTable(table.view());
  ASSERT_TRUE(violation);
  EXPECT_EQ(toString(*violation),
            "stage 0 of path 0 and stage 0 of path 1 have the same blocks, and "
            "one of them trains: stage 0 of path 1 is frozen and no stage "
            "before it trains, so it runs only F");
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

TEST(StageBackward, RandomTablesAreSound) {
  int64_t numKept = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = makeFrozenTable(seed);
    ASSERT_TRUE(isSound(table));
    numKept += !table.placement.trainsAll();
  }
  EXPECT_GT(numKept, 400);
}

/// Any family has rows for any stages that do not train.
TEST(StageBackward, RowsOfAllFamilies) {
  std::minstd_rand random(1);
  int64_t numTables = 0;
  forAllFamilies(4, 8, {}, [&](const Family &family, const Table &table) {
    if (hasShards(table))
      return;
    PathBackward backward;
    backward.isNone = random() % 4 == 0;
    for (int64_t s = 0; s < table.placement.getNumStages(0); ++s)
      if (!backward.isNone && random() % 2)
        backward.frozen.push_back(s);
    std::vector<Path> paths = table.placement.getPaths();
    for (Path &path : paths)
      path.backward = backward;
    FamilyOptions options;
    if (family.takes(FamilyOption::Slices))
      options.slices = table.placement.getNumSlices();
    Table frozen = llvm::cantFail(generate(
        family, llvm::cantFail(table.placement.withPaths(paths)), options));
    ++numTables;
    ASSERT_TRUE(isSound(frozen));
  });
  EXPECT_GT(numTables, 400);
}

TEST(StageBackward, FamiliesThatTakeForwardOnly) {
  FamilyOptions options;
  options.forwardOnly = true;
  for (const Family &family : families()) {
    if (!family.takes(FamilyOption::ForwardOnly))
      continue;
    SCOPED_TRACE(family.name.str());
    for (int64_t workers = 1; workers <= 4; ++workers) {
      Table table = llvm::cantFail(generate(family, workers, 8, options));
      ASSERT_TRUE(isSound(table));
      EXPECT_EQ(table.gradientAfter, GradientAfter::InputGrad);
      for (const Row &row : table.rows)
        for (Cell cell : row)
          EXPECT_TRUE(cell.is(Phase::Forward)) << cell.str();
      EXPECT_EQ(largest(measure(table).peakActivations), 1);
    }
  }
}

static std::string refuse(llvm::StringRef family, const Path &path) {
  return errorOf(generate(*findFamily(family), makePlacement(2, 4, {path})));
}

TEST(StageBackward, FamiliesRefuseWhatTheyCannotPlace) {
  EXPECT_EQ(refuse("zb-v", frozenPath({0, 1}, {0})),
            "zb-v: the paths with frozen stages have another length than the "
            "new paths of 4 stages; freeze stages of the new paths");
  EXPECT_EQ(refuse("vocab-1f1b", frozenPath({0, 1}, {0})),
            "vocab-1f1b takes only stages that all train: stage 0 of path 0 is "
            "frozen and no stage before it trains, so it runs only F");
  FamilyOptions options;
  options.forwardOnly = true;
  EXPECT_EQ(errorOf(generate(*findFamily("vocab-1f1b"), 2, 4, options)),
            "vocab-1f1b has no option 'forward-only'; it has vocabulary, "
            "backward, embedding");
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

/// Compares a formula with the makespan of the table.
static void expectFormula(llvm::StringRef family, const Table &table,
                          const FormulaInputs::Times &times) {
  FormulaInputs inputs = formulaInputsOf(table.placement);
  inputs.times = times;
  FormulaResult formula =
      llvm::cantFail(evaluateFormulaOfRows(family, table.placement, inputs));
  double work = 0;
  for (const Row &row : table.rows)
    for (Cell cell : row)
      work += cell.is(Phase::Forward) ? times.forwardPs
                                      : times.inputGradPs + times.weightGradPs;
  double workers = table.placement.getNumWorkers();
  ASSERT_TRUE(formula.bubbleRatioGeneral);
  EXPECT_NEAR(*formula.bubbleRatioGeneral,
              1 - work / (workers * simulate(table, times)), 1e-12);
  EXPECT_EQ(formula.peakActivations, largest(measure(table).peakActivations));
  EXPECT_NEAR(formula.bubbleRatio, measure(table).bubbleRatio, 1e-12);
}

TEST(StageBackward, FormulasOfForwardsAlone) {
  FamilyOptions options;
  options.forwardOnly = true;
  for (int64_t workers = 1; workers <= 5; ++workers)
    for (int64_t rounds = 1; rounds <= 3; ++rounds)
      for (llvm::StringRef name :
           {"gpipe", "1f1b", "terapipe", "looped-bfs", "mpmd-circular",
            "interleaved-1f1b", "zb-v"}) {
        SCOPED_TRACE(testing::Message() << name.str() << " D=" << workers
                                        << " N=" << rounds * workers);
        const Family &family = *findFamily(name);
        Table table = llvm::cantFail(
            generate(family, workers, rounds * workers, options));
        bool isChain = family.placement == FamilyPlacement::Linear;
        expectFormula(name, table, {10, 0, 0, isChain ? 3 : 0});
      }
}

TEST(StageBackward, FormulasOfFrozenStagesInFront) {
  for (int64_t workers = 1; workers <= 5; ++workers)
    for (int64_t n = 1; n <= 8; ++n)
      for (int64_t numFrozen = 0; numFrozen < workers; ++numFrozen)
        for (llvm::StringRef name : {"gpipe", "1f1b"}) {
          SCOPED_TRACE(testing::Message() << name.str() << " D=" << workers
                                          << " N=" << n << " k=" << numFrozen);
          Path path = placeLinear(workers);
          for (int64_t stage = 0; stage != numFrozen; ++stage)
            path.backward.frozen.push_back(stage);
          Table table = llvm::cantFail(
              generate(*findFamily(name), makePlacement(workers, n, {path})));
          if (numFrozen == 0)
            continue;
          expectFormula(name, table, {10, 7, 6, 0});
          EXPECT_EQ(simulate(table, {10, 7, 6, 0}),
                    numFrozen * 10 + (n + workers - numFrozen - 1) * 23);
        }
}
