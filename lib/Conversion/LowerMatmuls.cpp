//===- LowerMatmuls.cpp - Products of matrices ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A contraction of any number of dimensions becomes loops around the product
// of two matrices. With the names of linalg, for C[b,m0,m1,n] += A.. * B..:
//
//   for b                          dimensions of A, B and C
//     for m0, if m0 and m1 do not follow each other in memory
//       C[m1][n] += A[m1][k] * B[k][n]
//
// A fill of C with zeros in front of it becomes a part of the call, and so does
// what is added to C behind it, such as a bias.
//
// Which contractions are taken depends on their sizes alone, and not on where
// tensors are: the same ones in kernels and in the unpipelined model.
//
//===----------------------------------------------------------------------===//

#include "BufferRoots.h"
#include "PipeSched/Conversion/Passes.h"
#include "ProductSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace pipesched {
#define GEN_PASS_DEF_FOLDMATMULTRANSPOSESPASS
#define GEN_PASS_DEF_LOWERMATMULSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using linalg::ContractionDimensions;
using linalg::LinalgOp;

static constexpr char kMatmul[] = "pipesched_rt_matmul";

/// Fewer multiplications than these take less time than to copy the operands.
static constexpr int64_t kLeastMultiplications = 4096;
/// A product with a vector is bound by memory.
static constexpr int64_t kLeastSize = 4;

//===----------------------------------------------------------------------===//
// Which
//===----------------------------------------------------------------------===//

/// The body adds a product of both inputs, and computes nothing else.
static bool addsProduct(LinalgOp op) {
  Block &body = *op.getBlock();
  if (!llvm::hasNItems(body, 3))
    return false;
  auto product = dyn_cast<arith::MulFOp>(body.front());
  auto sum = dyn_cast<arith::AddFOp>(*std::next(body.begin()));
  if (!product || !sum || body.getTerminator()->getOperand(0) != sum)
    return false;
  auto isOneOf = [](Value value, Value a, Value b) {
    return value == a || value == b;
  };
  Value a = body.getArgument(0), b = body.getArgument(1),
        c = body.getArgument(2);
  return isOneOf(a, product.getLhs(), product.getRhs()) &&
         isOneOf(b, product.getLhs(), product.getRhs()) &&
         isOneOf(c, sum.getLhs(), sum.getRhs()) &&
         isOneOf(product, sum.getLhs(), sum.getRhs());
}

/// The dimensions of a contraction that is worth a call; none of others. Its
/// operands are all tensors or all memrefs.
static std::optional<ContractionDimensions> findMatmul(LinalgOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 ||
      op.hasDynamicShape())
    return std::nullopt;
  Type element = getElementTypeOrSelf(op.getDpsInits()[0].getType());
  if (!element.isF32() && !element.isF64())
    return std::nullopt;
  for (OpOperand &operand : op->getOpOperands())
    if (!isa<MemRefType, RankedTensorType>(operand.get().getType()) ||
        getElementTypeOrSelf(operand.get().getType()) != element ||
        !op.getMatchingIndexingMap(&operand).isProjectedPermutation())
      return std::nullopt;
  if (!addsProduct(op))
    return std::nullopt;
  FailureOr<ContractionDimensions> dims = linalg::inferContractionDims(op);
  if (failed(dims) ||
      dims->batch.size() + dims->m.size() + dims->n.size() + dims->k.size() !=
          op.getNumLoops())
    return std::nullopt;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  auto product = [&](ArrayRef<unsigned> of) {
    int64_t result = 1;
    for (unsigned dim : of)
      result *= sizes[dim];
    return result;
  };
  int64_t m = product(dims->m), n = product(dims->n);
  if (m < kLeastSize || n < kLeastSize ||
      m * n * product(dims->k) < kLeastMultiplications)
    return std::nullopt;
  return *dims;
}

//===----------------------------------------------------------------------===//
// Calls of the runtime
//===----------------------------------------------------------------------===//

/// The memref of all elements that reshapes of it have, too.
static Value stripReshapes(Value memref) {
  while (Operation *op = memref.getDefiningOp())
    if (isa<memref::ExpandShapeOp, memref::CollapseShapeOp>(op))
      memref = op->getOperand(0);
    else
      break;
  return memref;
}

