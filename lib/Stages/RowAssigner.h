//===- RowAssigner.h - Where the tensors of a row are -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives places in the arena of a worker to all tensors of its row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_ROWASSIGNER_H
#define PIPESCHED_LIB_STAGES_ROWASSIGNER_H

#include "Liveness.h"

namespace pipesched {

/// The tensors of one row, and what the assignment has found for them.
struct RowBuffers {
  RowLiveness liveness;
  ArenaUse use;
  /// CSR by position in the row: the instructions that it must wait for
  /// besides.
  std::vector<uint32_t> waitBegins, waits;
  /// How many instructions took their places from the earlier instructions that
  /// they repeat.
  uint32_t numRepeated = 0;

  llvm::ArrayRef<uint32_t> waitsOf(uint32_t position) const {
    return llvm::ArrayRef(waits).slice(
        waitBegins[position], waitBegins[position + 1] - waitBegins[position]);
  }
};

/// Sets the offsets of the versions of `row`, its use and its waits. A place is
/// used again when what reads it has ended or may be waited for: a send with
/// `inFlight` later ones behind it. Errors, emitted at the instruction: memory
/// of more than 2^63 - 1 bytes.
///
/// Rows that repeat are assigned until their state repeats, too; the rest has
/// the same places. The result does not depend on `leaps`, which is for tests.
mlir::LogicalResult assignRow(const LoadedProgram &loaded, int64_t worker,
                              int64_t inFlight, RowBuffers &row,
                              bool leaps = true);

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_ROWASSIGNER_H
