//===- LowerStageChecks.cpp - Checks as branches --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks are created before bufferization. An index that is known to be in
// range, such as the index of a loop over the tensor, gets no check, because
// checks in inner loops keep LLVM from vectorizing them. This pass runs after
// loops are converted to branches. In a kernel a check becomes
//
//   %ok = index < size, without sign
//   cond_br %ok, ^rest, ^failed
//   ^failed:
//     free the buffers that the kernel has allocated
//     %status = pipesched_rt_fail_index(%context, "..", index, size)
//     return %status
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/StageUses.h"
#include "PipeSched/Support/PrintableText.h"
#include "StageChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/RuntimeVerifiableOpInterface.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pipesched {
#define GEN_PASS_DEF_LOWERSTAGECHECKSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// CheckBuilder
//===----------------------------------------------------------------------===//

CheckBuilder::CheckBuilder(Operation *op, func::FuncOp function)
    : op(op), function(function), builder(op) {}

std::string CheckBuilder::describe() {
  return "'" + op->getName().getStringRef().str() + "' op in function '" +
         printableText(function.getName()) + "'";
}

Value CheckBuilder::value(OpFoldResult number) {
  return getValueOrCreateConstantIndexOp(builder, getLoc(), number);
}

static bool isKnownInside(OpFoldResult index, OpFoldResult size) {
  using Bounds = ValueBoundsConstraintSet;
  std::optional<int64_t> known = getConstantIntValue(index);
  std::optional<int64_t> knownSize = getConstantIntValue(size);
  if (known && knownSize)
    return *known >= 0 && *known < *knownSize;
  OpFoldResult zero = IntegerAttr::get(IndexType::get(size.getContext()), 0);
  return Bounds::compare(index, Bounds::ComparisonOperator::GE, zero) &&
         Bounds::compare(index, Bounds::ComparisonOperator::LT, size);
}

/// Calls a function that implements a check, and declares it.
static void createCheck(OpBuilder &builder, Location loc, StringRef name,
                        ValueRange operands, const Twine &text) {
  auto module = builder.getBlock()->getParentOp()->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    func::FuncOp::create(builder, module.getLoc(), name,
                         builder.getFunctionType(operands.getTypes(), {}))
        .setPrivate();
  }
  auto check = func::CallOp::create(builder, loc, name, TypeRange(), operands);
  check->setAttr(kCheckTextName, builder.getStringAttr(text));
}

void CheckBuilder::requireIndex(OpFoldResult index, OpFoldResult size,
                                const Twine &what) {
  if (!isKnownInside(index, size))
    createCheck(builder, getLoc(), kCheckIndexName, {value(index), value(size)},
                describe() + ", " + what);
}

void pipesched::requireStatus(OpBuilder &builder, Value status,
                              const Twine &what) {
  createCheck(builder, status.getLoc(), kCheckStatusName, status, what);
}

