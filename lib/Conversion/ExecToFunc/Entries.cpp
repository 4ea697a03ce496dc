//===- Entries.cpp - Public functions of compiled programs ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates the three public functions (docs/Lowering.md). `p_layout` returns
// repeated instructions only once, so its text hardly grows with the
// microbatches.
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "PipeSched/Support/Repeats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace pipesched;

void StepPlan::describe(uint32_t instruction, std::string &text) const {
  auto [cell, peer, kind] = placed.loaded.program.instructions[instruction];
  int64_t numSlices = placed.loaded.program.numSlices;
  auto addCell = [&](Cell added) {
    text += llvm::utostr(added.getStage());
    text += phaseLetter(added.getPhase());
    if (!CellName{added, numSlices}.hasSlice()) {
      text += llvm::utostr(added.getNumber());
      return;
    }
    text += llvm::utostr(added.getUnit() / numSlices);
    text += '.';
    text += llvm::utostr(added.getUnit() % numSlices);
  };
  if (kind != InstructionKind::Compute) {
    text += enumName(kind);
    text += ' ';
  }
  addCell(cell);
  if (kind == InstructionKind::Compute && cell.overlapsNext()) {
    text += '+';
    addCell(placed.loaded.program.instructions[instruction + 1].cell);
  }
  if (kind != InstructionKind::Send && kind != InstructionKind::Recv)
    return;
  text += kind == InstructionKind::Send ? " to " : " from ";
  text += llvm::utostr(peer);
}

/// Whether two instructions of a worker differ only in their microbatches. For
/// pairs, the second halves, which follow them, must also differ only in these.
static bool areAlike(const StepPlan &plan, uint32_t a, uint32_t b) {
  ArrayRef<Instruction> all = plan.placed.loaded.program.instructions;
  auto isSame = [](const Instruction &x, const Instruction &y) {
    return x.kind == y.kind && x.peer == y.peer &&
           x.cell.getStage() == y.cell.getStage() &&
           x.cell.getPhase() == y.cell.getPhase() &&
           x.cell.overlapsNext() == y.cell.overlapsNext();
  };
  bool isPair =
      all[a].is(InstructionKind::Compute) && all[a].cell.overlapsNext();
  return isSame(all[a], all[b]) && (!isPair || isSame(all[a + 1], all[b + 1]));
}

namespace {
/// Writes the names of a worker's instructions. Names need no escapes.
class InstructionWriter {
public:
  InstructionWriter(const StepPlan &plan, const WorkerPlan &worker)
      : plan(plan), instructions(worker.instructions) {}

  std::string run();

private:
  /// Returns how much the microbatch of an instruction, or of the second half
  /// of a pair, grows over `period` instructions.
  int64_t growth(uint32_t i, uint32_t period, uint32_t half) const {
    auto microbatch = [&](uint32_t j) {
      return plan.placed.loaded.program.instructions[instructions[j] + half]
          .cell.getNumber();
    };
    return microbatch(i + period) - microbatch(i);
  }
  bool follows(uint32_t i, uint32_t period, int64_t microbatches) const;
  void writeNames(uint32_t begin, uint32_t end);
  void comma();

  const StepPlan &plan;
  ArrayRef<uint32_t> instructions;
  std::string text;
};
} // namespace

bool InstructionWriter::follows(uint32_t i, uint32_t period,
                                int64_t microbatches) const {
  if (!areAlike(plan, instructions[i], instructions[i + period]) ||
      growth(i, period, 0) != microbatches)
    return false;
  const Instruction &instruction =
      plan.placed.loaded.program.instructions[instructions[i]];
  bool isPair = instruction.is(InstructionKind::Compute) &&
                instruction.cell.overlapsNext();
  return !isPair || growth(i, period, 1) == microbatches;
}

void InstructionWriter::comma() {
  if (text.back() != '[')
    text += ',';
}

void InstructionWriter::writeNames(uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    comma();
    text += '"';
    plan.describe(instructions[i], text);
    text += '"';
  }
}

std::string InstructionWriter::run() {
  text = "[";
  auto followsAnchor = [&](uint32_t i, uint32_t period, uint32_t anchor) {
    return follows(i, period, growth(anchor, period, 0));
  };
  for (auto [begin, period, times] :
       findRepeats(instructions.size(), followsAnchor)) {
    if (times == 1) {
      writeNames(begin, begin + period);
      continue;
    }
    comma();
    text += "{\"times\":" + llvm::utostr(times) +
            ",\"microbatches\":" + llvm::itostr(growth(begin, period, 0)) +
            ",\"repeat\":[";
    writeNames(begin, begin + period);
    text += "]}";
  }
  return text + "]";
}

static void writeWorker(llvm::json::OStream &json, const StepPlan &plan,
                        const WorkerPlan &worker,
                        const PersistentLayout &layout) {
  json.object([&] {
    json.attribute("persistent", layout.bytes);
    json.attribute("arena", worker.arenaBytes);
    json.attribute("host", worker.hostBytes);
    json.attribute("requests", worker.numRequests);
    json.attributeBegin("tensors");
    writeTensors(json, layout);
    json.attributeEnd();
    json.attributeBegin("instructions");
    json.rawValue(InstructionWriter(plan, worker).run());
    json.attributeEnd();
  });
}

