//===- ActivationLedger.h - Bytes of each activation ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory that each cell allocates and frees (docs/CostModel.md, "Copies: D
// and U" and "Activations, tensor by tensor").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_MEMORY_ACTIVATIONLEDGER_H
#define PIPESCHED_LIB_ANALYSIS_MEMORY_ACTIVATIONLEDGER_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include <algorithm>
#include <utility>

namespace pipesched {

/// Decides which keys and values leave the device. The forwards of later slices
/// read the keys and values of a slice, and so does the backward of the last
/// slice, which runs first:
///
///   F0 D0 F1 F2 ..       B2 B1 U0 B0    slice 0's stay
///   F0 F1 F2 D0 D2 .. U0 U2 B2 B1 B0    they leave: D is after the last F,
///                                       and U0 before U2 of the last slice
///
/// The reload queue keeps its order: the U of the last slice, for which its
/// backward waits, comes after all earlier U.
class LeavingKeys {
public:
  /// Without slices, or before this is called, all keys and values leave.
  void init(const Placement &newPlacement) {
    placement = &newPlacement;
    if (placement->getNumSlices() > 1)
      states.assign(placement->getNumPairs(), 0);
  }
  bool isTracked() const { return !states.empty(); }

  /// Processes the cells of a worker in the order of its row.
  void visit(Cell cell) {
    if (cell.isPerPath())
      return;
    size_t pair = placement->pairOf(cell);
    int64_t numSlices = placement->getNumSlices();
    int64_t slice = placement->sliceOf(cell.getUnit());
    size_t last = pair + (numSlices - 1 - slice);
    if (cell.is(Phase::Forward))
      states[pair] |= HasRun;
    else if (cell.is(Phase::Offload) && (states[last] & HasRun))
      states[pair] |= IsBehindForwards;
    else if (cell.is(Phase::Reload))
      states[pair] |= IsBack;
    if (!cell.is(Phase::Reload) || pair != last)
      return;
    for (size_t other = last - (numSlices - 1); other <= last; ++other)
      if ((states[other] & IsBehindForwards) && (states[other] & IsBack))
        states[other] |= Leaves;
  }

  /// Whether all keys and values of an activation leave the device.
  bool leaves(size_t pair) const {
    return states.empty() || (states[pair] & Leaves);
  }

private:
  enum State : uint8_t {
    HasRun = 1,
    IsBehindForwards = 2,
    IsBack = 4,
    Leaves = 8
  };

  const Placement *placement = nullptr;
  std::vector<uint8_t> states; ///< by pair; empty: not needed
};

/// The effect of a cell on the memory of its worker.
struct MemoryChange {
  int64_t bytes = 0, activations = 0;

  MemoryChange &operator+=(const MemoryChange &other) {
    bytes += other.bytes;
    activations += other.activations;
    return *this;
  }
};

/// An activation of one stage and microbatch. Its cells are recorded in the
/// order in which they allocate and free.
struct HeldActivation {
  int64_t deviceBytes = 0, hostBytes = 0;
  bool isRecomputed = false; ///< an R allocates the rest
  bool leavesKeys = true;    ///< D frees keys and values, too

  /// F allocates the activations that it keeps, R the rest. B and I allocate
  /// their working memory.
  MemoryChange start(Cell cell, const StageMemory &stage);
  /// I frees its share of the activations, B and W free the rest. On a frozen
  /// stage I frees all, and on a stage without a backward F does.
  MemoryChange finish(Cell cell, const StageMemory &stage,
                      StageBackward backward);
  /// Frees the device memory that D has copied, except keys and values that
  /// other slices read. Their size equals that of the gradients that later
  /// slices leave for the slice. The last slice has no such gradients, and no
  /// other slice reads its keys and values.
  MemoryChange moveOut(const StageMemory &stage) {
    int64_t kept =
        leavesKeys ? 0 : std::max<int64_t>(-stage.leftForSlicesBytes, 0);
    int64_t bytes = std::max<int64_t>(deviceBytes - kept, 0);
    deviceBytes -= bytes;
    hostBytes += bytes;
    return {-bytes, -1};
  }
  /// Allocates the device memory into which U copies.
  MemoryChange moveIn() {
    int64_t bytes = std::exchange(hostBytes, 0);
    deviceBytes += bytes;
    return {bytes, 1};
  }
};

/// The effect of a cell if no activation is recomputed or copied. It depends
/// only on the phase and the backward of the stage.
MemoryChange startKept(Cell cell, const StageMemory &stage);
MemoryChange finishKept(Cell cell, const StageMemory &stage,
                        StageBackward backward);

/// The activations of a program.
class ActivationLedger {
public:
  ActivationLedger(const Placement &placement, const MemoryFacts &facts)
      : placement(placement), facts(facts) {}

