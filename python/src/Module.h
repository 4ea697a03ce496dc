//===- Module.h - A module with its own context -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modules share no data, so threads with different modules never wait for each
// other.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_MODULE_H
#define PIPESCHED_PYTHON_SRC_MODULE_H

#include "Diagnostics.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Table/CellNumbers.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/SourceMgr.h"
#include <memory>
#include <mutex>

namespace pipesched::python {

/// A module, its context, and the lock that guards both. The module is
/// immutable once it is created.
class Module {
public:
  using Made = mlir::OwningOpRef<mlir::ModuleOp>;
  /// Makes a module in a context; null after an error.
  using Make = llvm::function_ref<Made(mlir::MLIRContext &)>;

  /// Calls `make` without the GIL. Raises the diagnostics that it emits.
  static std::shared_ptr<Module> create(Make make);
  Module(const Module &) = delete;

  mlir::ModuleOp get() const { return module.get(); }
  /// A schedule or program of the module. Throws a Failure if there is none.
  mlir::Operation *getSchedule(size_t index) const;

  /// Lets errors about a copy in another context point at cells of the text.
  void copyCellPlaces(mlir::MLIRContext &to) const;
  void copyCellPlaces(const Module &to) const { copyCellPlaces(to.context); }

  /// Calls `work` with the lock and without the GIL, and returns its result. If
  /// `work` throws a Failure, raises the diagnostics that it emitted.
  template <typename Work>
  auto run(Work work) const {
    Diagnostics emitted;
    try {
      auto result = runLocked(work, emitted);
      warn(emitted);
      return result;
    } catch (Failure) {
      raise(emitted);
    }
  }

private:
  Module();

  template <typename Work>
  auto runLocked(Work &work, Diagnostics &emitted) const {
    nanobind::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(mutex);
    DiagnosticScope scope(context, emitted);
    return work();
  }

  mutable mlir::MLIRContext context;
  Made module;
  mutable std::mutex mutex;
};

/// A copy of the module with a change, which may throw a Failure.
std::shared_ptr<Module>
changeCopy(const Module &module,
           llvm::function_ref<void(mlir::ModuleOp)> change);

/// The op as a schedule. For a program it emits `refusal` and throws a Failure.
pipe::ScheduleOp toSchedule(mlir::Operation *op, llvm::StringRef refusal);

/// The error in the output of MLIR's pipeline parser, which reports errors only
/// as text and repeats the pipeline below the message.
llvm::StringRef errorOf(llvm::StringRef printed);

/// Runs passes on the module. Throws a Failure after an error.
void runPasses(mlir::ModuleOp module, llvm::StringRef pipeline);

/// Text or bytecode that MLIR's readers may be given; null after an error.
std::unique_ptr<llvm::SourceMgr> guardSource(mlir::MLIRContext &context,
                                             llvm::StringRef source,
                                             llvm::StringRef name,
                                             bool isTrusted);

/// Stage, phase, number, whether the next one runs overlapped, and slice.
using RawCell = std::tuple<int64_t, int, int64_t, bool, int64_t>;
using RawRows = std::vector<std::vector<RawCell>>;
std::vector<std::vector<CellNumbers>> toNumbers(const RawRows &rows);

/// The cells of a row as text; pairs as `2F3+1B0`.
std::vector<std::string> wordsOf(llvm::ArrayRef<Cell> row, int64_t numSlices);

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_MODULE_H
