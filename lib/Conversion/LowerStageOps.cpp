//===- LowerStageOps.cpp - Ops that bufferization does not support --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Before bufferization: ops without a bufferization become ops that have one,
// or an error. After it: copies of non-contiguous memrefs become loops.
//
//===----------------------------------------------------------------------===//

#include "ExternCalls.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Stages/StageUses.h"
#include "StageChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace pipesched {
#define GEN_PASS_DEF_LOWERMEMREFCOPIESPASS
#define GEN_PASS_DEF_LOWERSTAGEOPSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using linalg::LinalgOp;

//===----------------------------------------------------------------------===//
// Numbers
//
// A sum in bf16, which has 8 bits, stops growing at 256 times its terms:
// another term is then less than half a unit in the last place. So sums of bf16
// and f16 are added up in f32 and rounded once, as PyTorch and XLA do:
//
//   reduce ins(%x : bf16) outs(%s : bf16)
//     -> truncf (reduce ins(%x : bf16) outs(extf %s : f32))
//===----------------------------------------------------------------------===//

/// Returns the same scalar, vector or tensor type with another element type.
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
/// The ops of a body that lead from the old sum to the new one, and products
/// that are only added.
using SumOps = llvm::SmallPtrSet<Operation *, 8>;

/// Copies a body and makes its sums f32.
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

/// Returns nothing if a sum has another type, or if it needs no rounding, like
/// a maximum.
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
/// Lowers math.isinf and math.isnormal; upstream lowers only isfinite.
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
/// Turns powers with known integer exponents into products. Upstream's lowering
/// returns -inf at 0 for negative exponents.
struct ExpandPower : OpRewritePattern<math::FPowIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FPowIOp op,
                                PatternRewriter &rewriter) const override;
};

/// Lowers clamps. Upstream's lowering takes the minimum with the lower bound.
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

/// Rounds f64 to bf16 through f32. The last bit of the f32 is set to 1 if bits
/// are lost, so that the second rounding gives the same result as rounding the
/// f64 directly. LLVM would call __truncdfbf2, which few compilers' libraries
/// have.
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
  // Take the neighbour in the direction of the f64, which is odd.
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

/// Adds patterns for walkAndApplyPatterns: sums of bf16 and f16 in f32, integer
/// powers and clamps by the rules of IEEE 754, and f64 to bf16 with a single
/// rounding.
static void populateNumberPatterns(RewritePatternSet &patterns) {
  // This pattern must precede upstream's pattern for powers, which supports
  // unknown exponents.
  patterns.add<ExpandPower>(patterns.getContext(), /*benefit=*/2);
  patterns.add<CompareInfinity, CompareNormal, ExpandClamp, TruncateByF32,
               WidenSums>(patterns.getContext());
}

//===----------------------------------------------------------------------===//
// Decomposition
//===----------------------------------------------------------------------===//

static bool isDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
             arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(op);
}

namespace {
struct DecomposeSoftmax : OpRewritePattern<linalg::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::SoftmaxOp op,
                                PatternRewriter &rewriter) const override {
    FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter);
    if (failed(results))
      return failure();
    rewriter.replaceOp(op, *results);
    return success();
  }
};

/// Gives integer divisions of whole tensors a body in which each division is
/// checked.
struct DivisionToGeneric : RewritePattern {
  explicit DivisionToGeneric(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// The bodies of named linalg ops cannot be changed, so they become generic
/// ops.
struct GeneralizeDivisions : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    if (isa<linalg::GenericOp, linalg::MapOp, linalg::ReduceOp>(op) ||
        llvm::none_of(*op.getBlock(),
                      [](Operation &inner) { return isDivision(&inner); }))
      return failure();
    return linalg::generalizeNamedOp(rewriter, op);
  }
};

/// Splits negative padding into a slice: it removes elements, and bufferization
/// would write outside of the result.
struct CropBeforePad : OpRewritePattern<tensor::PadOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::PadOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

