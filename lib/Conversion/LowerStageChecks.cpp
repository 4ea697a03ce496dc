//===- LowerStageChecks.cpp - Checks as branches --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Behind the conversion of loops to branches. In a kernel a check becomes
//
//   %ok = index < size, without sign
//   cond_br %ok, ^rest, ^failed
//   ^failed:
//     free what the kernel has allocated
//     %status = pipesched_rt_fail_index(%context, "..", index, size)
//     return %status
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/StageUses.h"
#include "StageChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace pipesched {
#define GEN_PASS_DEF_LOWERSTAGECHECKSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

bool pipesched::isKernel(func::FuncOp function) {
  FunctionType type = function.getFunctionType();
  return type.getNumInputs() > 0 &&
         isa<LLVM::LLVMPointerType>(type.getInputs().back()) &&
         type.getNumResults() == 1 && type.getResult(0).isInteger(32);
}

static bool isCheck(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return call.getCallee() == kCheckIndexName ||
           call.getCallee() == kCheckStatusName;
  return isa<cf::AssertOp>(op);
}

namespace {
/// The checks of a module, and the texts and functions that they share.
class CheckLowering {
public:
  CheckLowering(ModuleOp module, StringRef handler)
      : module(module), handler(handler) {}

  LogicalResult run(func::FuncOp function);
  /// Verifies that `function`, which has checks, is not called by kernels.
  LogicalResult verifyNotCalled(func::FuncOp function);
  /// Behind all functions.
  void finish();

private:
  struct Failure {
    std::string text;
    Value index, size; ///< null for all others
    Value status;      ///< of a function of C
  };
  void lower(Operation *check, func::FuncOp function,
             ArrayRef<Operation *> frees);
  void fail(ImplicitLocOpBuilder &builder, func::FuncOp function,
            const Failure &failure);
  Value addressOf(ImplicitLocOpBuilder &builder, StringRef text);
  func::CallOp call(ImplicitLocOpBuilder &builder, StringRef callee,
                    TypeRange results, ValueRange operands);

  ModuleOp module;
  StringRef handler; ///< empty where other functions abort
  llvm::StringMap<LLVM::GlobalOp> texts;
  int64_t numNames = 0; ///< tried for texts
};
} // namespace

/// For each check the deallocations of what is allocated when it runs: of
/// blocks that are freed once and in the code that allocates them. Paths that
/// leave early are not there yet.
static std::vector<SmallVector<Operation *>>
findFrees(func::FuncOp function, ArrayRef<Operation *> checks) {
  DominanceInfo dominance(function);
  PostDominanceInfo postDominance(function);
  std::vector<SmallVector<Operation *>> frees(checks.size());
  function.walk([&](memref::DeallocOp dealloc) {
    auto alloc = dealloc.getMemref().getDefiningOp<memref::AllocOp>();
    if (!alloc || llvm::count_if(alloc->getUsers(), [](Operation *user) {
                    return isa<memref::DeallocOp>(user);
                  }) != 1)
      return;
    if (!dominance.properlyDominates(alloc.getOperation(), dealloc) ||
        !postDominance.properlyPostDominates(dealloc, alloc))
      return;
    for (auto [check, list] : llvm::zip_equal(checks, frees))
      if (dominance.properlyDominates(alloc.getOperation(), check) &&
          !dominance.properlyDominates(dealloc, check))
        list.push_back(dealloc);
  });
  return frees;
}