/// The fill with +0 that a product begins with, if nothing else reads it.
static linalg::FillOp findZeroFill(LinalgOp op) {
  Value c = op.getDpsInits()[0], root = bufferRootOf(c);
  if (!root)
    return {};
  for (Operation *before = op->getPrevNode(); before;
       before = before->getPrevNode()) {
    auto fill = dyn_cast<linalg::FillOp>(before);
    if (fill && stripReshapes(fill.getOutputs()[0]) == stripReshapes(c)) {
      bool isZero = matchPattern(fill.getInputs()[0], m_PosZeroFloat());
      return isZero ? fill : linalg::FillOp();
    }
    if (mayAccess(before, root))
      return {};
  }
  return {};
}

namespace {
/// Partial lies as C does.
enum Operand { A, B, C, End, Partial };

/// One or several dimensions that follow each other in memory.
struct Loop {
  int64_t size;
  std::array<Value, 5> strides;                ///< in elements, of each operand
  std::array<std::optional<int64_t>, 5> known; ///< the same
};

/// An operand: where its elements begin, in elements, and their strides.
struct Matrix {
  Value pointer; ///< as a number of bytes
  Value offset;
  SmallVector<Value> strides;
  SmallVector<int64_t> known;
};

class CallEmitter {
public:
  CallEmitter(RewriterBase &rewriter, LinalgOp op,
              std::optional<ProductSum> sum)
      : builder(op.getLoc(), rewriter), op(op), sum(sum) {}

  /// Emits calls, and returns whether they begin with zeros and `fill` is of no
  /// more use. It may be null.
  bool run(const ContractionDimensions &dims, linalg::FillOp fill);

private:
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, value);
  }
  Matrix open(Value memref);
  AffineMap mapOf(Operand operand);
  Loop loopOf(unsigned dim, int64_t size);
  SmallVector<Loop> loopsOf(ArrayRef<unsigned> dims);
  void openLoops(ArrayRef<Loop> loops);
  void call(const Loop &m, const Loop &n, const Loop &k, bool startsAtZero);

  ImplicitLocOpBuilder builder;
  LinalgOp op;
  std::optional<ProductSum> sum; ///< which the calls compute, too
  SmallVector<Operand> operands = {A, B, C};
  std::array<Matrix, 5> matrices;
};
} // namespace

Matrix CallEmitter::open(Value memref) {
  Matrix matrix;
  matrix.pointer =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, memref);
  auto metadata = memref::ExtractStridedMetadataOp::create(builder, memref);
  matrix.offset = metadata.getOffset();
  int64_t offset;
  (void)cast<MemRefType>(memref.getType())
      .getStridesAndOffset(matrix.known, offset);
  if (!ShapedType::isDynamic(offset))
    matrix.offset = constant(offset);
  for (auto [stride, known] : llvm::zip(metadata.getStrides(), matrix.known))
    matrix.strides.push_back(ShapedType::isDynamic(known) ? Value(stride)
                                                          : constant(known));
  return matrix;
}

AffineMap CallEmitter::mapOf(Operand operand) {
  if (operand == End)
    return sum->map;
  unsigned number = operand == Partial ? C : operand;
  return op.getMatchingIndexingMap(&op->getOpOperand(number));
}

/// Operands that do not have the dimension have the stride 0.
Loop CallEmitter::loopOf(unsigned dim, int64_t size) {
  Loop loop{size, {}, {}};
  for (Operand operand : operands) {
    AffineMap map = mapOf(operand);
    std::optional<unsigned> place =
        map.getResultPosition(builder.getAffineDimExpr(dim));
    const Matrix &matrix = matrices[operand];
    loop.strides[operand] = place ? matrix.strides[*place] : constant(0);
    if (!place)
      loop.known[operand] = 0;
    else if (!ShapedType::isDynamic(matrix.known[*place]))
      loop.known[operand] = matrix.known[*place];
  }
  return loop;
}