  /// Reads the cells of a program. If some are R, D or U, each activation gets
  /// an entry. Errors: a program with far more activations than tasks.
  llvm::Error read(llvm::ArrayRef<Cell> cells);
  /// Reads the cells and copies of each worker in the order of its row, after
  /// read().
  void readRows(llvm::ArrayRef<Cell> cells);

  MemoryChange start(Cell cell) {
    return entries.empty() ? startKept(cell, memoryOf(cell))
                           : at(cell).start(cell, memoryOf(cell));
  }
  MemoryChange finish(Cell cell) {
    StageBackward backward = placement.backwardOf(cell);
    return entries.empty() ? finishKept(cell, memoryOf(cell), backward)
                           : at(cell).finish(cell, memoryOf(cell), backward);
  }
  MemoryChange moveOut(Cell cell) { return at(cell).moveOut(memoryOf(cell)); }
  MemoryChange moveIn(Cell cell) { return at(cell).moveIn(); }

private:
  const StageMemory &memoryOf(Cell cell) const {
    return facts.memoryOf(placement, cell);
  }
  HeldActivation &at(Cell cell) { return entries[placement.pairOf(cell)]; }

  const Placement &placement;
  const MemoryFacts &facts;
  std::vector<HeldActivation> entries; ///< by pair; empty: not needed
};

// In the header because a walk calls it for every cell.

/// The bytes that the end of a cell frees in addition to the activation.
inline int64_t freedBesides(Cell cell, const StageMemory &stage) {
  return cell.isIn(kBackwardStarts)
             ? stage.workingBytes - stage.leftForSlicesBytes
             : 0;
}

inline MemoryChange startKept(Cell cell, const StageMemory &stage) {
  MemoryEffect change = kMemoryOf[cell.getPhase()].atStart;
  if (change == MemoryEffect::AllocateAll)
    return {stage.activationBytes, 1};
  int64_t working = cell.isIn(kBackwardStarts) ? stage.workingBytes : 0;
  return {changeOf(change, stage.amounts()) + working, 0};
}

inline MemoryChange finishKept(Cell cell, const StageMemory &stage,
                               StageBackward backward) {
  MemoryEffect change = effectAtEnd(cell.getPhase(), backward);
  if (change == MemoryEffect::Same)
    return {};
  return {changeOf(change, stage.amounts()) - freedBesides(cell, stage),
          cell.isIn(releasingPhases(backward)) ? -1 : 0};
}

inline MemoryChange HeldActivation::start(Cell cell, const StageMemory &stage) {
  if (!cell.isIn(kActivationMakers))
    return startKept(cell, stage);
  bool isFirst =
      kMemoryOf[cell.getPhase()].atStart == MemoryEffect::AllocateAll;
  int64_t target =
      isFirst && isRecomputed ? stage.boundaryBytes : stage.activationBytes;
  int64_t grown = target - deviceBytes;
  deviceBytes = target;
  return {grown, isFirst ? 1 : 0};
}

inline MemoryChange HeldActivation::finish(Cell cell, const StageMemory &stage,
                                           StageBackward backward) {
  PhaseSet releasing = releasingPhases(backward);
  if (!cell.isIn(kFreeingPhases | releasing))
    return finishKept(cell, stage, backward);
  MemoryEffect change = kMemoryOf[cell.getPhase()].atEnd;
  int64_t freed =
      cell.isIn(releasing)
          ? deviceBytes
          : std::min(-changeOf(change, stage.amounts()), deviceBytes);
  deviceBytes -= freed;
  return {-freed - freedBesides(cell, stage), cell.isIn(releasing) ? -1 : 0};
}

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_MEMORY_ACTIVATIONLEDGER_H
