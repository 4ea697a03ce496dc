//===- DeallocateBuffers.cpp - deallocate-buffers -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upstream's pass processes all functions of a module, and fails if one of them
// has an operation that it does not support.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Bufferization/IR/BufferDeallocationOpInterface.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace pipesched {
#define GEN_PASS_DEF_DEALLOCATEBUFFERSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

/// Whether upstream refuses an operation: its memory effects are unknown, or it
/// frees memory.
static bool isRefused(Operation *op) {
  if (isa<CallOpInterface, bufferization::BufferDeallocationOpInterface>(op))
    return false;
  if (isa<MemoryEffectOpInterface>(op))
    return hasEffect<MemoryEffects::Free>(op);
  return !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>();
}

/// Whether a function is foreign and has such an operation. In our own
/// functions, which are internal in LLVM, the operation remains an error. So
/// does an operation without a dialect, because later passes of upstream crash
/// on it.
static bool isLeftAlone(func::FuncOp function) {
  if (function->hasAttr("llvm.linkage"))
    return false;
  bool hasRefused = false;
  WalkResult all = function.getBody().walk([&](Operation *op) {
    hasRefused |= isRefused(op);
    return op->isRegistered() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return hasRefused && !all.wasInterrupted();
}

namespace {
struct DeallocateBuffersPass final
    : pipesched::impl::DeallocateBuffersPassBase<DeallocateBuffersPass> {
  using Base::Base;

  void runOnOperation() override {
    SymbolTableCollection symbols;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !isLeftAlone(function) &&
          failed(bufferization::deallocateBuffersOwnershipBased(
              function, bufferization::DeallocationOptions(), symbols)))
        return signalPassFailure();
  }
};
} // namespace
