//===- AssignBuffers.h - Assignment of buffers ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns places in an arena to the activations, gradients and messages of each
// worker, and tags to messages. Adds the waits that keep a place from being
// reused too early (docs/Buffers.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_ASSIGNBUFFERS_H
#define PIPESCHED_STAGES_ASSIGNBUFFERS_H

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"
#include "PipeSched/Stages/Kernels.h"

namespace pipesched {

struct BufferOptions {
  /// When a send ends; used in the proof that the waits close no cycle.
  SendMode sends = SendMode::Rendezvous;
  /// The number of later sends that a worker posts before it waits for a send
  /// in order to reuse its buffer; at least 1. More messages in flight take
  /// more memory.
  int64_t inFlight = 2;
  /// The bytes of host memory to which each worker may offload.
  std::optional<int64_t> hostMemory;

  /// Creates options from the options of passes, where -1 is host memory
  /// without limit. Errors, emitted at `location`: numbers below 1, or below
  /// -1.
  static mlir::FailureOr<BufferOptions> create(mlir::Location location,
                                               SendMode sends, int64_t inFlight,
                                               int64_t hostMemory);
};

/// The contents of an arena, in bytes, when it is fullest.
struct ArenaUse {
  int64_t arena = 0;       ///< its size
  int64_t host = 0;        ///< the size of the part in host memory
  int64_t activations = 0; ///< inputs and residuals
  int64_t messages = 0; ///< outputs and gradients that are sent or still needed
  int64_t padding = 0;  ///< alignment, gaps, and buffers being sent
};

/// The places of the tensors of a program, in arrays by instruction.
struct BufferAssignment {
  /// CSR: the places that `at` of the op lists. Each half of an overlapped pair
  /// may have its own part, or the first half has the places of both.
  std::vector<uint32_t> offsetBegins;
  std::vector<int64_t> offsets;
  std::vector<int32_t> tags; ///< of sends and receives; -1 for others
  /// CSR: the dependences of an instruction. First come its operands in the
  /// program, then the readers of places that it reuses. The first half of a
  /// pair also waits for the dependences of the second half.
  std::vector<uint32_t> operandBegins, operands;
  std::vector<ArenaUse> uses; ///< by worker

  llvm::ArrayRef<int64_t> offsetsOf(uint32_t instruction) const {
    return llvm::ArrayRef(offsets).slice(offsetBegins[instruction],
                                         offsetBegins[instruction + 1] -
                                             offsetBegins[instruction]);
  }
  llvm::ArrayRef<uint32_t> operandsOf(uint32_t instruction) const {
    return llvm::ArrayRef(operands).slice(operandBegins[instruction],
                                          operandBegins[instruction + 1] -
                                              operandBegins[instruction]);
  }
};

/// Finds places, tags and waits without changing any op. Errors: as for
/// assignBuffers after loadStageFunctions, emitted at the op of the
/// instruction, or at `owner` if they concern the whole program. `deadlock`
/// emits a deadlock.
mlir::FailureOr<BufferAssignment>
findBuffers(mlir::Operation *owner, const LoadedProgram &loaded,
            const StageKernels &kernels, const BufferOptions &options,
            llvm::function_ref<void(llvm::Error error)> deadlock);

/// Assigns buffers and tags to a program and adds waits to its instructions;
/// replaces existing ones. Returns the contents of each worker's arena, in the
/// order of workers. Errors, emitted: a program without functions of stages or
/// with functions that loadStageFunctions refuses; a cell without a function; a
/// cell that reads a tensor that no instruction has made, or that may arrive
/// after the cell has run because the cell does not wait for it; more host
/// memory than `options` allow; a deadlock, as a cycle of waits; a channel
/// whose receive order differs so much from its send order that 32768 tags are
/// not enough.
mlir::FailureOr<std::vector<ArenaUse>>
assignBuffers(exec::ProgramOp program, const BufferOptions &options);

} // namespace pipesched

#endif // PIPESCHED_STAGES_ASSIGNBUFFERS_H
