//===- SpreadVocabularyTest.cpp - Shards of the head on all workers -------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What holds for the shards of every family, and how tables with wrong shards
// are refused.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "../Support/CheckTable.h"
#include "../Support/FamilyCases.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using testing::HasSubstr;

static Table spread(const Table &table, VocabularyAlgorithm algorithm) {
  Table result = table;
  result.rows = llvm::cantFail(spreadVocabulary(table.view(), algorithm));
  return result;
}

static Row withoutShards(llvm::ArrayRef<Cell> row) {
  Row rest;
  llvm::copy_if(row, std::back_inserter(rest),
                [](Cell cell) { return !cell.isIn(kSpreadPhases); });
  return rest;
}

/// The steps of the head in the order of a row.
static std::vector<std::pair<char, int64_t>> stepsOf(llvm::ArrayRef<Cell> row) {
  std::vector<std::pair<char, int64_t>> steps;
  for (Cell cell : row)
    if (cell.is(Phase::Logits) || cell.is(Phase::LogitsGrad))
      steps.emplace_back(phaseLetter(cell.getPhase()), cell.getUnit());
  return steps;
}

/// Complete, free of deadlock, with the same order of all other cells and thus
/// the same activations.
static void checkSpread(const Table &table, VocabularyAlgorithm algorithm) {
  Table result = spread(table, algorithm);
  std::vector<int64_t> before = measure(table).peakActivations;
  EXPECT_EQ(measure(result).peakActivations, before);
  bool isOnePath = table.placement.getNumPaths() == 1;
  for (size_t row = 0; row != table.rows.size(); ++row) {
    EXPECT_EQ(withoutShards(result.rows[row]), table.rows[row]);
    // All workers of a path run the steps in one order.
    if (isOnePath)
      EXPECT_EQ(stepsOf(result.rows[row]), stepsOf(result.rows[0]));
    bool hasReduce = llvm::any_of(
        result.rows[row], [](Cell cell) { return cell.is(Phase::Reduce); });
    EXPECT_EQ(hasReduce, algorithm == VocabularyAlgorithm::Vocab1);
  }
}

TEST(SpreadVocabulary, KeepsTheOrderOfEveryFamily) {
  for (const Family &family : families()) {
    if (family.takes(FamilyOption::Embedding))
      continue;
    for (int64_t workers : {1, 2, 3, 4, 6})
      for (int64_t microbatches : {1, 2, 5, 12}) {
        SCOPED_TRACE(testing::Message() << family.name.str() << " D=" << workers
                                        << " N=" << microbatches);
        llvm::Expected<Table> table = generate(family, workers, microbatches);
        if (!table) { // the family has no such size
          llvm::consumeError(table.takeError());
          continue;
        }
        checkSpread(*table, VocabularyAlgorithm::Vocab1);
        checkSpread(*table, VocabularyAlgorithm::Vocab2);
      }
  }
}

/// In 1F1B nothing can hide the barriers, so that each microbatch waits for
/// them; a family that leaves room for them does not.
TEST(SpreadVocabulary, WaitsWhereRowsLeaveNoRoom) {
  Placement placement = makeLinear(4, 12);
  Table spreadRows = spread(llvm::cantFail(generate1F1B(placement)),
                            VocabularyAlgorithm::Vocab1);
  Table family = llvm::cantFail(generateVocab1F1B(placement));
  EXPECT_EQ(measure(family).slots, 3 * 3 + 12 * 5);
  EXPECT_GT(measure(spreadRows).slots, measure(family).slots);
  EXPECT_EQ(largest(measure(spreadRows).peakActivations), 4);
  EXPECT_EQ(largest(measure(family).peakActivations), 6);
}

static std::string refusalOf(const Table &table) {
  llvm::Expected<std::vector<Row>> rows =
      spreadVocabulary(table.view(), VocabularyAlgorithm::Vocab1);
  return rows ? "" : llvm::toString(rows.takeError());
}

TEST(SpreadVocabulary, RefusesWhatItWouldBreak) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(2, 2)));
  EXPECT_THAT(refusalOf(spread(table, VocabularyAlgorithm::Vocab2)),
              HasSubstr("cell 1 (0X0): the vocabulary is spread"));
  Table stepped = table;
  stepped.rows[0].push_back(Cell(0, Phase::Optimizer, 0));
  EXPECT_THAT(refusalOf(stepped), HasSubstr("cell 4 (0O0): it would run"));
  Table aligned = table;
  aligned.aligned = true;
  EXPECT_THAT(refusalOf(aligned), HasSubstr("has written slots"));
  Table incomplete = table;
  incomplete.rows[1].pop_back();
  EXPECT_THAT(refusalOf(incomplete), HasSubstr("1B1 is missing"));
}

//===----------------------------------------------------------------------===//
// Tables with wrong shards
//===----------------------------------------------------------------------===//

/// The violation of rows that differ from good ones by a change.
template <typename Change>
static std::string violationOf(const Placement &placement, Change &&change) {
  Table table = llvm::cantFail(generateVocab1F1B(placement));
  change(table.rows);
  TableView view = table.view();
  for (int64_t row = 0, e = view.rows.size(); row != e; ++row)
    if (auto violation = verifyRow(table.placement, row, view.rows[row]))
      return toString(*violation);
  std::optional<Violation> violation = verifyTable(view);
  return violation ? toString(*violation) : "";
}

