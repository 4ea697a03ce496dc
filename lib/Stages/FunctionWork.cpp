//===- FunctionWork.cpp - FLOPs and bytes of a function -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the body of a function through loops, branches and calls. The work of
// ops follows the tables of docs/StageCosts.md: FLOPs of scalar ops and bytes
// of tensor ops; for linalg, the FLOPs of the body times the number of loop
// iterations.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/FunctionWork.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Stages/ExternFunction.h"
#include "PipeSched/Support/CheckedInt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace pipesched;

namespace {
/// Work before it is known to fit into 64 bits.
struct CountedWork {
  Engine engine = Engine::Vector;
  CheckedInt flops, bytes;
};
} // namespace

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

/// Counts the elements of a type. The product of its sizes may not fit.
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

/// Returns the bytes of a value that ops read from memory; 0 if it is not a
/// tensor.
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

/// Returns the FLOPs of `op` per element if it computes one result element by
/// element: an op of arith or math, a cast or a constant. Returns nothing for
/// other ops.
static std::optional<int64_t> elementwiseFlops(Operation *op) {
  if (!isa_and_present<arith::ArithDialect, math::MathDialect>(
          op->getDialect()))
    return std::nullopt;
  if (computesNothing(op) || !isFloat(op->getOperand(0).getType()))
    return 0;
  return isa<math::FmaOp>(op) ? 2 : op->getNumResults();
}

/// Whether the op involves neither floats nor tensors, because it computes an
/// index, an offset or similar.
static bool isBookkeeping(Operation *op) {
  auto isPlain = [](Type type) { return type.isIntOrIndex(); };
  return op->getNumRegions() == 0 && isPure(op) &&
         llvm::all_of(op->getOperandTypes(), isPlain) &&
         llvm::all_of(op->getResultTypes(), isPlain);
}

namespace {
/// Sums the work of a region that runs once for each element.
class BodyCounter {
public:
  /// Returns false at an unknown op, which is then `unknown`.
  bool count(Block &block, CheckedInt &flops, CheckedInt &bytes);

  Operation *unknown = nullptr;

private:
  bool count(Operation &op, CheckedInt &flops, CheckedInt &bytes);
  bool countIf(scf::IfOp op, CheckedInt &flops, CheckedInt &bytes);
};
} // namespace

/// Counts the side with more FLOPs, or with more bytes if both have the same
/// FLOPs.
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

/// inferContractionDims needs rows and columns (m and n). A product of a matrix
/// and a vector has only one of them: a loop that one input has and the other
/// lacks.
static bool hasRowsOrColumns(linalg::LinalgOp op) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineMap left = maps[0], right = maps[1], result = maps.back();
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
    if (left.isFunctionOfDim(loop) != right.isFunctionOfDim(loop) &&
        result.isFunctionOfDim(loop))
      return true;
  return false;
}

/// Whether the op multiplies and adds over common dimensions of its inputs, and
/// one input has another dimension: a product of matrices, of a matrix and a
/// vector, or a convolution, but not a dot product of vectors.
static bool isContraction(linalg::LinalgOp op) {
  if (linalg::isaContractionOpInterface(op))
    return multiplies(op) && hasRowsOrColumns(op);
  return linalg::isaConvolutionOpInterface(op) && multiplies(op);
}

/// Counts the operands that the body uses as reads, and the results as writes.
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

/// Returns the bytes that a tensor op moves; nothing for ops that are not
/// listed.
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

/// Returns the work of an op of arith or math on scalars, vectors or whole
/// tensors.
static CountedWork elementwiseWork(Operation *op, int64_t flops) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return {};
  CheckedInt elements = 1;
  if (auto shaped = dyn_cast<ShapedType>(op->getResult(0).getType()))
    elements = countElements(shaped);
  return {Engine::Vector, elements * flops,
          sumBytes(op->getOperandTypes()) + sumBytes(op->getResultTypes())};
}

