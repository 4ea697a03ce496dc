//===- LowerExternCalls.cpp - Calls of functions compiled elsewhere -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of a function with pipe.extern is lowered in three steps:
//
//   func.call @f(%x) on tensors
//   exec.call_extern ins(%x) outs(%empty)          lower-stage-ops
//   exec.call_extern ins(%m) outs(%n) on memrefs   one-shot-bufferize
//   %status = call @f(pointers, sizes, stream)     lower-extern-calls
//
//===----------------------------------------------------------------------===//

#include "ExternCalls.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Dialect/Exec/IR/CallExtern.h"
#include "PipeSched/Stages/ExternFunction.h"
#include "StageChecks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/InliningUtils.h"

namespace pipesched {
#define GEN_PASS_DEF_LOWEREXTERNCALLSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;
using exec::CallExternOp;

//===----------------------------------------------------------------------===//
// On tensors
//===----------------------------------------------------------------------===//

static void makeExternCall(func::CallOp call, const ExternFunction &function) {
  ImplicitLocOpBuilder builder(call.getLoc(), call);
  SmallVector<Value> inputs, inits;
  for (auto [index, argument] : llvm::enumerate(call.getOperands()))
    if (!llvm::is_contained(function.inPlace, static_cast<int64_t>(index)))
      inputs.push_back(argument);
  for (auto [type, place] :
       llvm::zip_equal(call.getResultTypes(), function.inPlace)) {
    auto tensor = cast<RankedTensorType>(type);
    inits.push_back(place >= 0
                        ? call.getOperand(place)
                        : tensor::EmptyOp::create(builder, tensor.getShape(),
                                                  tensor.getElementType()));
  }
  auto made =
      CallExternOp::create(builder, call.getResultTypes(), function.symbol,
                           inputs, inits, function.inPlace);
  call.replaceAllUsesWith(made);
  call.erase();
}

LogicalResult pipesched::makeExternCalls(ModuleOp module) {
  llvm::DenseMap<StringAttr, ExternFunction> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isExtern(function))
      continue;
    FailureOr<ExternFunction> read = readExtern(function);
    if (failed(read))
      return failure();
    functions[function.getNameAttr()] = std::move(*read);
  }
  if (functions.empty())
    return success();
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) {
    if (functions.contains(call.getCalleeAttr().getAttr()))
      calls.push_back(call);
  });
  for (func::CallOp call : calls)
    makeExternCall(call, functions[call.getCalleeAttr().getAttr()]);
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isExtern(function) &&
        SymbolTable::symbolKnownUseEmpty(function, module))
      function.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Bufferization
//===----------------------------------------------------------------------===//

namespace {
using bufferization::AnalysisState;
using bufferization::BufferizationOptions;
using bufferization::BufferizationState;

struct CallExternBufferization
    : bufferization::DstBufferizableOpInterfaceExternalModel<
          CallExternBufferization, CallExternOp> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand,
                              const AnalysisState &) const {
    auto call = cast<CallExternOp>(op);
    if (!call.isDpsInit(&operand))
      return true;
    return call.readsInit(operand.getOperandNumber() -
                          call.getInits().getBeginOperandIndex());
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto call = cast<CallExternOp>(op);
    rewriter.setInsertionPoint(op);
    auto buffersOf = [&](OperandRange values) -> FailureOr<SmallVector<Value>> {
      SmallVector<Value> buffers;
      for (Value value : values) {
        if (!isa<TensorType>(value.getType())) {
          buffers.push_back(value);
          continue;
        }
        FailureOr<Value> buffer =
            bufferization::getBuffer(rewriter, value, options, state);
        if (failed(buffer))
          return failure();
        buffers.push_back(*buffer);
      }
      return buffers;
    };
    FailureOr<SmallVector<Value>> inputs = buffersOf(call.getInputs());
    FailureOr<SmallVector<Value>> inits = buffersOf(call.getInits());
    if (failed(inputs) || failed(inits))
      return failure();
    CallExternOp::create(rewriter, op->getLoc(), TypeRange(), call.getSymbol(),
                         *inputs, *inits, call.getInPlace());
    bufferization::replaceOpWithBufferizedValues(rewriter, op, *inits);
    return success();
  }
};
} // namespace

namespace {
/// Allows inlining of functions with such calls into kernels, like other
/// functions.
struct CallExternInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *op, Region *, bool, IRMapping &) const final {
    return isa<CallExternOp>(op);
  }
};
} // namespace

void pipesched::registerExternCallInterfaces(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, exec::ExecDialect *dialect) {
    CallExternOp::attachInterface<CallExternBufferization>(*context);
    dialect->addInterfaces<CallExternInliner>();
  });
}

//===----------------------------------------------------------------------===//
// Calls of C functions
//===----------------------------------------------------------------------===//

/// Whether the elements are contiguous in the order of the dimensions.
static bool isContiguous(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset = 0, wanted = 1;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  for (auto [size, stride] :
       llvm::reverse(llvm::zip_equal(type.getShape(), strides))) {
    if (size != 1 && stride != wanted)
      return false;
    wanted *= size;
  }
  return true;
}

