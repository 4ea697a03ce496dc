//===- LowerGather.cpp - Gathers and scatters as loops --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both ops move slices of a tensor whose places are data, for instance rows of
// an embedding and their gradients:
//
//   gather   result[b.., s..] = source[s.., with i[b..] in gathered dimensions]
//   scatter  result = dest; result[s.., with i[b..] in scattered dimensions]
//            = source[b.., s..]
//
// Indices are checked in a loop of their own, once for each slice and not for
// each of its numbers, so that the loops which move numbers can be vectorized.
//
//===----------------------------------------------------------------------===//

#include "LowerGather.h"
#include "PipeSched/Stages/StageUses.h"
#include "StageChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace pipesched;

namespace {
/// How an op finds slices in `whole` by `indices`. `part` has a slice for each
/// index, in its last dimensions.
struct SliceIndexing {
  Value indices;
  ArrayRef<int64_t> dims; ///< of `whole`, in the order of the indices
  RankedTensorType whole, part;

  RankedTensorType getIndicesType() const {
    return cast<RankedTensorType>(indices.getType());
  }
  int64_t getNumLeading() const { return getIndicesType().getRank() - 1; }
  bool hasStaticShapes() const {
    return getIndicesType().hasStaticShape() && whole.hasStaticShape() &&
           part.hasStaticShape();
  }
  Value emitIndex(OpBuilder &builder, Location loc, ArrayRef<Value> leading,
                  int64_t number) const;
  SmallVector<Value> emitPlace(OpBuilder &builder, Location loc,
                               ArrayRef<Value> loops) const;
};
} // namespace

/// Entry `number` of the indices of a slice.
Value SliceIndexing::emitIndex(OpBuilder &builder, Location loc,
                               ArrayRef<Value> leading, int64_t number) const {
  SmallVector<Value> entry(leading);
  entry.push_back(arith::ConstantIndexOp::create(builder, loc, number));
  Value index = tensor::ExtractOp::create(builder, loc, indices, entry);
  if (index.getType().isIndex())
    return index;
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                    index);
}

/// The place in `whole` of the number that is at `loops` in `part`. The other
/// dimensions of `whole` are the last loops, between which loops of size 1
/// stand for indexed ones unless `part` leaves those out.
SmallVector<Value> SliceIndexing::emitPlace(OpBuilder &builder, Location loc,
                                            ArrayRef<Value> loops) const {
  int64_t numLeading = getNumLeading();
  bool keepsRank = part.getRank() - numLeading == whole.getRank();
  SmallVector<Value> place;
  int64_t next = numLeading;
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    const int64_t *found = llvm::find(dims, dim);
    if (found == dims.end()) {
      place.push_back(loops[next++]);
      continue;
    }
    next += keepsRank;
    place.push_back(emitIndex(builder, loc, loops.take_front(numLeading),
                              found - dims.begin()));
  }
  return place;
}

/// Loops over a shape. `body` is given the loops and what the innermost one
/// carries, and returns what it carries on.
static SmallVector<Value>
emitLoops(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape,
          ValueRange carried,
          llvm::function_ref<SmallVector<Value>(OpBuilder &, ArrayRef<Value>,
                                                ValueRange)>
              body) {
  auto constants = [&](int64_t number) {
    return SmallVector<Value>(
        shape.size(), arith::ConstantIndexOp::create(builder, loc, number));
  };
  SmallVector<Value> ends;
  for (int64_t size : shape)
    ends.push_back(arith::ConstantIndexOp::create(builder, loc, size));
  scf::LoopNest nest = scf::buildLoopNest(
      builder, loc, constants(0), ends, constants(1), carried,
      [&](OpBuilder &inner, Location, ValueRange loops, ValueRange values) {
        return body(inner, llvm::to_vector(loops), values);
      });
  return nest.results;
}

