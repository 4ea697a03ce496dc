//===- Actions.cpp - Actions as ops ---------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the ops of each opcode. Pointers are LLVM's, because memory comes from
// outside; kernels take memrefs, which are views of a block of bytes.
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace pipesched;

Value RuntimeCalls::call(ImplicitLocOpBuilder &builder, StringRef name,
                         ValueRange operands, bool hasStatus) {
  std::string symbol = ("pipesched_rt_" + name).str();
  SmallVector<Type, 1> results;
  if (hasStatus)
    results.push_back(builder.getI32Type());
  if (!module.lookupSymbol(symbol)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    func::FuncOp::create(builder, symbol,
                         builder.getFunctionType(operands.getTypes(), results))
        .setPrivate();
  }
  auto call = func::CallOp::create(builder, symbol, results, operands);
  return hasStatus ? call.getResult(0) : Value();
}

//===----------------------------------------------------------------------===//
// Words and operands
//===----------------------------------------------------------------------===//

Value ConstantWords::instruction() {
  return arith::ConstantIntOp::create(builder, current, 32);
}

Value ConstantWords::i32(unsigned index) {
  return arith::ConstantIntOp::create(builder,
                                      static_cast<int32_t>(words[index]), 32);
}

Value ConstantWords::i64(unsigned index) {
  return arith::ConstantIntOp::create(builder, words[index], 64);
}

Value ConstantWords::size(unsigned index) {
  return arith::ConstantIntOp::create(
      builder, int64_t(words[index]) | int64_t(words[index + 1]) << 32, 64);
}

Value ConstantWords::bytes(unsigned index) {
  return arith::ConstantIndexOp::create(builder, words[index] * kSlotAlignment);
}

Value pipesched::viewAt(ImplicitLocOpBuilder &builder, Value block, Value bytes,
                        ArrayRef<int64_t> shape, Type elementType) {
  return memref::ViewOp::create(builder, MemRefType::get(shape, elementType),
                                block, bytes, ValueRange());
}

static Value viewOf(ImplicitLocOpBuilder &builder,
                    const KernelArgument &argument, Words &words,
                    const WorkerBlocks &blocks) {
  auto view = [&](Value block, Value bytes) {
    return viewAt(builder, block, bytes, argument.type.getShape(),
                  argument.type.getElementType());
  };
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, value);
  };
  auto add = [&](Value offset, Value other) {
    return builder.createOrFold<arith::AddIOp>(offset, other);
  };
  switch (argument.operand.kind) {
  case KernelOperand::Kind::Buffer:
    return view(blocks.arena, words.bytes(4 + argument.operand.index));
  case KernelOperand::Kind::Loss: {
    Value number = builder.createOrFold<arith::IndexCastOp>(
        builder.getIndexType(), words.i64(3));
    Value size = constant(bytesOf(argument.type));
    Value offset = builder.createOrFold<arith::MulIOp>(number, size);
    return view(blocks.persistent, add(words.bytes(2), offset));
  }
  default: {
    Value offset = constant(argument.offset);
    return view(blocks.persistent, add(words.bytes(1), offset));
  }
  }
}

SmallVector<Value> pipesched::emitOperands(ImplicitLocOpBuilder &builder,
                                           const KernelPlan &kernel,
                                           Words &words,
                                           const WorkerBlocks &blocks) {
  SmallVector<Value> operands;
  for (const KernelArgument &argument : kernel.arguments)
    operands.push_back(viewOf(builder, argument, words, blocks));
  operands.push_back(words.i64(3));
  operands.push_back(blocks.step);
  if (kernel.kernel->takesShard())
    operands.push_back(words.i64(kernel.getNumWords() - 1));
  return operands;
}

//===----------------------------------------------------------------------===//
// Actions
//===----------------------------------------------------------------------===//

/// A pointer as `memref<?xi8>`. The cast disappears when memrefs become the
/// same structs. Nothing reads the size.
static Value bytesAt(ImplicitLocOpBuilder &builder, Value pointer) {
  auto i64 = builder.getI64Type();
  auto array = LLVM::LLVMArrayType::get(i64, 1);
  auto type = LLVM::LLVMStructType::getLiteral(
      builder.getContext(),
      {pointer.getType(), pointer.getType(), i64, array, array});
  Value zero = LLVM::ConstantOp::create(builder, i64, 0);
  Value one = LLVM::ConstantOp::create(builder, i64, 1);
  Value most = LLVM::ConstantOp::create(builder, i64,
                                        std::numeric_limits<int64_t>::max());
  Value value = LLVM::PoisonOp::create(builder, type);
  auto set = [&](Value part, ArrayRef<int64_t> position) {
    value = LLVM::InsertValueOp::create(builder, value, part, position);
  };
  set(pointer, {0});
  set(pointer, {1});
  set(zero, {2});
  set(most, {3, 0});
  set(one, {4, 0});
  auto memref =
      MemRefType::get({ShapedType::kDynamic}, builder.getIntegerType(8));
  return UnrealizedConversionCastOp::create(builder, memref, value)
      .getResult(0);
}

