//===- StepPlan.h - Plans of steps ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program with buffers as numbers: for each worker a sequence of actions
// (waits, runtime calls, kernels) with their operands. Both forms of
// convert-exec-to-func are made from it: the straight form has all actions, the
// table has repeated actions once.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_EXECTOFUNC_STEPPLAN_H
#define PIPESCHED_LIB_CONVERSION_EXECTOFUNC_STEPPLAN_H

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/AssignBuffers.h"
#include "PipeSched/Stages/PersistentLayout.h"

namespace pipesched {

/// The first word of an action. The words after it, each of 32 bits ("slot":
/// an offset in units of kSlotAlignment; "size": two words, the low one first):
enum Opcode : uint32_t {
  kWait,        ///< request to wait for
  kBegin,       ///< start of the next instruction of the worker
  kEnd,         ///< end of that instruction
  kZero,        ///< slot in the persistent block, size in bytes
  kClear,       ///< slot in the arena, size in bytes
  kSend,        ///< slot in the arena, size in bytes, peer, tag, request
  kRecv,        ///< as for kSend
  kOffload,     ///< slot in host memory, slot in the arena, size, request
  kReload,      ///< as for kOffload
  kAllReduce,   ///< persistent slot, size in elements, element type, group,
                ///< first index into members, number of members, request
  kSumShards,   ///< as for kAllReduce, but with a slot in the arena
  kBroadcast,   ///< slot in the arena, size in bytes, root, group, first index
                ///< into members, number of members, request
  kAdd,         ///< persistent slots of the sum and of the addend,
                ///< size in elements, element type
  kCopy,        ///< persistent slots to copy to and from, size in bytes
  kFirstKernel, ///< this and above: slot of the stage in the persistent block,
                ///< slot of the losses, unit, slot of each buffer, and the
                ///< number of the shard if the kernel takes it
};

/// Returns the number of words of an action below kFirstKernel, including the
/// opcode.
unsigned getNumWords(Opcode opcode);

/// A tensor that a kernel reads or writes.
struct KernelArgument {
  KernelOperand operand; ///< Buffer, Param, State, Gradient or Loss
  mlir::RankedTensorType type;
  bool isRead = false, isWritten = false;
  /// For Param, State and Gradient: in bytes, relative to the slot of the
  /// stage.
  int64_t offset = 0;
};

/// One function of the compiled program. Stages that call the same functions
/// share it.
struct KernelPlan {
  const StageKernel *kernel;
  std::string name; ///< of the first stage and phase that use it, "0F"
  /// All stages and phases that run it.
  llvm::SmallVector<std::pair<int64_t, Phase>> cells;
  llvm::SmallVector<KernelArgument> arguments;

  unsigned getNumWords() const {
    return 4 + kernel->buffers.size() + kernel->takesShard();
  }
};

struct WorkerPlan {
  std::vector<uint32_t> words; ///< the actions of a step, for the straight form
  /// For the table: the range of its section descriptions.
  size_t sectionsBegin = 0, sectionsEnd = 0;
  /// Instructions of the program, except Waits and second halves of pairs.
  std::vector<uint32_t> instructions;
  int64_t arenaBytes = 0, hostBytes = 0, numRequests = 0;
};

/// A program with assigned buffers. `ops` are the ops for error messages.
struct PlacedProgram {
  LoadedProgram loaded;
  BufferAssignment buffers;
};

/// The actions of all workers as sections (Support/WordSections.h), each
/// described by three words: position, length, times.
struct ActionTable {
  static constexpr unsigned kSectionWords = 3;

  std::vector<uint32_t> words;
  size_t longestSection = 0;     ///< in words
  std::vector<bool> usedOpcodes; ///< by opcode
};

struct StepPlan {
  StageFunctions functions;
  PlacedProgram placed;
  std::unique_ptr<StageKernels> stageKernels; ///< of `functions`
  std::vector<PersistentLayout> layouts;      ///< by worker
  std::vector<KernelPlan> kernels;            ///< by opcode - kFirstKernel
  std::vector<WorkerPlan> workers;
  ActionTable table;             ///< empty for the straight form
  std::vector<uint32_t> members; ///< of all groups, one after the other

  unsigned getNumWords(uint32_t opcode) const {
    return opcode < kFirstKernel
               ? pipesched::getNumWords(static_cast<Opcode>(opcode))
               : kernels[opcode - kFirstKernel].getNumWords();
  }
  /// Calls `visit(words, at)` with each action of a worker in the straight
  /// form; `at` is the place in `instructions` of the instruction that runs or
  /// comes next.
  template <typename Visit>
  void forEachAction(const WorkerPlan &worker, Visit &&visit) const {
    llvm::ArrayRef<uint32_t> rest = worker.words;
    size_t at = 0;
    while (!rest.empty()) {
      llvm::ArrayRef<uint32_t> words =
          rest.take_front(getNumWords(rest.front()));
      visit(words, at);
      at += words.front() == kEnd;
      rest = rest.drop_front(words.size());
    }
  }
  /// Appends "0F0", "0F1+0B0", "send 0F0 to 1", "all_reduce 0G0".
  void describe(uint32_t instruction, std::string &text) const;
};

/// Plans a step of each worker. Errors, emitted at the op: ops that
/// loadStageFunctions and loadProgram reject; a phase without its function; a
/// worker or an instruction without the result of exec-assign-buffers; buffers
/// that are not in the arena, not aligned, or that overlap in one kernel; tags
/// by which a message would arrive at the receive of another one; a sum of
/// elements that the runtime cannot add; blocks over 256 GiB; an instruction of
/// another dialect.
mlir::FailureOr<std::unique_ptr<StepPlan>> planSteps(exec::ProgramOp program,
                                                     ProgramForm form);

/// The same for a program as arrays. `owner` is the schedule or program that
/// they belong to; `functions` are its functions.
mlir::FailureOr<std::unique_ptr<StepPlan>> planSteps(mlir::Operation *owner,
                                                     StageFunctions functions,
                                                     PlacedProgram placed,
                                                     ProgramForm form);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_EXECTOFUNC_STEPPLAN_H
