//===- VectorizeRowReductions.cpp - Sums of rows by vectors ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM keeps the order of floating-point sums, so that each addition waits for
// the one before. Sums here have an order that does not depend on the
// processor:
//
//   lanes = f(row[0:32])                     as many sums as lanes
//   for k = 32, 64, ..: lanes += f(row[k:k+32])
//   sum = lanes[0:16] + lanes[16:32], and so on down to one number
//   for what remains:   sum += f(row[k])
//   out += sum
//
// Which ops are taken depends on their shapes alone, and not on where tensors
// are: the same ones in kernels and in the unpipelined model.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace pipesched {
#define GEN_PASS_DEF_VECTORIZEROWREDUCTIONSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using linalg::LinalgOp;

static constexpr int64_t kLanes = 32;

//===----------------------------------------------------------------------===//
// Which
//===----------------------------------------------------------------------===//

/// The op that adds a number to what was there, if the order does not matter
/// but for rounding.
static Operation *findCombiner(Block &body) {
  BlockArgument out = body.getArguments().back();
  Operation *combiner = body.getTerminator()->getOperand(0).getDefiningOp();
  if (!out.hasOneUse() || *out.user_begin() != combiner)
    return nullptr;
  return isa_and_nonnull<arith::AddFOp, arith::MaximumFOp, arith::MinimumFOp,
                         arith::OrIOp, arith::AndIOp>(combiner)
             ? combiner
             : nullptr;
}

/// LLVM's powi takes one exponent for all lanes.
static bool hasVectorForm(Operation &op) {
  return op.hasTrait<OpTrait::IsTerminator>() ||
         (OpTrait::hasElementwiseMappableTraits(&op) &&
          !isa<math::FPowIOp>(op) && op.getNumResults() == 1 &&
          VectorType::isValidElementType(op.getResult(0).getType()));
}

/// Rows are the last dimension of the loops, and of the operands that have it.
static bool readsRows(LinalgOp op) {
  unsigned row = op.getNumLoops() - 1;
  AffineExpr last = getAffineDimExpr(row, op.getContext());
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type || !map.isProjectedPermutation())
      return false;
    std::optional<unsigned> place = map.getResultPosition(last);
    if (!place)
      continue;
    // A vector of bits has another form in memory than an array of them.
    if (op.isDpsInit(&operand) || *place + 1 != map.getNumResults() ||
        type.getElementType().isInteger(1) ||
        !VectorType::isValidElementType(type.getElementType()))
      return false;
  }
  return true;
}

static bool isRowReduction(LinalgOp op) {
  if (!op.hasPureBufferSemantics() || op.hasDynamicShape() ||
      op.getNumDpsInits() != 1 || op.getNumDpsInputs() == 0 ||
      op.getNumReductionLoops() != 1 ||
      op.getIteratorTypesArray().back() != utils::IteratorType::reduction ||
      op.getStaticLoopRanges().back() < kLanes)
    return false;
  return findCombiner(*op.getBlock()) &&
         llvm::all_of(*op.getBlock(), hasVectorForm) && readsRows(op);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
class RowEmitter {
public:
  RowEmitter(RewriterBase &rewriter, LinalgOp op)
      : builder(op.getLoc(), rewriter), op(op),
        combiner(findCombiner(*op.getBlock())),
        size(op.getStaticLoopRanges().back()) {}

  void run();

private:
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, value);
  }
  SmallVector<Value> indicesOf(OpOperand &operand, Value k);
  Value load(OpOperand &operand, Value k, int64_t lanes);
  Value widen(Value scalar, int64_t lanes);
  Value termAt(Value k, int64_t lanes);
  Value combine(Value sum, Value term);
  Value sumLanes();
  Value addRest(Value sum);

  ImplicitLocOpBuilder builder;
  LinalgOp op;
  Operation *combiner;
  int64_t size;
  SmallVector<Value> outer; ///< indices of all loops but that over the row
};
} // namespace

SmallVector<Value> RowEmitter::indicesOf(OpOperand &operand, Value k) {
  SmallVector<Value> indices;
  for (AffineExpr result : op.getMatchingIndexingMap(&operand).getResults()) {
    unsigned dim = cast<AffineDimExpr>(result).getPosition();
    indices.push_back(dim < outer.size() ? outer[dim] : k);
  }
  return indices;
}

/// The same number in each lane.
Value RowEmitter::widen(Value scalar, int64_t lanes) {
  if (lanes == 1)
    return scalar;
  return vector::BroadcastOp::create(
      builder, VectorType::get(lanes, scalar.getType()), scalar);
}

