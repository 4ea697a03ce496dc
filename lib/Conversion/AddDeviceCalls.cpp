//===- AddDeviceCalls.cpp - Kernels on memory of a device -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel does is read off its ops on memrefs. The runtime knows what the
// device allows, and waits for the compute stream or refuses.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/StageUses.h"
#include "StageChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace pipesched {
#define GEN_PASS_DEF_ADDDEVICECALLSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

/// PIPESCHED_RT_LAUNCHES and so on of the runtime.
enum Code : int32_t { kLaunches = 0, kComputes = 1, kLends = 2 };

namespace {
class DeviceCalls {
public:
  explicit DeviceCalls(ModuleOp module) : module(module), symbols(module) {}

  LogicalResult run(func::FuncOp function);

private:
  bool isExternCall(Operation *op);
  bool usesMemory(func::FuncOp kernel);
  void enter(ImplicitLocOpBuilder &builder, func::FuncOp kernel, Code code);
  Value addressOf(ImplicitLocOpBuilder &builder, func::FuncOp kernel);
  Value call(ImplicitLocOpBuilder &builder, StringRef name, Type result,
             ValueRange operands);

  ModuleOp module;
  SymbolTable symbols;
  llvm::DenseMap<Operation *, LLVM::GlobalOp> texts; ///< by kernel
};
} // namespace

/// Besides functions of the runtime a kernel calls no others without a body.
bool DeviceCalls::isExternCall(Operation *op) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call || call.getCallee().starts_with("pipesched_rt_"))
    return false;
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  return callee && callee.isExternal();
}

/// Whether code of the processor reads or writes memory.
bool DeviceCalls::usesMemory(func::FuncOp kernel) {
  WalkResult result = kernel.walk([&](Operation *op) {
    bool isOnlyRegions = op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() &&
                         !isa<MemoryEffectOpInterface>(op);
    if (op == kernel || isOnlyRegions ||
        op->hasTrait<OpTrait::IsTerminator>() || isa<cf::AssertOp>(op) ||
        isMemoryEffectFree(op) || isExternCall(op))
      return WalkResult::advance();
    auto call = dyn_cast<func::CallOp>(op);
    bool isCheck = call && (call.getCallee() == kCheckStatusName ||
                            call.getCallee() == kCheckIndexName);
    return isCheck ? WalkResult::advance() : WalkResult::interrupt();
  });
  return result.wasInterrupted();
}

/// Whether an address is computed from memory other than that of the arguments
/// of the kernel, which is in the blocks of the worker.
static bool isOfTemporary(Value address, func::FuncOp kernel) {
  SmallVector<Value> open{address};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (isa<MemRefType>(value.getType())) {
      while (auto view = value.getDefiningOp<ViewLikeOpInterface>())
        value = view.getViewSource();
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument || argument.getOwner() != &kernel.front())
        return true;
      continue;
    }
    if (Operation *op = value.getDefiningOp())
      llvm::append_range(open, op->getOperands());
  }
  return false;
}

Value DeviceCalls::call(ImplicitLocOpBuilder &builder, StringRef name,
                        Type result, ValueRange operands) {
  if (!symbols.lookup(name)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto function = func::FuncOp::create(
        builder, name, builder.getFunctionType(operands.getTypes(), result));
    function.setPrivate();
    symbols.insert(function);
  }
  return func::CallOp::create(builder, name, result, operands).getResult(0);
}

/// "F of stage 1", or the name of a kernel without stages.
Value DeviceCalls::addressOf(ImplicitLocOpBuilder &builder,
                             func::FuncOp kernel) {
  LLVM::GlobalOp &global = texts[kernel];
  if (!global) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto stages = kernel->getAttrOfType<StringAttr>(kStageUsesName);
    std::string text = (stages ? stages.getValue() : kernel.getName()).str();
    text.push_back('\0');
    std::string name;
    for (size_t number = texts.size() - 1; name.empty() || symbols.lookup(name);
         ++number)
      name = "pipesched_code_" + std::to_string(number);
    global = LLVM::GlobalOp::create(
        builder, LLVM::LLVMArrayType::get(builder.getI8Type(), text.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal, name,
        builder.getStringAttr(text));
    symbols.insert(global);
  }
  return LLVM::AddressOfOp::create(builder, global);
}

void DeviceCalls::enter(ImplicitLocOpBuilder &builder, func::FuncOp kernel,
                        Code code) {
  Value kind = arith::ConstantIntOp::create(builder, code, 32);
  Value text = addressOf(builder, kernel);
  Value status = call(builder, "pipesched_rt_enter", builder.getI32Type(),
                      {kernel.getArguments().back(), kind, text});
  requireStatus(builder, status, "device");
}

LogicalResult DeviceCalls::run(func::FuncOp function) {
  SmallVector<func::CallOp> calls;
  function.walk([&](func::CallOp op) {
    if (isExternCall(op))
      calls.push_back(op);
  });
  if (!isKernel(function)) {
    if (calls.empty())
      return success();
    return calls.front().emitError("calls the extern function '")
           << calls.front().getCallee() << "' in "
           << describeWithStages(function)
           << ", which is not part of a kernel and has no stream; expected "
              "functions that can be inlined";
  }
  bool computes = usesMemory(function);
  bool lends = llvm::any_of(calls, [&](func::CallOp op) {
    return llvm::any_of(op.getOperands(), [&](Value operand) {
      return isOfTemporary(operand, function);
    });
  });
  ImplicitLocOpBuilder builder(function.getLoc(), function.getContext());
  builder.setInsertionPointToStart(&function.front());
  enter(builder, function, lends ? kLends : computes ? kComputes : kLaunches);
  for (func::CallOp op : calls) {
    builder.setLoc(op.getLoc());
    builder.setInsertionPoint(op);
    Value stream = call(builder, "pipesched_rt_stream",
                        LLVM::LLVMPointerType::get(builder.getContext()),
                        function.getArguments().back());
    op->setOperand(op->getNumOperands() - 1, stream);
    if (!computes && !lends)
      continue;
    Operation *check = *op.getResult(0).getUsers().begin();
    builder.setInsertionPointAfter(check);
    enter(builder, function, kComputes);
  }
  return success();
}

namespace {
struct AddDeviceCallsPass
    : pipesched::impl::AddDeviceCallsPassBase<AddDeviceCallsPass> {
  void runOnOperation() override {
    DeviceCalls calls(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(calls.run(function)))
        return signalPassFailure();
  }
};
} // namespace
