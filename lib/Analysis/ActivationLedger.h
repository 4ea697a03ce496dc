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

/// The activations of a program. The cells of one stage and microbatch are
/// entered in the order in which they allocate and free.
class ActivationLedger {
public:
  ActivationLedger(const Placement &placement, const MemoryFacts &facts);

  /// Reads the cells of a program, in one list or by row. Where some are R, D
  /// or U, each activation has an entry; in other programs the phase of a cell
  /// says what it allocates and frees. Errors: few tasks for many entries.
  llvm::Error read(llvm::ArrayRef<llvm::ArrayRef<Cell>> lists);

  bool hasEntries() const { return !entries.empty(); }

  /// F allocates the activations that it keeps, R the rest; B and I allocate
  /// their working memory. `stage` is the global stage of the cell.
  MemoryChange start(Cell cell, int64_t stage);
  MemoryChange start(Cell cell) {
    return start(cell, placement.globalStage(cell));
  }
  /// I frees its share of the activations, B and W all that is left.
  MemoryChange finish(Cell cell, int64_t stage);
  MemoryChange finish(Cell cell) {
    return finish(cell, placement.globalStage(cell));
  }
  /// Frees on the device what D has copied.
  MemoryChange moveOut(Cell cell);
  /// Allocates on the device what U copies.
  MemoryChange moveIn(Cell cell);

private:
  /// Activations of one stage and microbatch.
  struct Activation {
    int64_t deviceBytes = 0, hostBytes = 0;
    bool isRecomputed = false; ///< an R allocates what F does not keep
  };

  Activation &at(Cell cell, int64_t stage) {
    return entries[offsets[stage] + placement.rankOnPath(cell.getMicrobatch())];
  }
  Activation &at(Cell cell) { return at(cell, placement.globalStage(cell)); }
  int64_t release(Cell cell, int64_t stage);

  const Placement &placement;
  const MemoryFacts &facts;
  std::vector<std::size_t> offsets; ///< by global stage, and the end
  std::vector<Activation> entries;  ///< empty: not needed
};

// In the header because a walk calls them for every cell.

inline MemoryChange ActivationLedger::start(Cell cell, int64_t global) {
  const StageMemory &stage = facts.stages[global];
  if (cell.is(Phase::Backward) || cell.is(Phase::InputGrad))
    return {stage.workingBytes, 0};
  if (!cell.is(Phase::Forward) && !cell.is(Phase::Recompute))
    return {};
  if (entries.empty())
    return {stage.activationBytes, 1};
  Activation &activation = at(cell, global);
  bool keepsBoundary = cell.is(Phase::Forward) && activation.isRecomputed;
  int64_t target = keepsBoundary ? stage.boundaryBytes : stage.activationBytes;
  int64_t grown = target - activation.deviceBytes;
  activation.deviceBytes = target;
  return {grown, cell.is(Phase::Forward) ? 1 : 0};
}

inline int64_t ActivationLedger::release(Cell cell, int64_t global) {
  const StageMemory &stage = facts.stages[global];
  bool isInputGrad = cell.is(Phase::InputGrad);
  if (!entries.empty()) {
    int64_t &held = at(cell, global).deviceBytes;
    int64_t freed =
        isInputGrad ? std::min(stage.inputGradFreedBytes, held) : held;
    held -= freed;
    return freed;
  }
  if (isInputGrad)
    return stage.inputGradFreedBytes;
  return cell.is(Phase::Backward)
             ? stage.activationBytes
             : stage.activationBytes - stage.inputGradFreedBytes;
}

inline MemoryChange ActivationLedger::finish(Cell cell, int64_t global) {
  switch (cell.getPhase()) {
  case Phase::Backward:
    return {-release(cell, global) - facts.stages[global].workingBytes, -1};
  case Phase::InputGrad:
    return {-release(cell, global) - facts.stages[global].workingBytes, 0};
  case Phase::WeightGrad:
    return {-release(cell, global), -1};
  default:
    return {};
  }
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_ACTIVATIONLEDGER_H
