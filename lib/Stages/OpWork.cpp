//===- OpWork.cpp - FLOPs and bytes of one op -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tables of docs/StageCosts.md: FLOPs of scalar ops, bytes of tensor ops,
// and for linalg the former times the loops around them.
//
//===----------------------------------------------------------------------===//

#include "OpWork.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Stages/FunctionWork.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

/// Bytes of one number in memory, 0 for other types.
static int64_t elementBytes(Type type) {
  if (type.isIndex())
    return 8;
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * elementBytes(complex.getElementType());
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements() * elementBytes(vector.getElementType());
  return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8)
                             : 0;
}

/// The sizes of a type may have no product that fits.
static CheckedInt countElements(ShapedType type) {
  CheckedInt elements = 1;
  for (int64_t size : type.getShape())
    elements = elements * size;
  return elements;
}

std::optional<int64_t> pipesched::bytesOfTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return std::nullopt;
  int64_t each = elementBytes(tensor.getElementType());
  if (each == 0)
    return std::nullopt;
  CheckedInt bytes = each * countElements(tensor);
  return bytes.isValid() ? std::optional(bytes.get()) : std::nullopt;
}

/// Bytes of a value that ops read from memory: 0 if it is not a tensor.
static int64_t tensorBytes(Type type) {
  return bytesOfTensor(type).value_or(0);
}

template <typename RangeT>
static CheckedInt sumBytes(RangeT &&types) {
  CheckedInt sum;
  for (Type type : types)
    sum += tensorBytes(type);
  return sum;
}

//===----------------------------------------------------------------------===//
// FLOPs of scalar ops
//===----------------------------------------------------------------------===//

static bool isFloat(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type));
}

/// Whether the op only moves or selects numbers.
static bool computesNothing(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>() || isa<CastOpInterface>(op) ||
         isa<arith::SelectOp>(op);
}

std::optional<int64_t> pipesched::elementwiseFlops(Operation *op) {
  if (!isa_and_present<arith::ArithDialect, math::MathDialect>(
          op->getDialect()))
    return std::nullopt;
  if (computesNothing(op) || !isFloat(op->getOperand(0).getType()))
    return 0;
  return isa<math::FmaOp>(op) ? 2 : op->getNumResults();
}

/// Whether the op has nothing to do with floats or tensors, but computes an
/// index, an offset or the like.
static bool isBookkeeping(Operation *op) {
  auto isPlain = [](Type type) { return type.isIntOrIndex(); };
  return op->getNumRegions() == 0 && isPure(op) &&
         llvm::all_of(op->getOperandTypes(), isPlain) &&
         llvm::all_of(op->getResultTypes(), isPlain);
}

namespace {
/// Adds up a region that runs once for each element.
class BodyCounter {
public:
  /// Returns false at an op that is not known, which is then `unknown`.
  bool count(Block &block, CheckedInt &flops, CheckedInt &bytes);

  Operation *unknown = nullptr;

private:
  bool count(Operation &op, CheckedInt &flops, CheckedInt &bytes);
  bool countIf(scf::IfOp op, CheckedInt &flops, CheckedInt &bytes);
};
} // namespace

/// The side with more FLOPs, or with more bytes if both have the same.
bool BodyCounter::countIf(scf::IfOp op, CheckedInt &flops, CheckedInt &bytes) {
  std::pair<int64_t, int64_t> larger = {0, 0};
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()}) {
    if (region->empty())
      continue;
    CheckedInt sideFlops, sideBytes;
    if (!count(region->front(), sideFlops, sideBytes))
      return false;
    larger = std::max(larger, {sideFlops.get(), sideBytes.get()});
  }
  flops += larger.first;
  bytes += larger.second;
  return true;
}

bool BodyCounter::count(Operation &op, CheckedInt &flops, CheckedInt &bytes) {
  if (std::optional<int64_t> known = elementwiseFlops(&op)) {
    flops += *known;
    return true;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    bytes += elementBytes(extract.getType());
    return true;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return countIf(branch, flops, bytes);
  if (isa<linalg::YieldOp, scf::YieldOp, tensor::YieldOp>(op) ||
      isBookkeeping(&op))
    return true;
  if (auto foreign = dyn_cast<pipe::StageWorkOpInterface>(op))
    if (FailureOr<SmallVector<EngineWork>> work = foreign.getStageWork();
        succeeded(work)) {
      for (const EngineWork &part : *work) {
        flops += part.work.flops;
        bytes += part.work.bytes;
      }
      return true;
    }
  unknown = &op;
  return false;
}

bool BodyCounter::count(Block &block, CheckedInt &flops, CheckedInt &bytes) {
  return llvm::all_of(block,
                      [&](Operation &op) { return count(op, flops, bytes); });
}

//===----------------------------------------------------------------------===//
// Linalg
//===----------------------------------------------------------------------===//

static bool multiplies(linalg::LinalgOp op) {
  return llvm::any_of(*op.getBlock(), [](Operation &inner) {
    return isa<arith::MulFOp, arith::MulIOp>(inner);
  });
}

/// inferContractionDims wants rows and columns (m and n). A product of a matrix
/// and a vector has one of them: a loop that one input has and the other lacks.
static bool hasRowsOrColumns(linalg::LinalgOp op) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineMap left = maps[0], right = maps[1], result = maps.back();
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
    if (left.isFunctionOfDim(loop) != right.isFunctionOfDim(loop) &&
        result.isFunctionOfDim(loop))
      return true;
  return false;
}

