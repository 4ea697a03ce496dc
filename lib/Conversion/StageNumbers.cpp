//===- StageNumbers.cpp - Numbers that upstream's lowering loses ----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sum in bf16 stops to grow at 256 times its terms: the rest is below half a
// unit of the last of 8 bits. So sums of bf16 and f16 are added up in f32, and
// rounded once, as PyTorch and XLA do:
//
//   reduce ins(%x : bf16) outs(%s : bf16)
//     -> truncf (reduce ins(%x : bf16) outs(extf %s : f32))
//
//===----------------------------------------------------------------------===//

#include "StageNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace pipesched;
using linalg::LinalgOp;

/// The type with other elements: of a scalar, vector or tensor.
static Type withElement(Type type, Type element) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? Type(shaped.clone(element)) : element;
}

static bool isNarrow(Type type) {
  return isa<Float16Type, BFloat16Type>(getElementTypeOrSelf(type));
}

static Value extend(OpBuilder &builder, Location loc, Value value) {
  if (!isNarrow(value.getType()))
    return value;
  Type wide = withElement(value.getType(), builder.getF32Type());
  return arith::ExtFOp::create(builder, loc, wide, value);
}

static Value truncate(OpBuilder &builder, Location loc, Value value,
                      Type type) {
  return value.getType() == type
             ? value
             : arith::TruncFOp::create(builder, loc, type, value).getResult();
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

namespace {
/// The ops of a body from the sum so far to the next one, and products that
/// only they add.
using SumOps = llvm::SmallPtrSet<Operation *, 8>;

/// Copies a body whose sums are f32.
class BodyCopier {
public:
  BodyCopier(OpBuilder &builder, LinalgOp op, const SumOps &sum)
      : builder(builder), op(op), sum(sum) {}

  void run(ValueRange arguments);

private:
  Value getWide(Value value);
  Value getSame(Value value);
  void copyOfSum(Operation &inner);

  OpBuilder &builder;
  LinalgOp op;
  const SumOps &sum;
  IRMapping same, wide;
};

struct WidenSums : OpInterfaceRewritePattern<LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(LinalgOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

static bool rounds(Operation &op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             math::FmaOp>(op);
}

/// Nothing where a sum is of another type, or nothing is rounded, as in a
/// maximum.
static SumOps findSumOps(LinalgOp op) {
  Block &body = *op.getBlock();
  SumOps sum;
  auto isOfSum = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &body
               ? isNarrow(value.getType()) &&
                     argument.getArgNumber() >= op.getNumDpsInputs()
               : sum.contains(value.getDefiningOp());
  };
  auto isFloat = [](Operation &inner) {
    return inner.getNumResults() == 1 && inner.getNumRegions() == 0 &&
           !isa<arith::BitcastOp>(inner) &&
           (isNarrow(inner.getResult(0).getType()) ||
            inner.getResult(0).getType().isF32());
  };
  for (Operation &inner : body.without_terminator())
    if (isFloat(inner) && llvm::any_of(inner.getOperands(), isOfSum))
      sum.insert(&inner);
  if (llvm::none_of(sum, [](Operation *inner) { return rounds(*inner); }))
    return {};
  for (Operation &inner : llvm::reverse(body.without_terminator()))
    if (isa<arith::MulFOp>(inner) && isFloat(inner) &&
        llvm::all_of(inner.getUsers(),
                     [&](Operation *user) { return sum.contains(user); }))
      sum.insert(&inner);
  return sum;
}

Value BodyCopier::getWide(Value value) {
  if (Value found = wide.lookupOrNull(value))
    return found;
  return extend(builder, op.getLoc(), same.lookupOrDefault(value));
}

Value BodyCopier::getSame(Value value) {
  if (Value found = wide.lookupOrNull(value))
    return truncate(builder, op.getLoc(), found, value.getType());
  return same.lookupOrDefault(value);
}

void BodyCopier::copyOfSum(Operation &inner) {
  Value result = inner.getResult(0);
  if (isa<arith::ExtFOp, arith::TruncFOp>(inner)) {
    wide.map(result, getWide(inner.getOperand(0)));
    return;
  }
  SmallVector<Value> operands;
  for (Value operand : inner.getOperands())
    operands.push_back(getWide(operand));
  Operation *copy = builder.clone(inner);
  copy->setOperands(operands);
  copy->getResult(0).setType(builder.getF32Type());
  wide.map(result, copy->getResult(0));
}

void BodyCopier::run(ValueRange arguments) {
  Block &body = *op.getBlock();
  for (auto [old, argument] : llvm::zip_equal(body.getArguments(), arguments))
    (old.getType() == argument.getType() ? same : wide).map(old, argument);
  for (Operation &inner : body.without_terminator()) {
    if (sum.contains(&inner)) {
      copyOfSum(inner);
      continue;
    }
    for (Value operand : inner.getOperands())
      if (wide.contains(operand) && !same.contains(operand))
        same.map(operand, getSame(operand));
    builder.clone(inner, same);
  }
  SmallVector<Value> yielded;
  for (auto [value, argument] :
       llvm::zip(body.getTerminator()->getOperands(),
                 arguments.drop_front(op.getNumDpsInputs())))
    yielded.push_back(argument.getType() == value.getType() ? getSame(value)
                                                            : getWide(value));
  linalg::YieldOp::create(builder, op.getLoc(), yielded);
}

/// What a sum begins with.
static Value extendStart(OpBuilder &builder, Location loc, Value start) {
  auto fill = start.getDefiningOp<linalg::FillOp>();
  if (!fill || !isNarrow(start.getType()))
    return extend(builder, loc, start);
  Value number = extend(builder, loc, fill.getInputs()[0]);
  Value empty = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, start),
      builder.getF32Type());
  return linalg::FillOp::create(builder, loc, number, empty).getResult(0);
}

