//===- StageEdgesTest.cpp - Nodes, and edges other than chains ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which stages have a backward on a graph, what cells wait for, and the
// messages between workers. test/python/schedules/test_graphs.py has times.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "PipeSched/Schedule/Program/Lowering.h"

using namespace pipesched;
using Kind = StageBackward;
using Kinds = std::vector<Kind>;

static constexpr StageKind kTrained = StageKind::Trained;
static constexpr StageKind kFrozen = StageKind::Frozen;
static constexpr StageKind kNone = StageKind::NoBackward;

static llvm::Expected<Placement> place(Path path, AddedStages added,
                                       int64_t numSlices = 1) {
  return Placement::create(4, 2, {std::move(path)}, numSlices,
                           std::move(added));
}

/// The backward of all stages. `kinds` are those of nodes, all on worker 3.
static Kinds backwardsOf(Path path, std::vector<StageKind> kinds,
                         std::vector<AddedEdge> edges) {
  AddedStages added;
  for (StageKind kind : kinds)
    added.nodes.push_back(
        {path.getNumStages() + int64_t(added.nodes.size()), 3, kind});
  added.edges = std::move(edges);
  Placement placement = llvm::cantFail(place(std::move(path), added));
  Kinds found;
  for (int64_t s = 0; s != placement.getNumGlobalStages(); ++s)
    found.push_back(placement.backwardOf(s));
  return found;
}

static Path frozenOn(std::vector<int32_t> workers,
                     std::vector<int64_t> frozen) {
  Path path = pathOn(std::move(workers));
  path.backward.frozen = std::move(frozen);
  return path;
}

TEST(StageEdges, NeedForAGradientFollowsEdges) {
  Kind whole = Kind::Whole, input = Kind::Input, none = Kind::None;
  // An encoder before a chain: trained, frozen, frozen before frozen.
  EXPECT_EQ(backwardsOf(pathOn({0, 1}), {kTrained}, {{2, 0}}), Kinds(3, whole));
  EXPECT_EQ(backwardsOf(pathOn({0, 1}), {kFrozen}, {{2, 0}}),
            Kinds({whole, whole, none}));
  EXPECT_EQ(backwardsOf(frozenOn({0, 1}, {0}), {kTrained}, {{2, 0}}),
            Kinds({input, whole, whole}));
  EXPECT_EQ(backwardsOf(frozenOn({0, 1}, {0, 1}), {kFrozen, kTrained},
                        {{2, 0}, {3, 1}}),
            Kinds({none, input, none, whole}));
  // An edge without a gradient passes no need on.
  EXPECT_EQ(backwardsOf(frozenOn({0, 1}, {0, 1}), {kTrained},
                        {{2, 0, /*mayCarryGradient=*/false}}),
            Kinds({none, none, none}));
  // Without a way to a loss there is no gradient.
  EXPECT_EQ(backwardsOf(pathOn({0, 1}), {kNone}, {{1, 2}}), Kinds(3, none));
  EXPECT_EQ(backwardsOf(pathOn({0, 1}), {kNone}, {{0, 2}}),
            Kinds({whole, whole, none}));
}

TEST(StageEdges, ListsOfEachFlow) {
  AddedStages added = {{{2, 3, kTrained}, {3, 3, kFrozen}},
                       {{2, 0}, {3, 1}, {2, 1, false}}};
  Placement placement = llvm::cantFail(place(pathOn({0, 1}), added));
  const StageEdges &edges = placement.getEdges();
  using Stages = std::vector<int32_t>;
  auto sources = [&](Flow flow, int64_t s) {
    return edges.sourcesOf(flow, s).vec();
  };
  EXPECT_EQ(sources(Flow::Activation, 0), Stages({2}));
  EXPECT_EQ(sources(Flow::Activation, 1), Stages({0, 2, 3}));
  EXPECT_EQ(sources(Flow::Gradient, 0), Stages({1}));
  EXPECT_EQ(sources(Flow::Gradient, 2), Stages({0}));
  EXPECT_EQ(edges.targetsOf(Flow::Activation, 2).vec(), Stages({0, 1}));
  EXPECT_EQ(edges.targetsOf(Flow::Gradient, 1).vec(), Stages({0}));
  EXPECT_TRUE(edges.targetsOf(Flow::Activation, 1).empty());
  EXPECT_FALSE(edges.areLines());
  EXPECT_TRUE(llvm::cantFail(place(pathOn({0, 1}), {})).getEdges().areLines());
}

static Table graphTable(int64_t workers, int64_t microbatches, Path path,
                        AddedStages added,
                        std::initializer_list<llvm::StringRef> rows) {
  return makeTable(
      llvm::cantFail(Placement::create(workers, microbatches, {std::move(path)},
                                       1, std::move(added))),
      rows);
}

