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

/// Initializes code generation for this machine. Call it once per process.
void initializeNative();

/// Returns the LLVM IR of a module of the LLVM dialect, optimized for this
/// machine, as text.
llvm::Expected<std::string> emitLLVM(mlir::ModuleOp module);

/// A second name of a function.
struct NativeAlias {
  std::string name, function;
};

struct Training {
  int64_t steps;
  /// The block of the model, with the places of its tensors.
  const PersistentLayout &model;
  const Memory &start;
  llvm::ArrayRef<PersistentLayout> layouts; ///< by worker
  /// By worker: the minimum ns of each of its instructions, by their number in
  /// the log; empty: full speed.
  llvm::ArrayRef<std::vector<int64_t>> paces;
};

/// The parts of a linked program in addition to its functions.
struct NativeEntries {
  std::vector<NativeAlias> aliases;
  /// The name of the data of the training is `trainingName`.
  Training training;
  std::string trainingName;
};

/// Returns an object file for this machine, made from a module of the LLVM
/// dialect. Its code is position independent. Symbols are the names of the
/// functions and, if given, the entries. Errors: an alias of a function that
/// does not exist, or a name that already exists in the module.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compileObject(mlir::ModuleOp module, const NativeEntries *entries = nullptr);

/// A name that loaded code may call, and the address that it calls.
struct NativeSymbol {
  llvm::StringRef name;
  void *address;
};

/// An object loaded into this process as long as this object lives.
class LoadedObject {
public:
  /// Loads an object. Functions that are not in `symbols` are looked up in
  /// `libraries`, then in the C library. Errors: a function that is not found;
  /// a library that cannot be loaded.
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
