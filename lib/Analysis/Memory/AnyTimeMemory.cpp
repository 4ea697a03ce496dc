//===- AnyTimeMemory.cpp - Memory bounds for any times --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the waits of a program row by row. A row knows that an offload has
// ended only from instructions that it waits for: joins, and reloads, which
// themselves wait for offloads.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Memory/AnyTimeMemory.h"
#include "ActivationLedger.h"
#include "PipeSched/Support/CheckedInt.h"
#include <utility>

using namespace pipesched;

//===----------------------------------------------------------------------===//
// One worker
//===----------------------------------------------------------------------===//

uint32_t AnyTimeMemory::offload(int64_t bytes) {
  held.push_back(bytes);
  links.push_back(held.size());
  return held.size();
}

/// Returns the last offload below `end` that holds memory, plus one; at most
/// numAwaited if there is none. Halves the paths that it follows.
uint32_t AnyTimeMemory::lastHeld(uint32_t end) {
  while (end > numAwaited && held[end - 1] == 0) {
    uint32_t &link = links[end - 1];
    if (link == end)
      link = end - 1;
    if (link > 0 && links[link - 1] < link)
      link = links[link - 1];
    end = link;
  }
  return end;
}

uint32_t AnyTimeMemory::reload(int64_t bytes, uint32_t numEnded) {
  numBeforeReload = std::max({numBeforeReload, numEnded, numAwaited});
  for (uint32_t last = lastHeld(numBeforeReload);
       bytes > 0 && last > numAwaited; last = lastHeld(last)) {
    int64_t taken = std::min(bytes, held[last - 1]);
    held[last - 1] -= taken;
    bytes -= taken;
  }
  level += bytes;
  return numBeforeReload;
}

void AnyTimeMemory::await(uint32_t numEnded) {
  for (; numAwaited < numEnded; ++numAwaited)
    level -= held[numAwaited];
}

//===----------------------------------------------------------------------===//
// All rows of a program
//===----------------------------------------------------------------------===//

namespace {
/// Walks one row.
class RowPeak {
public:
  /// `numEnded[i]` is the number of offloads that have ended once instruction i
  /// has ended, if i is an offload, a reload or an instruction that a join
  /// names.
  RowPeak(const Program &program, ActivationLedger &ledger,
          std::vector<uint32_t> &numEnded)
      : program(program), ledger(ledger), numEnded(numEnded) {}

  AnyTimePeak run(int64_t row);

private:
  void visit(uint32_t instruction);
  void visitCompute(uint32_t instruction);
  void visitOffload(uint32_t instruction);
  void visitReload(uint32_t instruction);
  uint32_t waitsOf(uint32_t instruction) const;
  void notice(Cell cell);
  void change(const MemoryChange &change) {
    memory.change(change.bytes);
    count.change(change.activations);
  }

  const Program &program;
  ActivationLedger &ledger;
  std::vector<uint32_t> &numEnded;
  AnyTimeMemory memory; ///< bytes
  AnyTimeMemory count;  ///< activations
  AnyTimePeak peak;
  std::vector<Cell> offloads;
  uint32_t joined = 0; ///< offloads named by joins before the next cell
  Cell firstHalf;      ///< of an overlapped pair
  bool hasFirstHalf = false;
  /// Offloads that were issued before the peak, and the number of these that
  /// are awaited.
  size_t numPending = 0;
  size_t numAwaited = 0;
};
} // namespace

/// The number of offloads that have ended once all operands of an instruction
/// have ended.
uint32_t RowPeak::waitsOf(uint32_t instruction) const {
  uint32_t most = 0;
  for (uint32_t operand : program.operandsOf(instruction))
    most = std::max(most, numEnded[operand]);
  return most;
}

/// Records a new peak.
void RowPeak::notice(Cell cell) {
  if (peak.cell && memory.most() <= peak.bytes)
    return;
  peak.bytes = memory.most();
  peak.cell = cell.withOverlap(false);
  peak.microbatches = count.most();
  numPending = offloads.size();
  numAwaited = memory.getNumEnded();
}