static std::string refuse(Path path, AddedStages added, int64_t slices = 1) {
  return errorOf(place(std::move(path), std::move(added), slices));
}

TEST(StageEdges, RefusesEdgesThatLeadNowhere) {
  Path path = pathOn({0, 1, 2});
  EXPECT_EQ(refuse(path, {{}, {{3, 0}}}),
            "edge 3 -> 0: there is no stage 3; the path and nodes have stages "
            "0 to 2");
  EXPECT_EQ(refuse(path, {{}, {{0, -1}}}),
            "edge 0 -> -1: there is no stage -1; the path and nodes have "
            "stages 0 to 2");
  EXPECT_EQ(refuse(path, {{}, {{0, 1}}}),
            "edge 0 -> 1 exists already: a path is a chain");
  EXPECT_EQ(refuse(path, {{}, {{0, 2}, {0, 2}}}), "edge 0 -> 2 occurs twice");
  EXPECT_EQ(refuse(path, {{{3, 3, kTrained}}, {}}), "node 3 has no edge");
  EXPECT_EQ(refuse(path, {{{4, 3, kTrained}}, {{4, 0}}}),
            "node 4 must have the number 3: nodes are numbered after the 3 "
            "stages of the path");
  EXPECT_EQ(refuse(path, {{{3, 4, kTrained}}, {{3, 0}}}),
            "node 3 is on worker 4, which is not one of the 4 workers (0 to "
            "3)");
}

TEST(StageEdges, RefusesWhatHasNoMeaningYet) {
  AddedStages encoder = {{{3, 3, kTrained}}, {{3, 0}}};
  Path path = pathOn({0, 1, 2});
  EXPECT_EQ(refuse(path, encoder, 2),
            "nodes and edges take whole microbatches, and each has 2 slices");
  path.blocks = {1, 1, 1};
  EXPECT_EQ(refuse(path, encoder),
            "the path has blocks or weights, and node 3 does not say which "
            "blocks it holds");
  EXPECT_EQ(errorOf(Placement::create(
                4, 2, {pathOn({0}, {{0, 1, 1}}), pathOn({1}, {{1, 2, 1}})}, 1,
                encoder)),
            "nodes and edges are of a schedule with a single path, and there "
            "are 2");
}

TEST(StageEdges, RefusesBlocksTensorsAndMicrobatchesThatDoNotFit) {
  Path path = pathOn({0, 1, 2});
  auto encoder = [](std::vector<HeldBlocks> holds) {
    return AddedStages{{{3, 3, kTrained, std::nullopt, std::move(holds)}},
                       {{3, 0}}};
  };
  EXPECT_EQ(refuse(path, encoder({{"layer", 0}})),
            "node 3 holds 0 blocks 'layer': there must be 1 to 2147483648");
  EXPECT_EQ(refuse(path, encoder({{"layer", 2}, {"layer", 1}})),
            "node 3 holds blocks 'layer' twice: give their number once");
  EXPECT_EQ(refuse(path, {{}, {{0, 2, true, "skip", -1}}}),
            "edge 0 -> 2 carries -1 bytes: there cannot be fewer than 0");
  EXPECT_EQ(refuse(path, {{}, {{0, 2, true, "", 8}}}),
            "edge 0 -> 2 has bytes of its own, and carries the output of stage "
            "0: name its tensor");
  AddedStages heads = {{{3, 3, kTrained}},
                       {{0, 2, true, "skip", 8}, {0, 3, true, "skip", 9}}};
  EXPECT_EQ(refuse(path, heads), "edge 0 -> 2 and edge 0 -> 3 carry tensor "
                                 "'skip' of stage 0, and say other bytes");
  using Ranges = std::vector<MicrobatchRange>;
  AddedStages taking = {{{3, 3, kTrained, Ranges{{1, 3, 1}}}}, {{3, 0}}};
  EXPECT_EQ(refuse(path, taking), "node 3 takes [1:3:1], which is not within "
                                  "the 2 microbatches (0 to 1)");
}

