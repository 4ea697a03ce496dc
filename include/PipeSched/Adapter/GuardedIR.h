//===- GuardedIR.h - IR from elsewhere --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's reader of bytecode trusts its input: a wrong index or count may end
// the process or read beyond an array. Its parser of text recurses.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ADAPTER_GUARDEDIR_H
#define PIPESCHED_ADAPTER_GUARDEDIR_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace pipesched {

/// Makes IR safe to read for a context with the dialects of `registry`. For
/// bytecode the result is a copy, which a child process has read and written
/// again:
///
///   bytes -- child reads --> module -- child writes --> bytes
///
/// so that this process reads only bytes that MLIR itself has written. Text
/// needs no change, and the result is null. Errors: text or bytecode that is
/// nested too deeply (findDeepIR); bytecode that the child cannot read, or
/// whose reading ends the child, takes too long or too much memory. They start
/// with the name of the buffer.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
guardIR(llvm::MemoryBufferRef ir, const mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_GUARDEDIR_H
