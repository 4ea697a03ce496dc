//===- Deadlock.h - A cycle of waits ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reason why a program cannot finish, as waits between its instructions.
// Both the proof under message semantics and the task graph return this
// counterexample.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_PROGRAM_DEADLOCK_H
#define PIPESCHED_SCHEDULE_PROGRAM_DEADLOCK_H

#include "PipeSched/Schedule/Program/Program.h"
#include "llvm/Support/Error.h"
#include <string>

namespace pipesched {

/// Why the waiter cannot start before the awaited instruction.
enum class WaitReason : uint8_t {
  Need,  ///< it uses the result, or both are ends of one message, group or pair
  Pair,  ///< it comes later among the messages between two workers
  Queue, ///< it comes later in a queue
  Row,   ///< it comes later in the row
  Channel ///< both receive, and its message was sent after the other
};

/// `waiter` (an instruction of the program) cannot start before `awaited`.
struct Wait {
  uint32_t waiter, awaited;
  WaitReason reason;
};

/// The cycle of waits of a program that cannot finish: the awaited instruction
/// of each wait is the waiter of the next one, and the last awaited instruction
/// is the waiter of the first.
struct Deadlock {
  std::vector<Wait> cycle;
};

/// An instruction as exec spells it: "recv 0F1 from 0", "compute 2B1".
std::string describeInstruction(const Program &program,
                                const Instruction &instruction);

/// One wait as text, without a final period:
///   recv 0F1 from 0 on worker 1 waits for send 0F1 to 1 on worker 0 (its
///   message)
///   send 2B1 to 1 comes after send 2B0 to 1 in the send queue of worker 2
std::string describeWait(const Program &program, const Wait &wait);

/// The program does not finish.
class DeadlockError : public llvm::ErrorInfo<DeadlockError> {
public:
  static char ID; // NOLINT(readability-identifier-naming): LLVM's name
  DeadlockError(const Program &program, Deadlock deadlock);
  /// The cycle as text: one line per wait, at most eight, then a count.
  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }
  const Deadlock &getDeadlock() const { return deadlock; }

private:
  Deadlock deadlock;
  std::string text;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_PROGRAM_DEADLOCK_H
