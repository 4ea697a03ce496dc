//===- ExternLibraries.h - Files with extern functions ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the object files and libraries that stage functions name, and lists
// their contents (docs/Stages.md, "Extern functions").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_EXTERNLIBRARIES_H
#define PIPESCHED_RUN_EXTERNLIBRARIES_H

#include "mlir/IR/BuiltinOps.h"

namespace pipesched::run {

/// A file with C functions.
struct ExternLibrary {
  enum class Kind { Object, Archive, Shared };
  std::string path; ///< absolute
  Kind kind = Kind::Object;
  /// The functions that stages call in it.
  std::vector<std::string> symbols;
};

/// Finds the files of all referenced extern functions of the module, in the
/// order of the functions. Paths are relative to `folder`. Errors, emitted at
/// the function: it names no file; a file that cannot be read, or is neither an
/// object nor a library for this machine; a file without the function; two
/// files that both have it.
mlir::FailureOr<std::vector<ExternLibrary>>
findExternLibraries(mlir::ModuleOp module, llvm::StringRef folder);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_EXTERNLIBRARIES_H
