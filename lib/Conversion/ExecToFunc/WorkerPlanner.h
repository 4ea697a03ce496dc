//===- WorkerPlanner.h - Plans a step of one worker -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the instructions of one worker into its actions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_EXECTOFUNC_WORKERPLANNER_H
#define PIPESCHED_LIB_CONVERSION_EXECTOFUNC_WORKERPLANNER_H

#include "StepPlan.h"
#include <map>

namespace pipesched {

/// The workers that reduce the same blocks.
struct Group {
  uint32_t number, firstMember, numMembers;
};
struct ReduceGroups {
  std::map<std::pair<int64_t, int64_t>, Group> byBlocks;
  std::vector<Group> byTie; ///< by index in StageFunctions::ties
  /// The groups of the shards of a vocabulary, for one path.
  struct OfShards {
    Group broadcasts, sums;
  };
  std::vector<OfShards> byPath;
};

/// Assigns opcodes to kernels; equal kernels share one.
class KernelNumbers {
public:
  explicit KernelNumbers(StepPlan &plan);

  /// `layout` may be of any worker that holds the stage.
  uint32_t numberOf(const StageKernel &kernel, const PersistentLayout &layout);

private:
  StepPlan &plan;
  std::vector<uint32_t> byStageAndPhase; ///< 0 where not numbered
  std::map<std::vector<int64_t>, uint32_t> byKey;
};

/// Fills a plan of `step.workers` and appends its actions to `words`. Linear in
/// the instructions and their buffers; there are no look-ups by name or op.
class WorkerPlanner {
public:
  WorkerPlanner(StepPlan &step, KernelNumbers &kernels,
                const ReduceGroups &groups, mlir::Operation *owner,
                int64_t worker, std::vector<uint32_t> &words);

  mlir::LogicalResult run();

private:
  const Instruction &at(uint32_t i) const {
    return step.placed.loaded.program.instructions[i];
  }
  mlir::Operation *opOf(uint32_t i) const { return step.placed.loaded.ops[i]; }
  void put(std::initializer_list<uint32_t> added) {
    words.insert(words.end(), added);
  }
  CellName nameOf(Cell cell) const {
    return step.placed.loaded.program.nameOf(cell);
  }
  void putZeros();
  void putBegun(Cell cell, const StageKernel &kernel,
                llvm::ArrayRef<int64_t> offsets);
  void putWaits(uint32_t instruction);
  uint32_t startRequest(uint32_t instruction);

  mlir::LogicalResult planNext(uint32_t instruction);
  mlir::LogicalResult planInstruction(uint32_t instruction);
  mlir::LogicalResult planCompute(uint32_t instruction);
  mlir::LogicalResult planCell(uint32_t instruction, Cell cell,
                               llvm::ArrayRef<int64_t> &offsets);
  mlir::LogicalResult planMessage(uint32_t instruction, Opcode opcode);
  mlir::LogicalResult planCopy(uint32_t instruction, Opcode opcode);
  mlir::LogicalResult planAllReduce(uint32_t instruction);
  mlir::LogicalResult planBroadcast(uint32_t instruction);
  mlir::LogicalResult planShardSums(uint32_t instruction);
  mlir::LogicalResult planTies(uint32_t instruction);
  mlir::LogicalResult verifyLast(uint32_t instruction, const Tie &tie);
  mlir::LogicalResult putSum(uint32_t instruction, Opcode opcode,
                             int64_t offset, int64_t size, mlir::Type type,
                             const Group &group);
  mlir::LogicalResult verifySlot(uint32_t instruction, int64_t offset,
                                 int64_t bytes, int64_t blockBytes,
                                 llvm::StringRef block);
  mlir::LogicalResult verifyBuffers(uint32_t instruction,
                                    const StageKernel &kernel,
                                    llvm::ArrayRef<int64_t> offsets);

  StepPlan &step;
  KernelNumbers &kernels;
  const ReduceGroups &groups;
  mlir::Operation *owner;
  int64_t worker;
  std::vector<uint32_t> &words;
  const PersistentLayout &layout;
  WorkerPlan &plan;
  uint32_t rowBegin, rowEnd;
  int64_t losses; ///< offset in the persistent block
  /// By stage: the offset of its tensors, and the sizes in bytes of the
  /// messages with its output and with the gradient of its input; -1 if there
  /// is no such message.
  std::vector<int64_t> stageBegins, outputBytes, gradientBytes;

  std::vector<bool> summedTies; ///< by tie

  /// Operands of the Waits in front of the next compute or reload.
  llvm::SmallVector<uint32_t> joined;
  /// By position in the row: its first open request. By request: the next
  /// request of the same instruction, or none.
  std::vector<uint32_t> firstRequest, nextRequest;
  llvm::SmallVector<uint32_t> freeRequests; ///< reused last in, first out
};

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_EXECTOFUNC_WORKERPLANNER_H
