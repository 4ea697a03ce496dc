//===- EarlyReads.cpp - Instructions that do not wait ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nearly every instruction has its sources as operands. Only rows with other
// instructions need the search through operands of operands.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Proof/EarlyReads.h"
#include "../Graph/InstructionWaits.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "llvm/ADT/DenseSet.h"
#include <unordered_map>

using namespace pipesched;

namespace {
/// Checks one row at a time:
///
///   row        recv 0F0 | compute 1F0 after it | compute 1B0
///   readers                                      1F0: the compute of 1B0
///   awaited    by 1F0     (computes run in row order)
class RowReads {
public:
  RowReads(const Program &program, const Placement &placement,
           GradientAfter gradientAfter)
      : program(program), placement(placement), gradientAfter(gradientAfter) {}

  std::optional<EarlyRead> find(int64_t row);

private:
  static constexpr uint32_t kNone = Program::kNone;

  void findPhases();
  void collect(uint32_t instruction);
  void collectFlow(uint32_t instruction, Cell cell);
  bool isUsed(Cell cell, Phase phase) const;
  void addReader(uint32_t instruction, Cell source);
  bool names(uint32_t instruction, Cell source) const;

  void findAwaited();
  bool waitsFor(uint32_t reader, uint32_t source) const;
  template <typename Visit>
  void forOperands(uint32_t leader, Visit &&visit) const;

  bool isCompute(uint32_t instruction) const {
    return program.instructions[instruction].is(InstructionRole::Compute);
  }
  Cell cellOf(uint32_t instruction) const {
    return program.instructions[instruction].cell.withOverlap(false);
  }
  /// The first half of the pair to which a compute belongs, or itself.
  uint32_t leaderOf(uint32_t instruction) const {
    return waits->leaderOf(waits->nodeOf(instruction));
  }
  /// The first compute that waits for an instruction, or kNone.
  uint32_t awaitedBy(uint32_t instruction) const {
    return awaited[instruction - begin];
  }

  const Program &program;
  const Placement &placement;
  GradientAfter gradientAfter;
  std::optional<InstructionWaits> waits; ///< for rows that need a search

  // The current row.
  int64_t row = 0;
  uint32_t begin = 0, end = 0;
  PhaseSet run, received;
  /// By the cell that a source runs or receives: the instructions that read it
  /// but do not have it as an operand, ascending.
  std::unordered_map<uint64_t, llvm::SmallVector<uint32_t, 1>> readers;
  std::vector<uint32_t> awaited; ///< see awaitedBy()
};
} // namespace

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

void RowReads::findPhases() {
  run = received = {};
  for (uint32_t i = begin; i < end; ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.is(InstructionKind::Recv))
      received |= instruction.cell.getPhase();
    else if (!instruction.is(InstructionRole::Message) &&
             !instruction.is(InstructionRole::Join))
      run |= instruction.cell.getPhase();
  }
}

/// Whether an instruction has an operand that runs or receives a cell. For a
/// pair, the operands may be on its first half.
bool RowReads::names(uint32_t instruction, Cell source) const {
  auto isSource = [&](uint32_t operand) {
    const Instruction &other = program.instructions[operand];
    if (other.is(InstructionKind::Send))
      return false;
    return other.cell.withOverlap(false) == source ||
           (other.is(InstructionRole::Compute) && other.cell.overlapsNext() &&
            operand + 1 < end && cellOf(operand + 1) == source);
  };
  if (llvm::any_of(program.operandsOf(instruction), isSource))
    return true;
  bool isSecondHalf = instruction > begin && isCompute(instruction - 1) &&
                      program.instructions[instruction - 1].cell.overlapsNext();
  return isSecondHalf &&
         llvm::any_of(program.operandsOf(instruction - 1), isSource);
}

void RowReads::addReader(uint32_t instruction, Cell source) {
  if (!names(instruction, source))
    readers[source.getRaw()].push_back(instruction);
}

/// Adds the inputs of a cell from other stages, which are cells of this worker
/// or messages.
void RowReads::collectFlow(uint32_t instruction, Cell cell) {
  std::optional<Flow> flow = flowNeededBy(cell.getPhase());
  if (!flow)
    return;
  int64_t stage = placement.globalStage(cell);
  for (int64_t source : placement.getEdges().sourcesOf(*flow, stage)) {
    bool isLocal = placement.workerOf(source) == row;
    StageBackward backward = placement.backwardOf(source);
    (isLocal ? run : received).forEach([&](Phase phase) {
      if (flowMadeBy(phase, gradientAfter, backward) == flow)
        addReader(instruction, Cell(cell.getStage() + source - stage, phase,
                                    cell.getUnit()));
    });
  }
}

