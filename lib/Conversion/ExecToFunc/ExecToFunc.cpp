//===- ExecToFunc.cpp - From a program to functions -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans all programs first, then replaces each by functions, so that the module
// is unchanged after an error.
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Stages/StageUses.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace pipesched {
#define GEN_PASS_DEF_CONVERTEXECTOFUNCPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Removal of remaining pipe ops
//===----------------------------------------------------------------------===//

static bool isOfPipe(NamedAttribute attribute) {
  return attribute.getName().strref().starts_with("pipe.");
}

/// Drops the roles of arguments and results.
static void dropRoles(func::FuncOp function) {
  auto filter = [&](DictionaryAttr attributes) {
    SmallVector<NamedAttribute> kept;
    for (NamedAttribute attribute : attributes.getValue())
      if (!isOfPipe(attribute))
        kept.push_back(attribute);
    return DictionaryAttr::get(function.getContext(), kept);
  };
  for (unsigned i = 0, e = function.getNumArguments(); i != e; ++i)
    if (DictionaryAttr attributes = function.getArgAttrDict(i))
      function.setArgAttrs(i, filter(attributes));
  for (unsigned i = 0, e = function.getNumResults(); i != e; ++i)
    if (DictionaryAttr attributes = function.getResultAttrDict(i))
      function.setResultAttrs(i, filter(attributes));
}

static bool holdsPipeAttributes(Attribute attribute) {
  return attribute
      .walk([](Attribute part) {
        return isa<pipe::PipeDialect>(part.getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Removes models, roles and the description of the system if no remaining
/// schedule needs them.
static void dropFacts(ModuleOp module) {
  if (!module.getOps<pipe::PlacementOwnerOpInterface>().empty())
    return;
  for (auto model : llvm::make_early_inc_range(module.getOps<pipe::ModelOp>()))
    model.erase();
  for (auto function : module.getOps<func::FuncOp>())
    dropRoles(function);
  for (NamedAttribute attribute :
       llvm::to_vector(module->getDiscardableAttrs()))
    if (isOfPipe(attribute) || holdsPipeAttributes(attribute.getValue()))
      module->removeDiscardableAttr(attribute.getName());
}

/// Adds notes about functions and kernels to errors of their ops, both when
/// compiled and when run.
static void noteUses(const StepPlan &plan, ArrayRef<func::FuncOp> functions) {
  StageUses uses;
  for (auto [kernel, function] : llvm::zip_equal(plan.kernels, functions))
    for (auto [stage, phase] : kernel.cells)
      uses.add(function, std::string(1, phaseLetter(phase)), stage);
  for (const Stage &stage : plan.functions.stages)
    if (const StageFunction *init = stage.get(pipe::StageFunctionKind::Init))
      uses.add(init->op, enumName(init->kind), stage.number);
  uses.write();
}

/// Allows inlining of the function and of all functions that it calls: their
/// checks can end the kernel only if they are a part of it.
static void allowInlining(func::FuncOp function, SymbolTable &symbols) {
  SetVector<Operation *> reached;
  reached.insert(function);
  for (size_t next = 0; next < reached.size(); ++next) {
    cast<func::FuncOp>(reached[next]).setNoInline(false);
    reached[next]->walk([&](func::CallOp call) {
      call.setNoInline(false);
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
        reached.insert(callee);
    });
  }
}

/// Makes functions of stages private, so that they are removed after inlining.
static void makePrivate(StepPlan &plan, SymbolTable &symbols) {
  for (KernelPlan &kernel : plan.kernels)
    for (const KernelCall &call : kernel.kernel->calls) {
      func::FuncOp function = call.function->op;
      function.setPrivate();
      allowInlining(function, symbols);
    }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

static StringRef nameOf(Operation *owner) {
  return SymbolTable::getSymbolName(owner).getValue();
}

/// The library of the runtime defines these functions.
static LogicalResult verifyRuntimeNames(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function.getName().starts_with("pipesched_rt_") &&
        !function.isDeclaration())
      return function.emitError("'@")
             << function.getName()
             << "' has a name of the runtime's functions, which begin with "
                "'pipesched_rt_'; rename it";
  return success();
}

/// The names that the compiled program takes must be free.
static LogicalResult verifyNames(Operation *owner, const StepPlan &plan,
                                 ArrayRef<StringRef> parts,
                                 SymbolTable &symbols) {
  StringRef program = nameOf(owner);
  SmallVector<std::string> names;
  for (StringRef part : parts)
    names.push_back(symbolOf(program, part));
  for (size_t i = 0; i < plan.workers.size(); ++i)
    names.push_back(workerName(program, i));
  for (const KernelPlan &kernel : plan.kernels)
    names.push_back(symbolOf(program, kernel.name));
  for (const std::string &name : names) {
    if (Operation *other = symbols.lookup(name)) {
      InFlightDiagnostic diagnostic =
          pipe::emitTableError(owner)
          << "becomes functions, one of them @" << name
          << ", but the module already has this symbol; rename one of them";
      diagnostic.attachNote(other->getLoc()) << "the symbol is here";
      return diagnostic;
    }
  }
  return success();
}

static void convert(Operation *owner, StepPlan &plan, KernelForm form,
                    EmitWorkers emit, SymbolTable &symbols) {
  ImplicitLocOpBuilder builder(owner->getLoc(), owner);
  StringRef name = nameOf(owner);
  SmallVector<func::FuncOp> kernels;
  for (const KernelPlan &kernel : plan.kernels)
    kernels.push_back(
        createKernel(builder, name, kernel, plan.functions.numSlices, form));
  noteUses(plan, kernels);
  emit(builder, name, plan, kernels);
  makePrivate(plan, symbols);
  owner->erase();
}

LogicalResult pipesched::replaceByFunctions(ModuleOp module,
                                            std::vector<PlannedOwner> owners,
                                            KernelForm form,
                                            ArrayRef<StringRef> parts,
                                            EmitWorkers emit) {
  SymbolTable symbols(module);
  if (failed(verifyRuntimeNames(module)))
    return failure();
  for (const PlannedOwner &owner : owners)
    if (failed(verifyNames(owner.op, *owner.plan, parts, symbols)))
      return failure();
  for (PlannedOwner &owner : owners)
    convert(owner.op, *owner.plan, form, emit, symbols);
  dropFacts(module);
  return success();
}

LogicalResult pipesched::replaceByFunctions(ModuleOp module,
                                            std::vector<PlannedOwner> owners,
                                            ProgramForm form) {
  auto emit = [&](ImplicitLocOpBuilder &builder, StringRef name,
                  const StepPlan &plan, ArrayRef<func::FuncOp> kernels) {
    RuntimeCalls runtime(module);
    if (form == ProgramForm::Table)
      createTableForm(builder, name, plan, kernels, runtime);
    else
      createStraightForm(builder, name, plan, kernels, runtime);
    createEntries(builder, name, plan, getWorkerType(module.getContext()));
  };
  return replaceByFunctions(module, std::move(owners), KernelForm::Runtime,
                            {"step", "size", "layout", "layout_text", "sizes",
                             "members", "table", "walk", "word"},
                            emit);
}

namespace {
struct ConvertExecToFuncPass final
    : pipesched::impl::ConvertExecToFuncPassBase<ConvertExecToFuncPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<exec::ProgramOp>> programs =
        pipe::selectPrograms(module);
    if (failed(programs))
      return signalPassFailure();
    std::vector<PlannedOwner> owners;
    for (exec::ProgramOp program : *programs) {
      FailureOr<std::unique_ptr<StepPlan>> plan = planSteps(program, form);
      if (failed(plan))
        return signalPassFailure();
      owners.push_back({program, std::move(*plan)});
    }
    if (failed(replaceByFunctions(module, std::move(owners), form)))
      signalPassFailure();
  }
};
} // namespace
