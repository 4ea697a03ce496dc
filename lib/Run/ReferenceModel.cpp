//===- ReferenceModel.cpp - Runs the unpipelined model --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function of a stage gets an entry with C linkage, which takes a table of
// pointers and numbers, in the order of its arguments and results:
//
//   func @pipesched_reference_call_3(%w: memref<..>, %m: i64, %y: memref<..>)
//   llvm.func @pipesched_reference_entry_3(%table: !llvm.ptr)
//
// Calls are inlined, as in kernels, because two results of a function may be
// one tensor, which bufferization of calls does not detect. Upstream passes do
// the rest of the lowering.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/ReferenceModel.h"
#include "PipeSched-rt/Runtime.h"
#include "PipeSched/Conversion/ToLLVM.h"
#include "PipeSched/Stages/StageUses.h"
#include "PipeSched/Support/MakeError.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/BufferizationToMemRef/BufferizationToMemRef.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <csetjmp>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;

static constexpr char kCall[] = "pipesched_reference_call_";
static constexpr char kEntry[] = "pipesched_reference_entry_";
static constexpr char kFail[] = "pipesched_reference_fail";

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Adds notes with the clauses of stages that name the functions, for errors.
static void noteUses(const StageFunctions &functions) {
  StageUses uses;
  for (const Stage &stage : functions.stages)
    for (const auto &function : stage.functions)
      if (function)
        uses.add(function->op, enumName(function->kind), stage.number);
  int64_t last = functions.stages.back().number;
  if (functions.data)
    uses.add(functions.data->op, "data", 0);
  for (const auto &function : {functions.target, functions.loss})
    if (function)
      uses.add(function->op, enumName(function->kind), last);
  uses.write();
}

/// Keeps only the functions, and removes their stage attributes.
static void keepFunctions(ModuleOp module) {
  for (Operation &op : llvm::make_early_inc_range(*module.getBody())) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function) {
      op.erase();
      continue;
    }
    function.removeArgAttrsAttr();
    function.removeResAttrsAttr();
    if (!function.getName().starts_with(kCall))
      function.setPrivate();
  }
  module->setAttrs(DictionaryAttr::get(module.getContext()));
}

/// Gives the functions of stages names that occur in no library: a function
/// called `malloc` would be called to allocate memory.
static void renameFunctions(ModuleOp module) {
  llvm::DenseMap<StringAttr, StringAttr> names;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || function.getName().starts_with(kCall))
      continue;
    auto name = StringAttr::get(module.getContext(),
                                "pipesched_reference_" + Twine(names.size()));
    names[function.getNameAttr()] = name;
    function.setSymNameAttr(name);
  }
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](FlatSymbolRefAttr callee) -> std::optional<Attribute> {
        StringAttr name = names.lookup(callee.getAttr());
        return name ? FlatSymbolRefAttr::get(name) : callee;
      });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true);
}