/// The two cells of a pair start together and end together.
void RowPeak::visitCompute(uint32_t instruction) {
  Cell cell = program.instructions[instruction].cell;
  uint32_t ended = std::max(std::exchange(joined, 0), waitsOf(instruction));
  memory.await(ended);
  count.await(ended);
  change(ledger.start(cell));
  if (!hasFirstHalf && cell.overlapsNext()) {
    hasFirstHalf = true;
    firstHalf = cell;
    return;
  }
  notice(hasFirstHalf && !cell.is(Phase::Forward) ? firstHalf : cell);
  change(ledger.finish(cell));
  if (std::exchange(hasFirstHalf, false))
    change(ledger.finish(firstHalf));
}

/// A copied activation counts until a wait proves that its copy has ended.
void RowPeak::visitOffload(uint32_t instruction) {
  Cell cell = program.instructions[instruction].cell;
  count.offload(1);
  numEnded[instruction] = memory.offload(-ledger.moveOut(cell).bytes);
  offloads.push_back(cell);
}

void RowPeak::visitReload(uint32_t instruction) {
  Cell cell = program.instructions[instruction].cell;
  uint32_t ended = std::max(std::exchange(joined, 0), waitsOf(instruction));
  numEnded[instruction] = memory.reload(ledger.moveIn(cell).bytes, ended);
  count.reload(1, ended);
  notice(cell);
}

void RowPeak::visit(uint32_t instruction) {
  const Instruction &self = program.instructions[instruction];
  switch (traitsOf(self.kind).role) {
  case InstructionRole::Compute:
    return visitCompute(instruction);
  case InstructionRole::Copy:
    return self.is(InstructionKind::Offload) ? visitOffload(instruction)
                                             : visitReload(instruction);
  case InstructionRole::Join:
    joined = std::max(joined, waitsOf(instruction));
    return;
  case InstructionRole::Message:
  case InstructionRole::Collective:
    return; // they hold no activations
  }
}

AnyTimePeak RowPeak::run(int64_t row) {
  for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1]; ++i)
    visit(i);
  peak.pending.assign(offloads.begin() + numAwaited,
                      offloads.begin() + numPending);
  return std::move(peak);
}

/// No worker can hold more than all allocations together.
static llvm::Error checkSum(llvm::ArrayRef<Cell> cells,
                            const Placement &placement,
                            const MemoryFacts &facts) {
  CheckedInt sum = 0;
  for (Cell cell : cells) {
    if (cell.isPerPath())
      continue;
    const StageMemory &stage = facts.memoryOf(placement, cell);
    sum += stage.activationBytes;
    sum += stage.workingBytes;
    sum += std::max<int64_t>(stage.leftForSlicesBytes, 0);
    if (!sum.isValid())
      return llvm::createStringError(
          "activations of all cells exceed 2^63-1 bytes at cell %s",
          placement.nameOf(cell).str().c_str());
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<AnyTimePeak>>
pipesched::computeAnyTimePeaks(const Program &program,
                               const Placement &placement,
                               const MemoryFacts &facts) {
  if (!facts.edges.empty())
    if (llvm::Error error =
            placement.checkChains("a proof of memory at any times takes"))
      return std::move(error);
  std::vector<Cell> cells;
  cells.reserve(program.instructions.size());
  for (const Instruction &instruction : program.instructions)
    if (instruction.is(InstructionRole::Compute) ||
        instruction.is(InstructionRole::Copy))
      cells.push_back(instruction.cell);
  if (llvm::Error error = checkSum(cells, placement, facts))
    return std::move(error);
  ActivationLedger ledger(placement, facts);
  if (llvm::Error error = ledger.read(llvm::ArrayRef<Cell>(cells)))
    return std::move(error);
  ledger.readRows(cells);
  std::vector<uint32_t> numEnded(program.instructions.size(), 0);
  std::vector<AnyTimePeak> peaks;
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    peaks.push_back(RowPeak(program, ledger, numEnded).run(row));
  return peaks;
}
