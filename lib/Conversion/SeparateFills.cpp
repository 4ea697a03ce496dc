//===- SeparateFills.cpp - A fill for each op that begins with one --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models are exported with one fill for all sums of a shape. Bufferization lets
// one of them use it in place, and copies it for the others.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace pipesched {
#define GEN_PASS_DEF_SEPARATEFILLSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

/// The operands that begin with the fill, and would overwrite it in place.
static SmallVector<OpOperand *> findStarts(linalg::FillOp fill) {
  SmallVector<OpOperand *> starts;
  for (OpOperand &use : fill->getUses()) {
    auto user = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
    if (user && user.isDpsInit(&use))
      starts.push_back(&use);
  }
  return starts;
}

/// Gives an operand a fill of its own, in front of its op.
static void separate(RewriterBase &rewriter, linalg::FillOp fill,
                     OpOperand &start) {
  rewriter.setInsertionPoint(start.getOwner());
  auto type = cast<RankedTensorType>(fill.getResultTypes()[0]);
  Value empty = tensor::EmptyOp::create(rewriter, fill.getLoc(),
                                        type.getShape(), type.getElementType());
  auto own = linalg::FillOp::create(rewriter, fill.getLoc(), fill.getInputs(),
                                    ValueRange{empty});
  rewriter.modifyOpInPlace(start.getOwner(),
                           [&] { start.set(own.getResult(0)); });
}

namespace {
struct SeparateFillsPass
    : pipesched::impl::SeparateFillsPassBase<SeparateFillsPass> {
  void runOnOperation() override {
    SmallVector<linalg::FillOp> shared;
    getOperation().walk([&](linalg::FillOp fill) {
      if (fill.hasPureTensorSemantics() && !fill.hasDynamicShape() &&
          !fill->hasOneUse())
        shared.push_back(fill);
    });
    IRRewriter rewriter(&getContext());
    for (linalg::FillOp fill : shared) {
      for (OpOperand *start : findStarts(fill))
        separate(rewriter, fill, *start);
      if (fill->use_empty())
        rewriter.eraseOp(fill);
    }
  }
};
} // namespace
