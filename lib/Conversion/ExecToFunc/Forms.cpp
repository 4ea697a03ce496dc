//===- Forms.cpp - The functions of workers -------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Table: one constant with the actions of all workers and one loop that walks
// it. Straight: the same actions one behind the other.
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace pipesched;

FunctionType pipesched::getWorkerType(MLIRContext *context) {
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto i64 = IntegerType::get(context, 64);
  return FunctionType::get(context, {pointer, pointer, pointer, pointer, i64},
                           {IntegerType::get(context, 32)});
}

/// A private constant of 32-bit words, little end first. It is written as
/// bytes, which LLVM prints and reads as one string: much faster than numbers.
static void createGlobal(ImplicitLocOpBuilder &builder, StringRef name,
                         ArrayRef<uint32_t> words) {
  std::vector<uint32_t> swapped;
  if (llvm::endianness::native != llvm::endianness::little) {
    swapped = words.vec();
    for (uint32_t &word : swapped)
      word = llvm::byteswap(word);
    words = swapped;
  }
  ArrayRef<char> bytes(reinterpret_cast<const char *>(words.data()),
                       words.size() * sizeof(uint32_t));
  int64_t size = bytes.size();
  auto type = MemRefType::get(size, builder.getI8Type());
  auto tensor = RankedTensorType::get(size, builder.getI8Type());
  memref::GlobalOp::create(
      builder, name, builder.getStringAttr("private"), type,
      DenseElementsAttr::getFromRawBuffer(tensor, bytes), /*constant=*/true,
      builder.getI64IntegerAttr(kSlotAlignment));
}

static Value getGlobal(ImplicitLocOpBuilder &builder, StringRef name,
                       size_t numWords) {
  int64_t size = numWords * sizeof(uint32_t);
  return memref::GetGlobalOp::create(
      builder, MemRefType::get(size, builder.getI8Type()), name);
}

/// A pointer to the members of all groups; null without groups.
static Value getMembers(ImplicitLocOpBuilder &builder, StringRef program,
                        const StepPlan &plan) {
  auto type = LLVM::LLVMPointerType::get(builder.getContext());
  if (plan.members.empty())
    return {};
  Value members =
      getGlobal(builder, symbolOf(program, "members"), plan.members.size());
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, members);
  Value number =
      arith::IndexCastOp::create(builder, builder.getI64Type(), address);
  return LLVM::IntToPtrOp::create(builder, type, number);
}

static void createMembers(ImplicitLocOpBuilder &builder, StringRef program,
                          const StepPlan &plan) {
  if (!plan.members.empty())
    createGlobal(builder, symbolOf(program, "members"), plan.members);
}

static std::string workerName(StringRef program, size_t worker) {
  return symbolOf(program, "worker_" + Twine(worker));
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

namespace {
/// Reads words from the table, behind the opcode at `position`.
class TableWords final : public Words {
public:
  TableWords(ImplicitLocOpBuilder &builder, Value table, Value position,
             Value current)
      : builder(builder), table(table), position(position), current(current) {}

  Value instruction() override { return current; }
  Value i32(unsigned index) override {
    Value offset = arith::ConstantIndexOp::create(builder, index);
    Value place = arith::AddIOp::create(builder, position, offset);
    return memref::LoadOp::create(builder, table, place);
  }
  Value i64(unsigned index) override {
    return arith::ExtUIOp::create(builder, builder.getI64Type(), i32(index));
  }
  Value size(unsigned index) override {
    Value low = i64(index), high = i64(index + 1);
    Value bits = arith::ConstantIntOp::create(builder, 32, 64);
    high = arith::ShLIOp::create(builder, high, bits);
    return arith::OrIOp::create(builder, low, high);
  }
  Value bytes(unsigned index) override {
    Value slot =
        arith::IndexCastOp::create(builder, builder.getIndexType(), i64(index));
    Value unit = arith::ConstantIndexOp::create(builder, kSlotAlignment);
    return arith::MulIOp::create(builder, slot, unit);
  }

private:
  ImplicitLocOpBuilder &builder;
  Value table, position, current;
};

/// Creates the function that walks a part of the table:
///
///   while (position != end && status == 0)
///     switch (table[position])
///       case opcode: run it; position += its words; status = its status
///
/// Behind each kEnd it counts one instruction more.
class WalkEmitter {
public:
  WalkEmitter(ImplicitLocOpBuilder &builder, StringRef program,
              const StepPlan &plan, ArrayRef<func::FuncOp> kernels,
              RuntimeCalls &runtime)
      : builder(builder), program(program), plan(plan), kernels(kernels),
        runtime(runtime) {}

  func::FuncOp run(size_t tableSize);

private:
  void emitCondition(scf::WhileOp loop, Value end);
  void emitBody(scf::WhileOp loop);
  void emitCase(Block &block, uint32_t opcode, ValueRange state);
  Value status(int64_t value) {
    return arith::ConstantIntOp::create(builder, value, 32);
  }

  ImplicitLocOpBuilder &builder;
  StringRef program;
  const StepPlan &plan;
  ArrayRef<func::FuncOp> kernels;
  RuntimeCalls &runtime;
  Value table;
  ActionEmitter *actions = nullptr;
};
} // namespace

void WalkEmitter::emitCondition(scf::WhileOp loop, Value end) {
  Block *block =
      builder.createBlock(&loop.getBefore(), {}, loop.getResultTypes(),
                          SmallVector<Location>(3, builder.getLoc()));
  Value position = block->getArgument(0), current = block->getArgument(1);
  Value isInside =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::ult, position, end);
  Value isFine = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                       current, status(0));
  Value goesOn = arith::AndIOp::create(builder, isInside, isFine);
  scf::ConditionOp::create(builder, goesOn, block->getArguments());
}