static void erase(Row &row, Cell cell) { llvm::erase(row, cell); }

TEST(SpreadVocabulary, ShardsAreChecked) {
  Placement placement = makeLinear(2, 2);
  using Rows = std::vector<Row>;
  auto violation = [&](auto &&change) {
    return violationOf(placement, change);
  };
  EXPECT_EQ(violation([](Rows &) {}), "");
  // S before its F.
  EXPECT_THAT(violation([](Rows &rows) {
                erase(rows[1], Cell(1, Phase::Broadcast, 0));
                erase(rows[1], Cell(1, Phase::Logits, 0));
                rows[1].insert(rows[1].begin(), Cell(1, Phase::Logits, 0));
              }),
              HasSubstr("cell 0 (1S0) runs before its broadcast of the last "
                        "output 1X0"));
  // T before S.
  EXPECT_THAT(violation([](Rows &rows) {
                erase(rows[1], Cell(1, Phase::LogitsGrad, 0));
                rows[1].insert(rows[1].begin() + 2,
                               Cell(1, Phase::LogitsGrad, 0));
              }),
              HasSubstr("cell 2 (1T0) runs before its softmax over shards "
                        "1Y0"));
  // B before what it waits for.
  EXPECT_THAT(violation([](Rows &rows) {
                erase(rows[1], Cell(1, Phase::Backward, 0));
                rows[1].insert(rows[1].begin() + 4,
                               Cell(1, Phase::Backward, 0));
              }),
              HasSubstr("1B0"));
  // A worker without its shard, and S without T.
  EXPECT_THAT(violation([](Rows &rows) {
                for (Phase phase :
                     {Phase::Broadcast, Phase::Logits, Phase::Combine,
                      Phase::LogitsGrad, Phase::Reduce})
                  erase(rows[0], Cell(0, phase, 1));
              }),
              HasSubstr("0X1 is missing: worker 1 runs 1X1 and worker 0 is on "
                        "the path"));
  EXPECT_THAT(violation([](Rows &rows) {
                for (Phase phase : {Phase::LogitsGrad, Phase::Reduce})
                  erase(rows[0], Cell(0, phase, 1));
              }),
              HasSubstr("0T1 is missing: worker 0 runs 0S1 without it"));
}

/// The worker of the last stage runs shards by it, or they would not wait for
/// its forward.
TEST(SpreadVocabulary, ShardsOfTheLastStageAreItsOwn) {
  Table table = spread(llvm::cantFail(generateVHalf(makeLinear(1, 1))),
                       VocabularyAlgorithm::Vocab1);
  for (Cell &cell : table.rows[0])
    if (cell.isIn(kSpreadPhases))
      cell = Cell(0, cell.getPhase(), cell.getUnit());
  EXPECT_THAT(toString(*verifyTable(table.view())),
              HasSubstr("(0S0) is of stage 0, but worker 0 has the last stage "
                        "of its path, from which shards take and to which they "
                        "give: it has to be 1S0"));
}

/// Two workers that have the reductions of a queue in different orders.
TEST(SpreadVocabulary, OppositeOrdersDeadlock) {
  std::string found = violationOf(makeLinear(2, 2), [](std::vector<Row> &rows) {
    auto at = [&](Phase phase, int64_t unit) {
      return llvm::find(rows[0], Cell(0, phase, unit));
    };
    // Y1 behind T0 and Z0 is in front of Z0 on the other worker.
    std::swap(*at(Phase::Combine, 0), *at(Phase::Combine, 1));
  });
  EXPECT_THAT(found, HasSubstr("0Y1) runs before its"));
  found = violationOf(makeLinear(2, 2), [](std::vector<Row> &rows) {
    Row &row = rows[0];
    erase(row, Cell(0, Phase::Combine, 0));
    auto behind = llvm::find(row, Cell(0, Phase::Combine, 1)) + 1;
    row.insert(behind, Cell(0, Phase::Combine, 0));
  });
  EXPECT_THAT(found, HasSubstr("the rows deadlock"));
  EXPECT_THAT(found, HasSubstr("0Y1 on worker 0 waits for 1Y1 on worker 1"));
}

/// Slots go by what a group waits for, not by barriers: worker 0 runs on while
/// its X and Y wait for worker 1.
TEST(SpreadVocabulary, RowsGoOnBesideCollectives) {
  Table table = llvm::cantFail(generateVocab1F1B(makeLinear(2, 4)));
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  auto startOf = [&](int64_t stage, Phase phase, int64_t unit) {
    return slots.start[index.lookup(stage, phase, unit)];
  };
  EXPECT_EQ(startOf(0, Phase::Broadcast, 0), 1); // F1 of the row starts there
  EXPECT_EQ(startOf(0, Phase::Forward, 1), 1);
  EXPECT_EQ(startOf(1, Phase::Broadcast, 0), 2); // F0 of the last stage ends
  EXPECT_EQ(startOf(0, Phase::Logits, 0), 2);
}
