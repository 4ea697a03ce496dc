//===- Forms.cpp - The functions of workers -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates the functions of both forms. Table: one constant has the actions of
// all workers as sections, and one loop reads each repetition of a section into
// a buffer and runs it. Straight: the same actions one after the other.
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

/// Creates a private constant of 32-bit words, in little-endian order. It is
/// written as bytes, because LLVM prints and reads them as one string, much
/// faster than numbers.
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

/// Returns a pointer to the members of all groups; null if there are no groups.
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

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

namespace {
/// Reads the words after the opcode at `position` from the buffer.
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

/// Reads consecutive words of the table.
class TableReader {
public:
  TableReader(ImplicitLocOpBuilder &builder, Value table)
      : builder(builder), table(table) {}

  /// Returns word `index` after `position`; both are of type index.
  Value i32(Value position, unsigned index) const {
    Value offset = arith::ConstantIndexOp::create(builder, index);
    Value place = builder.createOrFold<arith::AddIOp>(position, offset);
    return memref::LoadOp::create(builder, table, place);
  }
  Value index(Value position, unsigned number) const {
    return toIndex(i32(position, number));
  }
  Value toIndex(Value word) const {
    return arith::IndexCastUIOp::create(builder, builder.getIndexType(), word);
  }

private:
  ImplicitLocOpBuilder &builder;
  Value table;
};

/// Creates the function that returns a word of a section, like
/// WordSection::read:
///
///   word(position, times, i, r)
///     if (times == 1) return table[position + i]
///     base, cycle, step = table[position + 3 * i ..]
///     if (cycle == 0) return base + r * step
///     return table[base + r % cycle] + r / cycle * step
class WordEmitter {
public:
  WordEmitter(ImplicitLocOpBuilder &builder, StringRef program,
              const ActionTable &table)
      : builder(builder), program(program), actions(table) {}

  func::FuncOp run();

private:
  Value emitColumn(Value position, Value place, Value repetition);
  Value emitCycle(Value base, Value cycle, Value step, Value repetition);
  Value emitChoice(Value condition, llvm::function_ref<Value()> then,
                   llvm::function_ref<Value()> otherwise);

  ImplicitLocOpBuilder &builder;
  StringRef program;
  const ActionTable &actions;
  Value table;
};

/// Creates the function that runs sections of the table:
///
///   for each section [first, last), until a status is not 0
///     for each of its repetitions
///       read its words into the buffer
///       while (position != length && status == 0)
///         switch (buffer[position])
///           case opcode: run it; position += its words; status = its status
///
/// At each kEnd it increments the number of the instruction.
class WalkEmitter {
public:
  WalkEmitter(ImplicitLocOpBuilder &builder, StringRef program,
              const StepPlan &plan, ArrayRef<func::FuncOp> kernels,
              RuntimeCalls &runtime, func::FuncOp word)
      : builder(builder), program(program), plan(plan), kernels(kernels),
        runtime(runtime), word(word) {}

  func::FuncOp run();

private:
  scf::WhileOp createWhile(ValueRange begin);
  void emitCondition(scf::WhileOp loop, Value end);
  void emitSection(scf::WhileOp loop);
  void emitRead(ValueRange section, Value length, Value repetition);
  void emitBody(scf::WhileOp loop);
  void emitCase(Block &block, uint32_t opcode, ValueRange state);
  Value status(int64_t value) {
    return arith::ConstantIntOp::create(builder, value, 32);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, value);
  }

  ImplicitLocOpBuilder &builder;
  StringRef program;
  const StepPlan &plan;
  ArrayRef<func::FuncOp> kernels;
  RuntimeCalls &runtime;
  func::FuncOp word;
  Value table, words;
  ActionEmitter *actions = nullptr;
};
} // namespace

/// The table as words.
static Value getTable(ImplicitLocOpBuilder &builder, StringRef program,
                      const ActionTable &table) {
  int64_t size = table.words.size();
  Value bytes = getGlobal(builder, symbolOf(program, "table"), size);
  Value zero = arith::ConstantIndexOp::create(builder, 0);
  return memref::ViewOp::create(builder,
                                MemRefType::get(size, builder.getI32Type()),
                                bytes, zero, ValueRange());
}

