//===- ShardyRulesTest.cpp - Fragment schedule rules of Shardy MPMD -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A response file reads the text as one argument, and a reader of rules
// recovers every cell, for generated tables of all kinds.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Exchange/ShardyRules.h"
#include "../Support/CheckTable.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/StringSaver.h"
#include "gmock/gmock.h"

using namespace pipesched;
using testing::ElementsAre;
using testing::HasSubstr;

static std::string write(const Table &table,
                         const ShardyRulesOptions &options = {}) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto violation = writeShardyRules(os, table.view(), options))
    ADD_FAILURE() << toString(*violation);
  return text;
}

static Violation refuse(const Table &table,
                        const ShardyRulesOptions &options = {}) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto violation = writeShardyRules(os, table.view(), options);
  EXPECT_EQ(text, "");
  if (violation)
    return *violation;
  ADD_FAILURE() << "expected a refusal";
  return {};
}

//===----------------------------------------------------------------------===//
// Reading back
//===----------------------------------------------------------------------===//

namespace {
/// Reads the fields of a fragment in any order, each once; missing fields have
/// Shardy's defaults.
class RulesReader {
public:
  explicit RulesReader(llvm::StringRef text) : rest(text) {}

  /// The rows, by the number in the mesh's name.
  std::vector<Row> read(int64_t numWorkers) {
    std::vector<Row> rows(numWorkers);
    expect("-mpmd-rule-based-schedule=rules=");
    do {
      expect("FragmentScheduleRule(ordered_fragments=[");
      do {
        Row &row = rows.at(readFragment());
        row.push_back(cell);
      } while (rest.consume_front("->"));
      expect("])");
    } while (rest.consume_front(","));
    EXPECT_EQ(rest.str(), "");
    return rows;
  }

private:
  void expect(llvm::StringRef text) {
    EXPECT_TRUE(rest.consume_front(text))
        << "expected " << text.str() << " at " << rest.take_front(40).str();
  }
  int64_t readNumber() {
    int64_t number = 0;
    EXPECT_FALSE(rest.consumeInteger(10, number)) << rest.take_front(40).str();
    return number;
  }

  /// Sets `cell`; returns the mesh.
  int64_t readFragment() {
    expect("FragmentInfo(origins=[\"s");
    int64_t stage = readNumber(), mesh = 0, microbatch = 0;
    expect("\"");
    Phase phase = rest.consume_front("(1)") ? Phase::Backward : Phase::Forward;
    expect("],mesh_name=\"m");
    mesh = readNumber();
    expect("\",call_counter=");
    microbatch = readNumber();
    if (rest.consume_front(",split_type=kKeepTransferred"))
      phase = Phase::InputGrad;
    else if (rest.consume_front(",split_type=kDropTransferred"))
      phase = Phase::WeightGrad;
    expect(")");
    cell = Cell(stage, phase, microbatch);
    return mesh;
  }

  llvm::StringRef rest;
  Cell cell;
};
} // namespace

/// The text as an argument, as LLVM's tools read it from a response file.
static std::string argumentOf(llvm::StringRef text) {
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  llvm::SmallVector<const char *> arguments;
  llvm::cl::TokenizeGNUCommandLine(text, saver, arguments);
  EXPECT_EQ(arguments.size(), 1u);
  return arguments.empty() ? "" : arguments.front();
}

static std::vector<Row> readBack(const Table &table,
                                 const ShardyRulesOptions &options = {}) {
  std::string argument = argumentOf(write(table, options));
  return RulesReader(argument).read(table.placement.getNumWorkers());
}

TEST(ShardyRules, AreReadBackForAllSmallSizes) {
  LoopOptions loop;
  loop.chunks = 2;
  for (int64_t workers = 1; workers <= 6; ++workers)
    for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
      SCOPED_TRACE(testing::Message() << workers << " x " << microbatches);
      Placement line = makeLinear(workers, microbatches);
      Placement v = makePlacement(workers, microbatches, {placeV(workers)});
      std::vector<Table> tables;
      tables.push_back(llvm::cantFail(generateGPipe(line)));
      tables.push_back(llvm::cantFail(generateZBH1(line)));
      tables.push_back(llvm::cantFail(generateLoopedBFS(line, loop)));
      if (workers > 1)
        tables.push_back(llvm::cantFail(generateZBV(v)));
      for (const Table &table : tables)
        EXPECT_EQ(printRows(readBack(table)), printRows(table.rows));
    }
}

/// The order of a program that Shardy has split, by definition: if the gradient
/// stays on the worker or the stage is the first, I becomes B and W is dropped.
static Table splitAsShardy(Table table) {
  for (Row &row : table.rows) {
    Row cells;
    for (Cell cell : row) {
      int64_t stage = cell.getStage();
      const Placement &placement = table.placement;
      bool stays = stage == 0 ||
                   placement.workerOf(stage - 1) == placement.workerOf(stage);
      if (!stays || cell.is(Phase::Forward))
        cells.push_back(cell);
      else if (cell.is(Phase::InputGrad))
        cells.push_back(cell.withPhase(Phase::Backward));
    }
    row = cells;
  }
  return table;
}

