//===- PrintableDiagnostics.h - IR and errors on a terminal -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// IR files may start with a byte order mark, and their names may contain
// control characters, which a terminal interprets instead of showing them. MLIR
// handles neither, so tools pass their inputs and their diagnostics through
// these functions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_PRINTABLEDIAGNOSTICS_H
#define PIPESCHED_ADAPTER_PRINTABLEDIAGNOSTICS_H

#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace mlir {
class DialectRegistry;
class MLIRContext;
} // namespace mlir

namespace pipesched {

/// Returns IR that MLIR reads in the same way and whose lines can be shown. The
/// bytes of a byte order mark become blanks, so that columns stay the same.
/// Control characters and direction marks become escapes such as `\1B`, which
/// are equivalent in strings. The name of the buffer is made printable too.
/// Returns null for bytecode, and if there is nothing to change.
std::unique_ptr<llvm::MemoryBuffer> makePrintableIR(llvm::MemoryBufferRef ir);

/// Whether names of this IR may contain control characters: in bytecode, and in
/// text with escapes of hidden characters.
bool mayHideText(llvm::MemoryBufferRef ir);

/// Makes the messages and the file names of diagnostics printable before other
/// handlers get them. Call it after all handlers are registered.
void makeDiagnosticsPrintable(mlir::MLIRContext &context);

/// The same for contexts that are created later. It takes effect when they load
/// DLTI, on which `pipe` and `exec` depend.
void makeDiagnosticsPrintable(mlir::DialectRegistry &registry);

/// Makes `sources` print its lines in the same way.
void makeLinesPrintable(llvm::SourceMgr &sources);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_PRINTABLEDIAGNOSTICS_H