/// Elements k, k + 1, .. of a row; where they are not contiguous, one by one.
Value RowEmitter::load(OpOperand &operand, Value k, int64_t lanes) {
  Value memref = operand.get();
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<Value> indices = indicesOf(operand, k);
  bool isRow = llvm::is_contained(indices, k);
  if (lanes == 1 || !isRow)
    return widen(memref::LoadOp::create(builder, memref, indices), lanes);
  auto vector = VectorType::get(lanes, type.getElementType());
  if (type.isLastDimUnitStride())
    return vector::LoadOp::create(builder, vector, memref, indices);
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    indices.back() = arith::AddIOp::create(builder, k, constant(lane));
    elements.push_back(memref::LoadOp::create(builder, memref, indices));
  }
  return vector::FromElementsOp::create(builder, vector, elements);
}

/// What the body computes of some elements, before it is added.
Value RowEmitter::termAt(Value k, int64_t lanes) {
  Block &body = *op.getBlock();
  IRMapping mapping;
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(input);
    if (!argument.use_empty())
      mapping.map(argument, load(*input, k, lanes));
  }
  auto take = [&](Value value) {
    if (!mapping.contains(value))
      mapping.map(value, widen(value, lanes));
    return mapping.lookup(value);
  };
  for (Operation &inner : body.without_terminator()) {
    if (&inner == combiner)
      continue;
    for (Value operand : inner.getOperands())
      take(operand);
    Operation *copy = builder.clone(inner, mapping);
    Type type = inner.getResult(0).getType();
    if (lanes > 1)
      copy->getResult(0).setType(VectorType::get(lanes, type));
  }
  Value out = body.getArguments().back();
  bool isFirst = combiner->getOperand(0) == out;
  return take(combiner->getOperand(isFirst ? 1 : 0));
}

Value RowEmitter::combine(Value sum, Value term) {
  IRMapping mapping;
  Value out = op.getBlock()->getArguments().back();
  for (Value operand : combiner->getOperands())
    mapping.map(operand, operand == out ? sum : term);
  Operation *copy = builder.clone(*combiner, mapping);
  copy->getResult(0).setType(sum.getType());
  return copy->getResult(0);
}

/// The sum of as many elements as are a multiple of the lanes.
Value RowEmitter::sumLanes() {
  Value lanes = termAt(constant(0), kLanes);
  if (size >= 2 * kLanes) {
    auto loop = scf::ForOp::create(builder, constant(kLanes),
                                   constant(size / kLanes * kLanes),
                                   constant(kLanes), ValueRange{lanes});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value term = termAt(loop.getInductionVar(), kLanes);
    scf::YieldOp::create(builder, combine(loop.getRegionIterArg(0), term));
    lanes = loop.getResult(0);
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    auto part = [&](int64_t from) -> Value {
      return vector::ExtractStridedSliceOp::create(
          builder, lanes, ArrayRef<int64_t>{from}, ArrayRef<int64_t>{half},
          ArrayRef<int64_t>{1});
    };
    Value low = part(0);
    lanes = combine(low, part(half));
  }
  return vector::ExtractOp::create(builder, lanes, ArrayRef<int64_t>{0});
}

Value RowEmitter::addRest(Value sum) {
  int64_t begin = size / kLanes * kLanes;
  if (begin == size)
    return sum;
  auto loop = scf::ForOp::create(builder, constant(begin), constant(size),
                                 constant(1), ValueRange{sum});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value term = termAt(loop.getInductionVar(), 1);
  scf::YieldOp::create(builder, combine(loop.getRegionIterArg(0), term));
  return loop.getResult(0);
}

void RowEmitter::run() {
  SmallVector<int64_t> counts = op.getStaticLoopRanges();
  for (int64_t count : ArrayRef(counts).drop_back()) {
    auto loop =
        scf::ForOp::create(builder, constant(0), constant(count), constant(1));
    outer.push_back(loop.getInductionVar());
    builder.setInsertionPointToStart(loop.getBody());
  }
  OpOperand &init = op.getDpsInitsMutable()[0];
  SmallVector<Value> at = indicesOf(init, Value());
  Value sum = addRest(sumLanes());
  Value before = memref::LoadOp::create(builder, init.get(), at);
  memref::StoreOp::create(builder, combine(before, sum), init.get(), at);
}

namespace {
struct VectorizeRowReductionsPass
    : pipesched::impl::VectorizeRowReductionsPassBase<
          VectorizeRowReductionsPass> {
  void runOnOperation() override {
    SmallVector<LinalgOp> found;
    getOperation().walk([&](LinalgOp op) {
      if (isRowReduction(op))
        found.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (LinalgOp op : found) {
      rewriter.setInsertionPoint(op);
      RowEmitter(rewriter, op).run();
      rewriter.eraseOp(op);
    }
  }
};
} // namespace