/// Returns the work of an op of linalg, tensor, arith or math, or of an op with
/// neither floats nor tensors. Returns nothing for other ops, or if its region
/// contains one, and sets `unknown` to that op. All types must be static.
static std::optional<CountedWork> workOf(Operation *op, Operation *&unknown) {
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

//===----------------------------------------------------------------------===//
// Counter
//===----------------------------------------------------------------------===//

/// Collects the work of a block and of the regions in it.
class FunctionWorkAnalysis::Counter {
public:
  explicit Counter(FunctionWorkAnalysis &analysis) : analysis(analysis) {}

  LogicalResult count(Block &block, CheckedInt times);
  ArrayRef<OpWork> getOps() const { return ops; }

private:
  LogicalResult count(Operation &op, CheckedInt times);
  LogicalResult countLoop(scf::ForOp op, CheckedInt times);
  LogicalResult countBranch(scf::IfOp op, CheckedInt times);
  LogicalResult countCall(func::CallOp op, CheckedInt times);
  LogicalResult countForeign(pipe::StageWorkOpInterface op, CheckedInt times);
  LogicalResult checkTypes(Operation &op);
  LogicalResult add(Operation &op, StringRef name, const EngineWork &run,
                    CheckedInt times);
  LogicalResult add(Operation &op, ArrayRef<OpWork> others, CheckedInt times);
  InFlightDiagnostic emitError(Operation *op);

  FunctionWorkAnalysis &analysis;
  std::vector<OpWork> ops;
  using Key = std::tuple<std::string, Engine, int64_t, int64_t>;
  std::map<Key, size_t> indices; ///< of its entry in ops
};

InFlightDiagnostic FunctionWorkAnalysis::Counter::emitError(Operation *op) {
  InFlightDiagnostic diagnostic = op->emitOpError();
  for (Operation *call : llvm::reverse(analysis.calls))
    diagnostic.attachNote(call->getLoc()) << "called from here";
  return diagnostic;
}

LogicalResult FunctionWorkAnalysis::Counter::add(Operation &op, StringRef name,
                                                 const EngineWork &run,
                                                 CheckedInt times) {
  if (run.work.isZero() || (times.isValid() && times.get() == 0))
    return success();
  Key key(name.str(), run.engine, run.work.flops, run.work.bytes);
  auto [entry, isNew] = indices.try_emplace(std::move(key), ops.size());
  if (isNew)
    ops.push_back({name.str(), run, 0});
  CheckedInt count = times + ops[entry->second].count;
  ops[entry->second].count = count.get();
  if (count.isValid())
    return success();
  return emitError(&op) << "runs more than 2^63 - 1 times";
}

LogicalResult FunctionWorkAnalysis::Counter::add(Operation &op,
                                                 ArrayRef<OpWork> others,
                                                 CheckedInt times) {
  for (const OpWork &other : others)
    if (failed(add(op, other.name, other.run, times * other.count)))
      return failure();
  return success();
}

/// Whether the type determines the bytes of a value.
static bool isStatic(Type type) {
  if (isa<ShapedType>(type) && !isa<VectorType>(type))
    return bytesOfTensor(type).has_value();
  return true;
}

LogicalResult FunctionWorkAnalysis::Counter::checkTypes(Operation &op) {
  auto check = [&](TypeRange types, StringRef what) -> LogicalResult {
    for (auto [number, type] : llvm::enumerate(types))
      if (!isStatic(type))
        return emitError(&op)
               << what << " #" << number << " has type " << type
               << ", whose FLOPs and bytes are unknown; costs need ranked "
                  "tensors of static shape, so give the sizes";
    return success();
  };
  if (failed(check(op.getOperandTypes(), "operand")))
    return failure();
  return check(op.getResultTypes(), "result");
}

LogicalResult FunctionWorkAnalysis::Counter::countLoop(scf::ForOp op,
                                                       CheckedInt times) {
  std::optional<APInt> trips = op.getStaticTripCount();
  if (!trips || trips->getActiveBits() > 63)
    return emitError(op) << "has bounds or a step that are not constant, so "
                            "that the number of its runs is not known";
  return count(*op.getBody(), times * int64_t(trips->getZExtValue()));
}

/// FLOPs and bytes of all ops, saturated.
static std::pair<double, double> sizeOf(ArrayRef<OpWork> ops) {
  std::pair<double, double> size = {0, 0};
  for (const OpWork &op : ops) {
    size.first += double(op.count) * double(op.run.work.flops);
    size.second += double(op.count) * double(op.run.work.bytes);
  }
  return size;
}

/// Counts the side with more FLOPs, or with more bytes if both have the same
/// FLOPs.
LogicalResult FunctionWorkAnalysis::Counter::countBranch(scf::IfOp op,
                                                         CheckedInt times) {
  Counter taken(analysis);
  if (failed(taken.count(op.getThenRegion().front(), 1)))
    return failure();
  if (op.getElseRegion().empty())
    return add(*op, taken.getOps(), times);
  Counter other(analysis);
  if (failed(other.count(op.getElseRegion().front(), 1)))
    return failure();
  bool isOther = sizeOf(taken.getOps()) < sizeOf(other.getOps());
  return add(*op, (isOther ? other : taken).getOps(), times);
}

LogicalResult FunctionWorkAnalysis::Counter::countCall(func::CallOp op,
                                                       CheckedInt times) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getCalleeAttr());
  if (!callee)
    return emitError(op) << "calls " << op.getCalleeAttr()
                         << ", which is not a func.func";
  if (callee.isExternal() && !isExtern(callee))
    return emitError(op) << "calls " << op.getCalleeAttr()
                         << ", which has no body to count; define it, or call "
                            "it by an op that implements StageWorkOpInterface";
  if (analysis.open.contains(callee))
    return emitError(op) << "calls " << op.getCalleeAttr()
                         << " again before it has returned, so that the number "
                            "of its runs is not known";
  analysis.calls.push_back(op);
  FailureOr<FunctionWork> work = analysis.compute(callee);
  analysis.calls.pop_back();
  if (failed(work))
    return failure();
  return add(*op, work->ops, times);
}

