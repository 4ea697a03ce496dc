//===- CallBlas.cpp - Products of matrices as calls -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction of any number of dimensions becomes loops around matrix
// products. With the names of linalg, for C[b,m..,n..] += A.. * B..:
//
//   for b                                 dimensions of A, B and C
//     C[m][n] += A[m][k] * B[k][n]        a call of the runtime
//
// BLAS treats dimensions that are contiguous in memory as one dimension. An
// operand is copied if its dimensions are not contiguous, or if its elements
// are narrower than the sums.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace pipesched {
#define GEN_PASS_DEF_CALLBLASPASS
#define GEN_PASS_DEF_FOLDMATMULTRANSPOSESPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using linalg::ContractionDimensions;
using linalg::LinalgOp;
using Dims = SmallVector<unsigned, 2>;

static constexpr char kMatmul[] = "pipesched_rt_matmul";

/// A product with fewer multiplications takes less time without a call.
static constexpr int64_t kLeastMultiplications = 4096;

//===----------------------------------------------------------------------===//
// Contractions that become calls
//===----------------------------------------------------------------------===//

static Value stripExtension(Value value) {
  auto extension = value.getDefiningOp<arith::ExtFOp>();
  return extension ? extension.getIn() : value;
}

/// Whether the body adds a product of both inputs, which may be extended first,
/// and computes nothing else.
static bool addsProduct(LinalgOp op) {
  Block &body = *op.getBlock();
  Value a = body.getArgument(0), b = body.getArgument(1),
        c = body.getArgument(2);
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!sum || (sum.getLhs() != c && sum.getRhs() != c))
    return false;
  Value added = sum.getLhs() == c ? sum.getRhs() : sum.getLhs();
  auto product = added.getDefiningOp<arith::MulFOp>();
  if (!product)
    return false;
  Value left = stripExtension(product.getLhs()),
        right = stripExtension(product.getRhs());
  return ((left == a && right == b) || (left == b && right == a)) &&
         llvm::all_of(body.without_terminator(), [&](Operation &inner) {
           return &inner == sum || &inner == product ||
                  isa<arith::ExtFOp>(inner);
         });
}

static int64_t sizeOf(LinalgOp op, ArrayRef<unsigned> dims) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  int64_t size = 1;
  for (unsigned dim : dims)
    size *= sizes[dim];
  return size;
}

/// Returns the dimensions of a contraction that is worth a call; else none. Its
/// operands must be all tensors or all memrefs. The decision depends only on
/// types, so that kernels and the unpipelined model call for the same
/// contractions.
static std::optional<ContractionDimensions> findMatmul(LinalgOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 ||
      op.hasDynamicShape() || op->getNumRegions() != 1)
    return std::nullopt;
  Type element = getElementTypeOrSelf(op.getDpsInits()[0].getType());
  if (!element.isF32() && !element.isF64())
    return std::nullopt;
  for (OpOperand &operand : op->getOpOperands())
    if (!isa<MemRefType, RankedTensorType>(operand.get().getType()) ||
        !op.getMatchingIndexingMap(&operand).isProjectedPermutation())
      return std::nullopt;
  FailureOr<ContractionDimensions> dims = linalg::inferContractionDims(op);
  if (!addsProduct(op) || failed(dims) ||
      dims->batch.size() + dims->m.size() + dims->n.size() + dims->k.size() !=
          op.getNumLoops())
    return std::nullopt;
  int64_t results = sizeOf(op, dims->m) * sizeOf(op, dims->n);
  if (results == 1 || results * sizeOf(op, dims->k) < kLeastMultiplications)
    return std::nullopt;
  for (Dims *of : {&dims->batch, &dims->m, &dims->n, &dims->k})
    llvm::sort(*of);
  return *dims;
}

//===----------------------------------------------------------------------===//
// Calls of the runtime
//===----------------------------------------------------------------------===//

namespace {
/// A batch of matrices.
struct Matrix {
  Value memref;
  AffineMap map; ///< how the loops of the contraction read it
  Dims rows, columns;
  int64_t row = 0, column = 0; ///< strides of both, in elements

  MemRefType getType() const { return cast<MemRefType>(memref.getType()); }
};

class CallEmitter {
public:
  CallEmitter(RewriterBase &rewriter, LinalgOp op)
      : builder(op.getLoc(), rewriter), op(op),
        element(getElementTypeOrSelf(op.getDpsInits()[0].getType())) {}

  void run(const ContractionDimensions &dims);

private:
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, value);
  }
  std::optional<int64_t> strideOf(const Matrix &matrix, ArrayRef<unsigned> dims,
                                  ArrayRef<int64_t> strides);
  bool setStrides(Matrix &matrix);
  Matrix copyOf(const Matrix &matrix, ArrayRef<unsigned> batch);
  void copy(const Matrix &from, const Matrix &to, ArrayRef<unsigned> loops);
  Value pointerTo(const Matrix &matrix, ArrayRef<unsigned> batch,
                  ValueRange indices);
  void call(ArrayRef<Matrix> matrices, const ContractionDimensions &dims);

  ImplicitLocOpBuilder builder;
  LinalgOp op;
  Type element; ///< of sums
};
} // namespace

