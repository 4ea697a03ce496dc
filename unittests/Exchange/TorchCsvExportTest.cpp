//===- TorchCsvExportTest.cpp - Writing PyTorch's schedule files ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written files, refusals, and tables that are the same after writing and
// reading, for generated tables of all kinds.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/TestTables.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "gmock/gmock.h"

using namespace pipesched;
using testing::HasSubstr;
using testing::StartsWith;

static std::string write(const Table &table,
                         TorchCsvFormat format = TorchCsvFormat::ComputeOnly) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto violation = writeTorchCsv(os, table.view(), format))
    ADD_FAILURE() << toString(*violation);
  return text;
}

static Violation refuse(const Table &table) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto violation = writeTorchCsv(os, table.view(), TorchCsvFormat::ComputeOnly);
  EXPECT_EQ(text, "");
  if (violation)
    return *violation;
  ADD_FAILURE() << "expected a refusal";
  return {};
}

static Table alignedTable(Table table) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  table.rows = withIdleSlots(view, llvm::cantFail(alignSlots(view, index)));
  table.aligned = true;
  return table;
}

TEST(TorchCsvExport, WritesCellsPairsAndIdleSlots) {
  Table table = makeTable(
      makeLinear(2, 2), {"0F0 0F1 _2 0B0 0I1 0W1", "_ 1F0 1F1+1B0 1I1 1W1 _"});
  EXPECT_EQ(write(table), "0F0,0F1,,,0B0,0I1,0W1\n"
                          ",1F0,(1F1;1B0)OVERLAP_F_B,1I1,1W1,\n");
}

TEST(TorchCsvExport, WritesSlotsOfAlignedTablesAsColumns) {
  // B takes two slots, F + B three: the next cell of a row is that many columns
  // further on.
  Table table = alignedTable(
      makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1F1+1B0 1B1"}));
  EXPECT_EQ(write(table), "0F0,0F1,,,,0B0,,0B1,\n"
                          ",1F0,(1F1;1B0)OVERLAP_F_B,,,1B1,,,\n");
}

TEST(TorchCsvExport, SendsAtOnceInSweepsOfTheRanks) {
  // Idle slots change nothing.
  for (llvm::StringRef second : {"1F0 1F1 1B0 1B1", "_ 1F0 1F1 _2 1B0 1B1"})
    EXPECT_EQ(write(makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", second}),
                    TorchCsvFormat::ComputeComms),
              "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,"
              "0REDUCE_GRAD,0RESHARD\n"
              "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,"
              "1REDUCE_GRAD,1RESHARD\n");
}

TEST(TorchCsvExport, UnshardsThreeStagesOrFourWithAPair) {
  // From 0F1 on, the pair is next after two stages and brings two more. The
  // text is PyTorch's.
  Table table = makeTable(
      makePlacement(1, 2, {pathOn({0, 0, 0, 0})}),
      {"0F0 1F0 2F0 3F0 0F1 1F1 2F1+3B0 2B0 1B0 0B0 3F1 3B1 2B1 1B1 0B1"});
  EXPECT_EQ(write(table, TorchCsvFormat::ComputeComms),
            "0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,1RESHAR"
            "D,0UNSHARD,2F0,2RESHARD,1UNSHARD,3F0,2UNSHARD,0F1,0RESHARD,1"
            "F1,(2F1;3B0)OVERLAP_F_B,3RESHARD,0UNSHARD,2B0,2RESHARD,3UNSH"
            "ARD,1B0,1RESHARD,2UNSHARD,0B0,0RESHARD,1UNSHARD,3F1,3B1,3RED"
            "UCE_GRAD,3RESHARD,0UNSHARD,2B1,2REDUCE_GRAD,2RESHARD,1B1,1RE"
            "DUCE_GRAD,1RESHARD,0B1,0REDUCE_GRAD,0RESHARD\n");
}

TEST(TorchCsvExport, SendsNothingWithinARank) {
  Table table = makeTable(makePlacement(2, 1, {pathOn({0, 1, 1, 0})}),
                          {"0F0 3F0 3I0 3W0 0B0", "1F0 2F0 2B0 1B0"});
  EXPECT_EQ(write(table, TorchCsvFormat::ComputeComms),
            "0UNSHARD,3UNSHARD,0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,3W0,"
            "3REDUCE_GRAD,3RESHARD,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
            "1UNSHARD,2UNSHARD,1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,"
            "2REDUCE_GRAD,2RESHARD,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n");
}

TEST(TorchCsvExport, RefusesReplicatedStages) {
  Placement placement = makePlacement(
      2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})});
  Violation violation =
      refuse(makeTable(placement, {"0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1"}));
  EXPECT_EQ(violation.message,
            "the schedule has 2 paths: in PyTorch's CSV each stage sits on one "
            "rank, replicated stages cannot be written");
  ASSERT_EQ(violation.notes.size(), 1u);
  EXPECT_EQ(violation.notes[0].message,
            "cell 1 (1F1) runs stage 1 of path 1 on "
            "worker 0; path 0 runs it on worker 1");
}