void WalkEmitter::emitCase(Block &block, uint32_t opcode, ValueRange state) {
  builder.setInsertionPointToEnd(&block);
  Value position = state[0], instruction = state[2];
  TableWords words(builder, table, position, instruction);
  Value result = actions->emit(opcode, words);
  Value length =
      arith::ConstantIndexOp::create(builder, plan.getNumWords(opcode));
  Value next = arith::AddIOp::create(builder, position, length);
  if (!result)
    result = status(0);
  if (opcode == kEnd)
    instruction = arith::AddIOp::create(builder, instruction, status(1));
  scf::YieldOp::create(builder, ValueRange{next, result, instruction});
}

/// Those that the workers use: only these need code and the runtime functions
/// that they call.
static SmallVector<int64_t> collectOpcodes(const StepPlan &plan) {
  std::vector<bool> isUsed(kFirstKernel + plan.kernels.size());
  for (const WorkerPlan &worker : plan.workers)
    for (size_t i = worker.wordsBegin; i < worker.wordsEnd;
         i += plan.getNumWords(plan.words[i]))
      isUsed[plan.words[i]] = true;
  SmallVector<int64_t> used;
  for (size_t opcode = 0; opcode < isUsed.size(); ++opcode)
    if (isUsed[opcode])
      used.push_back(opcode);
  return used;
}

void WalkEmitter::emitBody(scf::WhileOp loop) {
  Block *block =
      builder.createBlock(&loop.getAfter(), {}, loop.getResultTypes(),
                          SmallVector<Location>(3, builder.getLoc()));
  Value opcode = memref::LoadOp::create(builder, table, block->getArgument(0));
  Value selector =
      arith::IndexCastUIOp::create(builder, builder.getIndexType(), opcode);
  SmallVector<int64_t> cases = collectOpcodes(plan);
  auto choice = scf::IndexSwitchOp::create(builder, loop.getResultTypes(),
                                           selector, cases, cases.size());
  scf::YieldOp::create(builder, choice.getResults());
  for (auto [region, number] : llvm::zip_equal(choice.getCaseRegions(), cases))
    emitCase(region.emplaceBlock(), number, block->getArguments());
  builder.setInsertionPointToEnd(&choice.getDefaultRegion().emplaceBlock());
  Value misuse = status(1);
  scf::YieldOp::create(builder, ValueRange{block->getArgument(0), misuse,
                                           block->getArgument(2)});
}

func::FuncOp WalkEmitter::run(size_t tableSize) {
  OpBuilder::InsertionGuard guard(builder);
  FunctionType worker = getWorkerType(builder.getContext());
  SmallVector<Type> inputs(2, builder.getIndexType());
  llvm::append_range(inputs, worker.getInputs());
  func::FuncOp function =
      createPrivate(builder, symbolOf(program, "walk"),
                    builder.getFunctionType(inputs, worker.getResults()));
  builder.setInsertionPointToStart(function.addEntryBlock());
  ActionEmitter emitter(builder, runtime, plan, kernels,
                        getMembers(builder, program, plan));
  emitter.enter(function.getArguments().drop_front(2));
  actions = &emitter;
  Value bytes = getGlobal(builder, symbolOf(program, "table"), tableSize);
  Value zero = arith::ConstantIndexOp::create(builder, 0);
  table = memref::ViewOp::create(
      builder, MemRefType::get(tableSize, builder.getI32Type()), bytes, zero,
      ValueRange());
  SmallVector<Type> types{builder.getIndexType(), builder.getI32Type(),
                          builder.getI32Type()};
  auto loop = scf::WhileOp::create(
      builder, types,
      ValueRange{function.getArgument(0), status(0), status(0)});
  func::ReturnOp::create(builder, loop.getResult(1));
  emitCondition(loop, function.getArgument(1));
  emitBody(loop);
  return function;
}