/// Returns the stride of dimensions that are merged; nothing if they are not
/// contiguous. Dimensions of size 1 do not matter.
std::optional<int64_t> CallEmitter::strideOf(const Matrix &matrix,
                                             ArrayRef<unsigned> dims,
                                             ArrayRef<int64_t> strides) {
  std::optional<int64_t> innermost, next;
  for (unsigned dim : llvm::reverse(dims)) {
    if (sizeOf(op, dim) == 1)
      continue;
    int64_t stride = strides[*matrix.map.getResultPosition(
        getAffineDimExpr(dim, builder.getContext()))];
    if (next && stride != *next)
      return std::nullopt;
    innermost = innermost.value_or(stride);
    next = stride * sizeOf(op, dim);
  }
  return innermost.value_or(1);
}

/// Computes the strides of a matrix if BLAS can read it: rows or columns must
/// be contiguous and must not overlap.
bool CallEmitter::setStrides(Matrix &matrix) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (matrix.getType().getElementType() != element ||
      failed(matrix.getType().getStridesAndOffset(strides, offset)) ||
      llvm::is_contained(strides, ShapedType::kDynamic))
    return false;
  std::optional<int64_t> row = strideOf(matrix, matrix.rows, strides),
                         column = strideOf(matrix, matrix.columns, strides);
  if (!row || !column)
    return false;
  matrix.row = *row;
  matrix.column = *column;
  int64_t rows = sizeOf(op, matrix.rows), columns = sizeOf(op, matrix.columns);
  return ((*column == 1 || columns == 1) && (*row >= columns || rows == 1)) ||
         ((*row == 1 || rows == 1) && (*column >= rows || columns == 1));
}

/// Copies elements in loops over dimensions of the contraction, and extends or
/// rounds them.
void CallEmitter::copy(const Matrix &from, const Matrix &to,
                       ArrayRef<unsigned> loops) {
  SmallVector<AffineExpr> places(op.getNumLoops());
  for (auto [place, dim] : llvm::enumerate(loops))
    places[dim] = builder.getAffineDimExpr(place);
  auto mapOf = [&](const Matrix &matrix) {
    SmallVector<AffineExpr> results;
    for (AffineExpr result : matrix.map.getResults())
      results.push_back(places[cast<AffineDimExpr>(result).getPosition()]);
    return AffineMap::get(loops.size(), 0, results, builder.getContext());
  };
  SmallVector<utils::IteratorType> kinds(loops.size(),
                                         utils::IteratorType::parallel);
  linalg::GenericOp::create(
      builder, from.memref, to.memref, ArrayRef{mapOf(from), mapOf(to)}, kinds,
      [&](OpBuilder &inner, Location loc, ValueRange numbers) {
        Value number = numbers[0];
        if (number.getType() != numbers[1].getType())
          number =
              arith::ExtFOp::create(inner, loc, numbers[1].getType(), number);
        linalg::YieldOp::create(inner, loc, number);
      });
}

/// Returns a matrix of the same elements with contiguous rows.
Matrix CallEmitter::copyOf(const Matrix &matrix, ArrayRef<unsigned> batch) {
  Dims loops(batch);
  llvm::append_range(loops, matrix.rows);
  llvm::append_range(loops, matrix.columns);
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> results;
  for (unsigned dim : loops) {
    shape.push_back(sizeOf(op, dim));
    results.push_back(builder.getAffineDimExpr(dim));
  }
  Matrix made = matrix;
  made.memref =
      memref::AllocOp::create(builder, MemRefType::get(shape, element));
  made.map = AffineMap::get(op.getNumLoops(), 0, results, builder.getContext());
  made.row = sizeOf(op, matrix.columns);
  made.column = 1;
  copy(matrix, made, loops);
  return made;
}

Value CallEmitter::pointerTo(const Matrix &matrix, ArrayRef<unsigned> batch,
                             ValueRange indices) {
  SmallVector<int64_t> strides;
  int64_t known;
  (void)matrix.getType().getStridesAndOffset(strides, known);
  Value offset;
  if (ShapedType::isDynamic(known))
    offset = memref::ExtractStridedMetadataOp::create(builder, matrix.memref)
                 .getOffset();
  else
    offset = constant(known);
  for (auto [dim, index] : llvm::zip_equal(batch, indices)) {
    Value stride = constant(strides[*matrix.map.getResultPosition(
        getAffineDimExpr(dim, builder.getContext()))]);
    offset = arith::AddIOp::create(
        builder, offset, arith::MulIOp::create(builder, index, stride));
  }
  Value bytes = constant(element.getIntOrFloatBitWidth() / 8);
  Value address = arith::AddIOp::create(
      builder,
      memref::ExtractAlignedPointerAsIndexOp::create(builder, matrix.memref),
      arith::MulIOp::create(builder, offset, bytes));
  Value number =
      arith::IndexCastOp::create(builder, builder.getI64Type(), address);
  return LLVM::IntToPtrOp::create(
      builder, LLVM::LLVMPointerType::get(builder.getContext()), number);
}