void CheckBuilder::require(Value condition, const Twine &text) {
  cf::AssertOp::create(builder, getLoc(), condition,
                       (describe() + " " + text).str());
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

namespace {
class OpChecker {
public:
  OpChecker(Operation *op, func::FuncOp function)
      : op(op), checks(op, function), builder(checks.getBuilder()),
        loc(op->getLoc()) {}

  void run();

private:
  void checkElement(Value tensor, ValueRange indices);
  void checkSlice(OffsetSizeAndStrideOpInterface slice, Value whole);
  void checkSliceDimension(OpFoldResult offset, OpFoldResult size,
                           OpFoldResult stride, OpFoldResult extent,
                           const Twine &what);
  void checkSource(tensor::InsertSliceOp insert);
  void checkDivision(Value dividend, Value divisor, bool isSigned);
  void checkSizes(ValueRange sizes);
  void checkPad(tensor::PadOp pad);
  void checkExpand(tensor::ExpandShapeOp expand);
  void checkStep(scf::ForOp loop);
  void checkByUpstream();

  Value constant(int64_t number) {
    return arith::ConstantIndexOp::create(builder, loc, number);
  }
  Value compare(arith::CmpIPredicate predicate, Value left, Value right) {
    return arith::CmpIOp::create(builder, loc, predicate, left, right);
  }
  OpFoldResult add(OpFoldResult number, int64_t added) {
    if (std::optional<int64_t> known = getConstantIntValue(number))
      return builder.getIndexAttr(*known + added);
    return arith::AddIOp::create(builder, loc, checks.value(number),
                                 constant(added))
        .getResult();
  }
  OpFoldResult largest() {
    return builder.getIndexAttr(std::numeric_limits<int64_t>::max());
  }

  Operation *op;
  CheckBuilder checks;
  OpBuilder &builder;
  Location loc;
};
} // namespace

void OpChecker::checkElement(Value tensor, ValueRange indices) {
  for (auto [dim, index] : llvm::enumerate(indices))
    checks.requireIndex(index, tensor::getMixedSize(builder, loc, tensor, dim),
                        "dimension " + Twine(dim));
}

/// Checks that the first and the last element are in range; a slice without
/// elements may start anywhere.
void OpChecker::checkSliceDimension(OpFoldResult offset, OpFoldResult size,
                                    OpFoldResult stride, OpFoldResult extent,
                                    const Twine &what) {
  std::optional<int64_t> knownSize = getConstantIntValue(size);
  std::optional<int64_t> knownStride = getConstantIntValue(stride);
  if (knownSize == 0)
    return;
  if (knownSize && knownStride) {
    int64_t reach;
    if (llvm::MulOverflow(*knownSize - 1, *knownStride, reach))
      reach = std::numeric_limits<int64_t>::max();
    if (reach >= 0)
      return checks.requireIndex(offset, add(extent, -reach), what);
    checks.requireIndex(offset, extent, what);
    return checks.requireIndex(add(offset, reach), extent, what);
  }
  checks.requireIndex(size, largest(), "size of " + what);
  checks.requireIndex(stride, largest(), "stride of " + what);
  Value zero = constant(0), one = constant(1);
  Value some = compare(arith::CmpIPredicate::ne, checks.value(size), zero);
  auto choose = [&](Value given, Value otherwise) -> Value {
    return arith::SelectOp::create(builder, loc, some, given, otherwise);
  };
  Value first = choose(checks.value(offset), zero);
  Value bound = choose(checks.value(extent), one);
  checks.requireIndex(first, bound, what);
  // (size - 1) * stride may be too large for 64 bits.
  Value step = arith::MaxSIOp::create(builder, loc, checks.value(stride), one);
  Value last = arith::SubIOp::create(builder, loc, bound, one);
  Value left = arith::SubIOp::create(builder, loc, last, first);
  Value room = arith::DivUIOp::create(builder, loc, left, step);
  Value steps = choose(
      arith::SubIOp::create(builder, loc, checks.value(size), one), zero);
  checks.requireIndex(
      steps, arith::AddIOp::create(builder, loc, room, one).getResult(),
      "elements of " + what + " behind the first");
}

void OpChecker::checkSlice(OffsetSizeAndStrideOpInterface slice, Value whole) {
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets(),
                            sizes = slice.getMixedSizes(),
                            strides = slice.getMixedStrides();
  for (size_t dim = 0; dim < offsets.size(); ++dim)
    checkSliceDimension(offsets[dim], sizes[dim], strides[dim],
                        tensor::getMixedSize(builder, loc, whole, dim),
                        "dimension " + Twine(dim));
}

/// Checks that the inserted tensor has the sizes that the op states.
void OpChecker::checkSource(tensor::InsertSliceOp insert) {
  llvm::SmallBitVector dropped = insert.getDroppedDims();
  int64_t sourceDim = 0;
  for (auto [dim, size] : llvm::enumerate(insert.getMixedSizes())) {
    if (dropped[dim])
      continue;
    OpFoldResult found =
        tensor::getMixedSize(builder, loc, insert.getSource(), sourceDim++);
    if (isEqualConstantIntOrValue(found, size))
      continue;
    checks.require(compare(arith::CmpIPredicate::eq, checks.value(found),
                           checks.value(size)),
                   "has a source of another size than it inserts in "
                   "dimension " +
                       Twine(dim));
  }
}

/// Checks a division. Processors raise a signal for x / 0, and for the smallest
/// number divided by -1.
void OpChecker::checkDivision(Value dividend, Value divisor, bool isSigned) {
  Type type = divisor.getType();
  std::optional<int64_t> known = getConstantIntValue(divisor);
  if (known && *known != 0 && (*known != -1 || !isSigned))
    return;
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  auto number = [&](const APInt &value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     IntegerAttr::get(type, value));
  };
  using Predicate = arith::CmpIPredicate;
  checks.require(compare(Predicate::ne, divisor, number(APInt(bits, 0))),
                 "divides by 0");
  if (!isSigned)
    return;
  Value isLeast =
      compare(Predicate::eq, dividend, number(APInt::getSignedMinValue(bits)));
  Value isNegative =
      compare(Predicate::eq, divisor, number(APInt::getAllOnes(bits)));
  Value both = arith::AndIOp::create(builder, loc, isLeast, isNegative);
  Value isFine = arith::XOrIOp::create(
      builder, loc, both, arith::ConstantIntOp::create(builder, loc, 1, 1));
  checks.require(isFine, "divides the least number of its type by -1");
}

