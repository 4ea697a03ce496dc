//===- MessagesTest.cpp - Programs under message semantics -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The answer of verifyMessages agrees with a run of the program by processes,
// and each counterexample is a cycle of waits under these semantics.
//
//===----------------------------------------------------------------------===//

#include "../Support/RunProcesses.h"
#include "../Support/TestSupport.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include <random>

using namespace pipesched;

static constexpr MessageSemantics kUnbounded = MessageSemantics::Unbounded,
                                  kFifo = MessageSemantics::Fifo,
                                  kRendezvous = MessageSemantics::Rendezvous,
                                  kBatched = MessageSemantics::Batched;
static constexpr MessageSemantics kAllSemantics[] = {kUnbounded, kFifo,
                                                     kRendezvous, kBatched};

//===----------------------------------------------------------------------===//
// The checks
//===----------------------------------------------------------------------===//

static int64_t rowOf(const Program &program, uint32_t instruction) {
  return llvm::upper_bound(program.rowBegins, instruction) -
         program.rowBegins.begin() - 1;
}

/// Whether two calls of a row are issued together.
static bool inOneBatch(const Program &program, uint32_t first,
                       uint32_t second) {
  int64_t row = rowOf(program, first);
  Processes processes(program, kBatched);
  uint32_t begin = program.rowBegins[row], end = program.rowBegins[row + 1];
  while (begin <= first) {
    bool isCall =
        program.partner[begin] != Program::kNone &&
        program.instructions[begin].kind != InstructionKind::AllReduce;
    uint32_t batchEnd = isCall ? processes.batchEnd(begin, end) : begin + 1;
    if (first < batchEnd)
      return second < batchEnd;
    begin = batchEnd;
  }
  return false;
}

/// The waiter really cannot continue before the awaited.
static void expectWait(const Program &program, const Wait &wait,
                       MessageSemantics semantics) {
  const Instruction &waiter = program.instructions[wait.waiter];
  const Instruction &awaited = program.instructions[wait.awaited];
  bool isBuffered = semantics == kUnbounded || semantics == kFifo;
  switch (wait.reason) {
  case WaitReason::Row:
    EXPECT_EQ(rowOf(program, wait.waiter), rowOf(program, wait.awaited));
    EXPECT_LT(wait.awaited, wait.waiter);
    EXPECT_FALSE(isBuffered && awaited.kind == InstructionKind::Send);
    EXPECT_FALSE(semantics == kBatched &&
                 inOneBatch(program, wait.awaited, wait.waiter));
    return;
  case WaitReason::Need:
    EXPECT_FALSE(isBuffered && waiter.kind == InstructionKind::Send);
    if (waiter.kind != InstructionKind::AllReduce)
      EXPECT_EQ(program.partner[wait.waiter], wait.awaited);
    else
      EXPECT_EQ(awaited.kind, InstructionKind::AllReduce);
    return;
  case WaitReason::Channel:
    EXPECT_EQ(semantics, kFifo);
    EXPECT_EQ(waiter.kind, InstructionKind::Recv);
    EXPECT_EQ(waiter.peer, awaited.peer);
    EXPECT_EQ(rowOf(program, wait.waiter), rowOf(program, wait.awaited));
    EXPECT_LT(program.partner[wait.awaited], program.partner[wait.waiter]);
    return;
  case WaitReason::Pair:
  case WaitReason::Queue:
    ADD_FAILURE() << "a process has no queues";
  }
}

/// Returns the answer, after comparing it with a run and checking its cycle.
static bool finishes(const Program &program, MessageSemantics semantics) {
  bool result = true;
  llvm::handleAllErrors(
      verifyMessages(program, semantics), [&](const DeadlockError &error) {
        result = false;
        llvm::ArrayRef<Wait> cycle = error.getDeadlock().cycle;
        EXPECT_GE(cycle.size(), 2u);
        for (size_t i = 0; i < cycle.size(); ++i) {
          EXPECT_EQ(cycle[i].awaited, cycle[(i + 1) % cycle.size()].waiter);
          expectWait(program, cycle[i], semantics);
        }
      });
  EXPECT_EQ(result, Processes(program, semantics).finish())
      << enumName(semantics).str();
  return result;
}

//===----------------------------------------------------------------------===//
// Random programs
//===----------------------------------------------------------------------===//

