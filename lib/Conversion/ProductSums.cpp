//===- ProductSums.cpp - What is added to a product -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   %c = alloc
//   fill of %c with zeros
//   product outs(%c)
//   sum ins(%c, %bias) outs(%d)
//
//===----------------------------------------------------------------------===//

#include "ProductSums.h"
#include "BufferRoots.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/CallInterfaces.h"

using namespace mlir;
using namespace pipesched;
using linalg::LinalgOp;

bool pipesched::mayAccess(Operation *op, Value root) {
  return op
      ->walk([&](Operation *inner) {
        if (isMemoryEffectFree(inner))
          return WalkResult::advance();
        if (isa<CallOpInterface>(inner))
          return WalkResult::interrupt();
        bool does = llvm::any_of(inner->getOperands(), [&](Value operand) {
          return isa<BaseMemRefType>(operand.getType()) &&
                 mayOverlap(root, bufferRootOf(operand));
        });
        return does ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The body adds both inputs, and does not read what is overwritten.
static bool addsInputs(LinalgOp op) {
  Block &body = *op.getBlock();
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 ||
      !llvm::hasNItems(body, 2))
    return false;
  auto sum = dyn_cast<arith::AddFOp>(body.front());
  Value a = body.getArgument(0), b = body.getArgument(1);
  return sum && body.getTerminator()->getOperand(0) == sum &&
         ((sum.getLhs() == a && sum.getRhs() == b) ||
          (sum.getLhs() == b && sum.getRhs() == a));
}

/// The input of a sum that is not `c`, where both have the same elements in the
/// same loops.
static OpOperand *findAddend(LinalgOp op, Value c) {
  if (!op.hasPureBufferSemantics() || op->getNumRegions() != 1 ||
      op.getNumParallelLoops() != op.getNumLoops() || !addsInputs(op))
    return nullptr;
  OpOperand *first = op.getDpsInputOperand(0),
            *second = op.getDpsInputOperand(1);
  if (second->get() == c)
    std::swap(first, second);
  Type element = getElementTypeOrSelf(c.getType());
  if (first->get() != c || second->get() == c ||
      !op.getMatchingIndexingMap(first).isIdentity() ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity() ||
      !op.getMatchingIndexingMap(second).isProjectedPermutation() ||
      !isa<MemRefType>(second->get().getType()) ||
      getElementTypeOrSelf(second->get().getType()) != element ||
      getElementTypeOrSelf(op.getDpsInits()[0].getType()) != element)
    return nullptr;
  return second;
}

/// Whether a memref is all that is known of an allocation: that itself, or its
/// only reshape.
static bool isWholeAlloc(Value memref) {
  Operation *op = memref.getDefiningOp();
  if (!isa_and_nonnull<memref::ExpandShapeOp, memref::CollapseShapeOp>(op))
    return isa_and_nonnull<memref::AllocOp>(op);
  Value alloc = op->getOperand(0);
  return alloc.getDefiningOp<memref::AllocOp>() &&
         llvm::all_of(alloc.getUsers(), [&](Operation *user) {
           return user == op || isa<memref::DeallocOp>(user);
         });
}

/// The only op that reads `c` behind a product.
static LinalgOp findReader(Value c, LinalgOp product, linalg::FillOp fill) {
  LinalgOp reader;
  for (Operation *user : c.getUsers()) {
    if (user == product || user == fill || isa<memref::DeallocOp>(user))
      continue;
    auto op = dyn_cast<LinalgOp>(user);
    if (!op || reader || op->getBlock() != product->getBlock())
      return {};
    reader = op;
  }
  return reader && product->isBeforeInBlock(reader) ? reader : LinalgOp();
}

/// Whether a sum overwrites its addend, of which each element lies as those of
/// the product `c`.
static bool isInPlaceSum(LinalgOp op, OpOperand &addend, Value c) {
  auto type = cast<MemRefType>(c.getType());
  return addend.get() == op.getDpsInits()[0] &&
         addend.get().getType() == type && type.getLayout().isIdentity() &&
         op.getMatchingIndexingMap(&addend).isIdentity();
}

/// Whether a memref is there in front of an op.
static bool isBefore(Value memref, Operation *op) {
  Operation *maker = memref.getDefiningOp();
  return !maker || maker->getBlock() != op->getBlock() ||
         maker->isBeforeInBlock(op);
}

/// Whether an op between two others touches memory of these roots.
static bool isTouched(ArrayRef<Value> roots, Operation *from, Operation *to) {
  for (Operation *op = from->getNextNode(); op != to; op = op->getNextNode())
    if (llvm::any_of(roots, [&](Value root) { return mayAccess(op, root); }))
      return true;
  return false;
}

/// Whether summands follow each other in both matrices.
static bool areOneLoop(LinalgOp op, ArrayRef<unsigned> dims) {
  SmallVector<unsigned> sorted(dims);
  llvm::sort(sorted);
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  return llvm::all_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
    AffineMap map = op.getMatchingIndexingMap(operand);
    SmallVector<int64_t> strides;
    int64_t offset;
    (void)cast<MemRefType>(operand->get().getType())
        .getStridesAndOffset(strides, offset);
    std::optional<int64_t> follows; // the stride of the next dimension outwards
    for (unsigned dim : llvm::reverse(sorted)) {
      if (sizes[dim] == 1)
        continue;
      int64_t stride = strides[*map.getResultPosition(
          getAffineDimExpr(dim, op.getContext()))];
      if (follows && (ShapedType::isDynamic(stride) || stride != *follows))
        return false;
      follows = ShapedType::isDynamic(stride) ? -1 : stride * sizes[dim];
    }
    return true;
  });
}

std::optional<ProductSum>
pipesched::findProductSum(LinalgOp product,
                          const linalg::ContractionDimensions &dims,
                          linalg::FillOp fill) {
  Value c = product.getDpsInits()[0];
  if (!fill || fill.getOutputs()[0] != c || !isWholeAlloc(c) ||
      !areOneLoop(product, dims.k))
    return std::nullopt;
  LinalgOp op = findReader(c, product, fill);
  OpOperand *addend = op ? findAddend(op, c) : nullptr;
  if (!addend)
    return std::nullopt;
  Value result = op.getDpsInits()[0], root = bufferRootOf(result);
  auto isApart = [&](Value memref) {
    return root && !mayOverlap(root, bufferRootOf(memref));
  };
  if (!llvm::all_of(product.getDpsInputs(), isApart))
    return std::nullopt;
  bool isInPlace = isInPlaceSum(op, *addend, c);
  if (!isInPlace && !isApart(addend->get()))
    return std::nullopt;
  SmallVector<Value> moved = {root, bufferRootOf(addend->get())};
  bool atProduct = isBefore(result, product) &&
                   isBefore(addend->get(), product) &&
                   !isTouched(moved, product, op);
  for (Value input : product.getDpsInputs())
    moved.push_back(bufferRootOf(input));
  if (!atProduct && isTouched(moved, product, op))
    return std::nullopt;
  AffineMap map = op.getMatchingIndexingMap(addend).compose(
      product.getMatchingIndexingMap(product.getDpsInitOperand(0)));
  return ProductSum{op, addend->get(), map, result, isInPlace, atProduct};
}