LogicalResult
FunctionWorkAnalysis::Counter::countForeign(pipe::StageWorkOpInterface op,
                                            CheckedInt times) {
  FailureOr<SmallVector<EngineWork>> work = op.getStageWork();
  if (failed(work))
    return failure();
  for (const EngineWork &run : *work) {
    if (run.work.flops < 0 || run.work.bytes < 0 ||
        (run.engine == Engine::Link && run.work.flops != 0))
      return emitError(op) << "states " << run.work.flops << " flops and "
                           << run.work.bytes
                           << " bytes, expected neither below 0, and no flops "
                              "on link";
    if (failed(add(*op, op->getName().getStringRef(), run, times)))
      return failure();
  }
  return success();
}

LogicalResult FunctionWorkAnalysis::Counter::count(Operation &op,
                                                   CheckedInt times) {
  if (auto foreign = dyn_cast<pipe::StageWorkOpInterface>(op))
    return countForeign(foreign, times);
  if (failed(checkTypes(op)))
    return failure();
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return countLoop(loop, times);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return countBranch(branch, times);
  if (auto call = dyn_cast<func::CallOp>(op))
    return countCall(call, times);
  if (isa<func::ReturnOp, scf::YieldOp>(op))
    return success();

  Operation *unknown = nullptr;
  std::optional<CountedWork> work = workOf(&op, unknown);
  if (!work)
    return emitError(unknown)
           << "has no known work; lower it to linalg, tensor, arith, math or "
              "scf, or let it implement StageWorkOpInterface";
  if (!work->flops.isValid() || !work->bytes.isValid())
    return emitError(&op) << "has over 2^63 - 1 flops or bytes";
  return add(op, op.getName().getStringRef(),
             {work->engine, {work->flops.get(), work->bytes.get()}}, times);
}

