//===- FuseOuterLoops.cpp - Ops of linalg that share their outer loops ----===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each op of linalg goes over all of its operands before the next one begins,
// which finds nothing of them in the caches. For
//
//   op on %x[i, ..], %y[i, ..]
//   op on %y[i, ..], %z[i, ..]
//
// there is one loop over i, in which both ops work on slices. So it goes on
// inside of the loop, with the next dimension. What each op computes, and the
// order of its sums, stays.
//
//===----------------------------------------------------------------------===//

#include "BufferRoots.h"
#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace pipesched {
#define GEN_PASS_DEF_FUSEOUTERLOOPSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using linalg::LinalgOp;

/// Fewer elements stay in the first cache from one op to the next.
static constexpr int64_t kLeastElements = 8192;
/// Loops over shorter slices cost more than they save.
static constexpr int64_t kLeastSlice = 128;

//===----------------------------------------------------------------------===//
// What ops access
//===----------------------------------------------------------------------===//

namespace {
/// A memref of an op. The first loop of the op goes along dimension `position`
/// of it, or along none.
struct Access {
  Value memref;
  std::optional<unsigned> position;
  bool writes;
};
} // namespace

static std::optional<unsigned> positionOf(LinalgOp op, OpOperand &operand) {
  return op.getMatchingIndexingMap(&operand).getResultPosition(
      getAffineDimExpr(0, op.getContext()));
}

static SmallVector<Access> accessesOf(LinalgOp op) {
  SmallVector<Access> accesses;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<BaseMemRefType>(operand.get().getType()))
      accesses.push_back(
          {operand.get(), positionOf(op, operand), op.isDpsInit(&operand)});
  return accesses;
}

/// Whether both are the same slices of the same memref.
static bool areSameSlices(const Access &a, const Access &b) {
  return a.memref == b.memref && a.position && a.position == b.position &&
         bufferRootOf(a.memref);
}

static bool conflict(const Access &a, const Access &b) {
  return (a.writes || b.writes) &&
         mayOverlap(bufferRootOf(a.memref), bufferRootOf(b.memref));
}

static bool anyPair(LinalgOp a, LinalgOp b,
                    function_ref<bool(const Access &, const Access &)> holds) {
  for (const Access &ofA : accessesOf(a))
    for (const Access &ofB : accessesOf(b))
      if (holds(ofA, ofB))
        return true;
  return false;
}

/// Whether a slice of `b` needs other slices of `a` than its own, or the other
/// way.
static bool crossesSlices(LinalgOp a, LinalgOp b) {
  return anyPair(a, b, [](const Access &ofA, const Access &ofB) {
    return conflict(ofA, ofB) && !areSameSlices(ofA, ofB);
  });
}

/// The numbers of elements of all loops, or of all but the first.
static int64_t sizeOf(LinalgOp op, bool ofSlice = false) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  int64_t size = 1;
  for (int64_t of : ArrayRef(sizes).drop_front(ofSlice))
    size *= of;
  return size;
}

/// Whether an op touches no memory but its operands: bodies may load numbers
/// at indices that are data.
static bool hasPureBody(LinalgOp op) {
  return op.hasPureBufferSemantics() && op->getNumRegions() == 1 &&
         llvm::all_of(*op.getBlock(), [](Operation &inner) {
           return isMemoryEffectFree(&inner);
         });
}

/// Whether the first loop of an op may be a loop around it. A product of
/// matrices, of which one is the same for all rows, is slow in slices.
static bool hasOuterLoop(LinalgOp op) {
  if (op.hasDynamicShape() || op.getNumLoops() == 0 ||
      op.getIteratorTypesArray()[0] != utils::IteratorType::parallel)
    return false;
  bool adds = op.getNumReductionLoops() > 0;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!op.getMatchingIndexingMap(&operand).isProjectedPermutation())
      return false;
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type)
      continue;
    bool isSliced = positionOf(op, operand).has_value();
    if (!type.isStrided() || (!isSliced && (op.isDpsInit(&operand) ||
                                            (adds && type.getRank() >= 2))))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Runs of ops
//===----------------------------------------------------------------------===//

namespace {
/// Finds and fuses the runs of a block.
class BlockFuser {
public:
  BlockFuser(RewriterBase &rewriter, Block &block)
      : rewriter(rewriter), block(block) {}

  void run();

private:
  void visit(Operation *op);
  void visitLinalg(LinalgOp op);
  bool joins(LinalgOp op);
  void finish();

  RewriterBase &rewriter;
  Block &block;
  SmallVector<LinalgOp> ops;               ///< of the current run
  SmallVector<memref::DeallocOp> deallocs; ///< behind its first op
};

/// Makes a loop of a run, behind its last op.
class LoopMaker {
public:
  LoopMaker(RewriterBase &rewriter, ArrayRef<LinalgOp> ops)
      : rewriter(rewriter), ops(ops) {}

