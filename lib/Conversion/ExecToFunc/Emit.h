//===- Emit.h - Functions of a compiled program -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of convert-exec-to-func and convert-exec-to-mpi that create ops.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_EXECTOFUNC_EMIT_H
#define PIPESCHED_LIB_CONVERSION_EXECTOFUNC_EMIT_H

#include "PipeSched/Conversion/Passes.h"
#include "StepPlan.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace pipesched {

/// Returns the symbol of a part of program `name`, such as "p_step".
inline std::string symbolOf(llvm::StringRef name, const llvm::Twine &part) {
  return (name + "_" + part).str();
}

/// Creates a private function, which other objects do not see. MLIR does not
/// inline it, so that a kernel remains one function; LLVM may.
mlir::func::FuncOp createPrivate(mlir::ImplicitLocOpBuilder &builder,
                                 llvm::StringRef name, mlir::FunctionType type);

/// Who hears of a failed check in a kernel.
enum class KernelForm {
  Runtime, ///< our runtime: a kernel takes its context and returns a status
  Plain    ///< nobody: the process aborts
};

/// Creates the function of a kernel: memrefs of its arguments in their order,
/// then the unit (microbatch x slices + slice), the step and the context. It
/// returns a status. A plain kernel has neither context nor status.
mlir::func::FuncOp createKernel(mlir::ImplicitLocOpBuilder &builder,
                                llvm::StringRef program, const KernelPlan &plan,
                                int64_t numSlices, KernelForm form);

/// The functions of the runtime, declared on first use.
class RuntimeCalls {
public:
  explicit RuntimeCalls(mlir::ModuleOp module) : module(module) {}

  /// Calls `pipesched_rt_<name>`; returns null for functions without a result.
  mlir::Value call(mlir::ImplicitLocOpBuilder &builder, llvm::StringRef name,
                   mlir::ValueRange operands, bool hasStatus = true);

private:
  mlir::ModuleOp module;
};

/// The operands of an action as values. `index` is the index of the first word.
class Words {
public:
  virtual ~Words() = default;
  /// The number of the current instruction, as i32.
  virtual mlir::Value instruction() = 0;
  virtual mlir::Value i32(unsigned index) = 0;
  /// An unsigned word as i64.
  virtual mlir::Value i64(unsigned index) = 0;
  /// Two words as one number.
  virtual mlir::Value size(unsigned index) = 0;
  /// A slot in bytes.
  virtual mlir::Value bytes(unsigned index) = 0;
};

/// The words of an action as constants.
class ConstantWords final : public Words {
public:
  /// `current` is the number of the instruction that runs.
  ConstantWords(mlir::ImplicitLocOpBuilder &builder,
                llvm::ArrayRef<uint32_t> words, int64_t current)
      : builder(builder), words(words), current(current) {}

  mlir::Value instruction() override;
  mlir::Value i32(unsigned index) override;
  mlir::Value i64(unsigned index) override;
  mlir::Value size(unsigned index) override;
  mlir::Value bytes(unsigned index) override;

private:
  mlir::ImplicitLocOpBuilder &builder;
  llvm::ArrayRef<uint32_t> words;
  int64_t current;
};

/// The memory of a worker as values.
struct WorkerBlocks {
  mlir::Value persistent, arena; ///< memrefs of i8
  mlir::Value step;
};

/// Emits the operands of a kernel, up to and without the context.
llvm::SmallVector<mlir::Value> emitOperands(mlir::ImplicitLocOpBuilder &builder,
                                            const KernelPlan &kernel,
                                            Words &words,
                                            const WorkerBlocks &blocks);

/// The numbers at a place of a block, as a memref of this type.
mlir::Value viewAt(mlir::ImplicitLocOpBuilder &builder, mlir::Value block,
                   mlir::Value bytes, llvm::ArrayRef<int64_t> shape,
                   mlir::Type elementType);

