//===- Program.h - Programs of workers in flat arrays -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The form of a program that both dialects share: a table is lowered to it, an
// exec.program is read into it, and the task graph is built from it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_PROGRAM_PROGRAM_H
#define PIPESCHED_SCHEDULE_PROGRAM_PROGRAM_H

#include "PipeSched/Schedule/Table/GroupName.h"
#include "llvm/ADT/ArrayRef.h"
#include <limits>
#include <vector>

namespace pipesched {

/// One instruction of a worker. The second half of an overlapped pair is a
/// separate Compute right after the first, whose cell has the overlap bit.
struct Instruction {
  Cell cell;
  /// Send: destination worker; Recv: source worker; a collective: its group, an
  /// index into Program::groups (proofs of messages do not need it); else -1.
  int32_t peer = -1;
  InstructionKind kind = InstructionKind::Compute;

  bool is(InstructionKind other) const { return kind == other; }
  bool is(InstructionRole role) const { return traitsOf(kind).role == role; }
};

/// Instructions of all workers, row by row:
///
///   instructions  | worker 0 ... | worker 1 ... | ...
///   rowBegins     ^              ^              ^      D + 1 entries
///   operands      CSR by instruction: the instructions of the same row for
///                 whose end it waits (the tokens of exec)
///   partner       Send: its Recv; Recv: its Send; a collective: the next of
///                 its group, cyclically; else kNone
struct Program {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  std::vector<Instruction> instructions;
  std::vector<uint32_t> rowBegins;
  std::vector<uint32_t> operandBegins; ///< size of instructions + 1
  std::vector<uint32_t> operands;
  std::vector<uint32_t> partner;
  /// The names of the groups, ascending: this order numbers them. Task graphs,
  /// StageCosts::reductions, WorkerPrograms, traces, pictures and walks over
  /// the table (Groups.h) use the same numbers.
  std::vector<GroupName> groups;
  int64_t numSlices = 1; ///< of a microbatch, for the names of cells

  CellName nameOf(Cell cell) const { return {cell, numSlices}; }
  int64_t getNumWorkers() const { return rowBegins.size() - 1; }
  llvm::ArrayRef<uint32_t> operandsOf(uint32_t instruction) const {
    return llvm::ArrayRef(operands).slice(operandBegins[instruction],
                                          operandBegins[instruction + 1] -
                                              operandBegins[instruction]);
  }
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_PROGRAM_PROGRAM_H
