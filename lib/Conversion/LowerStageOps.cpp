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

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/StageUses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
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

/// Each number of the result is read where the indices say.
struct GatherToGeneric : OpRewritePattern<tensor::GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::GatherOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

/// The place in the source of the number that a linalg.generic over the result
/// computes. A gathered dimension has a number in the indices; the others are
/// the last loops, between which loops of size 1 stand for gathered ones unless
/// the result leaves those out.
static SmallVector<Value> sourcePlace(tensor::GatherOp op, OpBuilder &builder,
                                      Location loc) {
  int64_t numLeading = op.getIndicesType().getRank() - 1;
  int64_t numTrailing = op.getResultType().getRank() - numLeading;
  bool keepsRank = numTrailing == op.getSourceType().getRank();
  ArrayRef<int64_t> gathered = op.getGatherDims();
  auto loop = [&](int64_t number) -> Value {
    return linalg::IndexOp::create(builder, loc, number);
  };
  SmallVector<Value> place;
  int64_t next = numLeading;
  for (int64_t dim = 0; dim < op.getSourceType().getRank(); ++dim) {
    const int64_t *found = llvm::find(gathered, dim);
    if (found == gathered.end()) {
      place.push_back(loop(next++));
      continue;
    }
    next += keepsRank;
    SmallVector<Value> entry;
    for (int64_t leading = 0; leading < numLeading; ++leading)
      entry.push_back(loop(leading));
    entry.push_back(
        arith::ConstantIndexOp::create(builder, loc, found - gathered.begin()));
    Value index =
        tensor::ExtractOp::create(builder, loc, op.getIndices(), entry);
    if (!index.getType().isIndex())
      index = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                         index);
    place.push_back(index);
  }
  return place;
}

LogicalResult
GatherToGeneric::matchAndRewrite(tensor::GatherOp op,
                                 PatternRewriter &rewriter) const {
  RankedTensorType type = op.getResultType();
  if (!type.hasStaticShape())
    return failure();
  Value empty = tensor::EmptyOp::create(rewriter, op.getLoc(), type.getShape(),
                                        type.getElementType());
  SmallVector<utils::IteratorType> loops(type.getRank(),
                                         utils::IteratorType::parallel);
  rewriter.replaceOpWithNewOp<linalg::GenericOp>(
      op, type, ValueRange(), empty,
      rewriter.getMultiDimIdentityMap(type.getRank()), loops,
      [&](OpBuilder &builder, Location loc, ValueRange) {
        SmallVector<Value> place = sourcePlace(op, builder, loc);
        Value number =
            tensor::ExtractOp::create(builder, loc, op.getSource(), place);
        linalg::YieldOp::create(builder, loc, number);
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
  if (hasTensor && !op->hasTrait<OpTrait::IsTerminator>() &&
      !OpTrait::hasElementwiseMappableTraits(op) &&
      !isa<bufferization::BufferizableOpInterface>(op))
    return op->emitOpError("in ")
           << describeWithStages(function)
           << " cannot be compiled: there is no lowering of it to loops";
  return success();
}

namespace {
struct LowerStageOpsPass
    : pipesched::impl::LowerStageOpsPassBase<LowerStageOpsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<DecomposeSoftmax, GatherToGeneric>(&getContext());
    tensor::populateDecomposeTensorConcatPatterns(patterns);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
    bool holds = true;
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
