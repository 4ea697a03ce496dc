//===- GuardedIR.h - IR from untrusted sources ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's reader of bytecode trusts its input: a wrong index or count may end
// the process or read beyond an array. Its parser of text is recursive, so
// deeply nested text may overflow the stack.
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

/// Makes IR safe to read in a context with the dialects of `registry`. For
/// bytecode the result is a copy that a child process has read and written
/// again:
///
///   bytes -- child reads --> module -- child writes --> bytes
///
/// So this process reads only bytes that MLIR itself has written. Text needs no
/// change; the result is then null. Errors, which start with the name of the
/// buffer: text or bytecode that is nested too deeply (findDeepIR); bytecode
/// that the child cannot read, or that takes too long or too much memory or
/// ends the child.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
guardIR(llvm::MemoryBufferRef ir, const mlir::DialectRegistry &registry);

} // namespace pipesched

#endif // PIPESCHED_ADAPTER_GUARDEDIR_H