/// Emits actions; both forms use it, with separate words.
class ActionEmitter {
public:
  ActionEmitter(mlir::ImplicitLocOpBuilder &builder, RuntimeCalls &runtime,
                const StepPlan &plan,
                llvm::ArrayRef<mlir::func::FuncOp> kernels, mlir::Value members)
      : builder(builder), runtime(runtime), plan(plan), kernels(kernels),
        members(members) {}

  /// Sets the arguments of the function that contains the actions, from the
  /// context on.
  void enter(mlir::ValueRange arguments);

  /// Emits one action; returns its status, or null if it has none.
  mlir::Value emit(uint32_t opcode, Words &words);

private:
  mlir::Value pointer(mlir::Value base, mlir::Value bytes);
  mlir::Value emitMessage(llvm::StringRef name, Words &words);
  mlir::Value membersFrom(mlir::Value first);
  mlir::Value emitAllReduce(mlir::Value block, Words &words);
  mlir::Value emitBroadcast(Words &words);
  mlir::Value emitZero(mlir::Value block, Words &words);
  mlir::Value emitCopy(Words &words);
  mlir::Value emitKernel(unsigned number, Words &words);
  mlir::Value constant(int64_t value, mlir::Type type);

  mlir::ImplicitLocOpBuilder &builder;
  RuntimeCalls &runtime;
  const StepPlan &plan;
  llvm::ArrayRef<mlir::func::FuncOp> kernels;
  mlir::Value members; ///< a pointer
  mlir::Value context, persistent, arena, host;
  WorkerBlocks blocks; ///< the same as memrefs
};

/// Creates `<p>_worker_<w>` for each worker and the functions that they call.
/// They take context, persistent, arena, host and step, and return a status.
void createTableForm(mlir::ImplicitLocOpBuilder &builder,
                     llvm::StringRef program, const StepPlan &plan,
                     llvm::ArrayRef<mlir::func::FuncOp> kernels,
                     RuntimeCalls &runtime);
void createStraightForm(mlir::ImplicitLocOpBuilder &builder,
                        llvm::StringRef program, const StepPlan &plan,
                        llvm::ArrayRef<mlir::func::FuncOp> kernels,
                        RuntimeCalls &runtime);

/// The type of `<p>_worker_<w>`.
mlir::FunctionType getWorkerType(mlir::MLIRContext *context);

/// The symbol of the function of a worker, `<p>_worker_<w>`.
inline std::string workerName(llvm::StringRef program, size_t worker) {
  return symbolOf(program, "worker_" + llvm::Twine(worker));
}

/// Creates `<p>_step`, `<p>_size` and `<p>_layout`. `worker` is the type of
/// `<p>_worker_<w>`.
void createEntries(mlir::ImplicitLocOpBuilder &builder, llvm::StringRef program,
                   const StepPlan &plan, mlir::FunctionType worker);

/// A schedule or program, and the planned steps of its workers.
struct PlannedOwner {
  mlir::Operation *op;
  std::unique_ptr<StepPlan> plan;
};

/// Creates the functions of workers and all that others call.
using EmitWorkers = llvm::function_ref<void(
    mlir::ImplicitLocOpBuilder &builder, llvm::StringRef program,
    const StepPlan &plan, llvm::ArrayRef<mlir::func::FuncOp> kernels)>;

/// Replaces each of `owners` by its kernels and the functions that `emit`
/// creates. Errors, emitted at the owner before anything is replaced: a symbol
/// that the module has already. `parts` are the parts of the symbols that
/// `emit` creates, except `worker_<w>`.
mlir::LogicalResult replaceByFunctions(mlir::ModuleOp module,
                                       std::vector<PlannedOwner> owners,
                                       KernelForm form,
                                       llvm::ArrayRef<llvm::StringRef> parts,
                                       EmitWorkers emit);

/// The same for functions that call our runtime.
mlir::LogicalResult replaceByFunctions(mlir::ModuleOp module,
                                       std::vector<PlannedOwner> owners,
                                       ProgramForm form);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_EXECTOFUNC_EMIT_H
