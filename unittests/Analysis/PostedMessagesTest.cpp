//===- PostedMessagesTest.cpp - Programs that post their messages ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The answer of verifyPosted agrees with processes that walk the program: all
// families, with waits for sends put in at random as the reuse of buffers does.
//
//===----------------------------------------------------------------------===//

#include "../Support/FamilyCases.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include <random>

using namespace pipesched;

namespace {
/// Walks all rows until none can continue.
class Walkers {
public:
  Walkers(const Program &program, SendMode mode, bool sendsBlock)
      : program(program), mode(mode), sendsBlock(sendsBlock),
        reached(program.instructions.size()),
        next(program.rowBegins.begin(), std::prev(program.rowBegins.end())) {}

  bool finish() {
    for (bool goesOn = true; goesOn;) {
      goesOn = false;
      for (std::size_t row = 0; row < next.size(); ++row)
        while (next[row] < program.rowBegins[row + 1] && canReach(next[row])) {
          reached[next[row]++] = true;
          goesOn = true;
        }
    }
    return llvm::all_of(reached, [](bool is) { return is; });
  }

private:
  bool hasEnded(uint32_t i) const {
    if (!reached[i])
      return false;
    uint32_t partner = program.partner[i];
    const Instruction &self = program.instructions[i];
    switch (traitsOf(self.kind).role) {
    case InstructionRole::Message:
      return (self.is(InstructionKind::Send) && mode == SendMode::Buffered) ||
             reached[partner];
    case InstructionRole::Collective:
      for (; partner != i; partner = program.partner[partner])
        if (!reached[partner])
          return false;
      return true;
    case InstructionRole::Compute:
    case InstructionRole::Copy:
    case InstructionRole::Join:
      return true;
    }
    return true;
  }
  bool haveEnded(llvm::ArrayRef<uint32_t> operands) const {
    return llvm::all_of(operands, [&](uint32_t i) { return hasEnded(i); });
  }
  bool canReach(uint32_t i) const {
    InstructionKind kind = program.instructions[i].kind;
    if (sendsBlock && !llvm::is_contained(program.rowBegins, i) &&
        program.instructions[i - 1].is(InstructionKind::Send) &&
        !hasEnded(i - 1))
      return false;
    if (kind == InstructionKind::Wait)
      return true;
    if (!haveEnded(program.operandsOf(i)))
      return false;
    if (kind != InstructionKind::Compute && kind != InstructionKind::Reload)
      return true;
    while (!llvm::is_contained(program.rowBegins, i)) {
      InstructionKind before = program.instructions[--i].kind;
      if (before == InstructionKind::Compute ||
          before == InstructionKind::Reload)
        break;
      if (before == InstructionKind::Wait && !haveEnded(program.operandsOf(i)))
        return false;
    }
    return true;
  }

  const Program &program;
  SendMode mode;
  bool sendsBlock;
  std::vector<bool> reached;
  std::vector<uint32_t> next;
};
} // namespace

/// Lets each instruction wait for an earlier send of its row with this
/// probability, at most `distance` instructions before it.
static Program withRandomWaits(const Program &program, std::mt19937 &random,
                               double probability, uint32_t distance) {
  Program result = program;
  result.operands.clear();
  result.operandBegins.assign(1, 0);
  std::bernoulli_distribution adds(probability);
  for (std::size_t row = 0; row + 1 < program.rowBegins.size(); ++row)
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      llvm::append_range(result.operands, program.operandsOf(i));
      uint32_t begin = program.rowBegins[row];
      uint32_t first = i - begin > distance ? i - distance : begin;
      if (adds(random) && !program.instructions[i].is(InstructionKind::Wait))
        for (uint32_t send = first; send < i; ++send)
          if (program.instructions[send].is(InstructionKind::Send)) {
            result.operands.push_back(send);
            break;
          }
      result.operandBegins.push_back(result.operands.size());
    }
  return result;
}

namespace {
class PostedMessages : public testing::TestWithParam<const Family *> {};
} // namespace

/// Expects that the proof and the processes agree; returns their answer.
static bool expectAgreement(const Program &program, SendMode mode,
                            bool sendsBlock = false) {
  llvm::Error error = verifyPosted(program, mode, sendsBlock);
  bool finishes = !error;
  EXPECT_EQ(finishes, Walkers(program, mode, sendsBlock).finish())
      << llvm::toString(std::move(error));
  llvm::consumeError(std::move(error));
  return finishes;
}

TEST_P(PostedMessages, AgreeWithProcesses) {
  std::mt19937 random(7);
  int64_t numDeadlocks = 0;
  for (int64_t workers : {2, 4, 8})
    for (int64_t microbatches : {2, 4, 8, 16}) {
      llvm::Expected<Table> table =
          generate(*GetParam(), workers, microbatches);
      if (!table) {
        llvm::consumeError(table.takeError());
        continue;
      }
      for (const auto &placement : EnumNames<ReceivePlacement>::values) {
        Program program =
            llvm::cantFail(lowerTable(table->view(), placement.value));
        EXPECT_TRUE(expectAgreement(program, SendMode::Rendezvous))
            << "posted messages without further waits always end";
        for (uint32_t round = 1; round < 6; ++round) {
          Program waits = withRandomWaits(program, random, round * 0.2, 4);
          for (const auto &mode : EnumNames<SendMode>::values)
            numDeadlocks += !expectAgreement(waits, mode.value);
        }
      }
    }
  bool isOneWay = llvm::is_contained({"gpipe", "terapipe", "mpmd-circular"},
                                     GetParam()->name);
  EXPECT_EQ(numDeadlocks == 0, isOneWay)
      << "where messages go both ways, some waits close cycles";
}

/// Sends that block end if messages have one direction at a time; 1F1B's
/// neighbours both send first.
TEST_P(PostedMessages, AgreeWithProcessesWhoseSendsBlock) {
  std::mt19937 random(11);
  for (int64_t workers : {2, 4})
    for (int64_t microbatches : {4, 8}) {
      llvm::Expected<Table> table =
          generate(*GetParam(), workers, microbatches);
      if (!table) {
        llvm::consumeError(table.takeError());
        continue;
      }
      for (const auto &placement : EnumNames<ReceivePlacement>::values) {
        Program program =
            llvm::cantFail(lowerTable(table->view(), placement.value));
        EXPECT_TRUE(expectAgreement(program, SendMode::Buffered, true));
        bool finishes = expectAgreement(program, SendMode::Rendezvous, true);
        if (GetParam()->name == "gpipe") {
          EXPECT_TRUE(finishes);
        }
        if (GetParam()->name == "1f1b") {
          EXPECT_FALSE(finishes);
        }
        Program waits = withRandomWaits(program, random, 0.4, 4);
        for (const auto &mode : EnumNames<SendMode>::values)
          (void)expectAgreement(waits, mode.value, true);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, PostedMessages, testing::ValuesIn(allFamilies()),
                         printFamily);