/// The loops over some dimensions, with those made one that follow each other
/// in all operands. Their order stays.
SmallVector<Loop> CallEmitter::loopsOf(ArrayRef<unsigned> dims) {
  SmallVector<unsigned> sorted(dims);
  llvm::sort(sorted);
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  SmallVector<Loop> loops;
  for (unsigned dim : sorted) {
    Loop loop = loopOf(dim, sizes[dim]);
    if (!loops.empty() && loops.back().size == 1)
      loops.pop_back();
    if (loop.size == 1 && !loops.empty())
      continue;
    bool follows =
        !loops.empty() && llvm::all_of(operands, [&](Operand operand) {
          return loop.known[operand] && loops.back().known[operand] &&
                 *loops.back().known[operand] ==
                     *loop.known[operand] * loop.size;
        });
    if (follows) {
      loop.size *= loops.back().size;
      loops.back() = loop;
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

/// Goes into one loop for each of these, and moves the matrices along.
void CallEmitter::openLoops(ArrayRef<Loop> loops) {
  for (const Loop &loop : loops) {
    if (loop.size == 1)
      continue;
    auto made = scf::ForOp::create(builder, constant(0), constant(loop.size),
                                   constant(1));
    builder.setInsertionPointToStart(made.getBody());
    for (Operand operand : operands) {
      if (loop.known[operand] == 0)
        continue;
      Value step = arith::MulIOp::create(builder, made.getInductionVar(),
                                         loop.strides[operand]);
      Value &offset = matrices[operand].offset;
      offset = arith::AddIOp::create(builder, offset, step);
    }
  }
}

void CallEmitter::call(const Loop &m, const Loop &n, const Loop &k,
                       bool startsAtZero) {
  Type element = getElementTypeOrSelf(op.getDpsInits()[0].getType());
  Value bytes = constant(element.getIntOrFloatBitWidth() / 8);
  Type i64 = builder.getI64Type();
  auto number = [&](Value index) -> Value {
    return arith::IndexCastOp::create(builder, i64, index);
  };
  auto pointer = [&](const Matrix &matrix) -> Value {
    Value offset = arith::MulIOp::create(builder, matrix.offset, bytes);
    Value address = arith::AddIOp::create(builder, matrix.pointer, offset);
    return LLVM::IntToPtrOp::create(
        builder, LLVM::LLVMPointerType::get(builder.getContext()),
        number(address));
  };
  // PIPESCHED_RT_F32 and PIPESCHED_RT_F64
  SmallVector<Value> arguments = {
      arith::ConstantIntOp::create(builder, element.isF64(), 32)};
  for (const Loop *loop : {&m, &n, &k})
    arguments.push_back(number(constant(loop->size)));
  auto append = [&](Operand operand, const Loop &rows, const Loop &columns) {
    arguments.push_back(pointer(matrices[operand]));
    arguments.push_back(number(rows.strides[operand]));
    arguments.push_back(number(columns.strides[operand]));
  };
  append(A, m, k);
  append(B, k, n);
  append(C, m, n);
  Type pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  Value zero = number(constant(0));
  Value none = LLVM::ZeroOp::create(builder, pointerType);
  // Where C begins: at zeros, or at itself.
  if (startsAtZero)
    arguments.append({none, zero, zero});
  else
    arguments.append(SmallVector<Value>(ArrayRef(arguments).take_back(3)));
  if (sum)
    append(End, m, n);
  else
    arguments.append({none, zero, zero});
  bool isInPlace = sum && sum->isInPlace;
  arguments.push_back(isInPlace ? pointer(matrices[Partial]) : none);
  func::CallOp::create(builder, StringRef(kMatmul), TypeRange(), arguments);
}

bool CallEmitter::run(const ContractionDimensions &dims, linalg::FillOp fill) {
  for (Operand operand : {A, B, C})
    matrices[operand] = open(op->getOperand(operand));
  if (sum) {
    operands.push_back(End);
    matrices[C] = open(sum->result);
    matrices[End] = open(sum->addend);
  }
  if (sum && sum->isInPlace) {
    operands.push_back(Partial);
    matrices[Partial] = open(op.getDpsInits()[0]);
  }
  SmallVector<Loop> batch = loopsOf(dims.batch), m = loopsOf(dims.m),
                    n = loopsOf(dims.n), k = loopsOf(dims.k);
  auto takeLargest = [](SmallVector<Loop> &loops) {
    auto *largest = llvm::max_element(
        loops, [](const Loop &a, const Loop &b) { return a.size < b.size; });
    Loop taken = *largest;
    loops.erase(largest);
    return taken;
  };
  Loop rows = takeLargest(m), columns = takeLargest(n);
  // Summands stay in their order.
  Loop summands = k.pop_back_val();
  for (ArrayRef<Loop> loops : {batch, m, n, k})
    openLoops(loops);
  // Later calls of a loop over summands go on from C.
  bool startsAtZero =
      fill && llvm::all_of(k, [](const Loop &loop) { return loop.size == 1; });
  call(rows, columns, summands, startsAtZero);
  return startsAtZero;
}

/// Lets calls compute a product, with what is added to it if one call adds all
/// summands. `onlySums` leaves others.
static void makeCalls(RewriterBase &rewriter, LinalgOp op,
                      const ContractionDimensions &dims, bool onlySums) {
  linalg::FillOp fill = findZeroFill(op);
  std::optional<ProductSum> sum = findProductSum(op, dims, fill);
  if (onlySums && !sum)
    return;
  rewriter.setInsertionPoint(sum && !sum->atProduct ? sum->op : op);
  if (CallEmitter(rewriter, op, sum).run(dims, fill))
    rewriter.eraseOp(fill);
  if (sum)
    rewriter.eraseOp(sum->op);
  rewriter.eraseOp(op);
}

static void declareMatmul(ModuleOp module) {
  if (module.lookupSymbol(kMatmul))
    return;
  auto builder =
      ImplicitLocOpBuilder::atBlockBegin(module.getLoc(), module.getBody());
  Type i64 = builder.getI64Type();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> types = {builder.getI32Type(), i64, i64, i64};
  for (int i = 0; i < 5; ++i)
    types.append({pointer, i64, i64});
  types.push_back(pointer);
  func::FuncOp::create(builder, kMatmul, builder.getFunctionType(types, {}))
      .setPrivate();
}

//===----------------------------------------------------------------------===//
// Loops of fma
//===----------------------------------------------------------------------===//

/// Summands in the outer loops, so that the inner ones run along C, and fma.
static void makeLoops(RewriterBase &rewriter, LinalgOp op,
                      const ContractionDimensions &dims) {
  FailureOr<linalg::GenericOp> generic =
      dyn_cast<linalg::GenericOp>(op.getOperation());
  if (!*generic)
    generic = linalg::generalizeNamedOp(rewriter, op);
  SmallVector<unsigned> order;
  for (const SmallVector<unsigned, 2> *of :
       {&dims.batch, &dims.m, &dims.k, &dims.n}) {
    order.append(of->begin(), of->end());
    llvm::sort(order.end() - of->size(), order.end());
  }
  if (!llvm::is_sorted(order))
    generic = linalg::interchangeGenericOp(rewriter, *generic, order);
  Block &body = *(*generic).getBlock();
  Operation *sum = body.getTerminator()->getOperand(0).getDefiningOp();
  Operation *product = &body.front();
  rewriter.setInsertionPoint(sum);
  rewriter.replaceOpWithNewOp<math::FmaOp>(
      sum, product->getOperand(0), product->getOperand(1), body.getArgument(2));
  rewriter.eraseOp(product);
}

//===----------------------------------------------------------------------===//
// Transposed operands
//===----------------------------------------------------------------------===//

/// The map by which a contraction reads the input of a transpose, whose result
/// it reads by `map`:
///
///   result dimension i of the transpose = input dimension permutation[i]
static AffineMap foldedMap(AffineMap map, ArrayRef<int64_t> permutation) {
  SmallVector<AffineExpr> results(permutation.size());
  for (auto [from, to] : llvm::zip_equal(map.getResults(), permutation))
    results[to] = from;
  return AffineMap::get(map.getNumDims(), /*symbolCount=*/0, results,
                        map.getContext());
}

static void setOperand(RewriterBase &rewriter, linalg::GenericOp op,
                       unsigned operand, Value value, AffineMap map) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps[operand] = map;
  rewriter.modifyOpInPlace(op, [&] {
    op.setOperand(operand, value);
    op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
  });
}

static linalg::TransposeOp transposeOf(LinalgOp op, unsigned operand) {
  return op->getOperand(operand).getDefiningOp<linalg::TransposeOp>();
}

/// How many loops some dimensions need in an operand: those that follow each
/// other in it are one loop. Those of size 1 need none.
static unsigned countLoops(AffineMap map, ArrayRef<unsigned> dims,
                           ArrayRef<int64_t> sizes) {
  unsigned loops = 0;
  std::optional<unsigned> last;
  for (AffineExpr result : map.getResults()) {
    unsigned dim = cast<AffineDimExpr>(result).getPosition();
    if (sizes[dim] == 1)
      continue;
    bool isOf = llvm::is_contained(dims, dim);
    loops += isOf && (!last || dim < *last);
    last = isOf ? std::optional(dim) : std::nullopt;
  }
  return loops;
}

/// Whether rows or columns, and summands, are still one loop in the operand
/// where they were one: a call for each of many small products takes longer
/// than the copy.
static bool keepsLoops(LinalgOp op, AffineMap before, AffineMap after,
                       unsigned operand, const ContractionDimensions &dims) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  return llvm::all_of(ArrayRef{&dims.k, operand == A ? &dims.m : &dims.n},
                      [&](const SmallVector<unsigned, 2> *of) {
                        return countLoops(after, *of, sizes) <=
                               countLoops(before, *of, sizes);
                      });
}

/// Lets a product, which becomes a generic op, read another operand.
static LogicalResult readOther(RewriterBase &rewriter, LinalgOp &op,
                               unsigned operand, Value value, AffineMap map) {
  auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
  if (!generic) {
    FailureOr<linalg::GenericOp> made = linalg::generalizeNamedOp(rewriter, op);
    if (failed(made))
      return failure();
    op = generic = *made;
  }
  setOperand(rewriter, generic, operand, value, map);
  return success();
}

/// Of other transposes of the input of one, in front of `op`, the first by
/// which the product has as few loops. `folded` reads their input.
static std::optional<std::pair<Value, AffineMap>>
findOtherTranspose(LinalgOp op, unsigned operand, linalg::TransposeOp transpose,
                   AffineMap folded, const ContractionDimensions &dims) {
  AffineMap map = op.getMatchingIndexingMap(&op->getOpOperand(operand));
  SmallVector<Operation *> users(transpose.getInput().getUsers());
  for (Operation *user : llvm::reverse(users)) {
    auto other = dyn_cast<linalg::TransposeOp>(user);
    if (!other || other == transpose || other->getBlock() != op->getBlock() ||
        !other->isBeforeInBlock(op) || other.getInput() != transpose.getInput())
      continue;
    SmallVector<AffineExpr> results;
    for (int64_t from : other.getPermutation())
      results.push_back(folded.getResult(from));
    auto read = AffineMap::get(map.getNumDims(), 0, results, map.getContext());
    if (keepsLoops(op, map, read, operand, dims))
      return std::pair(other->getResult(0), read);
  }
  return std::nullopt;
}

/// Lets a product read the input of a transpose, or another transpose of it
/// that is there anyway.
static void foldTransposes(RewriterBase &rewriter, LinalgOp op,
                           const ContractionDimensions &dims) {
  for (unsigned operand : {A, B})
    while (linalg::TransposeOp transpose = transposeOf(op, operand)) {
      AffineMap map = op.getMatchingIndexingMap(&op->getOpOperand(operand));
      AffineMap folded = foldedMap(map, transpose.getPermutation());
      std::pair<Value, AffineMap> read = {transpose.getInput(), folded};
      if (!keepsLoops(op, map, folded, operand, dims)) {
        auto other =
            transpose->hasOneUse()
                ? findOtherTranspose(op, operand, transpose, folded, dims)
                : std::nullopt;
        if (!other)
          break;
        read = *other;
      }
      if (failed(readOther(rewriter, op, operand, read.first, read.second)))
        return;
      if (transpose->use_empty())
        rewriter.eraseOp(transpose);
    }
}

namespace {
struct FoldMatmulTransposesPass
    : pipesched::impl::FoldMatmulTransposesPassBase<FoldMatmulTransposesPass> {
  void runOnOperation() override {
    SmallVector<std::pair<LinalgOp, ContractionDimensions>> found;
    getOperation().walk([&](LinalgOp op) {
      if (op.hasPureTensorSemantics())
        if (std::optional<ContractionDimensions> dims = findMatmul(op))
          found.push_back({op, *dims});
    });
    IRRewriter rewriter(&getContext());
    for (auto &[op, dims] : found) {
      rewriter.setInsertionPoint(op);
      foldTransposes(rewriter, op, dims);
    }
  }
};

struct LowerMatmulsPass
    : pipesched::impl::LowerMatmulsPassBase<LowerMatmulsPass> {
  using LowerMatmulsPassBase::LowerMatmulsPassBase;

  void runOnOperation() override {
    SmallVector<std::pair<LinalgOp, ContractionDimensions>> found;
    getOperation().walk([&](LinalgOp op) {
      if (!op.hasPureBufferSemantics())
        return;
      if (std::optional<ContractionDimensions> dims = findMatmul(op))
        found.push_back({op, *dims});
    });
    if (found.empty())
      return;
    if (to == MatmulCode::Calls)
      declareMatmul(getOperation());
    IRRewriter rewriter(&getContext());
    for (auto &[op, dims] : found) {
      rewriter.setInsertionPoint(op);
      if (to == MatmulCode::Loops) {
        makeLoops(rewriter, op, dims);
        continue;
      }
      makeCalls(rewriter, op, dims, onlySums);
    }
  }
};
} // namespace
