//===- ExecToMpi.cpp - From a program to functions with MPI ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The straight form of a program with messages as ops of upstream's `mpi`
// dialect, which passes of others see and lower.
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace pipesched {
#define GEN_PASS_DEF_CONVERTEXECTOMPIPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// The tensor that a message carries: an output (F), or a gradient of the
/// stage's input.
static RankedTensorType typeOfMessage(const StepPlan &plan, Cell cell) {
  const Stage &stage = plan.functions.stages[cell.getStage()];
  return cell.is(Phase::Forward) ? stage.output : stage.inputGradient;
}

/// The count of MPI is an int.
static LogicalResult verifyCount(const StepPlan &plan, uint32_t instruction) {
  const LoadedProgram &loaded = plan.placed.loaded;
  int64_t count =
      typeOfMessage(plan, loaded.program.instructions[instruction].cell)
          .getNumElements();
  if (llvm::isInt<32>(count))
    return success();
  return pipe::emitTableError(loaded.ops[instruction])
         << "carries " << count << " numbers; a message of MPI has at most "
         << std::numeric_limits<int32_t>::max();
}

/// Only messages between two workers have ops of upstream that are lowered.
static LogicalResult verifyAction(const StepPlan &plan, uint32_t opcode,
                                  uint32_t instruction) {
  switch (opcode) {
  case kSend:
  case kRecv:
    return verifyCount(plan, instruction);
  case kOffload:
  case kReload:
  case kAllReduce:
  case kSumShards:
  case kBroadcast: {
    const Program &program = plan.placed.loaded.program;
    Cell cell = program.instructions[instruction].cell;
    return pipe::emitTableError(plan.placed.loaded.ops[instruction])
           << "of cell " << program.nameOf(cell).str()
           << (cell.is(Phase::Optimizer)
                   ? " sums tied gradients of several workers"
                   : " is not a compute, send or receive")
           << ", which convert-exec-to-mpi does not lower; "
              "convert-exec-to-func does";
  }
  default:
    return success();
  }
}

/// A process with blocking calls executes its row call by call, as under
/// `rendezvous`: an MPI_Send may wait for its receive.
static LogicalResult verifyOrder(exec::ProgramOp program, const StepPlan &plan,
                                 bool nonblocking) {
  const LoadedProgram &loaded = plan.placed.loaded;
  llvm::Error error =
      nonblocking
          ? verifyPosted(loaded.program, SendMode::Rendezvous)
          : verifyMessages(loaded.program, MessageSemantics::Rendezvous);
  if (!error)
    return success();
  return emitAnalysisError(program, loaded, std::move(error),
                           nonblocking ? "sends=rendezvous"
                                       : "messages=rendezvous");
}

static FailureOr<std::unique_ptr<StepPlan>>
planMessages(exec::ProgramOp program, bool nonblocking) {
  FailureOr<std::unique_ptr<StepPlan>> plan =
      planSteps(program, ProgramForm::Straight);
  if (failed(plan))
    return failure();
  LogicalResult result = success();
  for (const WorkerPlan &worker : (*plan)->workers)
    (*plan)->forEachAction(worker, [&](ArrayRef<uint32_t> words, size_t at) {
      if (succeeded(result) && at < worker.instructions.size())
        result = verifyAction(**plan, words.front(), worker.instructions[at]);
    });
  if (failed(result) || failed(verifyOrder(program, **plan, nonblocking)))
    return failure();
  return plan;
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

namespace {
/// Emits the actions of one worker.
class MpiEmitter {
public:
  MpiEmitter(ImplicitLocOpBuilder &builder, const StepPlan &plan,
             ArrayRef<func::FuncOp> kernels, const WorkerPlan &worker,
             bool nonblocking)
      : builder(builder), plan(plan), kernels(kernels), worker(worker),
        nonblocking(nonblocking), requests(worker.numRequests) {}

  void run(func::FuncOp function);

private:
  void emit(ArrayRef<uint32_t> words, size_t at);
  void emitMessage(ArrayRef<uint32_t> words, Words &operands, Cell cell);
  void emitWait(Value &request);
  void emitZero(Value block, ArrayRef<uint32_t> words, Words &operands);
  void emitAdd(ArrayRef<uint32_t> words, Words &operands);
  void emitCopy(ArrayRef<uint32_t> words, Words &operands);
  void nameLast(uint32_t instruction);

  ImplicitLocOpBuilder &builder;
  const StepPlan &plan;
  ArrayRef<func::FuncOp> kernels;
  const WorkerPlan &worker;
  bool nonblocking;
  WorkerBlocks blocks;
  Value communicator;
  std::vector<Value> requests; ///< by number; null where none is open
};
} // namespace

static int64_t joinWords(ArrayRef<uint32_t> words, unsigned index) {
  return int64_t(words[index]) | int64_t(words[index + 1]) << 32;
}

/// The numbers of a message as MPI counts them: upstream takes the first size
/// of a memref for the count, and gives no MPI type to other floats.
static Type getMpiType(Type element) {
  if (element.isF32() || element.isF64() || element.isInteger())
    return element;
  return IntegerType::get(element.getContext(),
                          element.getIntOrFloatBitWidth());
}

/// The inverse of the numbers of the runtime's interface.
static Type getRuntimeType(Builder &builder, uint32_t number) {
  const Type types[] = {builder.getF32Type(), builder.getF64Type(),
                        builder.getF16Type(), builder.getBF16Type(),
                        builder.getI32Type(), builder.getI64Type()};
  return types[number];
}

/// Says of the last op which instruction it is.
void MpiEmitter::nameLast(uint32_t instruction) {
  std::string name;
  plan.describe(instruction, name);
  builder.getBlock()->back().setAttr("instruction",
                                     builder.getStringAttr(name));
}

void MpiEmitter::emitMessage(ArrayRef<uint32_t> words, Words &operands,
                             Cell cell) {
  RankedTensorType type = typeOfMessage(plan, cell);
  Value buffer =
      viewAt(builder, blocks.arena, operands.bytes(1), type.getNumElements(),
             getMpiType(type.getElementType()));
  Value peer = operands.i32(4), tag = operands.i32(5);
  bool isSend = words.front() == kSend;
  if (!nonblocking) {
    if (isSend)
      mpi::SendOp::create(builder, Type(), buffer, tag, peer, communicator);
    else
      mpi::RecvOp::create(builder, Type(), buffer, tag, peer, communicator);
    return;
  }
  auto request = mpi::RequestType::get(builder.getContext());
  requests[words[6]] =
      isSend ? mpi::ISendOp::create(builder, Type(), request, buffer, tag, peer,
                                    communicator)
                   .getReq()
             : mpi::IRecvOp::create(builder, Type(), request, buffer, tag, peer,
                                    communicator)
                   .getReq();
}

void MpiEmitter::emitWait(Value &request) {
  if (request)
    mpi::Wait::create(builder, Type(), request);
  request = {};
}

void MpiEmitter::emitZero(Value block, ArrayRef<uint32_t> words,
                          Words &operands) {
  Value view = viewAt(builder, block, operands.bytes(1), joinWords(words, 2),
                      builder.getI8Type());
  Value zero = arith::ConstantIntOp::create(builder, 0, 8);
  linalg::FillOp::create(builder, zero, view);
}

void MpiEmitter::emitAdd(ArrayRef<uint32_t> words, Words &operands) {
  auto view = [&](unsigned index) {
    return viewAt(builder, blocks.persistent, operands.bytes(index),
                  joinWords(words, 3), getRuntimeType(builder, words[5]));
  };
  Value sum = view(1), other = view(2);
  linalg::AddOp::create(builder, ValueRange{sum, other}, ValueRange{sum});
}

void MpiEmitter::emitCopy(ArrayRef<uint32_t> words, Words &operands) {
  auto view = [&](unsigned index) {
    return viewAt(builder, blocks.persistent, operands.bytes(index),
                  joinWords(words, 3), builder.getI8Type());
  };
  Value to = view(1), from = view(2);
  memref::CopyOp::create(builder, from, to);
}

void MpiEmitter::emit(ArrayRef<uint32_t> words, size_t at) {
  const LoadedProgram &loaded = plan.placed.loaded;
  uint32_t instruction = Program::kNone; // for the waits at the end
  if (at < worker.instructions.size()) {
    instruction = worker.instructions[at];
    builder.setLoc(loaded.ops[instruction]->getLoc());
  }
  ConstantWords operands(builder, words, at);
  switch (words.front()) {
  case kBegin:
  case kEnd:
    return;
  case kWait:
    return emitWait(requests[words[1]]);
  case kZero:
    return emitZero(blocks.persistent, words, operands);
  case kClear:
    return emitZero(blocks.arena, words, operands);
  case kAdd:
    return emitAdd(words, operands);
  case kCopy:
    return emitCopy(words, operands);
  case kSend:
  case kRecv:
    emitMessage(words, operands, loaded.program.instructions[instruction].cell);
    return nameLast(instruction);
  default: {
    unsigned number = words.front() - kFirstKernel;
    func::CallOp::create(
        builder, kernels[number],
        emitOperands(builder, plan.kernels[number], operands, blocks));
    return nameLast(instruction);
  }
  }
}

void MpiEmitter::run(func::FuncOp function) {
  blocks = {function.getArgument(0), function.getArgument(1),
            function.getArgument(2)};
  Location loc = builder.getLoc();
  communicator = mpi::CommWorldOp::create(
      builder, mpi::CommType::get(builder.getContext()));
  plan.forEachAction(
      worker, [&](ArrayRef<uint32_t> words, size_t at) { emit(words, at); });
  builder.setLoc(loc);
  func::ReturnOp::create(builder);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// All workers take blocks of the largest sizes, so that one type is enough.
static FunctionType getMpiWorkerType(Builder &builder, const StepPlan &plan) {
  int64_t persistent = 0, arena = 0;
  for (auto [worker, layout] : llvm::zip_equal(plan.workers, plan.layouts)) {
    persistent = std::max(persistent, layout.bytes);
    arena = std::max(arena, worker.arenaBytes);
  }
  auto block = [&](int64_t bytes) {
    return MemRefType::get(bytes, builder.getI8Type());
  };
  return builder.getFunctionType(
      {block(persistent), block(arena), builder.getI64Type()}, {});
}

/// Creates `<p>_begin`, which returns the rank, and `<p>_end`.
static void createProcess(ImplicitLocOpBuilder &builder, StringRef program) {
  OpBuilder::InsertionGuard guard(builder);
  auto create = [&](StringRef part, TypeRange results) {
    auto function = func::FuncOp::create(builder, symbolOf(program, part),
                                         builder.getFunctionType({}, results));
    builder.setInsertionPointToStart(function.addEntryBlock());
    return function;
  };
  func::FuncOp begin = create("begin", builder.getI32Type());
  mpi::InitOp::create(builder, Type());
  Value world = mpi::CommWorldOp::create(
      builder, mpi::CommType::get(builder.getContext()));
  Value rank =
      mpi::CommRankOp::create(builder, Type(), builder.getI32Type(), world)
          .getRank();
  func::ReturnOp::create(builder, rank);
  builder.setInsertionPointAfter(begin);
  create("end", {});
  mpi::FinalizeOp::create(builder, Type());
  func::ReturnOp::create(builder);
}

static void createWorkers(ImplicitLocOpBuilder &builder, StringRef program,
                          const StepPlan &plan, ArrayRef<func::FuncOp> kernels,
                          bool nonblocking) {
  FunctionType type = getMpiWorkerType(builder, plan);
  for (auto [number, worker] : llvm::enumerate(plan.workers)) {
    OpBuilder::InsertionGuard guard(builder);
    auto function =
        func::FuncOp::create(builder, workerName(program, number), type);
    builder.setInsertionPointToStart(function.addEntryBlock());
    MpiEmitter(builder, plan, kernels, worker, nonblocking).run(function);
  }
  createProcess(builder, program);
  createEntries(builder, program, plan, type);
}

/// Upstream's lowering asks the module for the implementation of MPI, and
/// reports an error at each call if it gets no answer. It then assumes MPICH.
static void nameImplementation(ModuleOp module) {
  Builder builder(module.getContext());
  StringRef name = DLTIDialect::kMapAttrName;
  SmallVector<DataLayoutEntryInterface> entries;
  if (auto map = module->getAttrOfType<MapAttr>(name))
    llvm::append_range(entries, map.getEntries());
  StringAttr key = builder.getStringAttr("MPI:Implementation");
  for (DataLayoutEntryInterface entry : entries)
    if (entry.getKey() == DataLayoutEntryKey(key))
      return;
  entries.push_back(
      DataLayoutEntryAttr::get(key, builder.getStringAttr("MPICH")));
  module->setAttr(name, MapAttr::get(module.getContext(), entries));
}

namespace {
struct ConvertExecToMpiPass final
    : pipesched::impl::ConvertExecToMpiPassBase<ConvertExecToMpiPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<exec::ProgramOp>> programs =
        pipe::selectPrograms(module);
    if (failed(programs))
      return signalPassFailure();
    std::vector<PlannedOwner> owners;
    for (exec::ProgramOp program : *programs) {
      FailureOr<std::unique_ptr<StepPlan>> plan =
          planMessages(program, nonblocking);
      if (failed(plan))
        return signalPassFailure();
      owners.push_back({program, std::move(*plan)});
    }
    auto emit = [&](ImplicitLocOpBuilder &builder, StringRef name,
                    const StepPlan &plan, ArrayRef<func::FuncOp> kernels) {
      createWorkers(builder, name, plan, kernels, nonblocking);
    };
    if (failed(replaceByFunctions(
            module, std::move(owners), KernelForm::Plain,
            {"begin", "step", "end", "size", "sizes", "layout", "layout_text"},
            emit)))
      return signalPassFailure();
    nameImplementation(module);
  }
};
} // namespace