/// Runs the first passes, whose errors contain the original names of functions,
/// then renames the functions.
static LogicalResult lowerStageOps(ModuleOp module) {
  PassManager manager(module.getContext());
  manager.addPass(createSymbolDCEPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(createLowerStageOpsPass());
  if (failed(manager.run(module)))
    return failure();
  renameFunctions(module);
  return success();
}

/// Lowers the module. Products of matrices and math functions are rounded as in
/// kernels, because the same libraries compute them.
static LogicalResult lower(ModuleOp module) {
  if (failed(lowerStageOps(module)))
    return failure();
  PassManager manager(module.getContext());
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addPass(std::move(pass));
  };
  add(createInlinerPass());
  add(createSymbolDCEPass());
  add(createCanonicalizerPass());
  add(createCSEPass());
  add(createFoldMatmulTransposesPass());
  manager.addNestedPass<func::FuncOp>(createConvertElementwiseToLinalgPass());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.allowReturnAllocsFromLoops = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  add(bufferization::createOneShotBufferizePass(bufferize));
  add(createCanonicalizerPass());
  add(createCSEPass());
  bufferization::buildBufferDeallocationPipeline(
      manager, bufferization::BufferDeallocationPipelineOptions());
  add(createConvertBufferizationToMemRefPass());
  // Inline the helper of deallocations: its memrefs of unknown sizes cannot
  // become bare pointers.
  add(createInlinerPass());
  add(createSymbolDCEPass());
  add(createLowerExternCallsPass());
  add(createLowerMemRefCopiesPass());
  add(createCallBlasPass());
  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  manager.addNestedPass<func::FuncOp>(createConvertVectorToSCFPass());
  add(memref::createExpandStridedMetadataPass());
  add(createLowerAffinePass());
  add(createSCFToControlFlowPass());
  LowerStageChecksPassOptions checks;
  checks.handler = kFail;
  add(createLowerStageChecksPass(checks));
  add(createCanonicalizerPass());
  add(createCSEPass());
  addNumberPasses(manager);
  add(createConvertVectorToLLVMPass());
  add(createConvertMathToLLVMPass());
  add(createConvertMathToLibmPass());
  add(createArithToLLVMConversionPass());
  add(createConvertIndexToLLVMPass());
  add(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  add(createConvertFuncToLLVMPass(functions));
  add(createConvertControlFlowToLLVMPass());
  add(createReconcileUnrealizedCastsPass());
  return manager.run(module);
}

//===----------------------------------------------------------------------===//
// Checks of functions
//===----------------------------------------------------------------------===//

namespace {
/// The state to which compiled code returns when a check fails.
struct Return {
  std::jmp_buf buffer;
  std::string text;
};
} // namespace

static thread_local Return *returnPlace = nullptr;

/// Compiled code calls this function when a check fails. Without an index
/// `size` is -1; it is -2 if `index` is the status of an extern function.
/// Functions of stages return tensors and no status, so this function jumps
/// back past them. Their code has only memory to clean up, which is lost at the
/// end of the run.
[[noreturn]] static void leave(const char *text, int64_t index, int64_t size) {
  returnPlace->text = text;
  if (size > 0)
    returnPlace->text += ": index " + std::to_string(index) +
                         ", expected 0 to " + std::to_string(size - 1);
  else if (size == 0)
    returnPlace->text +=
        ": index " + std::to_string(index) + ", but there are no elements";
  else if (size == -2)
    returnPlace->text += " returned " + std::to_string(index);
  std::longjmp(returnPlace->buffer, 1);
}

/// Calls code that may call `leave`, and returns the message of `leave`.
static std::string callChecked(llvm::function_ref<void()> code) {
  Return place;
  returnPlace = &place;
  if (setjmp(place.buffer) == 0)
    code();
  returnPlace = nullptr;
  return place.text;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The functions that the reference calls, each once.
static SetVector<Operation *> listFunctions(const StageFunctions &functions,
                                            bool steps) {
  SetVector<Operation *> listed;
  auto add = [&](const StageFunction *function) {
    if (function)
      listed.insert(function->op);
  };
  using Kind = pipe::StageFunctionKind;
  for (const Stage &stage : functions.stages)
    for (const EnumName<Kind> &entry : enumValues<Kind>())
      if (entry.value == Kind::Init ||
          (steps && entry.value != Kind::Recompute))
        add(stage.get(entry.value));
  if (steps)
    for (const auto *function :
         {&functions.data, &functions.target, &functions.loss})
      add(*function ? &**function : nullptr);
  return listed;
}

/// The types of tensors that the reference sums.
static SetVector<Type> listSums(const StageFunctions &functions) {
  SetVector<Type> types;
  for (const Stage &stage : functions.stages)
    for (const auto *tensors : {&stage.gradients, &stage.earlierGradients})
      for (const NamedTensor &tensor : *tensors)
        types.insert(tensor.type);
  if (functions.lastOutputGradient)
    types.insert(functions.lastOutputGradient);
  return types;
}

static Type toMemRef(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? MemRefType::get(tensor.getShape(), tensor.getElementType())
                : type;
}

/// Adds a function `number` that writes the results of `compute` on its
/// arguments to given memory.
static func::FuncOp
addFunction(ModuleOp module, size_t number, TypeRange arguments,
            TypeRange results,
            llvm::function_ref<ValueRange(OpBuilder &, ValueRange)> compute) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  SmallVector<Type> inputs = llvm::map_to_vector(arguments, toMemRef);
  llvm::append_range(inputs, llvm::map_range(results, toMemRef));
  auto function =
      func::FuncOp::create(builder, loc, (kCall + Twine(number)).str(),
                           builder.getFunctionType(inputs, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  SmallVector<Value> operands;
  for (auto [type, argument] : llvm::zip(arguments, function.getArguments())) {
    Value operand = argument;
    if (isa<RankedTensorType>(type))
      operand = bufferization::ToTensorOp::create(builder, loc, type, operand,
                                                  /*restrict=*/true,
                                                  /*writable=*/false);
    operands.push_back(operand);
  }
  auto places = function.getArguments().drop_front(arguments.size());
  for (auto [result, place] :
       llvm::zip_equal(compute(builder, operands), places))
    bufferization::MaterializeInDestinationOp::create(
        builder, loc, /*result=*/Type(), result, place, /*restrict=*/true,
        /*writable=*/true);
  func::ReturnOp::create(builder, loc);
  return function;
}

/// Adds a call. Errors in the callee state its stages.
static void addCall(ModuleOp module, size_t number, func::FuncOp callee) {
  func::FuncOp added = addFunction(
      module, number, callee.getArgumentTypes(), callee.getResultTypes(),
      [&](OpBuilder &builder, ValueRange operands) {
        return func::CallOp::create(builder, module.getLoc(), callee, operands)
            .getResults();
      });
  if (Attribute uses = callee->getAttr(kStageUsesName))
    added->setAttr(kStageUsesName, uses);
}

static void addSum(ModuleOp module, size_t number, Type type) {
  addFunction(module, number, {type, type}, type,
              [&](OpBuilder &builder, ValueRange operands) -> ValueRange {
                auto tensor = cast<RankedTensorType>(type);
                Value empty = tensor::EmptyOp::create(builder, module.getLoc(),
                                                      tensor.getShape(),
                                                      tensor.getElementType());
                return linalg::AddOp::create(builder, module.getLoc(), operands,
                                             empty)
                    ->getResults();
              });
}

/// Adds an entry that calls a lowered function with the numbers of a table.
static void addEntry(ModuleOp module, size_t number) {
  auto callee =
      module.lookupSymbol<LLVM::LLVMFuncOp>((kCall + Twine(number)).str());
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(module.getContext());
  auto entry = LLVM::LLVMFuncOp::create(
      builder, loc, (kEntry + Twine(number)).str(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()),
                                  pointer));
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> operands;
  for (auto [place, type] : llvm::enumerate(callee.getArgumentTypes())) {
    Value at = LLVM::GEPOp::create(
        builder, loc, pointer, builder.getI64Type(), block->getArgument(0),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(place)});
    operands.push_back(LLVM::LoadOp::create(builder, loc, type, at));
  }
  LLVM::CallOp::create(builder, loc, callee, operands);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
}

/// Calls compiled functions. After an error it calls no more.
class ReferenceModel::Caller : public ReferenceCaller {
public:
  explicit Caller(const ReferenceModel &model) : model(model) {}

  std::vector<ReferenceTensor>
  call(const StageFunction &function,
       ArrayRef<ReferenceArgument> arguments) override {
    std::vector<ReferenceTensor> results;
    for (const RoleValue &value : function.results)
      results.push_back(makeReferenceZeros(value.getTensorType()));
    run(model.calls.lookup(function.op), arguments, results);
    return results;
  }
  ReferenceTensor add(RankedTensorType type, const ReferenceTensor &left,
                      const ReferenceTensor &right) override {
    ReferenceTensor sum = makeReferenceZeros(type);
    run(model.sums.lookup(type), {{left}, {right}}, sum);
    return sum;
  }

  llvm::Error takeError() const {
    return error.empty() ? llvm::Error::success()
                         : makeError("unpipelined model: " + error);
  }

private:
  void run(Entry *entry, ArrayRef<ReferenceArgument> arguments,
           ArrayRef<ReferenceTensor> results) {
    std::vector<int64_t> table;
    auto addTensor = [&](const ReferenceTensor &tensor) {
      table.push_back(reinterpret_cast<intptr_t>(tensor.get()));
    };
    for (const ReferenceArgument &argument : arguments)
      if (argument.tensor)
        addTensor(argument.tensor);
      else
        table.push_back(argument.number);
    llvm::for_each(results, addTensor);
    if (error.empty())
      error = callChecked([&] { entry(table.data()); });
  }

  const ReferenceModel &model;
  std::string error; ///< empty if there is none
};

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

FailureOr<ReferenceModel>
ReferenceModel::compile(pipe::PlacementOwnerOpInterface owner, bool steps,
                        bool updates, ArrayRef<ExternLibrary> libraries) {
  FailureOr<StageFunctions> functions = loadStageFunctions(owner);
  if (failed(functions))
    return failure();
  OwningOpRef<ModuleOp> module(owner->getParentOfType<ModuleOp>().clone());
  noteUses(
      *loadStageFunctions(module->lookupSymbol<pipe::PlacementOwnerOpInterface>(
          SymbolTable::getSymbolName(owner))));
  // A module that does not use these dialects has not loaded them.
  owner.getContext()
      ->loadDialect<bufferization::BufferizationDialect, func::FuncDialect,
                    linalg::LinalgDialect, tensor::TensorDialect,
                    LLVM::LLVMDialect>();
  SetVector<Operation *> called = listFunctions(*functions, steps);
  SetVector<Type> summed = steps ? listSums(*functions) : SetVector<Type>();
  size_t number = 0;
  for (Operation *op : called)
    addCall(*module, number++,
            module->lookupSymbol<func::FuncOp>(
                cast<func::FuncOp>(op).getSymNameAttr()));
  for (Type type : summed)
    addSum(*module, number++, type);
  keepFunctions(*module);

  if (failed(lower(*module)))
    return owner.emitError("cannot lower the functions of its stages");
  for (size_t i = 0; i < number; ++i)
    addEntry(*module, i);
  auto fail = [&](llvm::Error error) {
    return owner.emitError("cannot compile the functions of its stages: ")
           << llvm::toString(std::move(error));
  };
  auto object = compileObject(*module);
  if (!object)
    return fail(object.takeError());
  llvm::Expected<LoadedObject> code = LoadedObject::load(
      **object,
      {{kFail, reinterpret_cast<void *>(&leave)},
       {"pipesched_rt_matmul", reinterpret_cast<void *>(&pipesched_rt_matmul)}},
      libraries);
  if (!code)
    return fail(code.takeError());
  int64_t numMicrobatches = owner.getNumMicrobatches();
  ReferenceModel reference(std::move(*functions), numMicrobatches, updates,
                           std::move(*code));
  std::vector<Entry *> entries;
  for (size_t i = 0; i < number; ++i) {
    auto entry = reference.code.find<Entry>((kEntry + Twine(i)).str());
    if (!entry)
      return fail(entry.takeError());
    entries.push_back(*entry);
  }
  for (auto [op, entry] : llvm::zip(called, entries))
    reference.calls[op] = entry;
  for (auto [type, entry] :
       llvm::zip(summed, ArrayRef(entries).drop_front(called.size())))
    reference.sums[type] = entry;
  return reference;
}

llvm::Error ReferenceModel::init(Memory &block) const {
  Caller caller(*this);
  runReferenceInit(caller, functions, layout, block.data());
  return caller.takeError();
}

llvm::Error ReferenceModel::run(Memory &block, int64_t step) const {
  Caller caller(*this);
  runReferenceStep(caller, functions, layout, numMicrobatches, updates, step,
                   block.data());
  return caller.takeError();
}