namespace {
/// Rows of messages, all-reduces, computes and copies in any order.
class RandomProgram {
public:
  explicit RandomProgram(uint32_t seed) : random(seed) {
    unsigned numWorkers = 2 + random() % 3;
    rows.resize(numWorkers);
    for (unsigned i = 0, e = 1 + random() % 8; i < e; ++i)
      addMessage(i);
    addAllReduces();
    for (std::vector<Item> &row : rows)
      addLocalWork(row);
    flatten();
  }

  const Program &get() const { return program; }

private:
  struct Item {
    Instruction instruction;
    uint32_t group; ///< shared by partners, unless 0
  };

  /// Inserts mostly at the end, so that many programs finish.
  void insert(std::vector<Item> &row, Item item) {
    size_t back = random() % 3 ? 0 : random() % (row.size() + 1);
    row.insert(row.end() - back, item);
  }
  void addMessage(uint32_t number) {
    int32_t source = random() % rows.size();
    int32_t target = (source + 1 + random() % (rows.size() - 1)) % rows.size();
    Cell cell(source, Phase::Forward, number);
    insert(rows[source], {{cell, target, InstructionKind::Send}, number + 1});
    insert(rows[target], {{cell, source, InstructionKind::Recv}, number + 1});
  }
  /// All-reduces of all workers or of all but one, at one or two cells:
  /// neighbours of one cell start together.
  void addAllReduces() {
    for (unsigned i = 0, e = random() % 3; i < e; ++i) {
      size_t absent = random() % (2 * rows.size());
      Cell cell(random() % 2, Phase::AllReduce, 0);
      for (auto [worker, row] : llvm::enumerate(rows))
        if (worker != absent)
          insert(row, {{cell, -1, InstructionKind::AllReduce}, 100 + i});
    }
  }
  void addLocalWork(std::vector<Item> &row) {
    const InstructionKind kinds[] = {
        InstructionKind::Compute, InstructionKind::Offload,
        InstructionKind::Reload, InstructionKind::Wait};
    for (unsigned i = 0, e = random() % 3; i < e; ++i)
      insert(row, {{Cell(), -1, kinds[random() % 4]}, 0});
  }

  void flatten() {
    std::map<uint32_t, std::vector<uint32_t>> groups;
    program.rowBegins.push_back(0);
    program.operandBegins.push_back(0);
    for (const std::vector<Item> &row : rows) {
      for (const Item &item : row) {
        uint32_t number = program.instructions.size();
        program.instructions.push_back(item.instruction);
        if (item.group)
          groups[item.group].push_back(number);
        addOperand(number);
      }
      program.rowBegins.push_back(program.instructions.size());
    }
    program.partner.assign(program.instructions.size(), Program::kNone);
    for (auto &[group, members] : groups)
      for (size_t i = 0; i < members.size(); ++i)
        program.partner[members[i]] = members[(i + 1) % members.size()];
  }
  void addOperand(uint32_t number) {
    uint32_t position = number - program.rowBegins.back();
    uint32_t operand = number - 1;
    if (position && random() % 4 == 0 &&
        program.instructions[operand].kind != InstructionKind::Wait)
      program.operands.push_back(operand);
    program.operandBegins.push_back(program.operands.size());
  }

  std::mt19937 random;
  std::vector<std::vector<Item>> rows;
  Program program;
};
} // namespace

TEST(Messages, AgreesWithProcessesOnRandomPrograms) {
  constexpr int numPrograms = 20000;
  std::map<MessageSemantics, int> finished;
  for (int seed = 0; seed < numPrograms; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram random(seed);
    for (MessageSemantics semantics : kAllSemantics)
      finished[semantics] += finishes(random.get(), semantics);
    if (HasFailure())
      return;
  }
  // Both answers must be common.
  for (MessageSemantics semantics : kAllSemantics) {
    EXPECT_GT(finished[semantics], numPrograms / 10);
    EXPECT_LT(finished[semantics], numPrograms * 9 / 10);
  }
}

/// Long rows need neither a deep call stack nor quadratic time.
TEST(Messages, LongRows) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(4, 50000)));
  Program program =
      llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
  EXPECT_FALSE(errorToBool(verifyMessages(program, kBatched)));
  llvm::Error error = verifyMessages(program, kRendezvous);
  EXPECT_TRUE(bool(error));
  llvm::consumeError(std::move(error));
}
