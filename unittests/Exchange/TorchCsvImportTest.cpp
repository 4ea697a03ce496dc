//===- TorchCsvImportTest.cpp - Reading PyTorch's schedule files ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything that a file can contain and every way in which it can be wrong,
// once. The tests include positions.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestTables.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "gmock/gmock.h"

using namespace pipesched;
using testing::ElementsAre;
using testing::HasSubstr;

static std::string refuse(llvm::StringRef text,
                          const TorchCsvImport &options = {}) {
  return errorOf(parseTorchCsv(text, options));
}

static Table import(llvm::StringRef text, const TorchCsvImport &options = {}) {
  return llvm::cantFail(parseTorchCsv(text, options));
}

static TorchCsvImport keepColumns() {
  TorchCsvImport options;
  options.keepColumns = true;
  return options;
}

static TorchCsvImport stagesPerPath(int64_t stages) {
  TorchCsvImport options;
  options.stagesPerPath = stages;
  return options;
}

//===----------------------------------------------------------------------===//
// Contents of files
//===----------------------------------------------------------------------===//

TEST(TorchCsvImport, ReadsComputeOnly) {
  Table table = import("0F0,0F1,,0I0,0W0,0B1\n"
                       ",1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(printRows(table.rows),
              ElementsAre("0F0 0F1 0I0 0W0 0B1", "1F0 1B0 1F1 1B1"));
  EXPECT_EQ(table.placement.getNumMicrobatches(), 2);
  ASSERT_EQ(table.placement.getNumPaths(), 1);
  EXPECT_THAT(table.placement.getPath(0).workers, ElementsAre(0, 1));
  EXPECT_TRUE(table.placement.getPath(0).takes.empty());
  EXPECT_FALSE(table.aligned);
}