  scf::ForOp run();

private:
  void shrinkAllocs();
  bool isOfRun(Value alloc, unsigned position);
  Value slice(Value memref, unsigned position);
  void makeSlice(LinalgOp op);

  RewriterBase &rewriter;
  ArrayRef<LinalgOp> ops;
  Value index;
  /// By memref and the dimension that a slice of it lacks.
  llvm::DenseMap<std::pair<Value, unsigned>, Value> slices;
};
} // namespace

bool BlockFuser::joins(LinalgOp op) {
  return hasOuterLoop(op) &&
         (ops.empty() ||
          op.getStaticLoopRanges()[0] == ops[0].getStaticLoopRanges()[0]) &&
         llvm::none_of(
             ops, [&](LinalgOp other) { return crossesSlices(other, op); });
}

/// An op that does not join stays where it is, in front of the loop, if the ops
/// before it do not care.
void BlockFuser::visitLinalg(LinalgOp op) {
  if (!hasPureBody(op))
    return finish();
  if (joins(op)) {
    ops.push_back(op);
    return;
  }
  if (llvm::none_of(
          ops, [&](LinalgOp other) { return anyPair(other, op, conflict); }))
    return;
  finish();
  if (joins(op))
    ops.push_back(op);
}

void BlockFuser::visit(Operation *op) {
  if (auto linalgOp = dyn_cast<LinalgOp>(op))
    return visitLinalg(linalgOp);
  if (auto dealloc = dyn_cast<memref::DeallocOp>(op)) {
    if (!ops.empty())
      deallocs.push_back(dealloc);
    return;
  }
  if (!isMemoryEffectFree(op) && !isa<memref::AllocOp>(op))
    finish();
}

void BlockFuser::finish() {
  SmallVector<LinalgOp> sharing;
  for (LinalgOp op : ops)
    if (llvm::any_of(ops, [&](LinalgOp other) {
          return other != op && anyPair(op, other, areSameSlices);
        }))
      sharing.push_back(op);
  bool isLarge = llvm::any_of(sharing, [](LinalgOp op) {
    return sizeOf(op) >= kLeastElements && sizeOf(op, true) >= kLeastSlice;
  });
  if (sharing.size() >= 2 && isLarge) {
    scf::ForOp loop = LoopMaker(rewriter, sharing).run();
    Operation *last = loop;
    for (memref::DeallocOp dealloc : deallocs) {
      if (dealloc->isBeforeInBlock(loop))
        rewriter.moveOpAfter(dealloc, last);
      last = dealloc;
    }
    BlockFuser(rewriter, *loop.getBody()).run();
  }
  ops.clear();
  deallocs.clear();
}

void BlockFuser::run() {
  for (Operation &op : llvm::make_early_inc_range(block))
    visit(&op);
  finish();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Whether an allocation is used by these ops alone, in slices.
bool LoopMaker::isOfRun(Value alloc, unsigned position) {
  return llvm::all_of(alloc.getUses(), [&](OpOperand &use) {
    auto op = dyn_cast<LinalgOp>(use.getOwner());
    return isa<memref::DeallocOp>(use.getOwner()) ||
           (op && llvm::is_contained(ops, op) &&
            positionOf(op, use) == position);
  });
}

/// A temporary that begins and ends within the run needs room for one slice.
void LoopMaker::shrinkAllocs() {
  for (LinalgOp op : ops)
    for (const Access &access : accessesOf(op)) {
      auto alloc = access.memref.getDefiningOp<memref::AllocOp>();
      if (!alloc || !access.position ||
          slices.contains({alloc, *access.position}) ||
          !alloc.getType().getLayout().isIdentity() ||
          !isOfRun(alloc, *access.position))
        continue;
      SmallVector<int64_t> shape(alloc.getType().getShape());
      shape.erase(shape.begin() + *access.position);
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPoint(alloc);
      Value small = memref::AllocOp::create(
          rewriter, alloc.getLoc(),
          MemRefType::Builder(alloc.getType()).setShape(shape),
          alloc.getAlignmentAttr());
      slices[{alloc, *access.position}] = small;
    }
}

Value LoopMaker::slice(Value memref, unsigned position) {
  Value &made = slices[{memref, position}];
  if (made)
    return made;
  auto type = cast<MemRefType>(memref.getType());
  unsigned rank = type.getRank();
  SmallVector<OpFoldResult> offsets(rank, rewriter.getIndexAttr(0)),
      strides(rank, rewriter.getIndexAttr(1)), sizes;
  for (int64_t size : type.getShape())
    sizes.push_back(rewriter.getIndexAttr(size));
  offsets[position] = index;
  sizes[position] = rewriter.getIndexAttr(1);
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + position);
  MemRefType reduced = memref::SubViewOp::inferRankReducedResultType(
      shape, type, offsets, sizes, strides);
  made = memref::SubViewOp::create(rewriter, memref.getLoc(), reduced, memref,
                                   offsets, sizes, strides);
  return made;
}

