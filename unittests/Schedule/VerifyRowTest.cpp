//===- VerifyRowTest.cpp - Checks of one row ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each finding once, with its cell and its note; and huge sizes that a row only
// claims, which must take neither memory nor time.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include <random>

using namespace pipesched;

/// The finding about a row as text; empty if there is none.
static std::string find(const Placement &placement, int64_t row,
                        const Row &cells) {
  std::optional<Violation> violation = verifyRow(placement, row, cells);
  return violation ? toString(*violation) : "";
}

/// Rows of worker 1 on a linear path of 4 workers and 4 microbatches, and the
/// finding.
static const std::pair<llvm::StringRef, const char *> kRows[] = {
    {"", ""},
    {"1F0 1F1 1B0 _3 1B1", ""},
    {"1F0 1I0 1W0 1G0 1O0", ""},
    {"1F0 1D0 1F1 1d0 1U0 1u0 1R0 1B0", ""},
    {"1F0 1F1+1B0 1F2+1B1", ""},
    {"1F0 2F0",
     "cell 1 (2F0): path 0 puts stage 2 on worker 2, not on worker 1"},
    {"4F0",
     "cell 0 (4F0): stage 4 is out of range: path 0 has 4 stages (0 to 3)"},
    {"2O0", "cell 0 (2O0): path 0 puts stage 2 on worker 2, not on worker 1"},
    {"1F4", "cell 0 (1F4): microbatch 4 is out of range: there are 4 (0 to 3)"},
    {"1O1", "cell 0 (1O1): path 1 is out of range: there is 1 (0 to 0)"},
    {"1F0 1F1 1F0",
     "cell 2 (1F0) occurs twice\nnote: 1F0 is cell 0 of this row"},
    {"1O0 1O0", "cell 1 (1O0) occurs twice\nnote: 1O0 is cell 0 of this row"},
    {"1F0 1I1",
     "cell 1 (1I1) runs before its forward 1F1\nnote: 1F1 is not in this row"},
    {"1F0 1W0 1I0", "cell 1 (1W0) runs before its input gradient 1I0\nnote: "
                    "1I0 is cell 2 of this row"},
    {"1R0 1F0", "cell 0 (1R0) runs before its forward 1F0\nnote: 1F0 is cell 1 "
                "of this row"},
    {"1D0 1F0", "cell 0 (1D0) runs before its forward 1F0\nnote: 1F0 is cell 1 "
                "of this row"},
    {"1F0 1U0 1D0", "cell 1 (1U0) runs before its offload 1D0\nnote: 1D0 is "
                    "cell 2 of this row"},
    {"1F0 1d0 1D0", "cell 1 (1d0) runs before its offload 1D0\nnote: 1D0 is "
                    "cell 2 of this row"},
    {"1F0 1D0 1u0 1U0", "cell 2 (1u0) runs before its reload 1U0\nnote: 1U0 is "
                        "cell 3 of this row"},
    {"1F0 1B0 1R0", "cell 2 (1R0) runs after 1B0, which needs it\nnote: 1B0 is "
                    "cell 1 of this row"},
    {"1F0 1D0 1I0 1U0", "cell 3 (1U0) runs after 1I0, which needs it\nnote: "
                        "1I0 is cell 2 of this row"},
    {"1F0 1B0 1I0", "cell 2 (1I0) and 1B0: a backward is either whole (B) or "
                    "split (I and W)\nnote: 1B0 is cell 1 of this row"},
    {"1F0 1I0 1B0", "cell 2 (1B0) and 1I0: a backward is either whole (B) or "
                    "split (I and W)\nnote: 1I0 is cell 1 of this row"},
    {"1F0 1O0 1B0", "cell 2 (1B0) runs after 1O0 of its stage\nnote: 1O0 is "
                    "cell 1 of this row"},
    {"1F0 1I0 1G0 1W0", "cell 3 (1W0) runs after 1G0 of its stage\nnote: 1G0 "
                        "is cell 2 of this row"},
    {"1O0 1G0", "cell 1 (1G0) runs after 1O0 of its stage\nnote: 1O0 is cell 0 "
                "of this row"},
    {"1F0 _0 1B0", "cell 1 counts 0 idle slots: the count must be 1 or more"},
};

TEST(VerifyRow, FindsWhatIsWrong) {
  for (auto [row, found] : kRows)
    EXPECT_EQ(find(makeLinear(4, 4), 1, parseRow(row)), found) << row.str();
}

