//===- StageChecks.cpp - Checks of indices that are data ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which ops are checked for what. An index that is known to be inside, such as
// that of a loop over the tensor, needs no check and gets none: checks in inner
// loops keep LLVM from vectorizing them.
//
//===----------------------------------------------------------------------===//

#include "StageChecks.h"
#include "PipeSched/Support/PrintableText.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/RuntimeVerifiableOpInterface.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"

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

/// Calls a function that stands for a check, and declares it.
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
/// The checks of one op.
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

/// The first and the last element lie inside; a slice without elements may
/// begin anywhere.
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

/// What is inserted has the sizes that the op states.
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

/// Processors raise a signal for x / 0, and for the least number / -1.
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

/// The sizes of a group have the product that the source has.
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

/// A loop whose step is 0 would not end.
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

/// Upstream knows the rules of linalg, casts and the like.
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
