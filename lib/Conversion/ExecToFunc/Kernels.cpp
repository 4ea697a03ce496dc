//===- Kernels.cpp - Functions of kernels ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Wraps the calls of a kernel in destination style: the tensors that it reads
// are made from memrefs, and results are written to memrefs. Bufferization then
// lets the functions compute in place (docs/Dialects/RationaleRun.md).
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace pipesched;

using Kind = KernelOperand::Kind;

func::FuncOp pipesched::createPrivate(ImplicitLocOpBuilder &builder,
                                      StringRef name, FunctionType type) {
  auto function = func::FuncOp::create(builder, name, type);
  function.setPrivate();
  function.setNoInline(true);
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  return function;
}

namespace {
/// An argument of the kernel while its calls are emitted.
struct Slot {
  const KernelArgument *argument;
  Value memref;
  Value tensor; ///< current contents of the memref, for the next call
};

class KernelEmitter {
public:
  KernelEmitter(ImplicitLocOpBuilder &builder, const KernelPlan &plan,
                int64_t numSlices, func::FuncOp function);

  void run(KernelForm form);

private:
  Value getMicrobatch();
  Value getSlice();
  Slot &slotOf(KernelOperand operand);
  Value read(KernelOperand operand);
  void write(const KernelCall &call, unsigned index, Value result);
  void copyToEarlier(KernelCopy copy);
  Value addToSum(Value sum, Value term);
  Value putPartial(Value partial, Value all);
  void store(Value tensor, Value memref);

  ImplicitLocOpBuilder &builder;
  const KernelPlan &plan;
  SmallVector<Slot> slots;
  int64_t numSlices;
  Value unit, step;
  Value shard; ///< null if the kernel takes no shard
};
} // namespace

KernelEmitter::KernelEmitter(ImplicitLocOpBuilder &builder,
                             const KernelPlan &plan, int64_t numSlices,
                             func::FuncOp function)
    : builder(builder), plan(plan), numSlices(numSlices) {
  builder.setInsertionPointToStart(function.addEntryBlock());
  size_t numTensors = plan.arguments.size();
  unit = function.getArgument(numTensors);
  step = function.getArgument(numTensors + 1);
  if (plan.kernel->takesShard())
    shard = function.getArgument(numTensors + 2);
  for (const KernelArgument &argument : plan.arguments) {
    Value memref = function.getArgument(slots.size());
    Value tensor = bufferization::ToTensorOp::create(
        builder, argument.type, memref, /*restrict=*/true,
        /*writable=*/argument.isWritten);
    slots.push_back({&argument, memref, tensor});
  }
}

/// A unit is microbatch x slices + slice. The division is emitted only for
/// kernels that use its parts.
Value KernelEmitter::getMicrobatch() {
  if (numSlices == 1)
    return unit;
  Value slices = arith::ConstantIntOp::create(builder, numSlices, 64);
  return arith::DivUIOp::create(builder, unit, slices);
}

Value KernelEmitter::getSlice() {
  if (numSlices == 1)
    return arith::ConstantIntOp::create(builder, 0, 64);
  Value slices = arith::ConstantIntOp::create(builder, numSlices, 64);
  return arith::RemUIOp::create(builder, unit, slices);
}

Slot &KernelEmitter::slotOf(KernelOperand operand) {
  return *llvm::find_if(slots, [&](const Slot &slot) {
    return slot.argument->operand.kind == operand.kind &&
           slot.argument->operand.index == operand.index;
  });
}

Value KernelEmitter::read(KernelOperand operand) {
  if (operand.kind == Kind::Microbatch)
    return getMicrobatch();
  if (operand.kind == Kind::Slice)
    return getSlice();
  if (operand.kind == Kind::Step)
    return step;
  if (operand.kind == Kind::Shard)
    return shard;
  return slotOf(operand).tensor;
}

void KernelEmitter::store(Value tensor, Value memref) {
  bufferization::MaterializeInDestinationOp::create(
      builder, /*result=*/Type(), tensor, memref, /*restrict=*/true,
      /*writable=*/true);
}

