//===- NegatePlugin.cpp - A pass plugin for tests -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pass that no tool has: it multiplies the negatives of both factors, which
// gives the same bits, or of one, which gives other bits.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
struct NegateFactors : PassWrapper<NegateFactors, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NegateFactors)

  NegateFactors() = default;
  NegateFactors(const NegateFactors &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-negate-factors"; }
  StringRef getDescription() const final { return "Negate factors"; }

  void runOnOperation() override {
    getOperation().walk([&](arith::MulFOp op) {
      OpBuilder builder(op);
      for (OpOperand &operand : op->getOpOperands())
        if (operand.getOperandNumber() == 0 || !wrong)
          operand.set(
              arith::NegFOp::create(builder, op.getLoc(), operand.get()));
    });
  }

  Option<bool> wrong{*this, "wrong", llvm::cl::init(false)};
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "NegatePlugin", LLVM_VERSION_STRING,
          [] { PassRegistration<NegateFactors>(); }};
}
