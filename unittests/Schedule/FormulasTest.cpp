//===- FormulasTest.cpp - Refusals and values of formulas ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Refusals of formulas, and why there is no general form. Wherever a formula
// gives a value for given times, that value is the idle of the family's table
// run with these times.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Formulas.h"
#include "../Support/CheckTable.h"
#include "../Support/FamilyCases.h"
#include "../Support/TestTables.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>

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
     "no closed formula is known for family 'greedy': a greedy table has a "
     "formula only on linear, bidirectional and wave placements"},
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

/// Times that differ in every way that a formula distinguishes: W above and
/// below F and I, the backward above and below the forward, and messages that
/// are short, long, and longer than everything else.
static constexpr Times kTimes[] = {
    {10, 10, 10, 0},
    {10, 10, 10, 1},
    {10, 10, 10, 5},
    {10, 10, 10, 6},
    {10, 10, 10, 500},
    {10, 13, 7, 0},
    {10, 13, 7, 4},
    {40, 10, 5, 9},
    {40, 10, 5, 0},
    {5, 50, 30, 0},
    {5, 50, 30, 20},
    {10, 10, 30, 0},
    {10, 20, 15, 0},
    {30, 10, 20, 0},
    {20, 10, 10, 0},
    {20, 10, 10, 10},
    {3, 10, 14, 0},
    {14, 15, 1, 0},
    {10, 5, 5, 3},
    {10, 10, 15, 0},
    {10, 30, 20, 0},
    {10, 4, 2, 2},
    {10, 13, 7, 0, std::nullopt, 6, 4},
    {10, 10, 10, 0, std::nullopt, 30, 10},
    {20, 25, 15, 0, std::nullopt, 3, 20},
    {10, 10, 15, 0, std::nullopt, 8, 30},
};

static Times randomTimes(std::mt19937 &random) {
  auto upTo = [&](int64_t most) {
    return static_cast<int64_t>(random() % most) + 1;
  };
  Times times{upTo(40), upTo(40), upTo(40), 0};
  // Most formulas hold for free or short messages only.
  if (random() % 2 == 0)
    times.commPs = upTo(12);
  times.logitsPs = upTo(12);
  times.logitsGradPs = upTo(12);
  return times;
}

/// Lets pairs take from a little less than the longer of their cells to more
/// than both in turn, in two of three cases.
static void drawPair(Times &times, std::mt19937 &random) {
  int64_t longest =
      std::max(times.forwardPs, times.inputGradPs + times.weightGradPs);
  if (random() % 3 != 0)
    times.overlappedPs = std::max<int64_t>(1, longest - 3 + random() % 60);
}

/// The work of a worker, the mean of all.
static double workOf(const FamilyCase &one, const Table &table,
                     const Times &times) {
  double share = times.forwardPs + times.inputGradPs + times.weightGradPs;
  double work = double(table.placement.getNumLocalPairs(0)) * share;
  if (llvm::is_contained(table.rows[0], Cell(0, Phase::Logits, 0)))
    work += double(one.units()) * (times.logitsPs + times.logitsGradPs);
  double numPairs = 0;
  for (const Row &row : table.rows)
    numPairs +=
        llvm::count_if(row, [](Cell cell) { return cell.overlapsNext(); });
  if (times.overlappedPs)
    work += numPairs / table.rows.size() * (*times.overlappedPs - share);
  return work;
}

/// If the formula has a value, expects it to equal the table's.
static bool checkTimes(const FamilyCase &one, const Table &table,
                       const Times &times) {
  SCOPED_TRACE(testing::Message()
               << "F=" << times.forwardPs << " I=" << times.inputGradPs
               << " W=" << times.weightGradPs << " Tc=" << times.commPs
               << " FB=" << times.overlappedPs.value_or(-1));
  FormulaInputs inputs = formulaInputsOf(table.placement, one.options);
  inputs.times = times;
  if (one.family->name == "greedy" && one.slices() > 1)
    return false;
  FormulaResult result = llvm::cantFail(
      evaluateFormulaOfRows(one.family->name, table.placement, inputs));
  EXPECT_FALSE(result.generalConditions.empty());
  EXPECT_EQ(result.bubbleRatioGeneral.has_value(),
            !result.generalSource.empty());
  if (!result.bubbleRatioGeneral)
    return false;
  EXPECT_NEAR(*result.bubbleRatioGeneral,
              1 - workOf(one, table, times) / double(simulate(table, times)),
              1e-14);
  return true;
}

namespace {
class FormulaSimulation : public testing::TestWithParam<const Family *> {
protected:
  /// Counts the values; each case draws new times.
  void check(const FamilyCase &one, llvm::ArrayRef<Times> fixed) {
    llvm::Expected<Table> table = one.generate();
    if (!table)
      return llvm::consumeError(table.takeError());
    for (const Times &times : fixed)
      numValues += checkTimes(one, *table, times);
    for (int round = 0; round < 3; ++round) {
      Times times = randomTimes(random);
      if (one.family->name == "combined-1f1b")
        drawPair(times, random);
      numValues += checkTimes(one, *table, times);
    }
    numTimes += fixed.size() + 3;
  }