TEST(VerifyRow, PointsToTheCellAndTheOther) {
  std::optional<Violation> violation =
      verifyRow(makeLinear(4, 4), 1, parseRow("1F0 1B1 1B0 1F1"));
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->at->row, 1);
  EXPECT_EQ(violation->at->index, 1);
  ASSERT_EQ(violation->notes.size(), 1u);
  EXPECT_EQ(violation->notes[0].at->index, 3);
  EXPECT_EQ(toString(*violation), "cell 1 (1B1) runs before its forward 1F1\n"
                                  "note: 1F1 is cell 3 of this row");
}

TEST(VerifyRow, FindsBadOverlaps) {
  Placement placement = makeLinear(4, 4);
  auto overlap = [&](llvm::StringRef text, const std::vector<size_t> &marks) {
    Row row = parseRow(text);
    for (size_t i : marks)
      row[i] = row[i].withOverlap(true);
    return find(placement, 1, row);
  };
  EXPECT_EQ(overlap("1F0 1F1", {1}), "cell 1 (1F1) is overlapped with the next "
                                     "cell, but it is the last of its row");
  EXPECT_EQ(overlap("_ 1F1", {0}),
            "cell 0 (_) is not a compute cell and cannot be overlapped");
  EXPECT_EQ(overlap("1F0 1F1 1D0", {1}),
            "cell 1 (1F1) is overlapped with 1D0, which is not a compute cell");
  EXPECT_EQ(overlap("1F0 1B0 1F1 1G0", {2}),
            "cell 2 (1F1) is overlapped with 1G0: an all-reduce runs alongside "
            "compute anyway");
  EXPECT_EQ(overlap("1F0 1F1 1F2", {0, 1}),
            "cell 1 (1F1) is in two overlapped pairs: a pair has two cells");
  EXPECT_EQ(overlap("1F0 1B0", {0}),
            "cell 0 (1F0) is overlapped with 1B0 of the same stage and "
            "microbatch: one waits for the other");
}

TEST(VerifyRow, FindsPathsThatTakeNothing) {
  Placement placement = makePlacement(2, 4, {pathOn({0, 1}), pathOn({1, 0})});
  EXPECT_EQ(find(placement, 0, parseRow("0F0")),
            "the schedule has several paths without microbatches: state them "
            "with 'takes'");
  EXPECT_EQ(find(placement, 0, {}), "");
}

TEST(VerifyRow, GoesByThePathOfTheMicrobatch) {
  Placement placement = makePlacement(
      2, 4, {pathOn({0, 1}, {{0, 4, 2}}), pathOn({1, 0}, {{1, 4, 2}})});
  EXPECT_EQ(find(placement, 0, parseRow("0F0 1F1 1B1 0B0 0O0 1O1")), "");
  EXPECT_EQ(find(placement, 0, parseRow("0F1")),
            "cell 0 (0F1): path 1 puts stage 0 on worker 1, not on worker 0");
}

TEST(VerifyRow, CostsNothingForSizesThatAreOnlyClaimed) {
  Placement placement = makeLinear(kMaxWorkers, Cell::kMaxMicrobatches);
  EXPECT_EQ(find(placement, 7,
                 parseRow("7F2147483646 7F5 7F0 7B5 7B2147483646 _2147483647")),
            "");
  EXPECT_EQ(find(placement, 7, parseRow("7F2147483646 7F5 7F2147483646")),
            "cell 2 (7F2147483646) occurs twice\n"
            "note: 7F2147483646 is cell 0 of this row");
  EXPECT_EQ(find(placement, 7, parseRow("7F9 16777215F0")),
            "cell 1 (16777215F0): stage 16777215 is out of range: path 0 has "
            "65536 stages (0 to 65535)");
}

/// Cells of all phases that belong to microbatches, of two stages.
static Row makeRandomRow(std::mt19937 &random) {
  constexpr char kLetters[] = "FFFFBBIIWWRDUdu";
  Row row;
  for (unsigned size = random() % 12; row.size() < size;)
    row.push_back(Cell(random() % 2, *phaseFromLetter(kLetters[random() % 15]),
                       random() % 3));
  return row;
}

TEST(VerifyRow, FindsTheSameInSparseRows) {
  // The row is the same, but with many microbatches it is sparse.
  Placement dense = makePlacement(1, 3, {pathOn({0, 0})});
  Placement sparse = makePlacement(1, Cell::kMaxMicrobatches, {pathOn({0, 0})});
  std::mt19937 random(1);
  int64_t numGood = 0;
  for (int i = 0; i < 20000; ++i) {
    Row row = makeRandomRow(random);
    std::string found = find(dense, 0, row);
    ASSERT_EQ(found, find(sparse, 0, row)) << printRow(row);
    numGood += found.empty();
  }
  EXPECT_GT(numGood, 1000);
  EXPECT_LT(numGood, 19000);
}