LogicalResult WidenSums::matchAndRewrite(LinalgOp op,
                                         PatternRewriter &rewriter) const {
  if (!op.hasPureTensorSemantics() || op.getNumReductionLoops() == 0)
    return failure();
  SumOps sum = findSumOps(op);
  if (sum.empty())
    return failure();
  Location loc = op.getLoc();
  SmallVector<Value> starts;
  for (Value start : op.getDpsInits())
    starts.push_back(extendStart(rewriter, loc, start));
  auto generic = linalg::GenericOp::create(
      rewriter, loc, ValueRange(starts).getTypes(), op.getDpsInputs(), starts,
      op.getIndexingMapsArray(), op.getIteratorTypesArray(),
      [&](OpBuilder &builder, Location, ValueRange arguments) {
        BodyCopier(builder, op, sum).run(arguments);
      });
  SmallVector<Value> results;
  for (auto [result, old] :
       llvm::zip_equal(generic.getResults(), op->getResults()))
    results.push_back(truncate(rewriter, loc, result, old.getType()));
  rewriter.replaceOp(op, results);
  return success();
}

//===----------------------------------------------------------------------===//
// Single numbers
//===----------------------------------------------------------------------===//

static Value constantLike(OpBuilder &builder, Location loc, Type type,
                          TypedAttr element) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    element = DenseElementsAttr::get(shaped, element);
  return arith::ConstantOp::create(builder, loc, element);
}

static bool hasStaticShape(Value value) {
  auto shaped = dyn_cast<ShapedType>(value.getType());
  return !shaped || shaped.hasStaticShape();
}

static Value compareMagnitude(OpBuilder &builder, Location loc,
                              arith::CmpFPredicate predicate, Value number,
                              const APFloat &value) {
  Value magnitude = math::AbsFOp::create(builder, loc, number);
  return arith::CmpFOp::create(
      builder, loc, predicate, magnitude,
      constantLike(builder, loc, number.getType(),
                   FloatAttr::get(getElementTypeOrSelf(number), value)));
}

static const llvm::fltSemantics &semanticsOf(Value number) {
  return cast<FloatType>(getElementTypeOrSelf(number)).getFloatSemantics();
}

namespace {
/// math.isinf and math.isnormal, of which upstream lowers isfinite alone.
struct CompareInfinity : OpRewritePattern<math::IsInfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::IsInfOp op,
                                PatternRewriter &rewriter) const override {
    Value number = op.getOperand();
    if (!hasStaticShape(number))
      return failure();
    rewriter.replaceOp(
        op, compareMagnitude(rewriter, op.getLoc(), arith::CmpFPredicate::OEQ,
                             number, APFloat::getInf(semanticsOf(number))));
    return success();
  }
};

struct CompareNormal : OpRewritePattern<math::IsNormalOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::IsNormalOp op,
                                PatternRewriter &rewriter) const override {
    Value number = op.getOperand();
    if (!hasStaticShape(number))
      return failure();
    const llvm::fltSemantics &semantics = semanticsOf(number);
    Location loc = op.getLoc();
    Value isFinite = compareMagnitude(rewriter, loc, arith::CmpFPredicate::OLT,
                                      number, APFloat::getInf(semantics));
    Value isLarge =
        compareMagnitude(rewriter, loc, arith::CmpFPredicate::OGE, number,
                         APFloat::getSmallestNormalized(semantics));
    rewriter.replaceOpWithNewOp<arith::AndIOp>(op, isFinite, isLarge);
    return success();
  }
};
} // namespace

