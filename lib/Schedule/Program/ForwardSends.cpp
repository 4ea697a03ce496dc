//===- ForwardSends.cpp - Forwards that wait for their messages -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites the operands of a program, and adds the waits for messages.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "llvm/ADT/SmallVector.h"
#include <utility>

using namespace pipesched;

namespace {
/// Remembers the last forward of a row until another compute follows it:
///
///   compute 0F0 | send 0F0 to 1 | recv .. | compute 0F1
///                 ^ sent                    ^ waits for the partners of `sent`
class LastForward {
public:
  using Sends = llvm::SmallVector<uint32_t, 1>;

  /// Processes the next instruction of the row, and returns the sends whose
  /// delivery it must wait for.
  Sends take(const Instruction &instruction, uint32_t number) {
    if (instruction.kind == InstructionKind::Send) {
      if (isForward && instruction.cell == cell)
        sent.push_back(number);
      return {};
    }
    if (instruction.kind != InstructionKind::Compute)
      return {};
    bool isSecondHalf = isPair;
    isPair = instruction.cell.overlapsNext() && !isSecondHalf;
    isForward = instruction.cell.is(Phase::Forward) && !isPair && !isSecondHalf;
    cell = instruction.cell;
    Sends awaited = std::exchange(sent, {});
    return isForward ? awaited : Sends();
  }

private:
  Cell cell;
  bool isForward = false, isPair = false;
  Sends sent;
};
} // namespace

void pipesched::synchronizeForwards(Program &program) {
  std::vector<uint32_t> operands, operandBegins = {0};
  operands.reserve(program.operands.size());
  operandBegins.reserve(program.operandBegins.size());
  for (int64_t row = 0; row < program.getNumWorkers(); ++row) {
    LastForward last;
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      llvm::ArrayRef<uint32_t> own = program.operandsOf(i);
      operands.insert(operands.end(), own.begin(), own.end());
      for (uint32_t sent : last.take(program.instructions[i], i))
        operands.push_back(program.partner[sent]);
      operandBegins.push_back(operands.size());
    }
  }
  program.operands = std::move(operands);
  program.operandBegins = std::move(operandBegins);
}
