//===- ExternLibraries.h - Files with extern functions ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the object files and libraries that functions of stages name, and lists
// their contents (docs/Stages.md, "Extern functions").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_EXTERNLIBRARIES_H
#define PIPESCHED_RUN_EXTERNLIBRARIES_H

#include "mlir/IR/BuiltinOps.h"

namespace pipesched::run {

/// A file with functions of C.
struct ExternLibrary {
  enum class Kind { Object, Archive, Shared };
  std::string path; ///< absolute
  Kind kind = Kind::Object;
  /// The functions that stages call.
  std::vector<std::string> symbols;
};

/// The files of all extern functions of the module that something names, in the
/// order of the functions. Paths start at `folder`. Errors, emitted at the
/// function: it names no file; a file that cannot be read, or is neither an
/// object nor a library of this machine; a file without the function; two files
/// that both have it.
mlir::FailureOr<std::vector<ExternLibrary>>
findExternLibraries(mlir::ModuleOp module, llvm::StringRef folder);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_EXTERNLIBRARIES_H
