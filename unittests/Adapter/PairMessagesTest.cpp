//===- PairMessagesTest.cpp - The two ends of each message ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages find their partners in any order and for any stages.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Adapter/PairMessages.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace pipesched;

namespace {
struct Message {
  Cell cell;
  int32_t source, destination;
};

/// Two instructions for each message, and a compute before each send.
class MessageProgram {
public:
  MessageProgram(int32_t numWorkers, llvm::ArrayRef<Message> messages,
                 std::mt19937 &random) {
    std::vector<std::vector<Instruction>> rows(numWorkers);
    for (const Message &message : messages) {
      auto &source = rows[message.source];
      source.push_back({message.cell, -1, InstructionKind::Compute});
      source.push_back(
          {message.cell, message.destination, InstructionKind::Send});
      rows[message.destination].push_back(
          {message.cell, message.source, InstructionKind::Recv});
    }
    program.rowBegins.push_back(0);
    for (auto &row : rows) {
      std::shuffle(row.begin(), row.end(), random);
      program.instructions.insert(program.instructions.end(), row.begin(),
                                  row.end());
      program.rowBegins.push_back(program.instructions.size());
    }
    program.partner.assign(program.instructions.size(), Program::kNone);
  }

  /// Compares with partners that are found by name.
  void expectPartners() {
    using Name = std::tuple<uint64_t, int32_t, int32_t>;
    std::map<Name, uint32_t> sends;
    auto forEach = [&](InstructionKind kind, auto &&visit) {
      for (int32_t worker = 0; worker < program.getNumWorkers(); ++worker)
        for (uint32_t i = program.rowBegins[worker];
             i < program.rowBegins[worker + 1]; ++i)
          if (const Instruction &one = program.instructions[i]; one.is(kind))
            visit(one, worker, i);
    };
    forEach(InstructionKind::Send,
            [&](const Instruction &one, int32_t worker, uint32_t i) {
              sends[{one.cell.getRaw(), worker, one.peer}] = i;
            });
    forEach(InstructionKind::Recv,
            [&](const Instruction &one, int32_t worker, uint32_t i) {
              uint32_t send = sends[{one.cell.getRaw(), one.peer, worker}];
              EXPECT_EQ(program.partner[i], send) << one.cell.str();
              EXPECT_EQ(program.partner[send], i) << one.cell.str();
            });
    forEach(InstructionKind::Compute,
            [&](const Instruction &, int32_t, uint32_t i) {
              EXPECT_EQ(program.partner[i], Program::kNone);
            });
  }

  Program program;
};

/// Cells on one worker each, which some send to several others.
std::vector<Message> randomMessages(int32_t numWorkers, int64_t numStages,
                                    std::mt19937 &random) {
  std::vector<Message> messages;
  std::set<uint64_t> known;
  for (int i = 0; i < 200; ++i) {
    auto phase = static_cast<Phase>(random() % 4);
    Cell cell(random() % numStages, phase, random() % 50);
    if (!known.insert(cell.getRaw()).second)
      continue;
    int32_t source = random() % numWorkers;
    for (int32_t worker = 0; worker < numWorkers; ++worker)
      if (worker != source && random() % 3 == 0)
        messages.push_back({cell, source, worker});
  }
  return messages;
}
} // namespace

TEST(PairMessages, AgreesWithNames) {
  std::mt19937 random(3);
  for (int32_t numWorkers : {2, 3, 7})
    for (int64_t numStages : {1, 4, 100, 5000, 1 << 24}) {
      std::vector<Message> messages =
          randomMessages(numWorkers, numStages, random);
      MessageProgram made(numWorkers, messages, random);
      pairMessages(made.program);
      made.expectPartners();
    }
}

TEST(PairMessages, TakesProgramsWithoutMessages) {
  std::mt19937 random(3);
  MessageProgram made(2, {}, random);
  pairMessages(made.program);
  EXPECT_TRUE(made.program.partner.empty());
}
