//===- TwicePlugin.cpp - A dialect plugin for tests -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A dialect that no tool knows, with one op, x -> 2 x, and a pass that turns it
// into arith.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
/// `"twice.double"(%x) : (T) -> T`.
class DoubleOp
    : public Op<DoubleOp, OpTrait::ZeroRegions, OpTrait::OneResult,
                OpTrait::OneTypedResult<Type>::Impl, OpTrait::ZeroSuccessors,
                OpTrait::OneOperand, OpTrait::SameOperandsAndResultType,
                MemoryEffectOpInterface::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DoubleOp)

  using Op::Op;

  static StringRef getOperationName() { return "twice.double"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  void getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &) {}
};

struct TwiceDialect : Dialect {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TwiceDialect)

  explicit TwiceDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<TwiceDialect>()) {
    addOperations<DoubleOp>();
  }

  static StringRef getDialectNamespace() { return "twice"; }
};

struct LowerTwice : PassWrapper<LowerTwice, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerTwice)

  StringRef getArgument() const final { return "test-lower-twice"; }
  StringRef getDescription() const final { return "Turn twice into arith"; }

  void runOnOperation() override {
    getOperation().walk([](DoubleOp op) {
      OpBuilder builder(op);
      Value x = op->getOperand(0);
      Value sum = arith::AddFOp::create(builder, op.getLoc(), x, x);
      op->getResult(0).replaceAllUsesWith(sum);
      op->erase();
    });
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "TwicePlugin", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) { registry->insert<TwiceDialect>(); }};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "TwicePlugin", LLVM_VERSION_STRING,
          [] { PassRegistration<LowerTwice>(); }};
}