void OpChecker::checkSizes(ValueRange sizes) {
  for (auto [number, size] : llvm::enumerate(sizes))
    checks.requireIndex(size, largest(), "size " + Twine(number));
}

void OpChecker::checkPad(tensor::PadOp pad) {
  for (auto [dim, low, high] :
       llvm::enumerate(pad.getMixedLowPad(), pad.getMixedHighPad())) {
    checks.requireIndex(low, largest(), "low padding " + Twine(dim));
    checks.requireIndex(high, largest(), "high padding " + Twine(dim));
    int64_t size = pad.getResultType().getDimSize(dim);
    OpFoldResult inner =
        tensor::getMixedSize(builder, loc, pad.getSource(), dim);
    bool isKnown = getConstantIntValue(low) && getConstantIntValue(high) &&
                   getConstantIntValue(inner);
    if (isKnown || ShapedType::isDynamic(size))
      continue;
    Value sum = arith::AddIOp::create(builder, loc, checks.value(low),
                                      checks.value(inner));
    sum = arith::AddIOp::create(builder, loc, sum, checks.value(high));
    checks.require(compare(arith::CmpIPredicate::eq, sum, constant(size)),
                   "has a result of another size in dimension " + Twine(dim));
  }
}

/// Checks that the product of a group's sizes equals the size of the source
/// dimension.
void OpChecker::checkExpand(tensor::ExpandShapeOp expand) {
  SmallVector<OpFoldResult> sizes = expand.getMixedOutputShape();
  for (auto [dim, group] : llvm::enumerate(expand.getReassociationIndices())) {
    bool isKnown = !expand.getSrcType().isDynamicDim(dim);
    Value product = constant(1);
    for (int64_t part : group) {
      isKnown &= getConstantIntValue(sizes[part]).has_value();
      checks.requireIndex(sizes[part], largest(), "size " + Twine(part));
      product = arith::MulIOp::create(builder, loc, product,
                                      checks.value(sizes[part]));
    }
    if (isKnown)
      continue;
    Value whole =
        checks.value(tensor::getMixedSize(builder, loc, expand.getSrc(), dim));
    checks.require(compare(arith::CmpIPredicate::eq, product, whole),
                   "has sizes whose product is not dimension " + Twine(dim) +
                       " of its source");
  }
}

/// Checks that the step of a loop is not 0; such a loop would not end.
void OpChecker::checkStep(scf::ForOp loop) {
  Value step = loop.getStep();
  if (std::optional<int64_t> known = getConstantIntValue(step);
      known && *known > 0)
    return;
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getIntegerAttr(step.getType(), 0));
  checks.require(compare(arith::CmpIPredicate::sgt, step, zero),
                 "has a step that is not above 0");
}

static bool isDynamic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && !tensor.hasStaticShape();
}

