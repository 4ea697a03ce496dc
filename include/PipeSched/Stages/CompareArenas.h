//===- CompareArenas.h - Arenas and predicted peaks -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Explains why an arena is larger than the predicted memory. The memory
// analysis predicts, from the costs of stages, the largest size of a worker's
// activations. The arena holds these activations and more (docs/Buffers.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_COMPAREARENAS_H
#define PIPESCHED_STAGES_COMPAREARENAS_H

#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"

namespace pipesched {

/// Why the arena of a worker is larger than the predicted peak. In bytes, at
/// the instruction at which the arena reached its size:
///
///   predicted                     the peak of the memory analysis
///   - elsewhere                   excess of that peak over this moment
///   - unknown                     counted by costs, not kept by functions
///   = kept                        the tensors that functions keep now
///   - handedOver - missing        of these, tensors stored once, or not stored
///   + ahead + outputs + gradients + passing + slices
///   = live                        the tensors in the arena
///   + alignment + inFlight + gaps
///   = arena
struct ArenaComparison {
  int64_t predicted = 0;
  std::optional<Cell> peakCell; ///< the cell at which the analysis has its peak
  /// The same peak if copies start and end at their places in the row. It
  /// equals `predicted` in a row without copies.
  int64_t peakInRow = 0;
  uint32_t instruction =
      0; ///< at which the arena reached its size; an index in the program

  int64_t elsewhere = 0; ///< negative only in rows with copies
  int64_t unknown = 0;
  int64_t kept = 0;
  /// Bytes counted twice: the output of a stage and the input of the next one
  /// are one tensor if both are on the worker.
  int64_t handedOver = 0;
  int64_t missing = 0;   ///< the second half of an overlapped pair
  int64_t ahead = 0;     ///< inputs whose F has not started
  int64_t outputs = 0;   ///< of F, until sent
  int64_t gradients = 0; ///< of inputs and outputs, and targets
  int64_t passing = 0;   ///< used only by this instruction
  /// Tensors that the slices of a microbatch pass on. They exist from the first
  /// F of the microbatch to its last backward. Without the part that costs
  /// count.
  int64_t slices = 0;
  int64_t live = 0;
  int64_t alignment = 0; ///< to 64 bytes
  int64_t inFlight = 0;  ///< sends or copies may still be reading
  /// Free, but too small for the tensor that made the arena grow.
  int64_t gaps = 0;
  int64_t largestGap = 0; ///< of adjacent free bytes; less than `grownBy`
  int64_t grownBy = 0; ///< aligned bytes of the tensor that made the arena grow
  int64_t arena = 0;
};

/// Compares the arenas of a program with assigned buffers with the peaks that
/// `costs` predict for its workers, in their order. The timeline is that of the
/// system or profile among the costs, else of unit slots; it matters only for
/// copies. Requires a model among the costs. Errors, emitted: a program without
/// functions of stages or buffers; costs that do not cover the program.
mlir::FailureOr<std::vector<ArenaComparison>>
compareArenas(exec::ProgramOp program, const CostInputs &costs);

} // namespace pipesched

#endif // PIPESCHED_STAGES_COMPAREARENAS_H
