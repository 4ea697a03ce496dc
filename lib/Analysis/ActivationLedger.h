//===- ActivationLedger.h - Bytes of each activation ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each cell allocates and frees (docs/CostModel.md, "Copies: D and U" and
// "Activations, tensor by tensor").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_ACTIVATIONLEDGER_H
#define PIPESCHED_LIB_ANALYSIS_ACTIVATIONLEDGER_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Placement.h"
#include <algorithm>
#include <utility>

namespace pipesched {

/// What a cell does to the memory of its worker.
struct MemoryChange {
  int64_t bytes = 0, activations = 0;

  MemoryChange &operator+=(const MemoryChange &other) {
    bytes += other.bytes;
    activations += other.activations;
    return *this;
  }
};

/// An activation of one stage and microbatch. Its cells are entered in the
/// order in which they allocate and free.
struct HeldActivation {
  int64_t deviceBytes = 0, hostBytes = 0;
  bool isRecomputed = false; ///< an R allocates what F does not keep

  /// F allocates the activations that it keeps, R the rest; B and I allocate
  /// their working memory.
  MemoryChange start(Cell cell, const StageMemory &stage);
  /// I frees its share of the activations, B and W all that is left.
  MemoryChange finish(Cell cell, const StageMemory &stage);
  /// Frees on the device what D has copied.
  MemoryChange moveOut() {
    int64_t bytes = std::exchange(deviceBytes, 0);
    hostBytes += bytes;
    return {-bytes, -1};
  }
  /// Allocates on the device what U copies.
  MemoryChange moveIn() {
    int64_t bytes = std::exchange(hostBytes, 0);
    deviceBytes += bytes;
    return {bytes, 1};
  }
};

/// What a cell does if no activation is recomputed or copied. Its phase alone
/// decides that.
MemoryChange startKept(Cell cell, const StageMemory &stage);
MemoryChange finishKept(Cell cell, const StageMemory &stage);

/// The activations of a program.
class ActivationLedger {
public:
  ActivationLedger(const Placement &placement, const MemoryFacts &facts);

  /// Reads the cells of a program. If some are R, D or U, each activation gets
  /// an entry. Errors: a program with far more activations than tasks.
  llvm::Error read(llvm::ArrayRef<Cell> cells);

  MemoryChange start(Cell cell) {
    return entries.empty() ? startKept(cell, memoryOf(cell))
                           : at(cell).start(cell, memoryOf(cell));
  }
  MemoryChange finish(Cell cell) {
    return entries.empty() ? finishKept(cell, memoryOf(cell))
                           : at(cell).finish(cell, memoryOf(cell));
  }
  MemoryChange moveOut(Cell cell) { return at(cell).moveOut(); }
  MemoryChange moveIn(Cell cell) { return at(cell).moveIn(); }

private:
  const StageMemory &memoryOf(Cell cell) const {
    return facts.stages[placement.globalStage(cell)];
  }
  HeldActivation &at(Cell cell) {
    return entries[offsets[placement.globalStage(cell)] +
                   placement.rankOnPath(cell.getMicrobatch())];
  }

  const Placement &placement;
  const MemoryFacts &facts;
  std::vector<std::size_t> offsets;    ///< by global stage, and the end
  std::vector<HeldActivation> entries; ///< empty: not needed
};

// In the header because a walk calls them for every cell.

inline MemoryChange startKept(Cell cell, const StageMemory &stage) {
  if (cell.is(Phase::Backward) || cell.is(Phase::InputGrad))
    return {stage.workingBytes, 0};
  if (cell.is(Phase::Forward))
    return {stage.activationBytes, 1};
  return {};
}

inline MemoryChange finishKept(Cell cell, const StageMemory &stage) {
  switch (cell.getPhase()) {
  case Phase::Backward:
    return {-stage.activationBytes - stage.workingBytes, -1};
  case Phase::InputGrad:
    return {-stage.inputGradFreedBytes - stage.workingBytes, 0};
  case Phase::WeightGrad:
    return {stage.inputGradFreedBytes - stage.activationBytes, -1};
  default:
    return {};
  }
}

inline MemoryChange HeldActivation::start(Cell cell, const StageMemory &stage) {
  if (!cell.is(Phase::Forward) && !cell.is(Phase::Recompute))
    return startKept(cell, stage);
  bool keepsBoundary = cell.is(Phase::Forward) && isRecomputed;
  int64_t target = keepsBoundary ? stage.boundaryBytes : stage.activationBytes;
  int64_t grown = target - deviceBytes;
  deviceBytes = target;
  return {grown, cell.is(Phase::Forward) ? 1 : 0};
}

inline MemoryChange HeldActivation::finish(Cell cell,
                                           const StageMemory &stage) {
  bool isInputGrad = cell.is(Phase::InputGrad);
  bool isBackward = cell.is(Phase::Backward);
  if (!isInputGrad && !isBackward && !cell.is(Phase::WeightGrad))
    return {};
  int64_t freed = isInputGrad ? std::min(stage.inputGradFreedBytes, deviceBytes)
                              : deviceBytes;
  deviceBytes -= freed;
  int64_t working = isInputGrad || isBackward ? stage.workingBytes : 0;
  return {-freed - working, isInputGrad ? 0 : -1};
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_ACTIVATIONLEDGER_H
