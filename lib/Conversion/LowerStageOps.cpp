//===- LowerStageOps.cpp - Ops that bufferization does not take -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Before bufferization: what has no bufferization becomes ops that have one,
// or an error. Behind it: copies of what is not contiguous become loops.
//
//===----------------------------------------------------------------------===//

#include "ExternCalls.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Stages/StageUses.h"
#include "StageChecks.h"
#include "StageNumbers.h"
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
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace pipesched {
#define GEN_PASS_DEF_LOWERMEMREFCOPIESPASS
#define GEN_PASS_DEF_LOWERSTAGEOPSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

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

/// Integer divisions of whole tensors get a body in which each is checked.
struct DivisionToGeneric : RewritePattern {
  explicit DivisionToGeneric(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// The bodies of named ops of linalg cannot be changed.
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

/// Padding below 0 takes elements away, and bufferization would write outside
/// of the result.
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
// What remains
//===----------------------------------------------------------------------===//

/// Floats that LLVM has no type for: those of eight bits and less, and tf32.
static bool hasFloatWithoutCode(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && !isa<Float16Type, BFloat16Type, Float32Type, Float64Type,
                         Float80Type, Float128Type>(element);
}

/// Element accesses that are known to be outside of a tensor would read or
/// write other memory.
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

/// Removes functions that nothing calls and that have an op of a dialect that
/// is not registered: there is no lowering of it, and upstream's passes crash
/// on it.
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
    // Also what the first walk has made.
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