void ActionEmitter::enter(ValueRange arguments) {
  context = arguments[0];
  persistent = arguments[1];
  arena = arguments[2];
  host = arguments[3];
  blocks.persistent = bytesAt(builder, persistent);
  blocks.arena = bytesAt(builder, arena);
  blocks.step = arguments[4];
}

Value ActionEmitter::constant(int64_t value, Type type) {
  return arith::ConstantOp::create(builder,
                                   builder.getIntegerAttr(type, value));
}

Value ActionEmitter::pointer(Value base, Value bytes) {
  Value offset =
      builder.createOrFold<arith::IndexCastOp>(builder.getI64Type(), bytes);
  return LLVM::GEPOp::create(builder, base.getType(), builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>(offset));
}

Value ActionEmitter::emitMessage(StringRef name, Words &words) {
  return runtime.call(builder, name,
                      {context, pointer(arena, words.bytes(1)), words.size(2),
                       words.i32(4), words.i32(5), words.i32(6)});
}

/// The address of a member of a group.
Value ActionEmitter::membersFrom(Value first) {
  Value bytes = builder.createOrFold<arith::MulIOp>(
      first, constant(sizeof(int32_t), builder.getI64Type()));
  return LLVM::GEPOp::create(builder, members.getType(), builder.getI8Type(),
                             members, ArrayRef<LLVM::GEPArg>(bytes));
}

Value ActionEmitter::emitAllReduce(Value block, Words &words) {
  return runtime.call(builder, "all_reduce",
                      {context, pointer(block, words.bytes(1)), words.size(2),
                       words.i32(4), words.i32(5), membersFrom(words.i64(6)),
                       words.i32(7), words.i32(8)});
}

Value ActionEmitter::emitBroadcast(Words &words) {
  return runtime.call(builder, "broadcast",
                      {context, pointer(arena, words.bytes(1)), words.size(2),
                       words.i32(4), words.i32(5), membersFrom(words.i64(6)),
                       words.i32(7), words.i32(8)});
}

Value ActionEmitter::emitZero(Value block, Words &words) {
  Value zero = constant(0, builder.getI8Type());
  LLVM::MemsetOp::create(builder, pointer(block, words.bytes(1)), zero,
                         words.size(2), /*isVolatile=*/false);
  return {};
}

Value ActionEmitter::emitCopy(Words &words) {
  Value to = pointer(persistent, words.bytes(1));
  Value from = pointer(persistent, words.bytes(2));
  Value bytes = words.size(3);
  LLVM::MemcpyOp::create(builder, to, from, bytes, /*isVolatile=*/false);
  return {};
}

Value ActionEmitter::emitKernel(unsigned number, Words &words) {
  SmallVector<Value> operands =
      emitOperands(builder, plan.kernels[number], words, blocks);
  operands.push_back(context);
  func::FuncOp function = kernels[number];
  return func::CallOp::create(builder, function, operands).getResult(0);
}

Value ActionEmitter::emit(uint32_t opcode, Words &words) {
  switch (opcode) {
  case kWait:
    return runtime.call(builder, "wait", {context, words.i32(1)});
  case kBegin:
  case kEnd:
    runtime.call(builder, opcode == kBegin ? "begin" : "end",
                 {context, words.instruction()}, /*hasStatus=*/false);
    return {};
  case kZero:
  case kClear:
    return emitZero(opcode == kZero ? persistent : arena, words);
  case kSend:
    return emitMessage("send", words);
  case kRecv:
    return emitMessage("recv", words);
  case kOffload:
    return runtime.call(builder, "offload",
                        {context, pointer(host, words.bytes(1)),
                         pointer(arena, words.bytes(2)), words.size(3),
                         words.i32(5)});
  case kReload:
    return runtime.call(builder, "reload",
                        {context, pointer(arena, words.bytes(2)),
                         pointer(host, words.bytes(1)), words.size(3),
                         words.i32(5)});
  case kAllReduce:
    return emitAllReduce(persistent, words);
  case kSumShards:
    return emitAllReduce(arena, words);
  case kBroadcast:
    return emitBroadcast(words);
  case kAdd:
    return runtime.call(builder, "add",
                        {context, pointer(persistent, words.bytes(1)),
                         pointer(persistent, words.bytes(2)), words.size(3),
                         words.i32(5)});
  case kCopy:
    return emitCopy(words);
  default:
    return emitKernel(opcode - kFirstKernel, words);
  }
}
