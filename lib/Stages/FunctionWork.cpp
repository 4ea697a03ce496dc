//===- FunctionWork.cpp - FLOPs and bytes of a function -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the body of a function through loops, branches and calls.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/FunctionWork.h"
#include "OpWork.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Stages/ExternFunction.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include <map>

using namespace mlir;
using namespace pipesched;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Counter
//===----------------------------------------------------------------------===//

/// Collects the work of a block and what it contains.
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

/// Whether the type says how many bytes a value has.
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
               << ", of which neither FLOPs nor bytes are known; costs need "
                  "ranked tensors of static shape, so give the sizes";
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

/// Counts the side with more FLOPs, or with more bytes if both have the same.
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
                         << ", which is no func.func";
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

/// The arguments that an op other than the return uses, and the results that
/// are no arguments.
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

/// Adds up the ops. Returns false if a sum is over int64.
static bool addUp(FunctionWork &work) {
  CheckedInt contraction, vector, bytes;
  for (const OpWork &op : work.ops) {
    CheckedInt count = op.count;
    bool isMatrix =
        op.run.engine == Engine::Matrix || op.run.engine == Engine::MatrixFp8;
    (isMatrix ? contraction : vector) += count * op.run.work.flops;
    if (op.run.engine != Engine::Link)
      bytes += count * op.run.work.bytes;
  }
  work.contractionFlops = contraction.get();
  work.vectorFlops = vector.get();
  work.unfusedBytes = bytes.get();
  return contraction.isValid() && vector.isValid() && bytes.isValid();
}

/// What the attribute declares.
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
