//===- VerifyKernelStores.cpp - Assumptions of bufferization --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One-shot bufferization orders reads and writes of tensors. It sees neither
// that storing a tensor writes a memref, nor that two tensors are made from the
// same memref. Therefore a memref that a kernel writes may have only
//
//   one name:   %t = to_tensor %m restrict
//   one store:  materialize_in_destination %x in %m, after all other ops
//
// The memory of %x must be new, or that of %t, or of a memref that no earlier
// store writes. Then no store overwrites an input of a later one.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/StageUses.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace pipesched {
#define GEN_PASS_DEF_VERIFYKERNELSTORESPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using bufferization::MaterializeInDestinationOp;
using bufferization::ToTensorOp;

namespace {
class StoreVerifier {
public:
  explicit StoreVerifier(func::FuncOp function) : function(function) {}

  LogicalResult run();

private:
  InFlightDiagnostic emitError(Operation *op) {
    return op->emitOpError("in ") << describeWithStages(function) << " ";
  }
  LogicalResult verifyUses(BlockArgument memref);
  LogicalResult verifyIsLast(MaterializeInDestinationOp store);
  LogicalResult verifySource(MaterializeInDestinationOp store);

  func::FuncOp function;
  llvm::SmallDenseSet<Value> stored; ///< by the stores so far
};
} // namespace

static bool isStore(Operation *op) {
  auto store = dyn_cast<MaterializeInDestinationOp>(op);
  return store && isa<BaseMemRefType>(store.getDest().getType());
}

static bool isWritable(Value memref) {
  return llvm::any_of(memref.getUsers(), [](Operation *user) {
    auto tensor = dyn_cast<ToTensorOp>(user);
    return (tensor && tensor.getWritable()) || isStore(user);
  });
}

/// Verifies that a written memref has at most one name and one store, and that
/// no other op uses it.
LogicalResult StoreVerifier::verifyUses(BlockArgument memref) {
  auto number = [&] { return memref.getArgNumber(); };
  Operation *name = nullptr, *store = nullptr;
  // The list of users starts with the last one.
  SmallVector<Operation *> users = llvm::to_vector(memref.getUsers());
  for (Operation *user : llvm::reverse(users)) {
    auto tensor = dyn_cast<ToTensorOp>(user);
    if (!tensor && !isStore(user))
      return emitError(user)
             << "touches the memory of argument " << number()
             << ", which is written; only bufferization.to_tensor and "
                "bufferization.materialize_in_destination may";
    Operation *&first = tensor ? name : store;
    if (first) {
      InFlightDiagnostic diagnostic =
          emitError(user)
          << "is a second " << (tensor ? "name" : "store")
          << " of the memory of argument " << number()
          << ", which is written; one could overwrite what the other has";
      diagnostic.attachNote(first->getLoc()) << "the first is here";
      return diagnostic;
    }
    first = user;
    if (tensor && !tensor.getRestrict())
      return emitError(user) << "lacks 'restrict', so that argument "
                             << number() << " may be other memory as well";
  }
  return success();
}

/// Verifies that only stores, and ops that read nothing, come after a store.
LogicalResult StoreVerifier::verifyIsLast(MaterializeInDestinationOp store) {
  if (store->getBlock() != &function.getBody().back())
    return emitError(store) << "stores to memory in front of other blocks; "
                               "stores must be the last ops of the function";
  for (Operation *next = store->getNextNode(); next;
       next = next->getNextNode()) {
    if (isStore(next) || next->hasTrait<OpTrait::IsTerminator>())
      continue;
    auto isMemory = [](Type type) {
      return isa<TensorType, BaseMemRefType>(type);
    };
    if (isMemoryEffectFree(next) &&
        llvm::none_of(next->getOperandTypes(), isMemory))
      continue;
    InFlightDiagnostic diagnostic =
        emitError(next)
        << "follows a store to memory, and could read the overwritten data; "
           "stores must be the last ops of the function";
    diagnostic.attachNote(store.getLoc()) << "the store is here";
    return diagnostic;
  }
  return success();
}

/// Follows the tensor to all memory that may hold it.
LogicalResult StoreVerifier::verifySource(MaterializeInDestinationOp store) {
  bufferization::BufferizationOptions options;
  bufferization::AnalysisState state(options);
  auto isEnd = [](Value value) {
    return value.getDefiningOp<ToTensorOp>() != nullptr;
  };
  for (Value end :
       state.findValueInReverseUseDefChain(&store.getSourceMutable(), isEnd)) {
    if (auto tensor = end.getDefiningOp<ToTensorOp>()) {
      Value memref = tensor.getBuffer();
      if (memref == store.getDest() || !stored.contains(memref))
        continue;
      InFlightDiagnostic diagnostic =
          emitError(store) << "may read from argument "
                           << cast<BlockArgument>(memref).getArgNumber()
                           << ", which an earlier store overwrites";
      diagnostic.attachNote(tensor.getLoc()) << "it is read by this tensor";
      return diagnostic;
    }
    Operation *maker = end.getDefiningOp();
    if (maker && !options.dynCastBufferizableOp(maker)) {
      InFlightDiagnostic diagnostic =
          emitError(store) << "stores a tensor whose memory is not known";
      diagnostic.attachNote(maker->getLoc()) << "it comes from here";
      return diagnostic;
    }
  }
  return success();
}

LogicalResult StoreVerifier::run() {
  if (function.isExternal())
    return success();
  for (BlockArgument argument : function.getArguments())
    if (isa<BaseMemRefType>(argument.getType()) && isWritable(argument) &&
        failed(verifyUses(argument)))
      return failure();
  WalkResult result = function.walk([&](MaterializeInDestinationOp store) {
    if (!isStore(store))
      return WalkResult::advance();
    auto memref = dyn_cast<BlockArgument>(store.getDest());
    if (!memref || memref.getOwner() != &function.getBody().front()) {
      emitError(store) << "stores to memory that is not an argument and may "
                          "belong to another tensor";
      return WalkResult::interrupt();
    }
    if (failed(verifyIsLast(store)) || failed(verifySource(store)))
      return WalkResult::interrupt();
    stored.insert(memref);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct VerifyKernelStoresPass
    : pipesched::impl::VerifyKernelStoresPassBase<VerifyKernelStoresPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(StoreVerifier(function).run()))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