  std::mt19937 random;
  int64_t numTimes = 0, numValues = 0;
};
} // namespace

/// The least share of the tried times for which a formula must have a value. It
/// is close to the actual share, so that a lost value is noticed.
static double leastPartOf(llvm::StringRef family) {
  static constexpr std::pair<llvm::StringLiteral, double> kParts[] = {
      {"gpipe", 1},           {"1f1b", 0.9},
      {"eager-1f1b", 0.8},    {"zb-h1", 0.3},
      {"zb-h2", 0.2},         {"looped-bfs", 1},
      {"mpmd-circular", 1},   {"interleaved-1f1b", 0.5},
      {"combined-1f1b", 0.5}, {"interleaved-zb", 0.3},
      {"chimera", 0.05},      {"zb-v", 0.1},
      {"v-half", 0.02},       {"v-min", 0.02},
      {"dualpipe-v", 0.1},    {"dualpipe", 0.1},
  };
  for (auto [name, part] : kParts)
    if (name == family)
      return part;
  return 0;
}

TEST_P(FormulaSimulation, GivesTheBubbleOfTheTable) {
  forAllCases(*GetParam(), [&](const FamilyCase &one) { check(one, kTimes); });
  EXPECT_GE(numValues, numTimes * leastPartOf(GetParam()->name));
}

TEST_P(FormulaSimulation, GivesTheBubbleOfLargeTables) {
  forLargeCases(*GetParam(), [&](const FamilyCase &one) { check(one, {}); });
}

static std::vector<const Family *> familiesWithFormulas() {
  std::vector<const Family *> all = allFamilies();
  llvm::erase_if(all, [](const Family *family) {
    return !family->formula && family->placement != FamilyPlacement::Any;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FormulaSimulation,
                         testing::ValuesIn(familiesWithFormulas()),
                         printFamily);

/// The idle slots of Li and Hoefler's table if a backward takes two slots.
TEST(FormulaAnchors, Chimera) {
  auto slots = [](int64_t workers, int64_t microbatches) {
    Table table =
        llvm::cantFail(generateChimera(makeLinear(workers, microbatches)));
    return measure(table).slots;
  };
  EXPECT_EQ(slots(8, 8), 36);
  EXPECT_EQ(slots(8, 16), 66);
  EXPECT_EQ(slots(4, 16), 58);
}

/// The literature's bubble is the table's at F = B; with doubled forwards, at B
/// = 2F.
TEST(FormulaAnchors, ChimeraAtItsTimes) {
  for (ChimeraConstruction construction :
       {ChimeraConstruction::Concat, ChimeraConstruction::Doubling})
    for (int64_t workers : {2, 4, 6, 8})
      for (int64_t units = 1; units <= 3; ++units) {
        bool isConcat = construction == ChimeraConstruction::Concat;
        FamilyOptions options;
        options.construction = construction;
        Placement placement = llvm::cantFail(
            placeFamily(*findFamily("chimera"), workers,
                        units * workers * (isConcat ? 1 : 2), options));
        FormulaInputs inputs = formulaInputsOf(placement, options);
        inputs.times = Times{20, isConcat ? 10 : 30, 10, 0};
        FormulaResult result =
            llvm::cantFail(evaluateFormula("chimera", inputs));
        EXPECT_NEAR(*result.bubbleRatioGeneral, result.bubbleRatio, 1e-15);
      }
}

TEST(FormulaAnchors, Hanayo) {
  Times times{20, 10, 10, 0};
  for (int64_t workers = 1; workers <= 8; ++workers)
    for (int64_t microbatches : {workers, 2 * workers})
      for (int64_t waves = 1; waves <= 3; ++waves) {
        SCOPED_TRACE(testing::Message() << "D=" << workers << " N="
                                        << microbatches << " W=" << waves);
        HanayoOptions options;
        options.waves = waves;
        options.slots.assign(2 * waves * workers, StageSlots{2, 1, 1});
        Table table = llvm::cantFail(
            generateHanayo(makeLinear(workers, microbatches), options));
        FormulaInputs inputs = formulaInputsOf(table.placement);
        inputs.times = times;
        inputs.isMadeForTimes = true;
        FormulaResult result =
            llvm::cantFail(evaluateFormula("hanayo", inputs));
        double work = 40.0 * 2 * waves * microbatches;
        EXPECT_NEAR(*result.bubbleRatioGeneral,
                    1 - work / double(simulate(table, times)), 1e-14);
        EXPECT_DOUBLE_EQ(*result.bubbleRatioGeneral, result.bubbleRatio);
        EXPECT_EQ(result.peakActivations,
                  largest(measure(table).peakActivations));
      }
}
