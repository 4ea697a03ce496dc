//===- WorkerProgramsTest.cpp - Programs of workers for executors ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The columns against the program that they are read from, and the waits of
// instructions against the task graph of the same program.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/WorkerPrograms.h"
#include "../Support/RandomTables.h"
#include "PipeSched/Analysis/Graph/TaskGraph.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include <map>

using namespace pipesched;

namespace {

/// A program and its columns. `entryOf` maps instructions to columns; both
/// halves of a pair have one entry.
struct Listed {
  Program program;
  WorkerPrograms columns;
  std::vector<uint32_t> entryOf;

  Listed(const Table &table, ReceivePlacement receives)
      : program(llvm::cantFail(lowerTable(table.view(), receives))),
        columns(llvm::cantFail(listWorkerPrograms(program, table.placement))) {
    uint32_t entry = 0;
    for (const Instruction &instruction : program.instructions) {
      bool isSecondHalf = !entryOf.empty() && isFirstHalf(entryOf.size() - 1);
      entryOf.push_back(isSecondHalf ? entry - 1 : entry++);
      (void)instruction;
    }
    EXPECT_EQ(entry, columns.kind.size());
  }

  bool isFirstHalf(uint32_t instruction) const {
    const Instruction &self = program.instructions[instruction];
    return self.is(InstructionRole::Compute) && self.cell.overlapsNext();
  }
  /// The number of an instruction in its row.
  int32_t numberOf(int64_t row, uint32_t instruction) const {
    return entryOf[instruction] - columns.rowBegins[row];
  }
  llvm::ArrayRef<int32_t> waitsOf(int64_t row, uint32_t instruction) const {
    const uint32_t *begins =
        columns.waitBegins.data() + entryOf[instruction] + row;
    return llvm::ArrayRef(columns.waits)
        .slice(columns.rowWaits[row] + begins[0], begins[1] - begins[0]);
  }
};

} // namespace

template <typename Check>
static void forInstructions(const Program &program, Check &&check) {
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i)
      check(row, i);
}

/// Every operand is a wait, and every wait is an operand or a join; joins hold
/// the instructions that list them.
static void expectWaits(const Listed &listed) {
  const Program &program = listed.program;
  const WorkerPrograms &columns = listed.columns;
  const std::vector<uint32_t> &entryOf = listed.entryOf;
  forInstructions(program, [&](int64_t row, uint32_t i) {
    llvm::ArrayRef<int32_t> waits = listed.waitsOf(row, i);
    for (uint32_t operand : program.operandsOf(i))
      EXPECT_TRUE(llvm::is_contained(waits, listed.numberOf(row, operand)));
    for (int32_t wait : waits)
      EXPECT_LT(wait, listed.numberOf(row, i));
    if (!program.instructions[i].is(InstructionRole::Join))
      return;
    int32_t held = columns.holds[entryOf[i]], self = listed.numberOf(row, i);
    for (uint32_t j = i + 1; j < program.rowBegins[row + 1]; ++j)
      if (llvm::is_contained(listed.waitsOf(row, j), self)) {
        EXPECT_EQ(held, listed.numberOf(row, j));
        return;
      }
    EXPECT_EQ(held, -1);
  });
}

/// The operands of a join are edges of the instruction that it holds.
static void expectJoinsAsTimed(const Listed &listed) {
  const Program &program = listed.program;
  llvm::Expected<TaskGraph> graph = buildTaskGraph(program, Transport::Delay);
  if (!graph)
    return llvm::consumeError(graph.takeError());
  forInstructions(program, [&](int64_t row, uint32_t i) {
    int32_t held = listed.columns.holds[listed.entryOf[i]];
    if (held < 0)
      return;
    uint32_t at = i;
    while (listed.numberOf(row, at) != held)
      ++at;
    auto edges = graph->edgesOf(graph->taskOfInstruction[at]);
    for (uint32_t operand : program.operandsOf(i))
      EXPECT_TRUE(llvm::any_of(edges, [&](Edge edge) {
        return edge.task() == graph->taskOfInstruction[operand];
      }));
  });
}