/// The map without the first dimension.
static AffineMap dropFirst(AffineMap map) {
  SmallVector<AffineExpr> results;
  for (AffineExpr result : map.getResults()) {
    unsigned dim = cast<AffineDimExpr>(result).getPosition();
    if (dim > 0)
      results.push_back(getAffineDimExpr(dim - 1, map.getContext()));
  }
  return AffineMap::get(map.getNumDims() - 1, 0, results, map.getContext());
}

/// Makes the op that computes a slice.
void LoopMaker::makeSlice(LinalgOp op) {
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    std::optional<unsigned> position;
    if (isa<MemRefType>(operand.get().getType()))
      position = positionOf(op, operand);
    operands.push_back(position ? slice(operand.get(), *position)
                                : operand.get());
  }
  auto inputs = ValueRange(operands).take_front(op.getNumDpsInputs());
  auto inits = ValueRange(operands).drop_front(op.getNumDpsInputs());
  if (isa<linalg::FillOp>(op)) {
    linalg::FillOp::create(rewriter, op.getLoc(), inputs, inits);
    return;
  }
  SmallVector<AffineMap> maps;
  for (AffineMap map : op.getIndexingMapsArray())
    maps.push_back(dropFirst(map));
  auto made = linalg::GenericOp::create(
      rewriter, op.getLoc(), inputs, inits, maps,
      ArrayRef(op.getIteratorTypesArray()).drop_front());
  rewriter.cloneRegionBefore(op->getRegion(0), made.getRegion(),
                             made.getRegion().end());
  made.walk([&](linalg::IndexOp inner) {
    if (inner.getDim() == 0)
      rewriter.replaceOp(inner, index);
    else
      rewriter.modifyOpInPlace(inner,
                               [&] { inner.setDim(inner.getDim() - 1); });
  });
}

scf::ForOp LoopMaker::run() {
  LinalgOp last = ops.back();
  Location loc = last.getLoc();
  rewriter.setInsertionPointAfter(last);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(rewriter, loc, value);
  };
  int64_t size = last.getStaticLoopRanges()[0];
  auto loop = scf::ForOp::create(rewriter, loc, constant(0), constant(size),
                                 constant(1));
  index = loop.getInductionVar();
  shrinkAllocs();
  rewriter.setInsertionPointToStart(loop.getBody());
  for (LinalgOp op : ops)
    makeSlice(op);
  for (LinalgOp op : ops)
    rewriter.eraseOp(op);
  for (auto &[of, small] : slices)
    if (auto alloc = of.first.getDefiningOp<memref::AllocOp>();
        alloc && small.getDefiningOp<memref::AllocOp>()) {
      rewriter.replaceAllUsesWith(alloc, small);
      rewriter.eraseOp(alloc);
    }
  return loop;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Allocates what is used in one other shape alone in that shape.
static void reshapeAlloc(RewriterBase &rewriter, memref::AllocOp alloc) {
  Operation *reshape = nullptr;
  for (Operation *user : alloc->getUsers()) {
    if (isa<memref::DeallocOp>(user))
      continue;
    if (reshape || !isa<memref::ExpandShapeOp, memref::CollapseShapeOp>(user))
      return;
    reshape = user;
  }
  if (!reshape)
    return;
  auto type = cast<MemRefType>(reshape->getResult(0).getType());
  if (!type.hasStaticShape() || !type.getLayout().isIdentity() ||
      !alloc.getType().getLayout().isIdentity())
    return;
  rewriter.setInsertionPoint(alloc);
  Value made = memref::AllocOp::create(rewriter, alloc.getLoc(), type,
                                       alloc.getAlignmentAttr());
  rewriter.replaceOp(reshape, made);
  rewriter.replaceOp(alloc, made);
}

namespace {
struct FuseOuterLoopsPass
    : pipesched::impl::FuseOuterLoopsPassBase<FuseOuterLoopsPass> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<memref::AllocOp> allocs;
    getOperation().walk(
        [&](memref::AllocOp alloc) { allocs.push_back(alloc); });
    for (memref::AllocOp alloc : allocs)
      reshapeAlloc(rewriter, alloc);
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        BlockFuser(rewriter, block).run();
  }
};
} // namespace