TEST(StageEdges, NodesTakeOnlySomeMicrobatches) {
  using Ranges = std::vector<MicrobatchRange>;
  AddedStages added = {{{2, 1, kTrained, Ranges{{1, 2, 1}}}}, {{2, 0}}};
  auto rowsOf = [&](llvm::StringRef encoder) {
    return graphTable(2, 2, pathOn({0, 0}), added,
                      {"0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1", encoder});
  };
  Table table = rowsOf("2F1 2B1");
  EXPECT_FALSE(verifyTable(table.view()));
  EXPECT_EQ(table.placement.countOnStage(2), 1);
  EXPECT_EQ(toString(*verifyTable(rowsOf("").view())),
            "2F1 is missing: worker 1 never runs it");
  std::optional<Violation> other =
      verifyRow(table.placement, 1, parseRow("2F0 2B0"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->message,
            "cell 0 (2F0) must not occur: node 2 does not take microbatch 0");
}

TEST(StageEdges, RefusesCirclesAndTrainingAfterNoBackward) {
  Path path = pathOn({0, 1, 2});
  EXPECT_EQ(refuse(path, {{}, {{2, 0}}}),
            "the edges between stages form a circle: stage 0 of path 0 -> "
            "stage 1 of path 0 -> stage 2 of path 0 -> stage 0 of path 0");
  EXPECT_EQ(
      refuse(path,
             {{{3, 3, kTrained}, {4, 3, kTrained}}, {{3, 4}, {4, 3}, {4, 0}}}),
      "the edges between stages form a circle: node 4 -> node 3 -> node 4");
  EXPECT_EQ(refuse(path, {{}, {{1, 1}}}),
            "the edges between stages form a circle: stage 1 of path 0 -> "
            "stage 1 of path 0");
  EXPECT_EQ(refuse(path, {{{3, 3, kNone}}, {{3, 1}}}),
            "stage 1 of path 0 trains after node 3, which has no backward: "
            "freeze node 3, or remove the backward of stage 1 of path 0");
  path.backward.frozen = {1};
  EXPECT_EQ(refuse(path, {{{3, 3, kNone}}, {{3, 1}}}),
            "stage 2 of path 0 trains after node 3, which has no backward: "
            "freeze node 3, or remove the backward of stage 2 of path 0");
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Stage 0 feeds stages 1 and 2 of worker 1, and 3 of worker 2.
static Table makeFork(llvm::StringRef second) {
  return graphTable(3, 1, pathOn({0, 1}),
                    {{{2, 1, kTrained}, {3, 2, kTrained}}, {{0, 2}, {0, 3}}},
                    {"0F0 0B0", second, "3F0 3B0"});
}

TEST(StageEdges, ABackwardWaitsForAllGradients) {
  Table table = makeFork("1F0 2F0 2B0 1B0");
  ASSERT_TRUE(isSound(table));
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  Dependences dependences(view, index);
  auto waitsOf = [&](Cell cell) {
    std::vector<std::string> names;
    dependences.forEachPredecessor(cell, [&](uint32_t flat) {
      CellRef ref = index.refOf(flat);
      names.push_back(view.rows[ref.row][ref.index].str());
    });
    return names;
  };
  using Names = std::vector<std::string>;
  // Worker 1 sums two gradients, and sends after the later one.
  EXPECT_EQ(waitsOf(parseCell("0B0")), Names({"0F0", "1B0", "3B0"}));
  EXPECT_EQ(waitsOf(parseCell("2F0")), Names({"0F0"}));
  SlotAssignment slots = llvm::cantFail(alignUnitSlots(view, index));
  // 0F0 0, then 1F0 1, 2F0 2, 2B0 3, 1B0 5, and 0B0 after that.
  EXPECT_EQ(slots.start, std::vector<int64_t>({0, 7, 1, 2, 3, 5, 1, 2}));
}

/// The sends and receives of all rows.
static std::vector<std::string> messagesOf(const Table &table) {
  Program program =
      llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
  std::vector<std::string> texts;
  for (int64_t row = 0; row != program.getNumWorkers(); ++row) {
    std::string &text = texts.emplace_back();
    for (uint32_t i = program.rowBegins[row]; i != program.rowBegins[row + 1];
         ++i) {
      const Instruction &each = program.instructions[i];
      if (!each.is(InstructionRole::Message))
        continue;
      EXPECT_NE(program.partner[i], Program::kNone);
      text += text.empty() ? "" : " ";
      text += each.is(InstructionKind::Send) ? ">" : "<";
      text += each.cell.str() + "@" + std::to_string(each.peer);
    }
  }
  return texts;
}

TEST(StageEdges, OneMessageForEachWorker) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(
      messagesOf(makeFork("1F0 2F0 2B0 1B0")),
      Texts({">0F0@1 >0F0@2 <3B0@2 <1B0@1", "<0F0@0 >1B0@0", "<0F0@0 >3B0@0"}));
  EXPECT_EQ(
      messagesOf(makeFork("1F0 1B0 2F0 2B0")),
      Texts({">0F0@1 >0F0@2 <3B0@2 <2B0@1", "<0F0@0 >2B0@0", "<0F0@0 >3B0@0"}));
}

/// Gradients of other tensors are not summed: each leaves with its own cell,
/// and one message has all gradients of a cell.
TEST(StageEdges, MessagesHaveAllTensorsOfACell) {
  using Texts = std::vector<std::string>;
  auto messagesOfSkip = [](std::string tensor) {
    return messagesOf(graphTable(2, 1, pathOn({0, 1, 1}),
                                 {{}, {{0, 2, true, std::move(tensor)}}},
                                 {"0F0 0B0", "1F0 2F0 2B0 1B0"}));
  };
  EXPECT_EQ(messagesOfSkip(""), Texts({">0F0@1 <1B0@1", "<0F0@0 >1B0@0"}));
  EXPECT_EQ(messagesOfSkip("skip"),
            Texts({">0F0@1 <2B0@1 <1B0@1", "<0F0@0 >2B0@0 >1B0@0"}));
  EXPECT_EQ(messagesOf(graphTable(2, 1, pathOn({0, 0, 1}), {{}, {{0, 2}}},
                                  {"0F0 1F0 1B0 0B0", "2F0 2B0"})),
            Texts({">0F0@1 >1F0@1 <2B0@1", "<0F0@0 <1F0@0 >2B0@0"}));
}

TEST(StageEdges, ForwardsWaitForAllMessagesBeforeThem) {
  Table table =
      graphTable(3, 2, pathOn({0, 1}), {{{2, 2, kTrained}}, {{0, 2}}},
                 {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2B0 2F1 2B1"});
  Program program =
      llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
  synchronizeForwards(program);
  std::vector<int64_t> receivers;
  for (uint32_t i = 0; i != program.rowBegins[1]; ++i)
    if (program.instructions[i].is(InstructionKind::Compute) &&
        program.instructions[i].cell == parseCell("0F1"))
      for (uint32_t operand : program.operandsOf(i))
        for (int64_t row = 1; row != 3; ++row)
          if (program.rowBegins[row] <= operand &&
              operand < program.rowBegins[row + 1])
            receivers.push_back(row);
  EXPECT_EQ(receivers, std::vector<int64_t>({1, 2}));
}

TEST(StageEdges, ADeadlockIsFound) {
  Table table = graphTable(2, 1, pathOn({0, 1}), {{{2, 0, kTrained}}, {{2, 0}}},
                           {"0F0 2F0 0B0 2B0", "1F0 1B0"});
  std::optional<Violation> violation = verifyTable(table.view());
  ASSERT_TRUE(violation);
  EXPECT_NE(toString(*violation).find("0F0"), std::string::npos)
      << toString(*violation);
}

TEST(StageEdges, RefusesCellsOfStagesWithoutThem) {
  auto find = [](std::vector<StageKind> kinds, std::vector<AddedEdge> edges,
                 llvm::StringRef row) {
    AddedStages added;
    for (StageKind kind : kinds)
      added.nodes.push_back({2 + int64_t(added.nodes.size()), 0, kind});
    added.edges = std::move(edges);
    Placement placement = llvm::cantFail(
        Placement::create(2, 1, {pathOn({0, 1})}, 1, std::move(added)));
    Row cells = parseRow(row);
    std::optional<Violation> violation = verifyRow(placement, 0, cells);
    return violation ? violation->message : "";
  };
  EXPECT_EQ(find({kFrozen}, {{2, 0}}, "2F0 2I0"),
            "cell 1 (2I0) must not occur: node 2 is frozen and no stage before "
            "it trains, so it runs only F");
  EXPECT_EQ(
      find({kNone}, {{0, 2}}, "2F0 2B0"),
      "cell 1 (2B0) must not occur: node 2 has no backward, so it runs only F");
  EXPECT_EQ(find({kNone}, {{1, 2}}, "0F0 0B0"),
            "cell 1 (0B0) must not occur: stage 0 of path 0 leads to no loss, "
            "so it runs only F");
  EXPECT_EQ(find({kFrozen}, {{0, 2}}, "2F0 2B0"),
            "cell 1 (2B0) must not occur: node 2 is frozen after a stage that "
            "trains, so it runs F and, for the gradient of its input, I");
  EXPECT_EQ(find({kTrained}, {{2, 0}}, "2F0 2X0"),
            "cell 1 (2X0) belongs to a shard, and the schedule has edges "
            "outside of its path: shards need chains of stages");
}

TEST(StageEdges, ReadersOfChainsRefuseEdges) {
  Placement placement = llvm::cantFail(Placement::create(
      2, 4, {pathOn({0, 1})}, 1, {{{2, 0, kTrained}}, {{2, 0}}}));
  EXPECT_EQ(errorOf(generate(*findFamily("1f1b"), placement)),
            "1f1b takes only chains of stages: the schedule has edge 2 -> 0");
  EXPECT_EQ(errorOf(evaluateFormulaOfRows("1f1b", placement, {})),
            "formulas take only chains of stages: the schedule has edge 2 -> "
            "0");
  EXPECT_EQ(llvm::toString(placement.checkTrainsAll("an export takes")),
            "an export takes only chains of stages: the schedule has edge 2 -> "
            "0");
}