bool pipesched::isContraction(linalg::LinalgOp op) {
  if (linalg::isaContractionOpInterface(op))
    return multiplies(op) && hasRowsOrColumns(op);
  return linalg::isaConvolutionOpInterface(op) && multiplies(op);
}

/// Reads the operands that the body uses and writes the results.
static CheckedInt linalgBytes(linalg::LinalgOp op) {
  CheckedInt bytes = sumBytes(op->getResultTypes());
  for (OpOperand &operand : op->getOpOperands())
    if (op.payloadUsesValueFromOperand(&operand))
      bytes += tensorBytes(operand.get().getType());
  return bytes;
}

static std::optional<CountedWork> linalgWork(linalg::LinalgOp op,
                                             Operation *&unknown) {
  CheckedInt points = 1;
  for (int64_t size : op.getStaticLoopRanges())
    points = points * size;
  CheckedInt flops, gathered;
  BodyCounter body;
  if (!body.count(*op.getBlock(), flops, gathered)) {
    unknown = body.unknown;
    return std::nullopt;
  }
  bool isMatrix = isContraction(op);
  if (isMatrix && flops.get() < 2) // of integers
    flops = 2;
  return CountedWork{isMatrix ? Engine::Matrix : Engine::Vector, points * flops,
                     linalgBytes(op) + points * gathered};
}

/// Maximum, difference, exponential, sum and quotient of each element.
static CountedWork softmaxWork(linalg::SoftmaxOp op) {
  CheckedInt elements = countElements(op.getInputOperandType());
  return {
      Engine::Vector, 5 * elements,
      sumBytes(TypeRange{op.getInput().getType(), op.getOutput().getType()})};
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Bytes that ops of tensor move; nothing for ops that are not listed.
static std::optional<CheckedInt> movedBytes(Operation *op) {
  using Bytes = std::optional<CheckedInt>;
  auto result = [&] { return sumBytes(op->getResultTypes()); };
  return llvm::TypeSwitch<Operation *, Bytes>(op)
      .Case<tensor::EmptyOp, tensor::CastOp, tensor::BitcastOp, tensor::DimOp,
            tensor::RankOp, tensor::ReshapeOp, tensor::ExpandShapeOp,
            tensor::CollapseShapeOp, tensor::ExtractSliceOp>(
          [](Operation *) { return CheckedInt(0); })
      .Case<tensor::ExtractOp>(
          [](auto extract) { return elementBytes(extract.getType()); })
      .Case<tensor::InsertOp>([](auto insert) {
        return elementBytes(insert.getScalar().getType());
      })
      .Case<tensor::SplatOp, tensor::FromElementsOp>(
          [&](Operation *) { return result(); })
      .Case<tensor::InsertSliceOp>([](auto insert) {
        return 2 * CheckedInt(tensorBytes(insert.getSourceType()));
      })
      .Case<tensor::ConcatOp>([&](Operation *) { return 2 * result(); })
      .Case<tensor::GatherOp>([&](auto gather) {
        return 2 * result() + tensorBytes(gather.getIndices().getType());
      })
      .Case<tensor::ScatterOp>([](auto scatter) {
        return 2 * CheckedInt(tensorBytes(scatter.getSource().getType())) +
               tensorBytes(scatter.getIndices().getType());
      })
      .Case<linalg::PackOp, linalg::UnPackOp>([&](auto move) {
        return result() + tensorBytes(move.getSource().getType());
      })
      .Case<tensor::PadOp>([&](auto pad) -> Bytes {
        if (!pad.getConstantPaddingValue())
          return std::nullopt;
        return result() + tensorBytes(pad.getSourceType());
      })
      .Default(Bytes());
}

static std::optional<CountedWork> generateWork(tensor::GenerateOp op,
                                               Operation *&unknown) {
  CheckedInt elements = countElements(op.getType());
  CheckedInt flops, gathered;
  BodyCounter body;
  if (!body.count(op.getBody().front(), flops, gathered)) {
    unknown = body.unknown;
    return std::nullopt;
  }
  return CountedWork{Engine::Vector, elements * flops,
                     elements * gathered + tensorBytes(op.getType())};
}

/// An op of arith or math on scalars, vectors or whole tensors.
static CountedWork elementwiseWork(Operation *op, int64_t flops) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return {};
  CheckedInt elements = 1;
  if (auto shaped = dyn_cast<ShapedType>(op->getResult(0).getType()))
    elements = countElements(shaped);
  return {Engine::Vector, elements * flops,
          sumBytes(op->getOperandTypes()) + sumBytes(op->getResultTypes())};
}

std::optional<CountedWork> pipesched::workOf(Operation *op,
                                             Operation *&unknown) {
  unknown = op;
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return linalgWork(structured, unknown);
  if (auto softmax = dyn_cast<linalg::SoftmaxOp>(op))
    return softmaxWork(softmax);
  if (std::optional<CheckedInt> bytes = movedBytes(op))
    return CountedWork{Engine::Vector, 0, *bytes};
  if (auto generate = dyn_cast<tensor::GenerateOp>(op))
    return generateWork(generate, unknown);
  if (std::optional<int64_t> flops = elementwiseFlops(op))
    return elementwiseWork(op, *flops);
  if (op->hasTrait<OpTrait::ConstantLike>() || isBookkeeping(op))
    return CountedWork();
  return std::nullopt;
}