/// Creates checks by upstream's rules for linalg, casts and similar ops.
void OpChecker::checkByUpstream() {
  if (llvm::none_of(op->getOperandTypes(), isDynamic) &&
      llvm::none_of(op->getResultTypes(), isDynamic))
    return;
  auto verifiable = dyn_cast<RuntimeVerifiableOpInterface>(op);
  if (!verifiable)
    return;
  verifiable.generateRuntimeVerification(
      builder, loc, [&](Operation *, StringRef text) {
        return checks.describe() + ": " + text.str();
      });
}

void OpChecker::run() {
  llvm::TypeSwitch<Operation *>(op)
      .Case<tensor::ExtractOp>([&](auto extract) {
        checkElement(extract.getTensor(), extract.getIndices());
      })
      .Case<tensor::DimOp>([&](auto dim) {
        if (auto type = dyn_cast<RankedTensorType>(dim.getSource().getType()))
          checks.requireIndex(dim.getIndex(),
                              builder.getIndexAttr(type.getRank()),
                              "number of a dimension");
      })
      .Case<tensor::InsertOp>([&](auto insert) {
        checkElement(insert.getDest(), insert.getIndices());
      })
      .Case<tensor::ExtractSliceOp>(
          [&](auto slice) { checkSlice(slice, slice.getSource()); })
      .Case<tensor::InsertSliceOp>([&](auto slice) {
        checkSlice(slice, slice.getDest());
        checkSource(slice);
      })
      .Case<arith::DivSIOp, arith::RemSIOp, arith::CeilDivSIOp,
            arith::FloorDivSIOp, index::DivSOp, index::RemSOp,
            index::CeilDivSOp, index::FloorDivSOp>([&](auto division) {
        checkDivision(division.getLhs(), division.getRhs(), /*isSigned=*/true);
      })
      .Case<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp, index::DivUOp,
            index::RemUOp, index::CeilDivUOp>([&](auto division) {
        checkDivision(division.getLhs(), division.getRhs(), /*isSigned=*/false);
      })
      .Case<tensor::EmptyOp, tensor::SplatOp>(
          [&](auto made) { checkSizes(made.getDynamicSizes()); })
      .Case<tensor::GenerateOp>(
          [&](auto made) { checkSizes(made.getDynamicExtents()); })
      .Case<tensor::PadOp>([&](auto pad) { checkPad(pad); })
      .Case<tensor::ExpandShapeOp>([&](auto expand) { checkExpand(expand); })
      .Case<scf::ForOp>([&](auto loop) { checkStep(loop); })
      .Default([&](Operation *) { checkByUpstream(); });
}

void pipesched::insertChecks(func::FuncOp function) {
  SmallVector<Operation *> ops;
  function.getBody().walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    OpChecker(op, function).run();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

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
/// Lowers the checks of a module, and holds the texts and functions that they
/// share.
class CheckLowering {
public:
  CheckLowering(ModuleOp module, StringRef handler)
      : module(module), handler(handler) {}

  LogicalResult run(func::FuncOp function);
  /// Verifies that `function`, which has checks, is not called by kernels.
  LogicalResult verifyNotCalled(func::FuncOp function);
  /// Must be called after all functions.
  void finish();

private:
  struct Failure {
    std::string text;
    Value index, size; ///< null for checks that are not of an index
    Value status;      ///< status of a C function
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
  int64_t numNames = 0; ///< number of names tried for texts
};
} // namespace

/// For each check, finds the deallocations of the buffers that exist when it
/// runs. Includes only buffers that are freed once, in the block that allocates
/// them. Paths that leave early do not exist yet.
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
  // A status has size -2, a check without an index has size -1; no dimension
  // has these sizes.
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

/// Refuses calls from kernels: the calling kernel could not know that a check
/// failed.
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

/// Whether an op may return a value that LLVM calls poison, such as a float
/// that does not fit into an integer. If a branch depends on such a value, LLVM
/// may drop the branch, and with it the check.
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

/// Freezes these values: each may be any number, but is the same wherever it is
/// used.
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
