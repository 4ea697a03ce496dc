//===- WorkerPlanner.h - Plans a step of one worker -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state that StepPlan.cpp keeps while it walks the instructions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_EXECTOFUNC_WORKERPLANNER_H
#define PIPESCHED_LIB_CONVERSION_EXECTOFUNC_WORKERPLANNER_H

#include "StepPlan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pipesched {

/// The workers that reduce the same blocks.
struct Group {
  uint32_t number, firstMember, numMembers;
};
using GroupMap = std::map<std::pair<int64_t, int64_t>, Group>; ///< by blocks

/// Gives kernels their opcodes; equal ones share one.
class KernelNumbers {
public:
  explicit KernelNumbers(StepPlan &plan);

  /// `layout` is that of any worker that holds the stage.
  uint32_t numberOf(const StageKernel &kernel, const PersistentLayout &layout);

private:
  StepPlan &plan;
  llvm::DenseMap<const StageKernel *, uint32_t> byKernel;
  std::map<std::vector<int64_t>, uint32_t> byKey;
};

/// Fills the last plan of `step.workers`.
class WorkerPlanner {
public:
  WorkerPlanner(StepPlan &step, KernelNumbers &kernels, const GroupMap &groups,
                exec::WorkerOp worker)
      : step(step), kernels(kernels), groups(groups), worker(worker),
        layout(step.layouts[worker.getWorker()]), plan(step.workers.back()) {}

  mlir::LogicalResult run();

private:
  void put(int64_t word);
  void putSlot(int64_t offset) { put(offset / kSlotAlignment); }
  void putSize(int64_t size);
  void putZeros();
  void putWaits(mlir::Operation *instruction);
  uint32_t startRequest(mlir::Operation *instruction);

  mlir::LogicalResult planNext(exec::InstructionOpInterface op);
  mlir::LogicalResult planInstruction(mlir::Operation *op);
  mlir::LogicalResult planCompute(exec::ComputeOp op);
  mlir::LogicalResult planCell(exec::ComputeOp op, Cell cell,
                               llvm::ArrayRef<int64_t> &offsets);
  template <typename MessageOp>
  mlir::LogicalResult planMessage(MessageOp op, Opcode opcode);
  template <typename CopyOp>
  mlir::LogicalResult planCopy(CopyOp op, Opcode opcode);
  mlir::LogicalResult planAllReduce(exec::AllReduceOp op);
  mlir::LogicalResult verifySlot(mlir::Operation *op, int64_t offset,
                                 int64_t bytes, int64_t blockBytes,
                                 llvm::StringRef block);
  mlir::LogicalResult verifyBuffers(mlir::Operation *op,
                                    const StageKernel &kernel,
                                    llvm::ArrayRef<int64_t> offsets);

  StepPlan &step;
  KernelNumbers &kernels;
  const GroupMap &groups;
  exec::WorkerOp worker;
  const PersistentLayout &layout;
  WorkerPlan &plan;

  /// What waits in front of the next compute or reload wait for.
  llvm::SmallVector<mlir::Operation *> joined;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<uint32_t, 1>>
      openRequests;
  llvm::SmallVector<uint32_t> freeRequests; ///< reused last in, first out
};

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_EXECTOFUNC_WORKERPLANNER_H