Value WordEmitter::emitChoice(Value condition, llvm::function_ref<Value()> then,
                              llvm::function_ref<Value()> otherwise) {
  auto choice = scf::IfOp::create(builder, builder.getI32Type(), condition,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(choice.thenBlock());
  scf::YieldOp::create(builder, then());
  builder.setInsertionPointToEnd(choice.elseBlock());
  scf::YieldOp::create(builder, otherwise());
  return choice.getResult(0);
}

Value WordEmitter::emitCycle(Value base, Value cycle, Value step,
                             Value repetition) {
  Value place = arith::RemUIOp::create(builder, repetition, cycle);
  Value rounds = arith::DivUIOp::create(builder, repetition, cycle);
  TableReader reader(builder, table);
  place = arith::AddIOp::create(builder, base, place);
  Value listed = reader.i32(reader.toIndex(place), 0);
  Value growth = arith::MulIOp::create(builder, rounds, step);
  return arith::AddIOp::create(builder, listed, growth);
}

Value WordEmitter::emitColumn(Value position, Value place, Value repetition) {
  Value three = arith::ConstantIndexOp::create(builder, 3);
  Value offset = arith::MulIOp::create(builder, place, three);
  Value column = arith::AddIOp::create(builder, position, offset);
  TableReader reader(builder, table);
  Value base = reader.i32(column, 0), cycle = reader.i32(column, 1),
        step = reader.i32(column, 2);
  Value zero = arith::ConstantIntOp::create(builder, 0, 32);
  Value isLine =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, cycle, zero);
  return emitChoice(
      isLine,
      [&]() -> Value {
        Value growth = arith::MulIOp::create(builder, repetition, step);
        return arith::AddIOp::create(builder, base, growth);
      },
      [&] { return emitCycle(base, cycle, step, repetition); });
}

func::FuncOp WordEmitter::run() {
  OpBuilder::InsertionGuard guard(builder);
  Type index = builder.getIndexType(), i32 = builder.getI32Type();
  func::FuncOp function =
      createPrivate(builder, symbolOf(program, "word"),
                    builder.getFunctionType({index, index, index, i32}, {i32}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  table = getTable(builder, program, actions);
  Value position = function.getArgument(0), times = function.getArgument(1),
        place = function.getArgument(2), repetition = function.getArgument(3);
  Value one = arith::ConstantIndexOp::create(builder, 1);
  Value isPlain =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, times, one);
  Value result = emitChoice(
      isPlain,
      [&] {
        Value at = arith::AddIOp::create(builder, position, place);
        return TableReader(builder, table).i32(at, 0);
      },
      [&] { return emitColumn(position, place, repetition); });
  func::ReturnOp::create(builder, result);
  return function;
}

/// A loop over a position, the status and the number of the instruction.
scf::WhileOp WalkEmitter::createWhile(ValueRange begin) {
  SmallVector<Type> types{builder.getIndexType(), builder.getI32Type(),
                          builder.getI32Type()};
  return scf::WhileOp::create(builder, types, begin);
}

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
  TableWords operands(builder, words, position, instruction);
  Value result = actions->emit(opcode, operands);
  Value length =
      arith::ConstantIndexOp::create(builder, plan.getNumWords(opcode));
  Value next = arith::AddIOp::create(builder, position, length);
  if (!result)
    result = status(0);
  if (opcode == kEnd)
    instruction = arith::AddIOp::create(builder, instruction, status(1));
  scf::YieldOp::create(builder, ValueRange{next, result, instruction});
}

/// Returns the opcodes that the workers use. Only these, and the runtime
/// functions that they call, need code.
static SmallVector<int64_t> collectOpcodes(const ActionTable &table) {
  SmallVector<int64_t> used;
  for (size_t opcode = 0; opcode < table.usedOpcodes.size(); ++opcode)
    if (table.usedOpcodes[opcode])
      used.push_back(opcode);
  return used;
}