/// Returns the text of `p_layout` (docs/Lowering.md). It is JSON with, for each
/// worker, the sizes of its blocks, the tensors of its persistent block, and
/// its instructions.
static std::string describeLayout(StringRef name, const StepPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os);
  json.object([&] {
    json.attribute("program", name);
    json.attribute("microbatches",
                   plan.placed.loaded.placement.getNumMicrobatches());
    json.attributeArray("workers", [&] {
      for (size_t i = 0; i < plan.workers.size(); ++i)
        writeWorker(json, plan, plan.workers[i], plan.layouts[i]);
    });
  });
  return text;
}

static func::FuncOp createFunction(ImplicitLocOpBuilder &builder,
                                   StringRef name, FunctionType type) {
  auto function = func::FuncOp::create(builder, name, type);
  builder.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

/// Chooses the function of the worker, which may have a status; a worker that
/// does not exist is misuse (1).
static void createStep(ImplicitLocOpBuilder &builder, StringRef program,
                       size_t numWorkers, FunctionType worker) {
  OpBuilder::InsertionGuard guard(builder);
  Type status = builder.getI32Type();
  SmallVector<Type> inputs{status};
  llvm::append_range(inputs, worker.getInputs());
  func::FuncOp step = createFunction(builder, symbolOf(program, "step"),
                                     builder.getFunctionType(inputs, {status}));
  Value selector = arith::IndexCastUIOp::create(builder, builder.getIndexType(),
                                                step.getArgument(0));
  auto cases = llvm::to_vector(llvm::seq<int64_t>(0, numWorkers));
  auto choice = scf::IndexSwitchOp::create(builder, TypeRange(status), selector,
                                           cases, cases.size());
  func::ReturnOp::create(builder, choice.getResults());
  for (auto [number, region] : llvm::enumerate(choice.getCaseRegions())) {
    builder.setInsertionPointToEnd(&region.emplaceBlock());
    auto call = func::CallOp::create(builder, workerName(program, number),
                                     worker.getResults(),
                                     step.getArguments().drop_front());
    Value result = call.getNumResults()
                       ? call.getResult(0)
                       : arith::ConstantIntOp::create(builder, 0, 32);
    scf::YieldOp::create(builder, ValueRange(result));
  }
  builder.setInsertionPointToEnd(&choice.getDefaultRegion().emplaceBlock());
  Value misuse = arith::ConstantIntOp::create(builder, 1, 32);
  scf::YieldOp::create(builder, ValueRange(misuse));
}

/// A constant with a row of six numbers for each worker; `what` is the column.
static void createSize(ImplicitLocOpBuilder &builder, StringRef program,
                       const StepPlan &plan) {
  constexpr int64_t kColumns = 6;
  SmallVector<int64_t> sizes;
  for (auto [worker, layout] : llvm::zip_equal(plan.workers, plan.layouts))
    llvm::append_values(sizes, int64_t(plan.workers.size()), layout.bytes,
                        worker.arenaBytes, worker.hostBytes, worker.numRequests,
                        int64_t(worker.instructions.size()));
  std::string name = symbolOf(program, "sizes");
  auto i64 = builder.getI64Type();
  auto type = MemRefType::get(sizes.size(), i64);
  memref::GlobalOp::create(
      builder, name, builder.getStringAttr("private"), type,
      DenseElementsAttr::get(RankedTensorType::get(sizes.size(), i64),
                             ArrayRef<int64_t>(sizes)),
      /*constant=*/true, /*alignment=*/nullptr);
  OpBuilder::InsertionGuard guard(builder);
  auto i32 = builder.getI32Type();
  func::FuncOp function =
      createFunction(builder, symbolOf(program, "size"),
                     builder.getFunctionType({i32, i32}, {i64}));
  auto index = builder.getIndexType();
  Value worker =
      arith::IndexCastUIOp::create(builder, index, function.getArgument(0));
  Value what =
      arith::IndexCastUIOp::create(builder, index, function.getArgument(1));
  Value zero = arith::ConstantIndexOp::create(builder, 0);
  Value columns = arith::ConstantIndexOp::create(builder, kColumns);
  Value row = arith::MulIOp::create(builder, worker, columns);
  Value place = arith::AddIOp::create(builder, row, what);
  Value isCount =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, what, zero);
  place = arith::SelectOp::create(builder, isCount, zero, place);
  Value table = memref::GetGlobalOp::create(builder, type, name);
  Value size = memref::LoadOp::create(builder, table, place);
  func::ReturnOp::create(builder, size);
}

static void createLayout(ImplicitLocOpBuilder &builder, StringRef program,
                         const StepPlan &plan) {
  std::string text = describeLayout(program, plan);
  text.push_back('\0');
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), text.size());
  auto global = LLVM::GlobalOp::create(
      builder, type, /*isConstant=*/true, LLVM::Linkage::Internal,
      symbolOf(program, "layout_text"), builder.getStringAttr(text));
  OpBuilder::InsertionGuard guard(builder);
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  createFunction(builder, symbolOf(program, "layout"),
                 builder.getFunctionType({}, {pointer}));
  Value address = LLVM::AddressOfOp::create(builder, global);
  func::ReturnOp::create(builder, address);
}

void pipesched::createEntries(ImplicitLocOpBuilder &builder, StringRef program,
                              const StepPlan &plan, FunctionType worker) {
  createStep(builder, program, plan.workers.size(), worker);
  createSize(builder, program, plan);
  createLayout(builder, program, plan);
}