TEST(ShardyRules, FragmentsAreASoundOrder) {
  ShardyRulesOptions options;
  options.backward = ShardyBackward::Fragments;
  for (int64_t workers = 2; workers <= 6; ++workers)
    for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
      SCOPED_TRACE(testing::Message() << workers << " x " << microbatches);
      Placement v = makePlacement(workers, microbatches, {placeV(workers)});
      for (const Table &table :
           {llvm::cantFail(generateZBH1(makeLinear(workers, microbatches))),
            llvm::cantFail(generateZBV(v))}) {
        Table split = splitAsShardy(table);
        EXPECT_TRUE(isSound(split));
        EXPECT_EQ(printRows(readBack(table, options)), printRows(split.rows));
      }
    }
}

TEST(ShardyRules, SplitsEveryBackwardWhoseGradientLeaves) {
  ShardyRulesOptions options;
  options.backward = ShardyBackward::Fragments;
  Table mixed = makeTable(makeLinear(2, 2),
                          {"0F0 0F1 0B0 0I1 0W1", "1F0 1F1 1B0 1I1 1W1"});
  EXPECT_THAT(printRows(readBack(mixed, options)),
              ElementsAre("0F0 0F1 0B0 0B1", "1F0 1F1 1I0 1W0 1I1 1W1"));
  Table whole =
      makeTable(makeLinear(2, 2), {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
  EXPECT_EQ(printRows(readBack(whole, options)), printRows(whole.rows));
}

//===----------------------------------------------------------------------===//
// Refusals and warnings
//===----------------------------------------------------------------------===//

TEST(ShardyRules, RefusesWhatRulesCannotSay) {
  auto refuseRow = [](llvm::StringRef row) {
    Violation violation = refuse(makeTable(makeLinear(1, 2), {row}));
    EXPECT_TRUE(violation.at && violation.at->index == 1);
    return violation.message;
  };
  EXPECT_THAT(refuseRow("0F0 0R0"), HasSubstr("cell 1 (0R0): Shardy's rules "
                                              "have no fragment for R "
                                              "(recompute)"));
  EXPECT_THAT(refuseRow("0F0 0D0"), HasSubstr("for D (offload)"));
  EXPECT_THAT(refuseRow("0F0 0U0"), HasSubstr("for U (reload)"));
  EXPECT_THAT(refuseRow("0B0 0O0"), HasSubstr("for O (optimizer)"));
  EXPECT_THAT(refuseRow("0B0 0G0"), HasSubstr("for G (all-reduce)"));
  EXPECT_THAT(refuseRow("0F0 0d0"), HasSubstr("for d (wait for offload)"));
  EXPECT_THAT(refuseRow("0F0 0u0"), HasSubstr("for u (wait for reload)"));
  EXPECT_THAT(refuseRow("0F0 0F1+0B0"), HasSubstr("(0F1+0B0)"));
  Placement mirrored = makePlacement(
      2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({1, 0}, {{1, 2, 1}})});
  EXPECT_THAT(
      refuse(makeTable(mirrored, {"0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1"}))
          .message,
      HasSubstr("has 2 paths"));
}

TEST(ShardyRules, RefusesNamesThatWouldNotBeReadBack) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  for (llvm::StringRef prefix :
       {"\"", "'", "\\", " ", "\n", "$", "{", "\xc3"}) {
    ShardyRulesOptions mesh, stage;
    mesh.meshPrefix = prefix.str();
    stage.stagePrefix = prefix.str();
    EXPECT_THAT(refuse(table, mesh).message, HasSubstr("the mesh prefix"));
    EXPECT_THAT(refuse(table, stage).message, HasSubstr("the stage prefix"));
  }
}

TEST(ShardyRules, FindsHalvesThatShardyDoesNotSplit) {
  ShardyRulesOptions cells, fragments;
  fragments.backward = ShardyBackward::Fragments;
  // The gradient of stage 2 stays on worker 1, stage 3's does not.
  Table table = makeTable(makePlacement(2, 1, {pathOn({0, 1, 1, 0})}),
                          {"0F0 3F0 3I0 3W0 0B0", "1F0 2F0 2I0 2W0 1B0"});
  auto violation = findUnsplitBackward(table.view(), cells);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->at->row, 1);
  EXPECT_THAT(violation->message, HasSubstr("cell 2 (2I0)"));
  EXPECT_FALSE(findUnsplitBackward(table.view(), fragments));
  Table whole = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  EXPECT_FALSE(findUnsplitBackward(whole.view(), cells));
}

TEST(ShardyRules, SaysWhereGradientsLeaveEarlier) {
  Table split = makeTable(makeLinear(1, 1), {"0F0 0I0 0W0"});
  EXPECT_FALSE(sendsAfterWeightGrad(split.view()));
  split.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_TRUE(sendsAfterWeightGrad(split.view()));
  Table whole = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  whole.gradientAfter = GradientAfter::WeightGrad;
  EXPECT_FALSE(sendsAfterWeightGrad(whole.view()));
}
