//===- BackwardTest.cpp - Whole and split backwards -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splitting and merging by hand, then over all families: the generators' own
// split tables, the round trip, and slots.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/Backward.h"
#include "../Support/AllFamilies.h"
#include "../Support/Golden.h"
#include "../Support/RandomTables.h"

using namespace pipesched;

static Table apply(Table table, BackwardChange change) {
  table.rows = std::move(change.rows);
  table.gradientAfter = change.gradientAfter;
  return table;
}

static Table split(const Table &table, const SplitOptions &options = {}) {
  return apply(table, llvm::cantFail(splitBackward(table.view(), options)));
}

static Table merge(const Table &table, const MergeOptions &options = {}) {
  return apply(table, llvm::cantFail(mergeBackward(table.view(), options)));
}

static SplitOptions after(GradientAfter gradientAfter) {
  SplitOptions options;
  options.gradientAfter = gradientAfter;
  return options;
}

static bool hasPhase(const Table &table, Phase phase) {
  return llvm::any_of(table.rows, [&](const Row &row) {
    return llvm::any_of(row, [&](Cell cell) { return cell.is(phase); });
  });
}

static int64_t numSlots(const Table &table) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  return llvm::cantFail(assignSlots(view, index)).numSlots;
}

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

TEST(SplitBackward, KeepsOverlappedBackwards) {
  Table table = makeTable(makeLinear(1, 3), {"0F0 0F1+0B0 0B1+0F2 0B2"});
  BackwardChange change = llvm::cantFail(splitBackward(table.view()));
  EXPECT_EQ(printRow(change.rows[0]), "0F0 0F1+0B0 0B1+0F2 0I2 0W2");
  EXPECT_EQ(change.numChanged, 1);
  EXPECT_EQ(change.numKept, 2);
  SplitOptions options;
  options.overlapped = Remainder::Refuse;
  EXPECT_EQ(errorOf(splitBackward(table.view(), options)),
            "cell 2 (0B0) of worker 0 is overlapped and cannot be split: only "
            "whole backwards overlap");
}

TEST(SplitBackward, OneRuleHoldsForAllSplitBackwards) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0F1 0I0 0B1 0W0"});
  EXPECT_EQ(split(table).gradientAfter, GradientAfter::InputGrad);
  EXPECT_EQ(split(table, after(GradientAfter::InputGrad)).gradientAfter,
            GradientAfter::InputGrad);
  EXPECT_EQ(
      errorOf(splitBackward(table.view(), after(GradientAfter::WeightGrad))),
      "cell 2 (0I0) of worker 0 is split already and sends its gradient "
      "after I, as all split backwards of a schedule do; found "
      "gradient-after=W");
  table.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(split(table).gradientAfter, GradientAfter::WeightGrad);
}

TEST(MergeBackward, RuleIsTheDefaultWithoutSplitBackwards) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0I0 0W0 0F1 0I1 0W1"});
  table.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(merge(table).gradientAfter, GradientAfter::InputGrad);
  table.rows[0] = parseRow("0F0 0I0 0W0 0F1 0I1 0O0 0W1");
  EXPECT_EQ(merge(table).gradientAfter, GradientAfter::WeightGrad);
  // All backwards are whole already: nothing changes, not even the rule.
  table.rows[0] = parseRow("0F0 0B0 0F1 0B1");
  EXPECT_EQ(merge(table).gradientAfter, GradientAfter::WeightGrad);
}

/// With the gradient after I, worker 0 starts its backward while worker 1 runs
/// W; a whole B sends a slot later.
TEST(MergeBackward, MovesCellsOnlyWhereGradientsAreLate) {
  Table table =
      makeTable(makeLinear(2, 1), {"0F0 _2 0I0 0W0", "_ 1F0 1I0 1W0 _"});
  table.aligned = true;
  EXPECT_EQ(printRows(merge(table).rows),
            (std::vector<std::string>{"0F0 _3 0B0", "_ 1F0 1B0 _2"}));
  // There is a slot of slack, so no cell moves.
  table.rows[0] = parseRow("0F0 _3 0I0 0W0");
  EXPECT_EQ(printRows(merge(table).rows),
            (std::vector<std::string>{"0F0 _3 0B0", "_ 1F0 1B0 _"}));
}

//===----------------------------------------------------------------------===//
// Over all families
//===----------------------------------------------------------------------===//

/// Generators make their tables with split-backward=true by splitting.
TEST(SplitBackward, IsWhatGeneratorsDo) {
  for (GradientAfter rule :
       {GradientAfter::InputGrad, GradientAfter::WeightGrad}) {
    FamilyOptions options;
    options.splitBackward = true;
    options.gradientAfter = rule;
    forAllFamilies(
        6, 12, options, [&](const Family &family, const Table &generated) {
          if (family.splitsBackward == true)
            return; // its split order is not made by splitting
          FamilyOptions whole;
          whole.splitBackward = false;
          Table table = llvm::cantFail(
              generate(family, generated.placement.getNumWorkers(),
                       generated.placement.getNumMicrobatches(), whole));
          EXPECT_FALSE(hasPhase(table, Phase::InputGrad));
          Table result = split(table, after(rule));
          EXPECT_EQ(result.rows, generated.rows);
          EXPECT_EQ(result.gradientAfter, generated.gradientAfter);
        });
  }
}