/// Both ends of a message have its number; numbers follow the sends.
static void expectMessages(const Listed &listed) {
  const Program &program = listed.program;
  const WorkerPrograms &columns = listed.columns;
  const std::vector<uint32_t> &entryOf = listed.entryOf;
  int32_t next = 0;
  std::map<std::pair<int64_t, int32_t>, int32_t> sent;
  forInstructions(program, [&](int64_t row, uint32_t i) {
    const Instruction &self = program.instructions[i];
    uint32_t entry = entryOf[i];
    if (!self.is(InstructionRole::Message)) {
      EXPECT_EQ(columns.message[entry], -1);
      EXPECT_EQ(columns.peer[entry], -1);
      return;
    }
    uint32_t other = entryOf[program.partner[i]];
    EXPECT_EQ(columns.peer[entry], self.peer);
    EXPECT_EQ(columns.message[entry], columns.message[other]);
    EXPECT_EQ(columns.sequence[entry], columns.sequence[other]);
    if (!self.is(InstructionKind::Send))
      return;
    EXPECT_EQ(columns.message[entry], next++);
    EXPECT_EQ(columns.sequence[entry], (sent[{row, self.peer}]++));
  });
}

TEST(WorkerPrograms, ListRandomTables) {
  int64_t numJoins = 0, numPairs = 0;
  for (uint32_t seed = 0; seed < 300; ++seed)
    for (ReceivePlacement receives :
         {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      Listed listed(makeRandomTable(seed), receives);
      expectWaits(listed);
      expectJoinsAsTimed(listed);
      expectMessages(listed);
      numJoins += llvm::count_if(listed.columns.holds,
                                 [](int32_t held) { return held >= 0; });
      numPairs += llvm::count_if(listed.columns.second.stage,
                                 [](int32_t stage) { return stage >= 0; });
    }
  EXPECT_GT(numJoins, 100);
  EXPECT_GT(numPairs, 100);
}

/// The stages of a worker, with blocks of paths of different lengths, and their
/// sets: worker 0 has block 1 of both its stages.
TEST(WorkerPrograms, ListStages) {
  Path down = pathOn({0, 1}), up = pathOn({1, 0});
  down.blocks = {2, 2};
  up.blocks = {1, 3};
  down.takes = {{0, 1, 1}};
  up.takes = {{1, 2, 1}};
  WorkerStages stages = llvm::cantFail(
      listWorkerStages(llvm::cantFail(Placement::create(2, 2, {down, up}))));
  EXPECT_EQ(stages.numBlocks, 4);
  EXPECT_EQ(stages.begins, (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(stages.path, (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(stages.stage, (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(stages.firstBlock, (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(stages.endBlock, (std::vector<int64_t>{2, 4, 4, 1}));
  EXPECT_EQ(stages.firstSet, (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(stages.endOwnedSet, (std::vector<int32_t>{1, 3, 2, 1}));
  EXPECT_EQ(stages.endSet, (std::vector<int32_t>{2, 3, 2, 1}));
  const WorkerParameterSets &sets = stages.sets;
  EXPECT_EQ(sets.begins, (std::vector<uint32_t>{0, 3, 5}));
  EXPECT_EQ(sets.firstBlock, (std::vector<int64_t>{0, 1, 2, 0, 2}));
  EXPECT_EQ(sets.endBlock, (std::vector<int64_t>{1, 2, 4, 1, 4}));
  EXPECT_EQ(sets.owner, (std::vector<int32_t>{0, 1, 1, 1, 0}));
  EXPECT_EQ(sets.stageBegins, (std::vector<uint32_t>{0, 1, 3, 4, 0, 1, 2}));
  EXPECT_EQ(sets.rowStages, (std::vector<uint32_t>{0, 4, 6}));
  EXPECT_EQ(sets.stages, (std::vector<int32_t>{0, 0, 1, 1, 1, 0}));
}
