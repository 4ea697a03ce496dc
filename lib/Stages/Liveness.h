//===- Liveness.h - Lifetimes of tensors ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensors that the instructions of a worker read and write in its arena.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_LIVENESS_H
#define PIPESCHED_LIB_STAGES_LIVENESS_H

#include "PipeSched/Stages/AssignBuffers.h"

namespace pipesched {

/// A version of a tensor, from the instruction that makes it to its last use.
/// For example, one tensor has three versions here:
///
///   F0 makes a residual | .. | D0 reads it, and makes a copy in host memory
///     | .. | U0 reads the copy, and makes one in the arena | B0 reads that
struct TensorVersion {
  uint32_t made, lastUse; ///< instructions of the program
  int64_t bytes;
  bool isInHost = false;
  bool isActivation = false; ///< an input or a residual; otherwise a message
  /// The sends, copies and collectives that read it or sum into it. They may
  /// still run when the row has continued.
  llvm::SmallVector<uint32_t, 1> readers;
  int64_t offset = -1; ///< set by the assignment
};

/// The versions of one worker. `buffers` lists, for each instruction of the
/// row, the versions that `at` of its op names, in that order: CSR by position
/// in the row.
struct RowLiveness {
  std::vector<TensorVersion> versions; ///< in the order of creation
  std::vector<uint32_t> bufferBegins, buffers;

  llvm::ArrayRef<uint32_t> buffersOf(uint32_t position) const {
    return llvm::ArrayRef(buffers).slice(bufferBegins[position],
                                         bufferBegins[position + 1] -
                                             bufferBegins[position]);
  }
};

/// Finds the versions of one worker. Errors, emitted at the instruction: a cell
/// without a function; a cell that reads a tensor that no instruction has made.
mlir::FailureOr<RowLiveness> findLiveness(const LoadedProgram &loaded,
                                          const StageKernels &kernels,
                                          int64_t worker);

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_LIVENESS_H