void pipesched::createTableForm(ImplicitLocOpBuilder &builder,
                                StringRef program, const StepPlan &plan,
                                ArrayRef<func::FuncOp> kernels,
                                RuntimeCalls &runtime) {
  // A global has elements.
  static constexpr uint32_t empty[] = {0};
  ArrayRef<uint32_t> table = plan.words;
  if (table.empty())
    table = empty;
  createMembers(builder, program, plan);
  createGlobal(builder, symbolOf(program, "table"), table);
  func::FuncOp walk =
      WalkEmitter(builder, program, plan, kernels, runtime).run(table.size());
  for (auto [number, worker] : llvm::enumerate(plan.workers)) {
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = createPrivate(builder, workerName(program, number),
                                          getWorkerType(builder.getContext()));
    builder.setInsertionPointToStart(function.addEntryBlock());
    SmallVector<Value> operands{
        arith::ConstantIndexOp::create(builder, worker.wordsBegin),
        arith::ConstantIndexOp::create(builder, worker.wordsEnd)};
    llvm::append_range(operands, function.getArguments());
    auto call = func::CallOp::create(builder, walk, operands);
    func::ReturnOp::create(builder, call.getResults());
  }
}

//===----------------------------------------------------------------------===//
// Straight
//===----------------------------------------------------------------------===//

namespace {
class ConstantWords final : public Words {
public:
  ConstantWords(ImplicitLocOpBuilder &builder, ArrayRef<uint32_t> words,
                int64_t current)
      : builder(builder), words(words), current(current) {}

  Value instruction() override {
    return arith::ConstantIntOp::create(builder, current, 32);
  }
  Value i32(unsigned index) override {
    return arith::ConstantIntOp::create(builder,
                                        static_cast<int32_t>(words[index]), 32);
  }
  Value i64(unsigned index) override {
    return arith::ConstantIntOp::create(builder, words[index], 64);
  }
  Value size(unsigned index) override {
    return arith::ConstantIntOp::create(
        builder, int64_t(words[index]) | int64_t(words[index + 1]) << 32, 64);
  }
  Value bytes(unsigned index) override {
    return arith::ConstantIndexOp::create(builder,
                                          words[index] * kSlotAlignment);
  }

private:
  ImplicitLocOpBuilder &builder;
  ArrayRef<uint32_t> words;
  int64_t current;
};
} // namespace

/// After a failure all calls return the same status, so that the status of the
/// step is the bitwise or of all.
static void emitActions(ImplicitLocOpBuilder &builder, ActionEmitter &emitter,
                        const StepPlan &plan, const WorkerPlan &worker) {
  Value status = arith::ConstantIntOp::create(builder, 0, 32);
  ArrayRef<uint32_t> rest = plan.wordsOf(worker);
  int64_t instruction = 0;
  while (!rest.empty()) {
    unsigned length = plan.getNumWords(rest.front());
    ConstantWords words(builder, rest.take_front(length), instruction);
    if (Value result = emitter.emit(rest.front(), words))
      status = arith::OrIOp::create(builder, status, result);
    if (rest.front() == kBegin) {
      std::string name;
      plan.describe(worker.instructions[instruction], name);
      builder.getBlock()->back().setAttr("instruction",
                                         builder.getStringAttr(name));
    }
    if (rest.front() == kEnd)
      ++instruction;
    rest = rest.drop_front(length);
  }
  func::ReturnOp::create(builder, status);
}

void pipesched::createStraightForm(ImplicitLocOpBuilder &builder,
                                   StringRef program, const StepPlan &plan,
                                   ArrayRef<func::FuncOp> kernels,
                                   RuntimeCalls &runtime) {
  createMembers(builder, program, plan);
  for (auto [number, worker] : llvm::enumerate(plan.workers)) {
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = createPrivate(builder, workerName(program, number),
                                          getWorkerType(builder.getContext()));
    builder.setInsertionPointToStart(function.addEntryBlock());
    ActionEmitter emitter(builder, runtime, plan, kernels,
                          getMembers(builder, program, plan));
    emitter.enter(function.getArguments());
    emitActions(builder, emitter, plan, worker);
  }
}
