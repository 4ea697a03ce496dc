//===- Exec.h - The exec dialect --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dialect, token type, queues and ops of exec.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXEC_H
#define PIPESCHED_DIALECT_EXEC_IR_EXEC_H

#include "PipeSched/Dialect/Exec/IR/CompactOptional.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Table/Replicas.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace pipesched::exec {

/// The queues of a worker as resources of memory effects.
struct ComputeQueue : mlir::SideEffects::Resource::Base<ComputeQueue> {
  llvm::StringRef getName() final { return "exec.compute_queue"; }
};
struct SendQueue : mlir::SideEffects::Resource::Base<SendQueue> {
  llvm::StringRef getName() final { return "exec.send_queue"; }
};
struct ReceiveQueue : mlir::SideEffects::Resource::Base<ReceiveQueue> {
  llvm::StringRef getName() final { return "exec.receive_queue"; }
};
struct OffloadQueue : mlir::SideEffects::Resource::Base<OffloadQueue> {
  llvm::StringRef getName() final { return "exec.offload_queue"; }
};
struct ReloadQueue : mlir::SideEffects::Resource::Base<ReloadQueue> {
  llvm::StringRef getName() final { return "exec.reload_queue"; }
};
struct BroadcastQueue : mlir::SideEffects::Resource::Base<BroadcastQueue> {
  llvm::StringRef getName() final { return "exec.broadcast_queue"; }
};
struct ReductionQueue : mlir::SideEffects::Resource::Base<ReductionQueue> {
  llvm::StringRef getName() final { return "exec.reduction_queue"; }
};
struct LookupQueue : mlir::SideEffects::Resource::Base<LookupQueue> {
  llvm::StringRef getName() final { return "exec.lookup_queue"; }
};
struct GradientQueue : mlir::SideEffects::Resource::Base<GradientQueue> {
  llvm::StringRef getName() final { return "exec.gradient_queue"; }
};

class InstructionOpInterface;

namespace detail {
/// The checks that all implementations of InstructionOpInterface share.
mlir::LogicalResult verifyInstruction(InstructionOpInterface instruction);
} // namespace detail

} // namespace pipesched::exec

#include "PipeSched/Dialect/Exec/IR/ExecDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecTypes.h.inc"

#include "PipeSched/Dialect/Exec/IR/ExecInterfaces.h.inc"

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecOps.h.inc"

#endif // PIPESCHED_DIALECT_EXEC_IR_EXEC_H
