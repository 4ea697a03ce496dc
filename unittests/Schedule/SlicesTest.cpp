//===- SlicesTest.cpp - Rows whose microbatches have slices ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All orders of the cells of three slices, against the rule of Seq1F1B (arXiv
// 2406.03488) as pairs of cells. One placement numbers all its pairs; in the
// other the row has few of them.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

static constexpr int64_t kNumSlices = 3;

static Placement makeSliced(int64_t numMicrobatches) {
  return llvm::cantFail(
      Placement::create(1, numMicrobatches, {placeLinear(1)}, kNumSlices));
}

/// The place of a phase of a slice in a row; -1 if the row has none.
static int64_t find(llvm::ArrayRef<Cell> row, Phase phase, int64_t unit) {
  const Cell *found = llvm::find(row, Cell(0, phase, unit));
  return found == row.end() ? -1 : found - row.begin();
}

/// The end of the step of a slice with a phase, or with one that may replace
/// it.
static int64_t findAny(llvm::ArrayRef<Cell> row, llvm::ArrayRef<Phase> phases,
                       int64_t unit) {
  for (Phase phase : phases)
    if (int64_t place = find(row, phase, unit); place >= 0)
      return place;
  return -1;
}

static bool isOrdered(llvm::ArrayRef<Cell> row, int64_t microbatch) {
  int64_t first = microbatch * kNumSlices;
  auto gradient = [&](int64_t unit) {
    return findAny(row, {Phase::Backward, Phase::InputGrad}, unit);
  };
  auto weights = [&](int64_t unit) {
    return findAny(row, {Phase::Backward, Phase::WeightGrad}, unit);
  };
  for (int64_t unit = first; unit < first + kNumSlices; ++unit) {
    if (find(row, Phase::Forward, unit) > gradient(unit) ||
        gradient(unit) > weights(unit))
      return false;
    if (unit > first && (find(row, Phase::Forward, unit - 1) >
                             find(row, Phase::Forward, unit) ||
                         gradient(unit) > gradient(unit - 1) ||
                         (find(row, Phase::WeightGrad, unit - 1) >= 0 &&
                          weights(unit) > weights(unit - 1))))
      return false;
  }
  return true;
}

/// Tries all orders of the cells; returns the number of accepted ones.
static int64_t countAccepted(Row row, const Placement &placement,
                             int64_t microbatch) {
  int64_t numAccepted = 0;
  auto less = [](Cell a, Cell b) { return a.getRaw() < b.getRaw(); };
  llvm::sort(row, less);
  do {
    bool isAccepted = !verifyRow(placement, 0, row);
    EXPECT_EQ(isAccepted, isOrdered(row, microbatch));
    numAccepted += isAccepted;
  } while (std::next_permutation(row.begin(), row.end(), less));
  return numAccepted;
}

/// The cells of a microbatch, whose slices firstSplit to lastSplit have split
/// backwards.
static Row cellsOf(int64_t microbatch, int64_t firstSplit, int64_t lastSplit) {
  Row row;
  for (int64_t slice = 0; slice < kNumSlices; ++slice) {
    int64_t unit = microbatch * kNumSlices + slice;
    row.push_back(Cell(0, Phase::Forward, unit));
    if (slice >= firstSplit && slice <= lastSplit) {
      row.push_back(Cell(0, Phase::InputGrad, unit));
      row.push_back(Cell(0, Phase::WeightGrad, unit));
    } else {
      row.push_back(Cell(0, Phase::Backward, unit));
    }
  }
  return row;
}

TEST(Slices, OfWholeBackwardsHaveOneOrder) {
  EXPECT_EQ(countAccepted(cellsOf(0, 0, -1), makeSliced(1), 0), 1);
  EXPECT_EQ(countAccepted(cellsOf(1, 0, -1), makeSliced(2), 1), 1);
  EXPECT_EQ(countAccepted(cellsOf(99999, 0, -1), makeSliced(100000), 99999), 1);
}

/// B of the first slice needs I of the middle one, whose W may come later.
TEST(Slices, OfSplitBackwardsMayDelayWeightGradients) {
  EXPECT_EQ(countAccepted(cellsOf(0, 1, 1), makeSliced(1), 0), 2);
  EXPECT_EQ(countAccepted(cellsOf(7, 1, 1), makeSliced(100000), 7), 2);
}

/// The I of both slices, and their W, keep the order of the slices.
TEST(Slices, KeepTheOrderOfWeightGradients) {
  EXPECT_EQ(countAccepted(cellsOf(0, 0, 1), makeSliced(1), 0), 2);
}

/// Neighbours that wait for each other cannot overlap, others can.
TEST(Slices, OverlapWhereNeitherWaits) {
  Row good = parseRow("0F0 0F1 0F2 0I2 0I1+0W2 0B0+0W1");
  EXPECT_FALSE(verifyRow(makeSliced(1), 0, good));
  for (llvm::StringRef row :
       {"0F0+0F1", "0F0 0F1 0F2 0B2+0B1", "0F0 0F1 0F2 0I2+0I1",
        "0F0 0F1 0F2 0I2 0I1 0W2+0W1", "0F0 0F1 0F2 0I2 0I1 0I0 0W2 0W1+0W0"}) {
    std::optional<Violation> violation =
        verifyRow(makeSliced(1), 0, parseRow(row));
    ASSERT_TRUE(violation) << row.str();
    EXPECT_NE(violation->message.find("one waits for the other"),
              std::string::npos)
        << violation->message;
  }
}

TEST(Slices, AreUnitsOfTheirPlacement) {
  Placement placement = makeSliced(4);
  EXPECT_EQ(placement.getNumUnits(), 12);
  EXPECT_EQ(placement.nameOf(Cell(0, Phase::Forward, 7)).str(), "0F2.1");
  EXPECT_EQ(placement.nameOf(Cell(0, Phase::Optimizer, 0)).str(), "0O0");
  EXPECT_EQ(placement.nameOf(Cell::idle(7)).str(), "_7");
  EXPECT_EQ(makeLinear(1, 4).nameOf(Cell(0, Phase::Forward, 3)).str(), "0F3");
}