LogicalResult CropBeforePad::matchAndRewrite(tensor::PadOp op,
                                             PatternRewriter &rewriter) const {
  std::optional<SmallVector<int64_t>> low =
      getConstantIntValues(op.getMixedLowPad());
  std::optional<SmallVector<int64_t>> high =
      getConstantIntValues(op.getMixedHighPad());
  RankedTensorType source = op.getSourceType();
  auto isNegative = [](int64_t number) { return number < 0; };
  if (!low || !high || !source.hasStaticShape() ||
      (llvm::none_of(*low, isNegative) && llvm::none_of(*high, isNegative)))
    return failure();
  SmallVector<OpFoldResult> offsets, sizes, lows, highs;
  SmallVector<OpFoldResult> strides(source.getRank(), rewriter.getIndexAttr(1));
  for (auto [size, before, after] :
       llvm::zip_equal(source.getShape(), *low, *high)) {
    int64_t kept =
        size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (kept < 0)
      return failure();
    auto add = [&](SmallVector<OpFoldResult> &list, int64_t number) {
      list.push_back(rewriter.getIndexAttr(std::max<int64_t>(number, 0)));
    };
    add(offsets, -before);
    add(sizes, kept);
    add(lows, before);
    add(highs, after);
  }
  Value cropped = tensor::ExtractSliceOp::create(
      rewriter, op.getLoc(), op.getSource(), offsets, sizes, strides);
  auto pad = tensor::PadOp::create(rewriter, op.getLoc(), op.getResultType(),
                                   cropped, lows, highs, op.getNofold());
  rewriter.inlineRegionBefore(op.getRegion(), pad.getRegion(),
                              pad.getRegion().begin());
  rewriter.replaceOp(op, pad.getResult());
  return success();
}

LogicalResult
DivisionToGeneric::matchAndRewrite(Operation *op,
                                   PatternRewriter &rewriter) const {
  if (!isDivision(op))
    return failure();
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type)
    return failure();
  Location loc = op->getLoc();
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, op->getOperand(0));
  Value empty =
      tensor::EmptyOp::create(rewriter, loc, sizes, type.getElementType());
  SmallVector<AffineMap> maps(3,
                              rewriter.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> loops(type.getRank(),
                                         utils::IteratorType::parallel);
  rewriter.replaceOpWithNewOp<linalg::GenericOp>(
      op, type, op->getOperands(), empty, maps, loops,
      [&](OpBuilder &builder, Location loc, ValueRange numbers) {
        OperationState state(loc, op->getName(), numbers.take_front(2),
                             {type.getElementType()},
                             op->getDiscardableAttrDictionary().getValue());
        Operation *scalar = builder.create(state);
        linalg::YieldOp::create(builder, loc, scalar->getResults());
      });
  return success();
}

//===----------------------------------------------------------------------===//
// Remaining ops
//===----------------------------------------------------------------------===//

/// Whether a type has floats that LLVM has no type for: eight bits and less,
/// and tf32.
static bool hasFloatWithoutCode(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && !isa<Float16Type, BFloat16Type, Float32Type, Float64Type,
                         Float80Type, Float128Type>(element);
}

/// Reports element accesses that are known to be out of range; they would read
/// or write other memory.
static LogicalResult checkIndices(Operation *op, Value tensor,
                                  ValueRange indices, func::FuncOp function) {
  auto type = cast<RankedTensorType>(tensor.getType());
  for (auto [dimension, index] : llvm::enumerate(indices)) {
    std::optional<int64_t> known = getConstantIntValue(index);
    int64_t size = type.getDimSize(dimension);
    if (known &&
        (*known < 0 || (!ShapedType::isDynamic(size) && *known >= size)))
      return op->emitOpError("in ")
             << describeWithStages(function) << " has the index " << *known
             << " in dimension " << dimension << " of " << type;
  }
  return success();
}

