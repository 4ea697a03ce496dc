//===- ExecDialect.cpp - The exec dialect ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the type, ops and canonicalizations of the dialect.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/CallExtern.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "PipeSched/Dialect/Exec/IR/ExecDialect.cpp.inc"
#include "PipeSched/Dialect/Exec/IR/ExecInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecTypes.cpp.inc"

void pipesched::exec::ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "PipeSched/Dialect/Exec/IR/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "PipeSched/Dialect/Exec/IR/ExecOps.cpp.inc"
      >();
  addOperations<CallExternOp>();
  addInterfaces<VersionedBytecode>();
}

//===----------------------------------------------------------------------===//
// Canonicalization
//===----------------------------------------------------------------------===//

namespace pipesched::exec {
namespace {
/// Removes repeated operands: an instruction waits for a token once.
struct DropRepeatedWaits final
    : OpInterfaceRewritePattern<InstructionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(InstructionOpInterface op,
                                PatternRewriter &rewriter) const override {
    OperandRange waits = op.getWaits();
    if (op->getNumOperands() != waits.size() ||
        op->hasTrait<OpTrait::AttrSizedOperandSegments>())
      return failure();
    llvm::SmallDenseSet<Value> seen;
    llvm::BitVector repeated(waits.size());
    for (auto [index, token] : llvm::enumerate(waits))
      if (!seen.insert(token).second)
        repeated.set(index);
    if (repeated.none())
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op->eraseOperands(repeated); });
    return success();
  }
};

/// Merges two adjacent waits, because both hold the same instruction.
struct MergeWaits final : OpRewritePattern<WaitOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(WaitOp op,
                                PatternRewriter &rewriter) const override {
    auto next = dyn_cast_or_null<WaitOp>(op->getNextNode());
    if (!next)
      return failure();
    rewriter.modifyOpInPlace(next,
                             [&] { next->insertOperands(0, op.getWaits()); });
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void ExecDialect::getCanonicalizationPatterns(
    RewritePatternSet &patterns) const {
  patterns.add<DropRepeatedWaits, MergeWaits>(getContext());
}
} // namespace pipesched::exec
