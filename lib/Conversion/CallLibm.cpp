//===- CallLibm.cpp - Functions that lose precision upstream --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// convert-math-to-llvm computes exp(x) - 1 and log(1 + x) by subtraction and
// addition, which leaves no correct digits if x is near 0. So this pass, which
// runs before it, replaces these two ops by calls.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"

namespace pipesched {
#define GEN_PASS_DEF_CALLLIBMPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

namespace {
struct CallLibmPass : pipesched::impl::CallLibmPassBase<CallLibmPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathToLibmConversionPatterns(patterns);
    ConversionTarget target(getContext());
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    target.addIllegalOp<math::ExpM1Op, math::Log1pOp>();
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