namespace {
/// Powers by integers that are known, as products. Upstream's are -inf at 0
/// where the power is negative.
struct ExpandPower : OpRewritePattern<math::FPowIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FPowIOp op,
                                PatternRewriter &rewriter) const override;
};

/// Upstream takes the minimum with the lower bound.
struct ExpandClamp : OpRewritePattern<math::ClampFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ClampFOp op,
                                PatternRewriter &rewriter) const override {
    Value raised = arith::MaximumFOp::create(rewriter, op.getLoc(),
                                             op.getValue(), op.getMin());
    rewriter.replaceOpWithNewOp<arith::MinimumFOp>(op, raised, op.getMax());
    return success();
  }
};

/// f64 to bf16 by way of f32, of which the last bit is 1 where bits are lost:
/// then the second rounding is that of the f64. LLVM would call __truncdfbf2,
/// which few compilers' libraries have.
struct TruncateByF32 : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

LogicalResult ExpandPower::matchAndRewrite(math::FPowIOp op,
                                           PatternRewriter &rewriter) const {
  APInt exponent;
  if (!matchPattern(op.getRhs(), m_ConstantInt(&exponent)))
    return failure();
  Location loc = op.getLoc();
  Value square = extend(rewriter, loc, op.getLhs());
  Type type = square.getType();
  auto multiply = [&](Value a, Value b) -> Value {
    return arith::MulFOp::create(rewriter, loc, a, b);
  };
  Value one =
      constantLike(rewriter, loc, type,
                   rewriter.getFloatAttr(getElementTypeOrSelf(type), 1.0));
  Value product;
  APInt left = exponent.abs();
  for (; !left.isZero(); left.lshrInPlace(1)) {
    if (left[0])
      product = product ? multiply(product, square) : square;
    if (left.ugt(1))
      square = multiply(square, square);
  }
  if (!product)
    product = one;
  if (exponent.isNegative())
    product = arith::DivFOp::create(rewriter, loc, one, product);
  rewriter.replaceOp(op, truncate(rewriter, loc, product, op.getType()));
  return success();
}

LogicalResult TruncateByF32::matchAndRewrite(arith::TruncFOp op,
                                             PatternRewriter &rewriter) const {
  Value from = op.getIn();
  if (!getElementTypeOrSelf(op.getType()).isBF16() ||
      !getElementTypeOrSelf(from.getType()).isF64())
    return failure();
  ImplicitLocOpBuilder builder(op.getLoc(), rewriter);
  Type f32 = withElement(from.getType(), builder.getF32Type());
  Type i32 = withElement(from.getType(), builder.getI32Type());
  auto number = [&](int32_t value) {
    return constantLike(builder, builder.getLoc(), i32,
                        builder.getI32IntegerAttr(value));
  };
  Value near = arith::TruncFOp::create(builder, f32, from);
  Value again = arith::ExtFOp::create(builder, from.getType(), near);
  Value bits = arith::BitcastOp::create(builder, i32, near);
  Value last = arith::AndIOp::create(builder, bits, number(1));
  Value isEven =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, last, number(0));
  Value isLost =
      arith::CmpFOp::create(builder, arith::CmpFPredicate::ONE, again, from);
  // The neighbour on the side of the f64 is odd.
  Value isAbove = arith::CmpFOp::create(builder, arith::CmpFPredicate::OGT,
                                        math::AbsFOp::create(builder, again),
                                        math::AbsFOp::create(builder, from));
  Value step = arith::SelectOp::create(builder, isAbove, number(-1), number(1));
  Value odd = arith::AddIOp::create(builder, bits, step);
  Value isMoved = arith::AndIOp::create(builder, isEven, isLost);
  Value moved = arith::SelectOp::create(builder, isMoved, odd, bits);
  rewriter.replaceOpWithNewOp<arith::TruncFOp>(
      op, op.getType(), arith::BitcastOp::create(builder, f32, moved));
  return success();
}

void pipesched::populateNumberPatterns(RewritePatternSet &patterns) {
  // Before upstream's of powers, which takes those that are not known.
  patterns.add<ExpandPower>(patterns.getContext(), /*benefit=*/2);
  patterns.add<CompareInfinity, CompareNormal, ExpandClamp, TruncateByF32,
               WidenSums>(patterns.getContext());
}
