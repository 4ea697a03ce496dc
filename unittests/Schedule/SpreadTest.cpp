//===- SpreadTest.cpp - Shards of the vocabulary --------------------------===//
//----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties of the shards of the embedding and of the head in every family.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/FamilyCases.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "llvm/ADT/STLExtras.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using testing::HasSubstr;

static Table spread(const Table &table) {
  Table result = table;
  result.rows = llvm::cantFail(spreadEmbedding(table.view()));
  return result;
}

static Row without(PhaseSet phases, llvm::ArrayRef<Cell> row) {
  Row rest;
  llvm::copy_if(row, std::back_inserter(rest),
                [&](Cell cell) { return !cell.isIn(phases); });
  return rest;
}

namespace {
/// The outputs of the embedding and their gradients that workers hold, by unit
/// slots.
class Holder {
public:
  explicit Holder(const Table &table)
      : table(table), view(this->table.view()),
        index(llvm::cantFail(CellIndex::create(view))),
        slots(llvm::cantFail(alignSlots(view, index))) {}

  /// From E to F of the first stage.
  int64_t mostSums(int64_t path) const {
    int64_t row = table.placement.workerOf(table.placement.stageOffset(path));
    int64_t held = 0, most = 0;
    for (Cell cell : table.rows[row]) {
      if (table.placement.pathOf(cell.getUnit()) != path ||
          cell.getStage() != 0)
        continue;
      held += cell.is(Phase::Lookup) - cell.is(Phase::Forward);
      most = std::max(most, held);
    }
    return most;
  }
  /// From E to A on a worker, once it has started its first F.
  int64_t mostParts(int64_t row, int64_t path) const {
    int64_t first = std::numeric_limits<int64_t>::max();
    forEach(row, path, Phase::Forward,
            [&](Cell cell) { first = std::min(first, startOf(cell)); });
    return most(row, path, Phase::Lookup, Phase::LookupSum, first);
  }
  /// From C to V on a worker.
  int64_t mostGradients(int64_t row, int64_t path) const {
    std::vector<std::pair<int64_t, int64_t>> spans;
    forEach(row, path, Phase::GradientBroadcast, [&](Cell cell) {
      spans.emplace_back(metAt(cell),
                         startOf(cell.withPhase(Phase::LookupGrad)));
    });
    return mostAtOnce(spans, 0);
  }
  int64_t numSlots() const { return slots.numSlots; }

private:
  template <typename Visit>
  void forEach(int64_t row, int64_t path, Phase phase, Visit &&visit) const {
    for (Cell cell : table.rows[row])
      if (cell.is(phase) && table.placement.pathOf(cell.getUnit()) == path)
        visit(cell.withOverlap(false));
  }
  int64_t startOf(Cell cell) const {
    return slots
        .start[index.lookup(cell.getStage(), cell.getPhase(), cell.getUnit())];
  }
  /// When the last worker has reached a collective.
  int64_t metAt(Cell cell) const {
    const Groups &groups = *index.getGroups();
    int64_t last = 0;
    for (CellRef member : groups.membersOf(*groups.groupsOf(cell).begin()))
      last = std::max(last, startOf(table.rows[member.row][member.index]));
    return last;
  }
  int64_t most(int64_t row, int64_t path, Phase from, Phase until,
               int64_t first) const {
    std::vector<std::pair<int64_t, int64_t>> spans;
    forEach(row, path, from, [&](Cell cell) {
      spans.emplace_back(startOf(cell), metAt(cell.withPhase(until)));
    });
    return mostAtOnce(spans, first);
  }
  static int64_t mostAtOnce(llvm::ArrayRef<std::pair<int64_t, int64_t>> spans,
                            int64_t first) {
    int64_t most = 0;
    for (auto [begin, end] : spans) {
      int64_t at = std::max(begin, first);
      most = std::max<int64_t>(most, llvm::count_if(spans, [at](auto span) {
                                 return span.first <= at && at < span.second;
                               }));
    }
    return most;
  }

  Table table;
  TableView view;
  CellIndex index;
  SlotAssignment slots;
};
} // namespace

/// Complete, free of deadlock, in as many slots, with the same order of all
/// other cells, and with two outputs and two gradients at most.
static void checkSpread(const Table &table) {
  Table result = spread(table);
  EXPECT_EQ(verifyTable(result.view()), std::nullopt);
  EXPECT_EQ(measure(result).peakActivations, measure(table).peakActivations);
  EXPECT_EQ(measure(result).slots, measure(table).slots);
  Holder holder(result);
  for (int64_t path = 0; path != table.placement.getNumPaths(); ++path)
    EXPECT_LE(holder.mostSums(path), 2) << "path " << path;
  for (size_t row = 0; row != table.rows.size(); ++row) {
    EXPECT_EQ(without(kEmbeddingPhases, result.rows[row]), table.rows[row]);
    for (int64_t path = 0; path != table.placement.getNumPaths(); ++path) {
      EXPECT_LE(holder.mostParts(row, path), 2) << "row " << row;
      EXPECT_LE(holder.mostGradients(row, path), 2) << "row " << row;
    }
  }
}