Value KernelEmitter::addToSum(Value sum, Value term) {
  return linalg::AddOp::create(builder, sum.getType(), ValueRange{sum, term},
                               ValueRange{sum})
      .getResult(0);
}

/// Puts the partial of this shard at its place among the partials of all
/// shards. The other places are zero until the partials are summed.
Value KernelEmitter::putPartial(Value partial, Value all) {
  Type element = cast<RankedTensorType>(all.getType()).getElementType();
  Value zero = arith::ConstantOp::create(builder, builder.getZeroAttr(element));
  Value zeros = linalg::FillOp::create(builder, zero, all).getResult(0);
  Value place =
      arith::IndexCastOp::create(builder, builder.getIndexType(), shard);
  return putSlice(builder, builder.getLoc(), partial, zeros, place);
}

/// Writes a result. A copy on tensors puts it into the former contents of the
/// memref, and the copy is stored to the memref at the end of the kernel. So
/// bufferization sees the write, keeps it after the reads of the former
/// contents, and drops it if the result is already in place. Bufferization does
/// not see writes to memrefs, so an earlier store could overwrite inputs of
/// later ops (RationaleRun.md).
void KernelEmitter::write(const KernelCall &call, unsigned index,
                          Value result) {
  KernelOperand operand = call.results[index];
  Slot &slot = slotOf(operand);
  if (call.givesPartial(index)) {
    slot.tensor = putPartial(result, slot.tensor);
    return;
  }
  bool isGradient = operand.kind == Kind::Gradient ||
                    (operand.kind == Kind::Buffer &&
                     plan.kernel->buffers[operand.index].name.isShared());
  bool isTerm = slot.argument->isRead && isGradient && !call.givesSum(index);
  slot.tensor =
      isTerm
          ? addToSum(slot.tensor, result)
          : linalg::CopyOp::create(builder, result, slot.tensor).getResult(0);
}

/// Writes a residual into its slice of the buffer that the slices share.
void KernelEmitter::copyToEarlier(KernelCopy copy) {
  Slot &from = slotOf({Kind::Buffer, copy.residual});
  Slot &to = slotOf({Kind::Buffer, copy.earlier});
  Value place =
      arith::IndexCastOp::create(builder, builder.getIndexType(), getSlice());
  to.tensor =
      putSlice(builder, builder.getLoc(), from.tensor, to.tensor, place);
}

void KernelEmitter::run(KernelForm form) {
  for (const KernelCall &call : plan.kernel->calls) {
    SmallVector<Value> operands;
    for (KernelOperand operand : call.arguments)
      operands.push_back(read(operand));
    auto results =
        func::CallOp::create(builder, call.function->op, operands).getResults();
    for (auto [index, result] : llvm::enumerate(results))
      write(call, index, result);
  }
  for (KernelCopy copy : plan.kernel->copies)
    copyToEarlier(copy);
  for (Slot &slot : slots)
    if (slot.argument->isWritten)
      store(slot.tensor, slot.memref);
  SmallVector<Value, 1> status;
  if (form == KernelForm::Runtime)
    status.push_back(arith::ConstantIntOp::create(builder, 0, 32));
  func::ReturnOp::create(builder, status);
}

func::FuncOp pipesched::createKernel(ImplicitLocOpBuilder &builder,
                                     StringRef program, const KernelPlan &plan,
                                     int64_t numSlices, KernelForm form) {
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Type> inputs;
  for (const KernelArgument &argument : plan.arguments)
    inputs.push_back(MemRefType::get(argument.type.getShape(),
                                     argument.type.getElementType()));
  inputs.append(plan.kernel->takesShard() ? 3 : 2, builder.getI64Type());
  SmallVector<Type, 1> results;
  if (form == KernelForm::Runtime) {
    inputs.push_back(LLVM::LLVMPointerType::get(builder.getContext()));
    results.push_back(builder.getI32Type());
  }
  func::FuncOp function =
      createPrivate(builder, symbolOf(program, plan.name),
                    builder.getFunctionType(inputs, results));
  for (size_t i = 0; i < plan.arguments.size(); ++i)
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                        builder.getUnitAttr());
  KernelEmitter(builder, plan, numSlices, function).run(form);
  return function;
}
