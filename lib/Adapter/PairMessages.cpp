//===- PairMessages.cpp - The two ends of each message --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Workers nearly always send and receive the cells of a stage and phase in
// their order. So once sends and receives are divided by stage and phase, both
// lists have the same order.
//
//===----------------------------------------------------------------------===//

#include "PairMessages.h"
#include "llvm/ADT/STLExtras.h"
#include <utility>

using namespace pipesched;

namespace {
/// Divides sends and receives into groups of one stage and phase:
///
///   instructions  send 0F0 to 1 | recv 1B0 from 1 | send 0F1 to 1 | ...
///   groups        send 0F: 0 2 ..   recv 1B: 1 ..
///   unsorted      a bit for each group, whether its cells are out of order
///
/// The i-th send of a group belongs to the i-th receive.
class MessagePairer {
public:
  explicit MessagePairer(Program &program) : program(program) {}

  void run();

private:
  static bool isMessage(const Instruction &instruction) {
    return instruction.is(InstructionRole::Message);
  }
  size_t groupOf(const Instruction &instruction) const;
  bool isBefore(uint32_t first, uint32_t second) const;
  void chooseGroups();
  void fillGroups();
  void pairGroups();
  llvm::MutableArrayRef<uint32_t> membersOf(size_t group);

  /// Stages beyond this number share groups, so that a large stage number costs
  /// no memory.
  static constexpr int64_t kMaxStages = 4096;

  Program &program;
  /// Groups of sends; there are as many of receives.
  size_t numStages = 0, numGroups = 0;
  std::vector<uint32_t> ends;    ///< by group, behind its members
  std::vector<uint32_t> members; ///< instructions, group by group
  std::vector<bool> unsorted;
};
} // namespace

size_t MessagePairer::groupOf(const Instruction &instruction) const {
  size_t phase = static_cast<size_t>(instruction.cell.getPhase());
  size_t kind = instruction.is(InstructionKind::Recv);
  return (kind * kNumPhases + phase) * numStages +
         instruction.cell.getStage() % numStages;
}

/// A cell has one sender, and its receives are in the order of their workers,
/// as all instructions are.
bool MessagePairer::isBefore(uint32_t first, uint32_t second) const {
  const Instruction &a = program.instructions[first];
  const Instruction &b = program.instructions[second];
  if (a.cell != b.cell)
    return a.cell.getRaw() < b.cell.getRaw();
  return a.is(InstructionKind::Send) ? a.peer < b.peer : first < second;
}

void MessagePairer::chooseGroups() {
  int64_t lastStage = 0;
  for (const Instruction &instruction : program.instructions)
    if (isMessage(instruction))
      lastStage = std::max(lastStage, instruction.cell.getStage());
  numStages = std::min(lastStage + 1, kMaxStages);
  numGroups = kNumPhases * numStages;
}

/// A counting sort. `ends` first has counts, and then the starts of groups,
/// which move up to the ends of the groups as members are written.
void MessagePairer::fillGroups() {
  ends.assign(2 * numGroups, 0);
  for (const Instruction &instruction : program.instructions)
    if (isMessage(instruction))
      ++ends[groupOf(instruction)];
  uint32_t size = 0;
  for (uint32_t &end : ends)
    size += std::exchange(end, size);
  members.resize(size);
  unsorted.assign(2 * numGroups, false);
  std::vector<uint64_t> lastCells(2 * numGroups);
  for (auto [i, instruction] : llvm::enumerate(program.instructions)) {
    if (!isMessage(instruction))
      continue;
    size_t group = groupOf(instruction);
    uint64_t cell = instruction.cell.getRaw() + 1;
    if (cell <= std::exchange(lastCells[group], cell))
      unsorted[group] = true;
    members[ends[group]++] = i;
  }
}

llvm::MutableArrayRef<uint32_t> MessagePairer::membersOf(size_t group) {
  uint32_t begin = group ? ends[group - 1] : 0;
  llvm::MutableArrayRef<uint32_t> found(members.data() + begin,
                                        ends[group] - begin);
  if (unsorted[group])
    llvm::sort(found, [&](uint32_t first, uint32_t second) {
      return isBefore(first, second);
    });
  return found;
}

void MessagePairer::pairGroups() {
  for (size_t group = 0; group < numGroups; ++group)
    for (auto [send, recv] :
         llvm::zip_equal(membersOf(group), membersOf(numGroups + group))) {
      program.partner[send] = recv;
      program.partner[recv] = send;
    }
}

void MessagePairer::run() {
  chooseGroups();
  fillGroups();
  pairGroups();
}

void pipesched::pairMessages(Program &program) { MessagePairer(program).run(); }