/// Constant indices are checked here, others when the function runs.
static LogicalResult checkSliceIndices(Operation *op, func::FuncOp function,
                                       const SliceIndexing &indexing) {
  DenseIntElementsAttr known;
  auto fails = [&](int64_t number, const APInt &index) {
    return index.isNegative() ||
           index.getSExtValue() >= indexing.whole.getDimSize(number);
  };
  if (matchPattern(indexing.indices, m_Constant(&known))) {
    for (auto [i, index] : llvm::enumerate(known.getValues<APInt>())) {
      int64_t dim = indexing.dims[i % indexing.dims.size()];
      if (fails(dim, index))
        return op->emitOpError("in ")
               << describeWithStages(function) << " has the index "
               << index.getSExtValue() << " in dimension " << dim << " of "
               << indexing.whole;
    }
    return success();
  }
  CheckBuilder checks(op, function);
  emitLoops(checks.getBuilder(), op->getLoc(),
            indexing.getIndicesType().getShape().drop_back(), {},
            [&](OpBuilder &builder, ArrayRef<Value> leading, ValueRange) {
              OpBuilder::InsertionGuard guard(checks.getBuilder());
              checks.getBuilder().setInsertionPoint(
                  builder.getInsertionBlock(), builder.getInsertionPoint());
              for (auto [number, dim] : llvm::enumerate(indexing.dims))
                checks.requireIndex(
                    indexing.emitIndex(checks.getBuilder(), op->getLoc(),
                                       leading, number),
                    builder.getIndexAttr(indexing.whole.getDimSize(dim)),
                    "dimension " + Twine(dim));
              return SmallVector<Value>();
            });
  return success();
}

static void lowerGather(tensor::GatherOp op, const SliceIndexing &indexing) {
  OpBuilder builder(op);
  RankedTensorType type = op.getResultType();
  Value empty = tensor::EmptyOp::create(builder, op.getLoc(), type.getShape(),
                                        type.getElementType());
  SmallVector<utils::IteratorType> loops(type.getRank(),
                                         utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      builder, op.getLoc(), type, ValueRange(), empty,
      builder.getMultiDimIdentityMap(type.getRank()), loops,
      [&](OpBuilder &inner, Location loc, ValueRange) {
        SmallVector<Value> numbers;
        for (int64_t loop = 0; loop < type.getRank(); ++loop)
          numbers.push_back(linalg::IndexOp::create(inner, loc, loop));
        Value number =
            tensor::ExtractOp::create(inner, loc, op.getSource(),
                                      indexing.emitPlace(inner, loc, numbers));
        linalg::YieldOp::create(inner, loc, number);
      });
  op.replaceAllUsesWith(generic.getResult(0));
  op.erase();
}

static void lowerScatter(tensor::ScatterOp op, const SliceIndexing &indexing) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  SmallVector<Value> results = emitLoops(
      builder, loc, indexing.part.getShape(), op.getDest(),
      [&](OpBuilder &inner, ArrayRef<Value> loops, ValueRange carried) {
        Value number =
            tensor::ExtractOp::create(inner, loc, op.getSource(), loops);
        Value inserted =
            tensor::InsertOp::create(inner, loc, number, carried.front(),
                                     indexing.emitPlace(inner, loc, loops));
        return SmallVector<Value>{inserted};
      });
  op.replaceAllUsesWith(results.front());
  op.erase();
}

LogicalResult pipesched::lowerGathersAndScatters(func::FuncOp function) {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isa<tensor::GatherOp, tensor::ScatterOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    auto gather = dyn_cast<tensor::GatherOp>(op);
    auto scatter = dyn_cast<tensor::ScatterOp>(op);
    SliceIndexing indexing =
        gather ? SliceIndexing{gather.getIndices(), gather.getGatherDims(),
                               gather.getSourceType(), gather.getResultType()}
               : SliceIndexing{scatter.getIndices(), scatter.getScatterDims(),
                               scatter.getDestType(), scatter.getSourceType()};
    if (!indexing.hasStaticShapes())
      return op->emitOpError("in ")
             << describeWithStages(function)
             << " cannot be compiled: its sizes are not known";
    if (failed(checkSliceIndices(op, function, indexing)))
      return failure();
    if (gather)
      lowerGather(gather, indexing);
    else
      lowerScatter(scatter, indexing);
  }
  return success();
}