TEST(SplitBackward, IsSoundAndMergesBack) {
  for (std::optional<GradientAfter> rule :
       {std::optional<GradientAfter>(), std::optional(GradientAfter::InputGrad),
        std::optional(GradientAfter::WeightGrad)})
    forAllFamilies(6, 14, {}, [&](const Family &, const Table &table) {
      bool wasSplit = hasPhase(table, Phase::InputGrad);
      SplitOptions options;
      if (!wasSplit)
        options.gradientAfter = rule;
      Table result = split(table, options);
      ASSERT_TRUE(isSound(result));
      for (const Row &row : result.rows)
        for (size_t i = 0; i < row.size(); ++i)
          EXPECT_TRUE(!row[i].is(Phase::Backward) || row[i].overlapsNext() ||
                      row[i - 1].overlapsNext());
      if (wasSplit)
        return; // merging also takes pairs that the table had before
      Table back = merge(result);
      EXPECT_EQ(back.rows, table.rows);
      EXPECT_EQ(back.gradientAfter, GradientAfter::InputGrad);
    });
}

TEST(SplitBackward, AlignedTablesStayAligned) {
  for (GradientAfter rule :
       {GradientAfter::InputGrad, GradientAfter::WeightGrad}) {
    FamilyOptions whole;
    whole.splitBackward = false;
    forAllFamilies(5, 10, whole, [&](const Family &, const Table &table) {
      Table aligned = align(table);
      Table result = split(aligned, after(rule));
      ASSERT_TRUE(isSound(result));
      EXPECT_EQ(numSlots(result), numSlots(aligned));
      // After W no cell could start earlier; after I some could.
      if (rule == GradientAfter::WeightGrad) {
        EXPECT_EQ(result.rows, align(result).rows);
      }
      EXPECT_EQ(merge(result).rows, aligned.rows);
    });
  }
}

/// For random rows: splitting and merging keep a table sound, and merging
/// undoes every split.
TEST(SplitBackward, ServesAnyTable) {
  int64_t numSplit = 0, numMerged = 0;
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = makeRandomTable(seed);
    ASSERT_TRUE(isSound(table));
    for (const Table &given : {table, align(table)}) {
      BackwardChange change = llvm::cantFail(splitBackward(given.view()));
      ASSERT_TRUE(isSound(apply(given, change)));
      numSplit += change.numChanged;
      BackwardChange merged = llvm::cantFail(mergeBackward(given.view()));
      Table whole = apply(given, merged);
      ASSERT_TRUE(isSound(whole));
      numMerged += merged.numChanged;
      Table again = merge(split(whole));
      EXPECT_EQ(again.rows, whole.rows);
    }
  }
  EXPECT_GT(numSplit, 1000);
  EXPECT_GT(numMerged, 1000);
}

/// The compute-only schedule of PyTorch's runtime, after PyTorch's own merging.
TEST(MergeBackward, MergesWhatPyTorchMerges) {
  FamilyOptions options;
  options.chunks = 2;
  Table table =
      llvm::cantFail(generate(*findFamily("interleaved-zb"), 4, 8, options));
  EXPECT_EQ(printRows(merge(table).rows),
            printRows(loadGolden("pytorch_interleavedzb_D4_N8_V2__mergedbw")));
}

/// If I and W are together not as long as B, the table is aligned again.
TEST(SplitBackward, GoesByTheLengthsOfTheTable) {
  Table table = makeTable(makeLinear(2, 1), {"0F0 0B0", "1F0 1B0"});
  StageSlots slots(/*forward=*/1, /*inputGrad=*/2, /*weightGrad=*/3);
  table.slots.assign(2, slots);
  Table aligned = align(table);
  EXPECT_EQ(printRow(aligned.rows[0]), "0F0 _6 0B0");
  EXPECT_EQ(printRow(split(aligned).rows[0]), "0F0 _6 0I0 0W0");
  for (StageSlots &stage : table.slots)
    stage.set(Phase::Backward, 4);
  aligned = align(table);
  EXPECT_EQ(printRow(aligned.rows[0]), "0F0 _5 0B0");
  EXPECT_EQ(printRow(split(aligned).rows[0]), "0F0 _6 0I0 0W0");
  for (StageSlots &stage : table.slots)
    stage.set(Phase::InputGrad, StageSlots::kUnknown);
  EXPECT_EQ(errorOf(splitBackward(align(table).view())),
            "cell 2 (0I0) has no number of slots: the schedule's slots give B; "
            "give I and W too");
}
