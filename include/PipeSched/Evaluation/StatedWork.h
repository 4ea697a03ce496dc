//===- StatedWork.h - Work that instructions state --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs written by hand may state the work of an instruction, instead of the
// work that its cell implies by model or profile. Stated work replaces costs,
// traffic and memory.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_STATEDWORK_H
#define PIPESCHED_EVALUATION_STATEDWORK_H

#include "PipeSched/Analysis/Memory/PeakMemory.h"
#include "PipeSched/CostModel/CostModel.h"

namespace pipesched {

/// The stated work of one instruction of a program. An absent field follows
/// from the cell.
struct StatedWork {
  uint32_t instruction = 0;
  std::optional<int64_t> flops;      ///< of Compute, on the matrix engines
  std::optional<int64_t> bytesMoved; ///< of Compute, Offload, Reload
  /// For Send: its message. For AllReduce: the gradients of each of its
  /// workers.
  std::optional<int64_t> messageBytes;
  /// A positive amount is held from the start on, a negative one is freed at
  /// the end.
  std::optional<int64_t> memoryDelta;

  bool hasTime() const { return flops || bytesMoved || messageBytes; }
};

bool anyHasTime(llvm::ArrayRef<StatedWork> work);
bool anyHasMemory(llvm::ArrayRef<StatedWork> work);

/// Replaces the times of tasks whose instructions state work: compute by the
/// roofline of one kernel, messages and copies by Hockney, all-reduces by rings
/// (all workers of one state the same). Errors: no system; if `isComplete`, a
/// task without a stated time; sums over int64.
llvm::Error costStatedWork(llvm::ArrayRef<StatedWork> work,
                           const TaskGraph &graph, const SystemFacts *system,
                           Transport transport, bool isComplete,
                           TaskTimes &times);

/// Replaces the bytes of messages that state theirs. Errors: sums over int64.
llvm::Error addStatedTraffic(llvm::ArrayRef<StatedWork> work,
                             const TaskGraph &graph, const Placement &placement,
                             const StageCosts &stageCosts,
                             const SystemFacts &system, Traffic &traffic);

/// Replaces the activations in `usage` by the stated activations of
/// instructions; other instructions then hold nothing. Errors: sums over int64.
llvm::Error addStatedMemory(llvm::ArrayRef<StatedWork> work,
                            const TaskGraph &graph, const TaskTimes &times,
                            const Timeline &timeline, MemoryUsage &usage);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_STATEDWORK_H
