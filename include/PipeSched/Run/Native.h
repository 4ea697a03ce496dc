//===- Native.h - From IR to machine code -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles modules of the LLVM dialect to an object for this machine, and loads
// objects into this process. The same object is loaded, linked and emitted.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_NATIVE_H
#define PIPESCHED_RUN_NATIVE_H

#include "PipeSched/Run/ExternLibraries.h"
#include "PipeSched/Run/State.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace pipesched::run {

/// Initializes code generation for this machine; once per process.
void initializeNative();

/// The LLVM IR of a module of the LLVM dialect, optimized for this machine, as
/// text.
llvm::Expected<std::string> emitLLVM(mlir::ModuleOp module);

/// A second name of a function.
struct NativeAlias {
  std::string name, function;
};

struct Training {
  int64_t steps;
  /// The block of the model, and where its tensors are.
  const PersistentLayout &model;
  const Memory &start;
  llvm::ArrayRef<PersistentLayout> layouts; ///< by worker
  /// By worker, the least ns of each of its instructions, by their number in
  /// the log; empty if they run at full speed.
  llvm::ArrayRef<std::vector<int64_t>> paces;
};

/// The parts of a linked program besides its functions.
struct NativeEntries {
  std::vector<NativeAlias> aliases;
  /// The data of the training gets the name `trainingName`.
  Training training;
  std::string trainingName;
};

/// An object file for this machine from a module of the LLVM dialect. Its code
/// is position independent, and symbols are the names of the functions, plus
/// the entries, if there are some. Errors: an alias of no function, or a name
/// that something else in the module has.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compileObject(mlir::ModuleOp module, const NativeEntries *entries = nullptr);

/// A name that loaded code may call, and the address that it calls.
struct NativeSymbol {
  llvm::StringRef name;
  void *address;
};

/// An object in this process, as long as this lives.
class LoadedObject {
public:
  /// Functions that are not among `symbols` come from `libraries`, and else
  /// from the C library. Errors: a function that is nowhere; a library that
  /// cannot be loaded.
  static llvm::Expected<LoadedObject>
  load(const llvm::MemoryBuffer &object, llvm::ArrayRef<NativeSymbol> symbols,
       llvm::ArrayRef<ExternLibrary> libraries = {});

  template <typename Function>
  llvm::Expected<Function *> find(llvm::StringRef name) {
    llvm::Expected<llvm::orc::ExecutorAddr> address = jit->lookup(name);
    if (!address)
      return address.takeError();
    return address->toPtr<Function *>();
  }

private:
  explicit LoadedObject(std::unique_ptr<llvm::orc::LLJIT> jit)
      : jit(std::move(jit)) {}

  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace pipesched::run

#endif // PIPESCHED_RUN_NATIVE_H