/// Emits a call for each element of the batch.
void CallEmitter::call(ArrayRef<Matrix> matrices,
                       const ContractionDimensions &dims) {
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Value> indices;
  for (unsigned dim : dims.batch) {
    auto loop = scf::ForOp::create(builder, constant(0),
                                   constant(sizeOf(op, dim)), constant(1));
    builder.setInsertionPointToStart(loop.getBody());
    indices.push_back(loop.getInductionVar());
  }
  auto number = [&](int64_t value) {
    return arith::ConstantIntOp::create(builder, value, 64);
  };
  // PIPESCHED_RT_F32 and PIPESCHED_RT_F64
  SmallVector<Value> arguments = {
      arith::ConstantIntOp::create(builder, element.isF64(), 32)};
  for (ArrayRef<unsigned> of : {dims.m, dims.n, dims.k})
    arguments.push_back(number(sizeOf(op, of)));
  for (const Matrix &matrix : matrices)
    arguments.append({pointerTo(matrix, dims.batch, indices),
                      number(matrix.row), number(matrix.column)});
  func::CallOp::create(builder, StringRef(kMatmul), TypeRange(), arguments);
}

void CallEmitter::run(const ContractionDimensions &dims) {
  SmallVector<Matrix> matrices;
  const Dims *sides[][2] = {
      {&dims.m, &dims.k}, {&dims.k, &dims.n}, {&dims.m, &dims.n}};
  for (auto [operand, side] : llvm::zip(op->getOpOperands(), sides))
    matrices.push_back({operand.get(), op.getMatchingIndexingMap(&operand),
                        *side[0], *side[1]});
  Matrix result = matrices.back();
  SmallVector<Value> copies;
  for (Matrix &matrix : matrices)
    if (!setStrides(matrix)) {
      matrix = copyOf(matrix, dims.batch);
      copies.push_back(matrix.memref);
    }
  call(matrices, dims);
  if (matrices.back().memref != result.memref) {
    Dims loops(dims.batch);
    llvm::append_range(loops, dims.m);
    llvm::append_range(loops, dims.n);
    copy(matrices.back(), result, loops);
  }
  for (Value made : copies)
    memref::DeallocOp::create(builder, made);
}

static void declareMatmul(ModuleOp module) {
  if (module.lookupSymbol(kMatmul))
    return;
  auto builder =
      ImplicitLocOpBuilder::atBlockBegin(module.getLoc(), module.getBody());
  Type i64 = builder.getI64Type();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> types = {builder.getI32Type(), i64, i64, i64};
  for (int i = 0; i < 3; ++i)
    types.append({pointer, i64, i64});
  func::FuncOp::create(builder, kMatmul, builder.getFunctionType(types, {}))
      .setPrivate();
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

/// Lets a contraction read the input of a transpose.
static LogicalResult foldTranspose(RewriterBase &rewriter, LinalgOp &op,
                                   unsigned operand) {
  auto transpose = op->getOperand(operand).getDefiningOp<linalg::TransposeOp>();
  if (!transpose)
    return failure();
  if (!isa<linalg::GenericOp>(op)) {
    rewriter.setInsertionPoint(op);
    FailureOr<linalg::GenericOp> made = linalg::generalizeNamedOp(rewriter, op);
    if (failed(made))
      return failure();
    op = cast<LinalgOp>(made->getOperation());
  }
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<AffineExpr> results(maps[operand].getNumResults());
  for (auto [place, from] : llvm::enumerate(transpose.getPermutation()))
    results[from] = maps[operand].getResult(place);
  maps[operand] =
      AffineMap::get(maps[operand].getNumDims(), 0, results, op.getContext());
  rewriter.modifyOpInPlace(op, [&] {
    op->setOperand(operand, transpose.getInput());
    op->setAttr("indexing_maps", rewriter.getAffineMapArrayAttr(maps));
  });
  if (transpose->use_empty())
    rewriter.eraseOp(transpose);
  return success();
}

namespace {
struct FoldMatmulTransposesPass
    : pipesched::impl::FoldMatmulTransposesPassBase<FoldMatmulTransposesPass> {
  void runOnOperation() override {
    SmallVector<LinalgOp> found;
    getOperation().walk([&](LinalgOp op) {
      if (op.hasPureTensorSemantics() && findMatmul(op))
        found.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (LinalgOp op : found)
      for (unsigned operand : {0, 1})
        while (succeeded(foldTranspose(rewriter, op, operand)))
          ;
  }
};

struct CallBlasPass : pipesched::impl::CallBlasPassBase<CallBlasPass> {
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
    declareMatmul(getOperation());
    IRRewriter rewriter(&getContext());
    for (auto &[op, dims] : found) {
      rewriter.setInsertionPoint(op);
      CallEmitter(rewriter, op).run(dims);
      rewriter.eraseOp(op);
    }
  }
};
} // namespace