void WalkEmitter::emitBody(scf::WhileOp loop) {
  Block *block =
      builder.createBlock(&loop.getAfter(), {}, loop.getResultTypes(),
                          SmallVector<Location>(3, builder.getLoc()));
  Value opcode = memref::LoadOp::create(builder, words, block->getArgument(0));
  Value selector =
      arith::IndexCastUIOp::create(builder, builder.getIndexType(), opcode);
  SmallVector<int64_t> cases = collectOpcodes(plan.table);
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

/// Reads a repetition of a section, given by position and times, into the
/// buffer.
void WalkEmitter::emitRead(ValueRange section, Value length, Value repetition) {
  auto loop = scf::ForOp::create(builder, index(0), length, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value place = loop.getInductionVar();
  auto call = func::CallOp::create(
      builder, word, ValueRange{section[0], section[1], place, repetition});
  memref::StoreOp::create(builder, call.getResult(0), words, place);
}

void WalkEmitter::emitSection(scf::WhileOp loop) {
  Block *block =
      builder.createBlock(&loop.getAfter(), {}, loop.getResultTypes(),
                          SmallVector<Location>(3, builder.getLoc()));
  Value section = block->getArgument(0);
  TableReader reader(builder, table);
  Value position = reader.index(section, 0), length = reader.index(section, 1),
        times = reader.index(section, 2);
  auto repetitions = scf::ForOp::create(builder, index(0), times, index(1),
                                        block->getArguments().drop_front());
  Value next = arith::AddIOp::create(builder, section,
                                     index(ActionTable::kSectionWords));
  scf::YieldOp::create(builder, ValueRange{next, repetitions.getResult(0),
                                           repetitions.getResult(1)});
  builder.setInsertionPointToStart(repetitions.getBody());
  Value repetition = arith::IndexCastUIOp::create(
      builder, builder.getI32Type(), repetitions.getInductionVar());
  emitRead({position, times}, length, repetition);
  scf::WhileOp walk = createWhile({index(0), repetitions.getRegionIterArg(0),
                                   repetitions.getRegionIterArg(1)});
  scf::YieldOp::create(builder, walk.getResults().drop_front());
  emitCondition(walk, length);
  emitBody(walk);
}

func::FuncOp WalkEmitter::run() {
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
  table = getTable(builder, program, plan.table);
  int64_t longest = std::max<int64_t>(plan.table.longestSection, 1);
  words = memref::AllocaOp::create(
      builder, MemRefType::get(longest, builder.getI32Type()));
  scf::WhileOp loop =
      createWhile({function.getArgument(0), status(0), status(0)});
  func::ReturnOp::create(builder, loop.getResult(1));
  emitCondition(loop, function.getArgument(1));
  emitSection(loop);
  return function;
}

void pipesched::createTableForm(ImplicitLocOpBuilder &builder,
                                StringRef program, const StepPlan &plan,
                                ArrayRef<func::FuncOp> kernels,
                                RuntimeCalls &runtime) {
  createMembers(builder, program, plan);
  createGlobal(builder, symbolOf(program, "table"), plan.table.words);
  func::FuncOp word = WordEmitter(builder, program, plan.table).run();
  func::FuncOp walk =
      WalkEmitter(builder, program, plan, kernels, runtime, word).run();
  for (auto [number, worker] : llvm::enumerate(plan.workers)) {
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = createPrivate(builder, workerName(program, number),
                                          getWorkerType(builder.getContext()));
    builder.setInsertionPointToStart(function.addEntryBlock());
    SmallVector<Value> operands{
        arith::ConstantIndexOp::create(builder, worker.sectionsBegin),
        arith::ConstantIndexOp::create(builder, worker.sectionsEnd)};
    llvm::append_range(operands, function.getArguments());
    auto call = func::CallOp::create(builder, walk, operands);
    func::ReturnOp::create(builder, call.getResults());
  }
}

//===----------------------------------------------------------------------===//
// Straight
//===----------------------------------------------------------------------===//

/// After a failure all calls return the same status, so that the status of the
/// step is the bitwise or of all. Kernels continue to compute on undefined
/// numbers; their checks still hold.
static void emitActions(ImplicitLocOpBuilder &builder, ActionEmitter &emitter,
                        const StepPlan &plan, const WorkerPlan &worker) {
  Value status = arith::ConstantIntOp::create(builder, 0, 32);
  plan.forEachAction(worker, [&](ArrayRef<uint32_t> words, size_t at) {
    ConstantWords operands(builder, words, at);
    if (Value result = emitter.emit(words.front(), operands))
      status = arith::OrIOp::create(builder, status, result);
    if (words.front() != kBegin)
      return;
    std::string name;
    plan.describe(worker.instructions[at], name);
    builder.getBlock()->back().setAttr("instruction",
                                       builder.getStringAttr(name));
  });
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
