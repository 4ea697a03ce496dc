//===- Version.h - Versions of PipeSched and of LLVM ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The version of PipeSched, and everything that depends on the version of LLVM.
// To move to another LLVM, change this header, then the places that
// docs/Contributing.md lists.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_VERSION_H
#define PIPESCHED_SUPPORT_VERSION_H

#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR != 22 || LLVM_VERSION_MINOR != 1
#error "this PipeSched needs LLVM and MLIR 22.1"
#endif

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace pipesched {

/// Returns the version of the library, such as `0.2.0`.
const char *version();

/// Prints the versions of PipeSched and LLVM, for `--version` of tools.
void printVersion(llvm::raw_ostream &os);

/// Options of MLIR's tools that our tools find by name. If a name has changed,
/// LLVM finds no option and reports nothing.
inline constexpr const char *kPrintOpOption = "mlir-print-op-on-diagnostic";
inline constexpr const char *kPluginOptions[] = {"load-pass-plugin",
                                                 "load-dialect-plugin"};

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_VERSION_H
