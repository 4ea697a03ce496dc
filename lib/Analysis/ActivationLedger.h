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

  /// Reads the cells of a program. Where some are R, D or U, each activation
  /// has an entry; in other programs the phase of a cell says what it allocates
  /// and frees. Errors: few tasks for many entries.
  llvm::Error read(llvm::ArrayRef<Cell> cells);

  /// F allocates the activations that it keeps, R the rest; B and I allocate
  /// their working memory.
  MemoryChange start(Cell cell);
  /// I frees its share of the activations, B and W all that is left.
  MemoryChange finish(Cell cell);
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

  Activation &at(Cell cell) {
    return entries[offsets[placement.globalStage(cell)] +
                   placement.rankOnPath(cell.getMicrobatch())];
  }
  const StageMemory &stageOf(Cell cell) const {
    return facts.stages[placement.globalStage(cell)];
  }
  int64_t release(Cell cell);

  const Placement &placement;
  const MemoryFacts &facts;
  std::vector<std::size_t> offsets; ///< by global stage, and the end
  std::vector<Activation> entries;  ///< empty: not needed
};

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_ACTIVATIONLEDGER_H
