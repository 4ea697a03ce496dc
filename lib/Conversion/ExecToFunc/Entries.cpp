//===- Entries.cpp - What a compiled program offers -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The three public functions (docs/Lowering.md).
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace pipesched;

static func::FuncOp createFunction(ImplicitLocOpBuilder &builder,
                                   StringRef name, FunctionType type) {
  auto function = func::FuncOp::create(builder, name, type);
  builder.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

/// Chooses the function of the worker; a worker that does not exist is misuse
/// (1).
static void createStep(ImplicitLocOpBuilder &builder, StringRef program,
                       size_t numWorkers) {
  OpBuilder::InsertionGuard guard(builder);
  FunctionType worker = getWorkerType(builder.getContext());
  SmallVector<Type> inputs{builder.getI32Type()};
  llvm::append_range(inputs, worker.getInputs());
  func::FuncOp step =
      createFunction(builder, symbolOf(program, "step"),
                     builder.getFunctionType(inputs, worker.getResults()));
  Value selector = arith::IndexCastUIOp::create(builder, builder.getIndexType(),
                                                step.getArgument(0));
  auto cases = llvm::to_vector(llvm::seq<int64_t>(0, numWorkers));
  auto choice = scf::IndexSwitchOp::create(builder, worker.getResults(),
                                           selector, cases, cases.size());
  func::ReturnOp::create(builder, choice.getResults());
  for (auto [number, region] : llvm::enumerate(choice.getCaseRegions())) {
    builder.setInsertionPointToEnd(&region.emplaceBlock());
    auto call = func::CallOp::create(
        builder, symbolOf(program, "worker_" + Twine(number)),
        worker.getResults(), step.getArguments().drop_front());
    scf::YieldOp::create(builder, call.getResults());
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
                              const StepPlan &plan) {
  createStep(builder, program, plan.workers.size());
  createSize(builder, program, plan);
  createLayout(builder, program, plan);
}