TEST(TorchCsvImport, PutsEachStageOnItsLine) {
  Table table = import("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_THAT(table.placement.getPath(0).workers, ElementsAre(0, 1, 1, 0));
}

TEST(TorchCsvImport, KeepsColumnsOnRequest) {
  Table table = import(",,0F0, ,0B0,,,\n", keepColumns());
  EXPECT_THAT(printRows(table.rows), ElementsAre("_2 0F0 _ 0B0 _3"));
}

TEST(TorchCsvImport, StripsBlanksAndLineEnds) {
  Table table =
      import(" 0F0 ,\t0B0\r\n1F0, ( 1F1 ; 1B0 ) OVERLAP_F_B \r\n\r\n");
  EXPECT_THAT(printRows(table.rows), ElementsAre("0F0 0B0", "1F0 1F1+1B0"));
}

TEST(TorchCsvImport, SkipsAByteOrderMark) {
  Table table = import("\xEF\xBB\xBF"
                       "0F0,0B0\n");
  EXPECT_THAT(printRows(table.rows), ElementsAre("0F0 0B0"));
}

TEST(TorchCsvImport, ReadsOverlappedPairs) {
  Table table = import("0F0,(0F1;0B0)OVERLAP_F_B,0B1");
  EXPECT_THAT(printRows(table.rows), ElementsAre("0F0 0F1+0B0 0B1"));
}

TEST(TorchCsvImport, DropsMessagesAndParameterActions) {
  Table table =
      import("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
             "1UNSHARD,1RECV_F0,1F0,1I0,1SEND_B0,1W0,1REDUCE_GRAD,1RESHARD\n");
  EXPECT_THAT(printRows(table.rows), ElementsAre("0F0 0B0", "1F0 1I0 1W0"));
}

TEST(TorchCsvImport, NumbersReplicasByPath) {
  Table table = import("0F0,3F1,3B1,0B0\n1F0,2F1,1B0,2B1\n", stagesPerPath(2));
  EXPECT_THAT(printRows(table.rows),
              ElementsAre("0F0 1F1 1B1 0B0", "1F0 0F1 1B0 0B1"));
  ASSERT_EQ(table.placement.getNumPaths(), 2);
  EXPECT_THAT(table.placement.getPath(0).workers, ElementsAre(0, 1));
  EXPECT_THAT(table.placement.getPath(1).workers, ElementsAre(1, 0));
  EXPECT_EQ(table.placement.pathOf(1), 1);
}

TEST(TorchCsvImport, GivesMicrobatchesOfPathsAsRanges) {
  // Path 1 takes 1, 3, 5 and 8.
  Table table =
      import("0F0,1F1,0F2,1F3,0F4,1F5,0F6,0F7,1F8\n", stagesPerPath(1));
  const Path &first = table.placement.getPath(0);
  const Path &second = table.placement.getPath(1);
  EXPECT_THAT(first.takes,
              ElementsAre(MicrobatchRange{0, 7, 2}, MicrobatchRange{7, 8, 1}));
  EXPECT_THAT(second.takes,
              ElementsAre(MicrobatchRange{1, 6, 2}, MicrobatchRange{8, 9, 1}));
}

TEST(TorchCsvImport, LeavesIncompleteTablesToVerification) {
  Table table = import("0F0\n1F2\n");
  EXPECT_EQ(table.placement.getNumMicrobatches(), 3);
  EXPECT_TRUE(verifyTable(table.view()).has_value());
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

namespace {
struct Refusal {
  const char *text;
  const char *message; ///< a part of it
  TorchCsvImport options = {};
};
} // namespace

static const Refusal kRefusals[] = {
    {"0F0,0B0\n1F0, 1X0,1B0\n",
     "line 2, column 6: found '1X0', wanted a stage, then F, B, I, W, SEND_F, "
     "RECV_F, WAIT_SEND_F, SEND_B, RECV_B or WAIT_SEND_B and a microbatch, or "
     "UNSHARD, RESHARD or REDUCE_GRAD"},
    {"0f0", "column 1: found '0f0', wanted"},
    {"0 F0", "found '0 F0', wanted"},
    {"0R0", "found '0R0', wanted"},
    {"F0", "line 1, column 1: found 'F0', wanted a stage first"},
    {"0F", "line 1, column 1: found '0F', wanted a microbatch last"},
    {"0UNSHARD3",
     "line 1, column 1: found '0UNSHARD3', wanted nothing after '0UNSHARD'"},
    {"0F0;", "line 1, column 1: found '0F0;', wanted nothing after '0F0'"},
    {"0F0,-1F0", "line 1, column 5: found '-1F0', wanted a stage first"},
    {"0F-1", "line 1, column 1: found '0F-1', wanted a microbatch last"},
    {"16777216F0", "line 1, column 1: '16777216F0': stage '16777216' is out of "
                   "range: 0 to 16777215"},
    {"0F2147483647", "line 1, column 1: '0F2147483647': microbatch "
                     "'2147483647' is out of range: 0 to 2147483646"},
    {"99999999999999999999999F0", "out of range"},
    {"(0F0;0B1", "found '(0F0;0B1', wanted an overlapped pair such as"},
    {"(0F0;0B1)OVERLAP", "wanted an overlapped"},
    {"(0F0)OVERLAP_F_B", "wanted a stage first"},
    {"(0B0;0F1)OVERLAP_F_B", "wanted a forward and a whole backward"},
    {"(0F1;0SEND_B0)OVERLAP_F_B", "wanted a forward and a whole backward"},
    {"", "the file is empty, wanted one line per rank"},
    {" \n\r\n", "the file is empty, wanted one line per rank"},
    {"0F0,0B0\n\n1F0,1B0\n",
     "line 2, column 1: the line has no cell, wanted what its rank runs"},
    {"0F0,0B0\n,,\n", "line 2, column 1: the line has no cell", keepColumns()},
    {"0F0,1F0\n0F1,1F1\n",
     "line 2, column 1: stage 0 is on line 1 already; a file with replicated "
     "stages numbers replica p of stage s as p * S + s and is imported with "
     "--torch-replicas=S"},
    {"0F0\n1F0\n2F0,(2F1;1B0)OVERLAP_F_B\n",
     "line 3, column 5: stage 1 is on line 2"},
    {"0F0\n0UNSHARD,1F0\n", "stage 0 is on line 1"},
    {"0F0\n2F0\n", "line 2, column 1: found stage 2, but no line has stage 1"},
    {"0F0,1F0,2F1",
     "line 1, column 9: stage 2 is the last, wanted a multiple of 2 stages, as "
     "many as a path has",
     stagesPerPath(2)},
    {"0F0,2F0,1F0,3F0",
     "line 1, column 5: 2F0 puts microbatch 0 on path 1, where earlier cells "
     "put it on path 0",
     stagesPerPath(2)},
    {"0F0,1F2",
     "line 1, column 5: found microbatch 2, but no line has microbatch 1",
     stagesPerPath(1)},
    {"0F0", "a path has 1 to 16777216 stages, not 0", stagesPerPath(0)},
    {"0F0", "not -4", stagesPerPath(-4)},
    {"0F0", "not 1099511627776", stagesPerPath(int64_t(1) << 40)},
    {"0F0,0B0,0F1,0B1\n1F0,,1B0,,1B0\n",
     "line 2, column 11: cell 2 (1B0) occurs twice\n"
     "note: 1B0 is cell 1 of this row"},
    {"0F0, 0B0,0B1\n",
     "line 1, column 10: cell 2 (0B1) runs before its forward 0F1\n"
     "note: 0F1 is not in this row"},
    {",,0F0,,,(0F1;0B0)OVERLAP_F_B,,0B0",
     "line 1, column 31: cell 6 (0B0) occurs twice", keepColumns()},
    {"0F0,0SEND_F0\n1F0\n",
     "line 1, column 5: 0SEND_F0 has no partner: wanted 1RECV_F0 on line 2"},
    {"0F0\n1RECV_F0,1F0\n",
     "line 2, column 1: 1RECV_F0 has no partner: wanted 0SEND_F0 on line 1"},
    {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
     "line 2, column 18: 1SEND_B0 has no partner: wanted 0RECV_B0 on line 1"},
    {"0F0\n1F0,1SEND_F0\n", "line 2, column 5: 1SEND_F0 has no partner: stage "
                            "1 is the last of its path"},
    {"0RECV_F0,0F0\n1F0\n", "line 1, column 1: 0RECV_F0 has no partner: stage "
                            "0 is the first of its path"},
    {"0F0\n1F0,1RECV_B0\n", "last of its path"},
    {"0F0,0SEND_B0\n1F0\n", "first of its path"},
    {"0F0,0SEND_F0,0F1\n1RECV_F0,1F0,1F1\n",
     "line 2, column 14: wanted 1RECV_F1 before this cell, and 0SEND_F1 on "
     "line 1: the file has other messages"},
    {"0F0,0SEND_F0,0SEND_F0\n1RECV_F0,1F0\n",
     "line 1, column 14: 0SEND_F0 occurs twice"},
    {"0F0,0SEND_F0\n1RECV_F0,1RECV_F0,1F0\n",
     "line 2, column 10: 1RECV_F0 occurs twice"},
    {"0SEND_F0,0F0\n1RECV_F0,1F0\n", "line 1, column 1: 0SEND_F0 sends what no "
                                     "cell before it makes: wanted 0F0"},
    {"0F0,0SEND_F0\n1F0,1RECV_F0\n", "line 2, column 5: 1RECV_F0 receives what "
                                     "no cell after it needs: wanted 1F0"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0\n",
     "line 2, column 14: 1SEND_B0 sends what no cell before it makes: wanted "
     "1B0 or its I"},
    {"0F0,0SEND_F0,1RECV_F0,1F0\n", "line 1, column 5: 0SEND_F0 goes to its "
                                    "own line, where no message is needed"},
    {"0UNSHARD,0F0,0B0,0RESHARD,0UNSHARD\n",
     "line 1, column 27: no cell of stage 0 comes after 0UNSHARD"},
    {"0F0,0B0,0RESHARD\n",
     "line 1, column 9: 0RESHARD has no partner: wanted 0UNSHARD before it"},
    {"0UNSHARD,0F0,0UNSHARD,0B0,0RESHARD\n",
     "line 1, column 14: 0UNSHARD finds the stage unsharded: wanted 0RESHARD "
     "before it"},
    {"0F0,0REDUCE_GRAD,0B0\n", "line 1, column 5: 0REDUCE_GRAD has no partner: "
                               "wanted a B or W of stage 0 before it"},
    {"0F0,0F1,0B0,0REDUCE_GRAD,(0F2;0B1)OVERLAP_F_B\n",
     "line 1, column 26: 0B1 comes after 0REDUCE_GRAD, which needs it"},
    {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n",
     "line 1, column 22: 0REDUCE_GRAD occurs twice"},
    {"0UNSHARD,0F0,0RESHARD,0B0\n",
     "line 1, column 23: this cell runs while stage 0 is resharded: wanted "
     "0UNSHARD before it"},
    {"0UNSHARD,0F0,0B0,0RESHARD\n1F0,1B0\n",
     "line 2, column 1: this cell runs while stage 1 is resharded: wanted "
     "1UNSHARD before it"},
    {"0F0,1UNSHARD,(0F1;0B0)OVERLAP_F_B,1RESHARD\n",
     "line 1, column 35: 1RESHARD comes right after 1UNSHARD: wanted a cell of "
     "stage 1 between them"},
    {"0F0,1F0,1B0,0B0,0REDUCE_GRAD\n",
     "line 1, column 9: stage 1 has no REDUCE_GRAD, other stages have: wanted "
     "1REDUCE_GRAD after this cell"},
};

TEST(TorchCsvImport, RefusesWhatCannotBe) {
  for (const Refusal &refusal : kRefusals)
    EXPECT_THAT(refuse(refusal.text, refusal.options),
                HasSubstr(refusal.message));
}

TEST(TorchCsvImport, ShowsLongAndUnprintableTokensInPart) {
  std::string error = refuse(std::string(100000, 'x'));
  EXPECT_THAT(error, HasSubstr("xxx...', wanted a stage first"));
  EXPECT_LT(error.size(), 200u);
  EXPECT_THAT(refuse(llvm::StringRef("\0\xff", 2)),
              HasSubstr("found '\\00\\FF', wanted a stage first"));
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TEST(TorchCsvImport, RefusesTooManyLines) {
  EXPECT_EQ(refuse(std::string(65537, '\n') + "0F0"),
            "the file has 65538 lines: there may be 65536 ranks at most");
}

TEST(TorchCsvImport, AllocatesNothingForHugeNumbers) {
  EXPECT_EQ(refuse("0F0,16777215F0"),
            "line 1, column 5: found stage 16777215, but no line has stage 1");
  EXPECT_EQ(refuse("0F0,0F2147483646", stagesPerPath(1)),
            "line 1, column 5: found microbatch 2147483646, but no line has "
            "microbatch 1");
  EXPECT_EQ(import("0F2147483646").placement.getNumMicrobatches(), 2147483647);
}

TEST(TorchCsvImport, KnowsTheEndsOfEachPath) {
  llvm::StringRef text = "0F0,0SEND_F0,3RECV_F1,3F1\n"
                         "2F1,2SEND_F1,1RECV_F0,1F0\n";
  EXPECT_THAT(printRows(import(text, stagesPerPath(2)).rows),
              ElementsAre("0F0 1F1", "0F1 1F0"));
  EXPECT_EQ(refuse("1RECV_F0,1F0,1SEND_F0,2RECV_F0,2F1,2SEND_F1\n"
                   "0F0,0SEND_F0,3RECV_F1,3F1\n",
                   stagesPerPath(2)),
            "line 1, column 14: 1SEND_F0 has no partner: stage 1 is the last "
            "of its path");
}

TEST(TorchCsvImport, ReadsWaitsForSends) {
  EXPECT_THAT(printRows(import("0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0\n"
                               "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n")
                            .rows),
              ElementsAre("0F0 0B0", "1F0 1B0"));
  EXPECT_EQ(refuse("0F0,0WAIT_SEND_F0,0SEND_F0\n1RECV_F0,1F0\n"),
            "line 1, column 5: 0WAIT_SEND_F0 has no partner: wanted 0SEND_F0 "
            "before it");
  EXPECT_EQ(refuse("0F0,0SEND_F0,0WAIT_SEND_F0,0WAIT_SEND_F0\n1RECV_F0,1F0\n"),
            "line 1, column 28: 0WAIT_SEND_F0 occurs twice");
  EXPECT_EQ(refuse("0F0,0WAIT_SEND_B0\n1F0\n"),
            "line 1, column 5: 0WAIT_SEND_B0 has no partner: stage 0 is the "
            "first of its path");
}

TEST(TorchCsvImport, RefusesMessagesInThePlaceOfOthers) {
  EXPECT_EQ(refuse("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1RECV_F0,1F0,1F1\n"),
            "line 2, column 1: found 1RECV_F1, but the message that arrives "
            "here is 0SEND_F0 of line 1, column 5: messages carry no tags, and "
            "PyTorch would compute with the wrong one; wanted 1RECV_F0");
  // Activations of one stage and gradients of another, between the same lines.
  EXPECT_THAT(
      refuse(
          "0F0,0SEND_F0,2RECV_F0,2F0,2B0,2SEND_B0,0F1,0SEND_F1,0RECV_B0,0B0\n"
          "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1RECV_B0,1B0,1SEND_B0,1F1\n"),
      HasSubstr("line 2, column 23: found 1RECV_F1, but the message that "
                "arrives here is 2SEND_B0 of line 1, column 31"));
  // Messages from different lines have no common order.
  import("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0\n"
         "1RECV_F0,1RECV_F1,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0,1F1,1SEND_F1\n"
         "2RECV_F0,2F0,2RECV_F1,2B0,2SEND_B0,2F1\n");
}

TEST(TorchCsvImport, ReadsStagesThatStayUnsharded) {
  EXPECT_THAT(printRows(import("0UNSHARD,2UNSHARD,0F0,2F0,2B0,2RESHARD,0B0\n"
                               "1UNSHARD,1F0,1RESHARD,1UNSHARD,1B0\n")
                            .rows),
              ElementsAre("0F0 2F0 2B0 0B0", "1F0 1B0"));
}

TEST(TorchCsvImport, RefusesLossesOfOtherMicrobatches) {
  EXPECT_EQ(
      refuse("0F0,0F2,0F1\n1F0,1F2,,1F1\n"),
      "line 2, column 10: cell 2 (1F1) comes after 1F2: PyTorch's runtime "
      "pairs losses with microbatches by the order of the last stage's "
      "forwards, and its gradients would be wrong; number the "
      "microbatches in that order");
  import("0F1,0F0\n1F0,1F1\n");
  import("0F0,1F2,0F1\n", stagesPerPath(1));
}

//===----------------------------------------------------------------------===//
// Warnings
//===----------------------------------------------------------------------===//

static std::vector<std::string> warn(llvm::StringRef text,
                                     const TorchCsvImport &options = {}) {
  std::vector<TorchCsvWarning> warnings;
  llvm::cantFail(parseTorchCsv(text, options, &warnings));
  std::vector<std::string> texts;
  for (const TorchCsvWarning &warning : warnings)
    texts.push_back(std::to_string(warning.line) + ":" +
                    std::to_string(warning.column) + ": " + warning.text);
  return texts;
}

TEST(TorchCsvImport, WarnsOfGradientsThatAreNotDivided) {
  llvm::StringRef text =
      "0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F0,1F0,1RECV_F1,1F1\n";
  EXPECT_THAT(warn(text), ElementsAre(HasSubstr("no REDUCE_GRAD")));
  EXPECT_THAT(warn("0F0,0F1\n1F0,1F1\n"), ElementsAre());
  EXPECT_THAT(warn("0F0,0SEND_F0\n1RECV_F0,1F0\n"), ElementsAre());
  EXPECT_THAT(warn("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0REDUCE_GRAD\n"
                   "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1REDUCE_GRAD\n"),
              ElementsAre());
}