static LogicalResult checkOp(Operation *op, func::FuncOp function) {
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    if (failed(checkIndices(op, extract.getTensor(), extract.getIndices(),
                            function)))
      return failure();
  if (auto insert = dyn_cast<tensor::InsertOp>(op))
    if (failed(
            checkIndices(op, insert.getDest(), insert.getIndices(), function)))
      return failure();
  auto types = llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()),
                                  llvm::to_vector(op->getResultTypes()));
  bool hasTensor = false;
  for (Type type : types) {
    hasTensor |= isa<TensorType>(type);
    if (hasFloatWithoutCode(type))
      return op->emitOpError("in ")
             << describeWithStages(function) << " has numbers of type "
             << getElementTypeOrSelf(type)
             << ", which cannot be compiled; wanted f16, bf16, f32 or f64";
  }
  if (isa<tensor::GatherOp, tensor::ScatterOp>(op))
    return op->emitOpError("in ")
           << describeWithStages(function)
           << " cannot be compiled: use linalg.generic or a loop with "
              "tensor.extract and tensor.insert";
  if (isa<math::IPowIOp>(op))
    return op->emitOpError("in ")
           << describeWithStages(function)
           << " cannot be compiled: multiply in a loop, or use math.fpowi";
  if (hasTensor && !op->hasTrait<OpTrait::IsTerminator>() &&
      !OpTrait::hasElementwiseMappableTraits(op) &&
      !isa<bufferization::BufferizableOpInterface>(op))
    return op->emitOpError("in ")
           << describeWithStages(function)
           << " cannot be compiled: there is no lowering of it to loops";
  return success();
}

/// Removes functions that are never called and that have an op of an
/// unregistered dialect. Such an op has no lowering, and upstream's passes
/// crash on it.
static void removeForeign(ModuleOp module) {
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    Operation *foreign = nullptr;
    function.getBody().walk([&](Operation *op) {
      foreign = op;
      return op->isRegistered() ? WalkResult::advance()
                                : WalkResult::interrupt();
    });
    if (!foreign || foreign->isRegistered() ||
        !SymbolTable::symbolKnownUseEmpty(function, module))
      continue;
    foreign->emitWarning() << "function '" << function.getName()
                           << "' is left out: nothing calls it, and this op is "
                              "of no registered dialect";
    function.erase();
  }
}

namespace {
struct LowerStageOpsPass
    : pipesched::impl::LowerStageOpsPassBase<LowerStageOpsPass> {
  void runOnOperation() override {
    removeForeign(getOperation());
    if (failed(makeExternCalls(getOperation())))
      return signalPassFailure();
    RewritePatternSet patterns(&getContext());
    patterns.add<CropBeforePad, DecomposeSoftmax, DivisionToGeneric,
                 GeneralizeDivisions>(&getContext());
    tensor::populateDecomposeTensorConcatPatterns(patterns);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
    // Also processes ops that the first walk has made.
    RewritePatternSet numbers(&getContext());
    populateNumberPatterns(numbers);
    math::populateExpansionPatterns(numbers, {"fpowi"});
    walkAndApplyPatterns(getOperation(), std::move(numbers));
    bool holds = true;
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      insertChecks(function);
    getOperation().walk([&](func::FuncOp function) {
      function.getBody().walk(
          [&](Operation *op) { holds &= succeeded(checkOp(op, function)); });
    });
    if (!holds)
      signalPassFailure();
  }
};

struct LowerMemRefCopiesPass
    : pipesched::impl::LowerMemRefCopiesPassBase<LowerMemRefCopiesPass> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](memref::CopyOp op) {
      auto isWhole = [](Value value) {
        auto type = dyn_cast<MemRefType>(value.getType());
        return type && type.getLayout().isIdentity();
      };
      if (isWhole(op.getSource()) && isWhole(op.getTarget()))
        return;
      if (!isa<MemRefType>(op.getSource().getType()) ||
          !isa<MemRefType>(op.getTarget().getType()))
        return;
      rewriter.setInsertionPoint(op);
      linalg::makeMemRefCopyOp(rewriter, op.getLoc(), op.getSource(),
                               op.getTarget());
      rewriter.eraseOp(op);
    });
  }
};
} // namespace
