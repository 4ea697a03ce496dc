//===- PipeDialect.cpp - The pipe dialect ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the ops, attributes and canonicalizations of the dialect.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

#include "PipeSched/Dialect/Pipe/IR/PipeDialect.cpp.inc"
#include "PipeSched/Dialect/Pipe/IR/PipeEnums.cpp.inc"
#include "PipeSched/Dialect/Pipe/IR/PipeInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "PipeSched/Dialect/Pipe/IR/PipeAttrs.cpp.inc"

void PipeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "PipeSched/Dialect/Pipe/IR/PipeAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "PipeSched/Dialect/Pipe/IR/PipeOps.cpp.inc"
      >();
  addInterfaces<CellPlaces, VersionedBytecode>();
}

//===----------------------------------------------------------------------===//
// Canonicalization
//===----------------------------------------------------------------------===//

namespace {
/// Merges neighbouring idle slots into one entry.
struct MergeIdleSlots final : OpRewritePattern<WorkerOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(WorkerOp op,
                                PatternRewriter &rewriter) const override {
    Row merged;
    for (Cell cell : op.getCells()) {
      int64_t slots = cell.isIdle() ? cell.getIdleSlots() : 0;
      if (slots && !merged.empty() && merged.back().isIdle() &&
          merged.back().getIdleSlots() <= Cell::kMaxMicrobatches - slots)
        merged.back() = Cell::idle(merged.back().getIdleSlots() + slots);
      else
        merged.push_back(cell);
    }
    if (merged.size() == op.getCells().size())
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.takeCells(std::move(merged)); });
    return success();
  }
};

/// Drops empty rows: a schedule without cells is a problem that a pass can
/// fill.
struct DropEmptyRows final : OpRewritePattern<ScheduleOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ScheduleOp op,
                                PatternRewriter &rewriter) const override {
    auto isFilled = [](WorkerOp row) { return !row.getCells().empty(); };
    if (op.isProblem() || llvm::any_of(op.getRows(), isFilled))
      return failure();
    for (WorkerOp row : llvm::make_early_inc_range(op.getRows()))
      rewriter.eraseOp(row);
    rewriter.modifyOpInPlace(op, [&] { op.dropFamily(); });
    return success();
  }
};
} // namespace

void PipeDialect::getCanonicalizationPatterns(
    RewritePatternSet &patterns) const {
  patterns.add<MergeIdleSlots, DropEmptyRows>(getContext());
}