Value CheckLowering::addressOf(ImplicitLocOpBuilder &builder, StringRef text) {
  LLVM::GlobalOp &global = texts[text];
  if (!global) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    std::string name;
    do
      name = "pipesched_check_" + std::to_string(numNames++);
    while (module.lookupSymbol(name));
    std::string bytes = text.str();
    bytes.push_back('\0');
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
    global = LLVM::GlobalOp::create(builder, type, /*isConstant=*/true,
                                    LLVM::Linkage::Internal, name,
                                    builder.getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(builder, global);
}

func::CallOp CheckLowering::call(ImplicitLocOpBuilder &builder,
                                 StringRef callee, TypeRange results,
                                 ValueRange operands) {
  if (!module.lookupSymbol(callee)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    func::FuncOp::create(builder, callee,
                         builder.getFunctionType(operands.getTypes(), results))
        .setPrivate();
  }
  return func::CallOp::create(builder, callee, results, operands);
}

/// Ends a block in which a check has failed.
void CheckLowering::fail(ImplicitLocOpBuilder &builder, func::FuncOp function,
                         const Failure &failure) {
  std::string text = failure.text;
  if (auto stages = function->getAttrOfType<StringAttr>(kStageUsesName))
    text = stages.getValue().str() + ": " + text;
  SmallVector<Value> operands{addressOf(builder, text)};
  for (Value number : {failure.index, failure.size})
    if (number)
      operands.push_back(
          arith::IndexCastOp::create(builder, builder.getI64Type(), number));
  if (isKernel(function)) {
    if (failure.status)
      operands.push_back(failure.status);
    operands.insert(operands.begin(), function.getArguments().back());
    auto status = call(builder,
                       failure.index    ? "pipesched_rt_fail_index"
                       : failure.status ? "pipesched_rt_fail_status"
                                        : "pipesched_rt_fail",
                       builder.getI32Type(), operands);
    func::ReturnOp::create(builder, status.getResults());
    return;
  }
  // A status, or nothing, has the size -2 or -1, which no dimension has.
  auto constant = [&](int64_t number) {
    return arith::ConstantIntOp::create(builder, number, 64);
  };
  if (failure.status)
    operands.append(
        {arith::ExtSIOp::create(builder, builder.getI64Type(), failure.status),
         constant(-2)});
  else if (!failure.index)
    operands.append({constant(0), constant(-1)});
  call(builder, handler, {}, operands);
  LLVM::UnreachableOp::create(builder);
}

void CheckLowering::lower(Operation *check, func::FuncOp function,
                          ArrayRef<Operation *> frees) {
  ImplicitLocOpBuilder builder(check->getLoc(), check);
  Failure failure;
  Value isFine;
  if (auto assertion = dyn_cast<cf::AssertOp>(check)) {
    failure.text = assertion.getMsg().str();
    isFine = assertion.getArg();
  } else if (cast<func::CallOp>(check).getCallee() == kCheckStatusName) {
    failure.text = check->getAttrOfType<StringAttr>(kCheckTextName).str();
    failure.status = check->getOperand(0);
    Value zero = arith::ConstantIntOp::create(builder, 0, 32);
    isFine = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                   failure.status, zero);
  } else {
    failure.text = check->getAttrOfType<StringAttr>(kCheckTextName).str();
    failure.index = check->getOperand(0);
    failure.size = check->getOperand(1);
    isFine = arith::CmpIOp::create(builder, arith::CmpIPredicate::ult,
                                   failure.index, failure.size);
  }
  if (!isKernel(function) && handler.empty()) {
    cf::AssertOp::create(builder, isFine, failure.text);
    check->erase();
    return;
  }
  Block *block = check->getBlock();
  Block *rest = block->splitBlock(check->getNextNode());
  Block *failed = builder.createBlock(rest);
  for (Operation *dealloc : frees)
    builder.clone(*dealloc);
  fail(builder, function, failure);
  builder.setInsertionPointToEnd(block);
  cf::CondBranchOp::create(builder, isFine, rest, ValueRange(), failed,
                           ValueRange());
  check->erase();
}

/// A kernel could not know that one of them failed.
LogicalResult CheckLowering::verifyNotCalled(func::FuncOp function) {
  SetVector<Operation *> callers;
  callers.insert(function);
  for (size_t next = 0; next < callers.size(); ++next) {
    auto called = cast<func::FuncOp>(callers[next]);
    if (isKernel(called))
      return function.emitError("in ")
             << describeWithStages(function)
             << " indices or divisors are data, which cannot be checked where "
                "a call is not inlined; use scf for control flow";
    module.walk([&](func::CallOp call) {
      if (call.getCallee() == called.getName())
        callers.insert(call->getParentOfType<func::FuncOp>());
    });
  }
  return success();
}

/// Numbers that LLVM calls poison, such as a float that does not fit into an
/// integer: a branch on one lets it drop the branch, and with that the check.
static bool mayBePoison(Operation *op) {
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return op->getResult(0).getType().isInteger();
  if (!isa<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>(op) ||
      !op->getResult(0).getType().isInteger())
    return false;
  std::optional<int64_t> by = getConstantIntValue(op->getOperand(1));
  return !by || *by < 0 ||
         *by >= op->getResult(0).getType().getIntOrFloatBitWidth();
}

/// Lets them be any number, but the same wherever they are used.
static void freeze(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (!mayBePoison(op))
      return;
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Value frozen =
        LLVM::FreezeOp::create(builder, op->getLoc(), op->getResult(0));
    op->getResult(0).replaceAllUsesExcept(frozen, frozen.getDefiningOp());
  });
}

LogicalResult CheckLowering::run(func::FuncOp function) {
  SmallVector<Operation *> checks;
  WalkResult result = function.walk([&](Operation *op) {
    if (!isCheck(op))
      return WalkResult::advance();
    if (op->getParentOp() != function) {
      op->emitError("a check stands inside of '")
          << op->getParentOp()->getName()
          << "'; expected branches, as convert-scf-to-cf makes them";
      return WalkResult::interrupt();
    }
    checks.push_back(op);
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!checks.empty() && handler.empty() && !isKernel(function) &&
      failed(verifyNotCalled(function)))
    return failure();
  if (!checks.empty())
    freeze(function);
  std::vector<SmallVector<Operation *>> frees = findFrees(function, checks);
  for (auto [check, list] : llvm::zip_equal(checks, frees))
    lower(check, function, list);
  return success();
}

void CheckLowering::finish() {
  for (StringRef name : {kCheckIndexName, kCheckStatusName})
    if (Operation *declared = module.lookupSymbol(name))
      declared->erase();
  for (auto function : module.getOps<func::FuncOp>())
    function->removeAttr(kStageUsesName);
}

namespace {
struct LowerStageChecksPass final
    : pipesched::impl::LowerStageChecksPassBase<LowerStageChecksPass> {
  using Base::Base;

  void runOnOperation() override {
    CheckLowering lowering(getOperation(), handler);
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(lowering.run(function)))
        return signalPassFailure();
    lowering.finish();
  }
};
} // namespace