namespace {
class CallLowering {
public:
  explicit CallLowering(CallExternOp op) : builder(op.getLoc(), op), op(op) {}

  LogicalResult run(SymbolTable &symbols);

private:
  Value contiguous(Value memref, bool reads, bool writes);
  void addTensor(Value memref);
  FailureOr<func::FuncOp> declare(SymbolTable &symbols);

  ImplicitLocOpBuilder builder;
  CallExternOp op;
  SmallVector<Value> operands; ///< of the C function
  struct Copy {
    Value from, to;
  };
  SmallVector<Copy> copies; ///< after the call
  SmallVector<Value> temporaries;
};
} // namespace

/// Returns the memref, or a copy of it if it is not contiguous.
Value CallLowering::contiguous(Value memref, bool reads, bool writes) {
  auto type = cast<MemRefType>(memref.getType());
  if (isContiguous(type))
    return memref;
  Value copy = memref::AllocOp::create(
      builder, MemRefType::get(type.getShape(), type.getElementType()),
      builder.getI64IntegerAttr(64));
  temporaries.push_back(copy);
  if (reads)
    memref::CopyOp::create(builder, memref, copy);
  if (writes)
    copies.push_back({copy, memref});
  return copy;
}

/// Adds the operands for a tensor: a pointer, and the size of each dimension.
void CallLowering::addTensor(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  int64_t known = 0;
  (void)type.getStridesAndOffset(strides, known);
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, memref);
  if (known != 0) {
    auto metadata = memref::ExtractStridedMetadataOp::create(builder, memref);
    Value bytes = arith::ConstantIndexOp::create(
        builder, type.getElementTypeBitWidth() / 8);
    Value offset = arith::MulIOp::create(builder, metadata.getOffset(), bytes);
    address = arith::AddIOp::create(builder, address, offset);
  }
  Value number =
      arith::IndexCastOp::create(builder, builder.getI64Type(), address);
  operands.push_back(LLVM::IntToPtrOp::create(
      builder, LLVM::LLVMPointerType::get(builder.getContext()), number));
  for (int64_t size : type.getShape())
    operands.push_back(arith::ConstantIntOp::create(builder, size, 64));
}

FailureOr<func::FuncOp> CallLowering::declare(SymbolTable &symbols) {
  auto type = builder.getFunctionType(ValueRange(operands).getTypes(),
                                      builder.getI32Type());
  Operation *found = symbols.lookup(op.getSymbol());
  if (auto function = dyn_cast_or_null<func::FuncOp>(found))
    if (function.isExternal() && function.getFunctionType() == type)
      return function;
  if (found) {
    InFlightDiagnostic diagnostic =
        op.emitError("calls the extern function '")
        << op.getSymbol()
        << "', but the module has another symbol of this name, or one that is "
           "called with other arguments; rename one of them";
    diagnostic.attachNote(found->getLoc()) << "the symbol is here";
    return diagnostic;
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(op->getParentOfType<ModuleOp>().getBody());
  auto function = func::FuncOp::create(builder, op.getSymbol(), type);
  function.setPrivate();
  symbols.insert(function);
  return function;
}

LogicalResult CallLowering::run(SymbolTable &symbols) {
  unsigned firstInit = op.getInits().getBeginOperandIndex();
  for (OpOperand *operand : op.getOperandsInOrder()) {
    Value value = operand->get();
    if (isa<TensorType, UnrankedMemRefType>(value.getType()))
      return op.emitError("calls the extern function '")
             << op.getSymbol() << "' with an operand of type "
             << value.getType() << "; expected memrefs of static shape";
    if (!isa<MemRefType>(value.getType())) {
      operands.push_back(value);
      continue;
    }
    bool isInit = op.isDpsInit(operand);
    bool reads =
        !isInit || op.readsInit(operand->getOperandNumber() - firstInit);
    addTensor(contiguous(value, reads, isInit));
  }
  // Kernels run on the processor, which has no streams.
  operands.push_back(LLVM::ZeroOp::create(
      builder, LLVM::LLVMPointerType::get(builder.getContext())));
  FailureOr<func::FuncOp> function = declare(symbols);
  if (failed(function))
    return failure();
  auto call = func::CallOp::create(builder, *function, operands);
  requireStatus(builder, call.getResult(0),
                "extern function '" + op.getSymbol() + "'");
  for (Copy copy : copies)
    memref::CopyOp::create(builder, copy.from, copy.to);
  for (Value temporary : temporaries)
    memref::DeallocOp::create(builder, temporary);
  op.erase();
  return success();
}

namespace {
struct LowerExternCallsPass
    : pipesched::impl::LowerExternCallsPassBase<LowerExternCallsPass> {
  void runOnOperation() override {
    SmallVector<CallExternOp> calls;
    getOperation().walk([&](CallExternOp call) { calls.push_back(call); });
    SymbolTable symbols(getOperation());
    for (CallExternOp call : calls)
      if (failed(CallLowering(call).run(symbols)))
        return signalPassFailure();
  }
};
} // namespace