LogicalResult FunctionWorkAnalysis::Counter::count(Block &block,
                                                   CheckedInt times) {
  for (Operation &op : block)
    if (failed(count(op, times)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// FunctionWorkAnalysis
//===----------------------------------------------------------------------===//

/// Bytes of the arguments that an op other than the return uses, and of the
/// results that are not arguments.
static CheckedInt signatureBytes(func::FuncOp function) {
  CheckedInt bytes;
  for (BlockArgument argument : function.getArguments())
    if (llvm::any_of(argument.getUsers(), [](Operation *user) {
          return !isa<func::ReturnOp>(user);
        }))
      bytes += bytesOfTensor(argument.getType()).value_or(0);
  Operation *terminator = function.getBody().back().getTerminator();
  for (Value result : terminator->getOperands())
    if (!isa<BlockArgument>(result))
      bytes += bytesOfTensor(result.getType()).value_or(0);
  return bytes;
}

/// Sums the work of all ops. Returns false if a sum exceeds int64.
static bool addUp(FunctionWork &work) {
  CheckedInt contraction, vector, bytes;
  for (const OpWork &op : work.ops) {
    CheckedInt count = op.count;
    (isMatrix(op.run.engine) ? contraction : vector) +=
        count * op.run.work.flops;
    if (op.run.engine != Engine::Link)
      bytes += count * op.run.work.bytes;
  }
  work.contractionFlops = contraction.get();
  work.vectorFlops = vector.get();
  work.unfusedBytes = bytes.get();
  return contraction.isValid() && vector.isValid() && bytes.isValid();
}

/// The work that the attribute declares.
static FailureOr<FunctionWork> countExtern(func::FuncOp function) {
  FailureOr<ExternFunction> read = readExtern(function);
  if (failed(read))
    return failure();
  if (!read->work)
    return function.emitOpError("is extern and declares no costs; expected "
                                "work = [{engine = \"matrix\", flops = .., "
                                "bytes = ..}] in ")
           << kExternName;
  FunctionWork work;
  for (const EngineWork &run : *read->work)
    if (!run.work.isZero())
      work.ops.push_back({read->symbol, run, 1});
  CheckedInt signature;
  for (TypeRange types : {TypeRange(function.getArgumentTypes()),
                          TypeRange(function.getResultTypes())})
    for (Type type : types)
      signature += bytesOfTensor(type).value_or(0);
  if (!addUp(work) || !signature.isValid())
    return function.emitOpError("has over 2^63 - 1 flops or bytes");
  work.fusedBytes = std::min(signature.get(), work.unfusedBytes);
  return work;
}

FailureOr<FunctionWork> FunctionWorkAnalysis::count(func::FuncOp function) {
  if (isExtern(function))
    return countExtern(function);
  if (function.isExternal())
    return function.emitOpError("has no body to count");
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("has ")
           << function.getBody().getBlocks().size()
           << " blocks, costs need one; use scf for control flow";
  Counter counter(*this);
  if (failed(counter.count(function.getBody().front(), 1)))
    return failure();
  FunctionWork work;
  work.ops = counter.getOps();
  CheckedInt signature = signatureBytes(function);
  if (!addUp(work) || !signature.isValid())
    return function.emitOpError("has over 2^63 - 1 flops or bytes");
  work.fusedBytes = std::min(signature.get(), work.unfusedBytes);
  return work;
}

FailureOr<FunctionWork> FunctionWorkAnalysis::compute(func::FuncOp function) {
  auto found = known.find(function);
  if (found != known.end())
    return found->second;
  open.insert(function);
  FailureOr<FunctionWork> work = count(function);
  open.pop_back();
  if (succeeded(work))
    known.try_emplace(function, *work);
  return work;
}