TEST(SpreadEmbedding, KeepsTheOrderAndTheSlotsOfEveryFamily) {
  constexpr std::pair<int64_t, int64_t> kSizes[] = {
      {1, 1}, {1, 5}, {2, 1}, {2, 2},  {2, 5}, {3, 2}, {3, 12},
      {4, 1}, {4, 5}, {4, 8}, {4, 12}, {6, 2}, {6, 5}, {6, 12}};
  for (const Family &family : families())
    for (auto [workers, microbatches] : kSizes) {
      SCOPED_TRACE(testing::Message() << family.name.str() << ", " << workers
                                      << " x " << microbatches);
      llvm::Expected<Table> table = generate(family, workers, microbatches);
      if (!table) { // the family has no such size
        llvm::consumeError(table.takeError());
        continue;
      }
      checkSpread(*table);
      if (family.takes(FamilyOption::Embedding))
        continue;
      for (VocabularyAlgorithm algorithm :
           {VocabularyAlgorithm::Vocab1, VocabularyAlgorithm::Vocab2}) {
        Table whole = *table;
        whole.rows = llvm::cantFail(spreadVocabulary(table->view(), algorithm));
        checkSpread(whole);
      }
    }
}

/// The interval of vocab-1f1b stays at F, B, S and T, and the microbatches that
/// it holds at D + 2 and D + 1.
TEST(SpreadEmbedding, KeepsTheIntervalOfVocab1F1B) {
  const Family &family = *findFamily("vocab-1f1b");
  for (VocabularyAlgorithm algorithm :
       {VocabularyAlgorithm::Vocab1, VocabularyAlgorithm::Vocab2})
    for (int64_t workers : {2, 4, 8}) {
      FamilyOptions options;
      options.vocabulary = algorithm;
      options.embedding = true;
      auto slotsOf = [&](int64_t microbatches) {
        return measure(
            llvm::cantFail(generate(family, workers, microbatches, options)));
      };
      int64_t few = 4 * workers;
      EXPECT_EQ(slotsOf(few + 1).slots - slotsOf(few).slots, 1 + 2 + 1 + 1);
      EXPECT_EQ(largest(slotsOf(few).peakActivations),
                workers + (algorithm == VocabularyAlgorithm::Vocab1 ? 2 : 1));
    }
}

/// The steady state of worker 0: the lookup is alongside S, an interval ahead
/// of its forward, and V an interval after its backward.
TEST(SpreadEmbedding, StandsAnIntervalAheadAndBehind) {
  FamilyOptions options;
  options.embedding = true;
  Table table = llvm::cantFail(
      generate(*findFamily("vocab-1f1b"), /*numWorkers=*/2, 8, options));
  std::string text;
  for (Cell cell : table.rows[0])
    if (!cell.isIn({Phase::Broadcast, Phase::Combine, Phase::Reduce}))
      text += cell.str() + " ";
  EXPECT_THAT(text, HasSubstr("0E0 0A0 0E1 0A1 0F0 0E2 0A2 "));
  EXPECT_THAT(text, testing::EndsWith("0B6 0C6 0V5 0B7 0C7 0V6 0V7 "));
}

static std::string refusalOf(const Table &table) {
  llvm::Expected<std::vector<Row>> rows = spreadEmbedding(table.view());
  return rows ? "" : llvm::toString(rows.takeError());
}

TEST(SpreadEmbedding, RefusesWhatItWouldBreak) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(2, 2)));
  EXPECT_THAT(refusalOf(spread(table)),
              HasSubstr("cell 0 (0E0): the embedding is already sharded"));
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

/// Two paths whose first stages are on different workers: all workers have the
/// sums of both in one order.
TEST(SpreadEmbedding, SeveralPathsMeetInOneOrder) {
  Table table = spread(llvm::cantFail(generate(*findFamily("chimera"), 4, 8)));
  auto orderOf = [&](int64_t row, Phase phase) {
    std::vector<int64_t> units;
    for (Cell cell : table.rows[row])
      if (cell.is(phase))
        units.push_back(cell.getUnit());
    return units;
  };
  for (Phase phase : {Phase::LookupSum, Phase::GradientBroadcast})
    for (int64_t row = 1; row != 4; ++row)
      EXPECT_EQ(orderOf(row, phase), orderOf(0, phase));
}

static Table spread(const Table &table, VocabularyAlgorithm algorithm) {
  Table result = table;
  result.rows = llvm::cantFail(spreadVocabulary(table.view(), algorithm));
  return result;
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
    EXPECT_EQ(without(kSpreadPhases, result.rows[row]), table.rows[row]);
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

/// Two workers that have the reductions of a queue in different orders.
TEST(SpreadVocabulary, OppositeOrdersDeadlock) {
  std::string found = violationOf(makeLinear(2, 2), [](std::vector<Row> &rows) {
    auto at = [&](Phase phase, int64_t unit) {
      return llvm::find(rows[0], Cell(0, phase, unit));
    };
    // Y1 after T0 and Z0 is before Z0 on the other worker.
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

/// Slots follow the waits of a group, not barriers: worker 0 runs on while its
/// X and Y wait for worker 1.
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
