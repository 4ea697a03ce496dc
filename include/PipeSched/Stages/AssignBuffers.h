//===- AssignBuffers.h - Where tensors are ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns places in an arena to the activations, gradients and messages of each
// worker, and tags to messages. Adds the waits to instructions without which a
// place would be used again too early (docs/Buffers.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_ASSIGNBUFFERS_H
#define PIPESCHED_STAGES_ASSIGNBUFFERS_H

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"
#include "PipeSched/Stages/Kernels.h"

namespace pipesched {

struct BufferOptions {
  /// When a send ends, for the proof that the waits close no cycle.
  SendMode sends = SendMode::Rendezvous;
  /// The number of later sends that a worker posts before it waits for a send
  /// to use its buffer again; at least 1. More messages in flight take more
  /// memory.
  int64_t inFlight = 2;
  /// The bytes of host memory of each worker to which it may offload.
  std::optional<int64_t> hostMemory;

  /// From options of passes, where -1 is a host memory without limit. Errors,
  /// emitted at `location`: numbers below 1, or below -1.
  static mlir::FailureOr<BufferOptions> create(mlir::Location location,
                                               SendMode sends, int64_t inFlight,
                                               int64_t hostMemory);
};

/// The contents of an arena, in bytes, at the moment at which it holds most.
struct ArenaUse {
  int64_t arena = 0;       ///< its size
  int64_t host = 0;        ///< the size of the part in host memory
  int64_t activations = 0; ///< inputs and residuals
  int64_t messages = 0;    ///< outputs and gradients, sent or to be used
  int64_t padding = 0;     ///< alignment, gaps, and buffers being sent
};

/// The places of the tensors of a program, in arrays by its instructions.
struct BufferAssignment {
  /// CSR: the places that `at` of the op lists. Each half of an overlapped pair
  /// may have its own part, or the first half has both.
  std::vector<uint32_t> offsetBegins;
  std::vector<int64_t> offsets;
  std::vector<int32_t> tags; ///< of sends and receives; -1 where there is none
  /// CSR: the dependences of an instruction, first the operands that it has in
  /// the program, then the readers of places that it uses again. The first half
  /// of a pair also waits for the dependences of the second half.
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

/// Finds places, tags and waits, and changes no op. Errors: as for
/// assignBuffers after loadStageFunctions, emitted at the op of the
/// instruction, or at `owner` where they are of the whole program. `deadlock`
/// emits one.
mlir::FailureOr<BufferAssignment>
findBuffers(mlir::Operation *owner, const LoadedProgram &loaded,
            const StageKernels &kernels, const BufferOptions &options,
            llvm::function_ref<void(llvm::Error error)> deadlock);

/// Assigns buffers and tags to a program and adds waits to its instructions;
/// replaces existing ones. Returns the contents of each worker's arena, in the
/// order of workers. Errors, emitted: a program without functions of stages or
/// with functions that loadStageFunctions refuses; a cell without a function; a
/// cell that reads a tensor that nothing has made, or that may arrive after the
/// cell runs, because it does not wait for it; more host memory than `options`
/// give; a deadlock, as a cycle of waits; messages of a channel that are
/// received in so different an order that 32768 tags are not enough.
mlir::FailureOr<std::vector<ArenaUse>>
assignBuffers(exec::ProgramOp program, const BufferOptions &options);

} // namespace pipesched

#endif // PIPESCHED_STAGES_ASSIGNBUFFERS_H
