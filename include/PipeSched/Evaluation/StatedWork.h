//===- StatedWork.h - Work that instructions state --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hand-written programs may state the work of an instruction, instead of the
// work that follows from its cell by model or profile. Stated work replaces
// costs, traffic and memory.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_STATEDWORK_H
#define PIPESCHED_EVALUATION_STATEDWORK_H

#include "PipeSched/Analysis/Memory/PeakMemory.h"
#include "PipeSched/CostModel/CostModel.h"

namespace pipesched {

/// The stated work of one instruction of a program. Absent fields follow from
/// the cell.
struct StatedWork {
  uint32_t instruction = 0;
  std::optional<int64_t> flops;      ///< of Compute, on the matrix engines
  std::optional<int64_t> bytesMoved; ///< of Compute, Offload, Reload
  /// For Send: its message. For AllReduce: the gradients on each of its
  /// workers.
  std::optional<int64_t> messageBytes;
  /// A positive amount is allocated at the start, a negative amount is freed at
  /// the end.
  std::optional<int64_t> memoryDelta;

  bool hasTime() const { return flops || bytesMoved || messageBytes; }
};

bool anyHasTime(llvm::ArrayRef<StatedWork> work);
bool anyHasMemory(llvm::ArrayRef<StatedWork> work);

/// Replaces the times of tasks whose instructions state work: compute by the
/// roofline of one kernel, messages and copies by Hockney, all-reduces by rings
/// (all workers of an all-reduce must state the same). Errors: no system; if
/// `isComplete`, a task without a stated time; sums over int64.
llvm::Error costStatedWork(llvm::ArrayRef<StatedWork> work,
                           const TaskGraph &graph, const SystemFacts *system,
                           Transport transport, bool isComplete,
                           TaskTimes &times);

/// Replaces the bytes of messages for which bytes are stated. Errors: sums over
/// int64.
llvm::Error addStatedTraffic(llvm::ArrayRef<StatedWork> work,
                             const TaskGraph &graph, const Placement &placement,
                             const StageCosts &stageCosts,
                             const SystemFacts &system, Traffic &traffic);

/// Replaces the activations in `usage` by the stated memory; instructions
/// without such a statement hold nothing. Errors: sums over int64.
llvm::Error addStatedMemory(llvm::ArrayRef<StatedWork> work,
                            const TaskGraph &graph, const TaskTimes &times,
                            const Timeline &timeline, MemoryUsage &usage);

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_STATEDWORK_H
