//===- RowWaits.h - Completed waits of a row --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tracks the instructions of a worker that have certainly ended, during a walk
// over its row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_ROWWAITS_H
#define PIPESCHED_LIB_STAGES_ROWWAITS_H

#include "PipeSched/Schedule/Program/Program.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace pipesched {

/// Instructions are numbered as in the program, which must outlive this object.
class RowWaits {
public:
  RowWaits(const Program &program, int64_t worker)
      : program(program), rowBegin(program.rowBegins[worker]),
        ended(program.rowBegins[worker + 1] - rowBegin) {}

  /// Records that the operands of an instruction have ended when it runs. A
  /// join holds the next compute or reload. Calls `treat` for each instruction
  /// that has ended.
  void note(
      uint32_t instruction,
      llvm::function_ref<void(uint32_t ended)> treat = [](uint32_t) {}) {
    auto noteEnd = [&](uint32_t operand) {
      this->noteEnd(operand);
      treat(operand);
    };
    llvm::ArrayRef<uint32_t> operands = program.operandsOf(instruction);
    InstructionKind kind = program.instructions[instruction].kind;
    if (kind == InstructionKind::Wait) {
      joins.append(operands.begin(), operands.end());
      return;
    }
    for (uint32_t operand : operands)
      noteEnd(operand);
    if (kind != InstructionKind::Compute && kind != InstructionKind::Reload)
      return;
    for (uint32_t operand : joins)
      noteEnd(operand);
    joins.clear();
  }

  /// Notes that the row has waited for an instruction.
  void noteEnd(uint32_t instruction) { ended[instruction - rowBegin] = true; }

  bool hasEnded(uint32_t instruction) const {
    return ended[instruction - rowBegin];
  }

private:
  const Program &program;
  uint32_t rowBegin;
  std::vector<bool> ended; ///< by position in the row
  llvm::SmallVector<uint32_t> joins;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_ROWWAITS_H