/// Whether a cell reads the output of a phase of its stage. Only the stage at
/// that end of the path reads the sums over the shards of a vocabulary.
bool RowReads::isUsed(Cell cell, Phase phase) const {
  int64_t last = placement.getNumStages(placement.pathOf(cell)) - 1;
  auto isThere = [&](std::optional<PathEnd> end) {
    return !end || cell.getStage() == (*end == PathEnd::First ? 0 : last);
  };
  return isThere(traitsOf(phase).order.end) &&
         isThere(traitsOf(cell.getPhase()).order.end);
}

void RowReads::collect(uint32_t instruction) {
  const Instruction &self = program.instructions[instruction];
  Cell cell = cellOf(instruction);
  if (self.is(InstructionRole::Message) || self.is(InstructionRole::Join))
    return;
  if (cell.is(Phase::Optimizer) && run.contains(Phase::AllReduce))
    addReader(instruction, cell.withPhase(Phase::AllReduce));
  if (cell.isPerPath())
    return;
  const OwnEdges &edges = kOwnEdges[cell.getPhase()];
  for (unsigned edge = 0; edge != edges.count; ++edge) {
    Phase phase = edges.phases[edge];
    bool isNeeded = edge < edges.numNeeds;
    if (run.contains(phase) && (isNeeded || isUsed(cell, phase)))
      addReader(instruction, cell.withPhase(phase));
  }
  collectFlow(instruction, cell);
}

//===----------------------------------------------------------------------===//
// Waits
//===----------------------------------------------------------------------===//

/// Calls `visit` with the waits of an instruction itself, of the other half of
/// its pair and of its joins.
template <typename Visit>
void RowReads::forOperands(uint32_t leader, Visit &&visit) const {
  llvm::for_each(program.operandsOf(leader), visit);
  if (uint32_t second = waits->secondHalfOf(leader); second != kNone)
    llvm::for_each(program.operandsOf(second), visit);
  waits->forJoins(leader, [&](uint32_t join) {
    llvm::for_each(program.operandsOf(join), visit);
  });
}

/// Each instruction is visited once, by the first compute that waits for it.
void RowReads::findAwaited() {
  awaited.assign(end - begin, kNone);
  std::vector<uint32_t> stack;
  for (uint32_t compute = begin; compute < end; ++compute) {
    if (!isCompute(compute) || leaderOf(compute) != compute)
      continue;
    auto reach = [&](uint32_t operand) {
      if (awaitedBy(operand) != kNone)
        return;
      awaited[operand - begin] = compute;
      if (!isCompute(operand))
        stack.push_back(operand);
    };
    forOperands(compute, reach);
    while (!stack.empty()) {
      uint32_t next = stack.back();
      stack.pop_back();
      forOperands(next, reach);
    }
  }
}

bool RowReads::waitsFor(uint32_t reader, uint32_t source) const {
  auto isBefore = [&](uint32_t compute) {
    return isCompute(source) ? leaderOf(source) <= compute
                             : awaitedBy(source) <= compute;
  };
  if (isCompute(reader)) {
    uint32_t leader = leaderOf(reader);
    return isCompute(source) ? leaderOf(source) < leader : isBefore(leader);
  }
  // Search through copies, messages and collectives. Tokens come from earlier
  // instructions, so no instruction before the source leads to it.
  std::vector<uint32_t> stack = {reader};
  llvm::DenseSet<uint32_t> seen;
  bool found = false;
  while (!stack.empty() && !found) {
    uint32_t next = stack.back();
    stack.pop_back();
    forOperands(next, [&](uint32_t operand) {
      found |= operand == source ||
               (isCompute(operand) && isBefore(leaderOf(operand)));
      if (!isCompute(operand) && operand > source &&
          seen.insert(operand).second)
        stack.push_back(operand);
    });
  }
  return found;
}

std::optional<EarlyRead> RowReads::find(int64_t worker) {
  row = worker;
  begin = program.rowBegins[row];
  end = program.rowBegins[row + 1];
  readers.clear();
  findPhases();
  for (uint32_t i = begin; i < end; ++i)
    collect(i);
  if (readers.empty())
    return std::nullopt;
  if (!waits)
    waits.emplace(program, Transport::Overlap);
  findAwaited();
  std::optional<EarlyRead> first;
  for (uint32_t i = begin; i < end; ++i) {
    const Instruction &source = program.instructions[i];
    if (source.is(InstructionKind::Send) || source.is(InstructionRole::Join))
      continue;
    auto found = readers.find(cellOf(i).getRaw());
    if (found == readers.end())
      continue;
    for (uint32_t reader : found->second)
      if ((!first || reader < first->reader) && !waitsFor(reader, i))
        first = {reader, i};
  }
  return first;
}

std::optional<EarlyRead> pipesched::findEarlyRead(const Program &program,
                                                  const Placement &placement,
                                                  GradientAfter gradientAfter) {
  RowReads reads(program, placement, gradientAfter);
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    if (std::optional<EarlyRead> early = reads.find(row))
      return early;
  return std::nullopt;
}