TEST(TorchCsvExport, RefusesOtherPhasesByName) {
  auto refuseRow = [](llvm::StringRef row) {
    Violation violation = refuse(makeTable(makeLinear(1, 1), {row}));
    EXPECT_TRUE(violation.at && violation.at->index == 1);
    return violation.message;
  };
  EXPECT_EQ(refuseRow("0F0 0R0 0B0"), "cell 1 (0R0): PyTorch's CSV has no "
                                      "token for R (recompute)");
  EXPECT_THAT(refuseRow("0F0 0D0 0U0 0B0"), HasSubstr("for D (offload)"));
  EXPECT_THAT(refuseRow("0F0 0U0"), HasSubstr("(0U0)"));
  EXPECT_THAT(refuseRow("0F0 0U0"), HasSubstr("for U (reload)"));
  EXPECT_THAT(refuseRow("0B0 0O0"), HasSubstr("for O (optimizer)"));
  EXPECT_THAT(refuseRow("0B0 0G0"), HasSubstr("for G (all-reduce)"));
  EXPECT_THAT(refuseRow("0F0 0d0"), HasSubstr("for d (wait for offload)"));
  EXPECT_THAT(refuseRow("0F0 0u0"), HasSubstr("for u (wait for reload)"));
}

TEST(TorchCsvExport, RefusesOtherPairs) {
  for (llvm::StringRef row : {"0F0 0B0+0F1", "0F0 0F1+0I0", "0F0 0F1+0F2"})
    EXPECT_THAT(refuse(makeTable(makeLinear(1, 3), {row})).message,
                HasSubstr("overlaps a forward with a whole backward only"));
}

TEST(TorchCsvExport, RefusesGradientsAfterTheWeights) {
  Table split = makeTable(makeLinear(1, 1), {"0F0 0I0 0W0"});
  split.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(refuse(split).message, "cell 1 (0I0): PyTorch sends a gradient "
                                   "after I, this schedule after W; generate "
                                   "it with gradient-after=I, or merge each I "
                                   "with its W (pipe-merge-backward)");
  Table whole = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  whole.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_EQ(write(whole), "0F0,0B0\n");
}

TEST(TorchCsvExport, RefusesIdleWorkersAndTooManyColumns) {
  Placement placement = makePlacement(2, 1, {pathOn({0})});
  EXPECT_THAT(refuse(makeTable(placement, {"0F0 0B0", "_2"})).message,
              StartsWith("worker 1 runs nothing"));
  EXPECT_THAT(
      refuse(makeTable(makeLinear(1, 1), {"0F0 _2147483647 0B0"})).message,
      HasSubstr("has 2147483649 cells and idle slots"));
}

TEST(TorchCsvExport, RefusesLossesOfOtherMicrobatches) {
  Violation violation = refuse(
      makeTable(makeLinear(2, 3), {"0F0 0F2 0F1", "1F0 1F2 1B2 1F1 1B1"}));
  EXPECT_THAT(violation.message, StartsWith("cell 3 (1F1) comes after 1F2"));
  ASSERT_TRUE(violation.at.has_value());
  EXPECT_EQ(violation.at->row, 1);
  EXPECT_EQ(violation.at->index, 3);
  EXPECT_FALSE(findUnorderedForward(
      makeTable(makeLinear(2, 2), {"0F1 0F0", "1F0 1F1"}).view()));
}

//===----------------------------------------------------------------------===//
// Round trips
//===----------------------------------------------------------------------===//

/// Reading either format gives back the table, with and without its idle slots.
static void expectRoundTrip(const Table &table) {
  for (TorchCsvFormat format :
       {TorchCsvFormat::ComputeOnly, TorchCsvFormat::ComputeComms}) {
    Table read = llvm::cantFail(parseTorchCsv(write(table, format)));
    EXPECT_EQ(printRows(read.rows), printRows(compactRows(table.view())));
    EXPECT_EQ(read.placement.getPath(0).workers,
              table.placement.getPath(0).workers);
  }
}

TEST(TorchCsvExport, IsReadBackForAllSmallSizes) {
  LoopOptions loop;
  loop.chunks = 2;
  for (int64_t workers = 1; workers <= 6; ++workers)
    for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
      Placement line = makeLinear(workers, microbatches);
      Placement v = makePlacement(workers, microbatches, {placeV(workers)});
      std::vector<Table> tables;
      tables.push_back(llvm::cantFail(generateGPipe(line)));
      tables.push_back(alignedTable(llvm::cantFail(generate1F1B(line))));
      tables.push_back(llvm::cantFail(generateLoopedBFS(line, loop)));
      if (workers > 1)
        tables.push_back(llvm::cantFail(generateZBV(v)));
      for (const Table &table : tables) {
        SCOPED_TRACE(testing::Message() << workers << " x " << microbatches);
        ASSERT_TRUE(isSound(table));
        expectRoundTrip(table);
      }
    }
}
