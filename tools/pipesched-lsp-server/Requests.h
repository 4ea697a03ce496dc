//===- Requests.h - Requests about rows ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers requests of an editor about cells, and passes all others to MLIR's
// language server.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_REQUESTS_H
#define PIPESCHED_TOOLS_LSPSERVER_REQUESTS_H

#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// Puts a filter before the standard input. MLIR's server reads one message
/// after the other from `stdin`, and answers each before it reads the next, so
/// it can be extended only through its input. The filter reads the messages
/// first and keeps the text of open files. It answers `textDocument/hover` and
/// `textDocument/completion` at cells of rows, and passes on all other
/// messages: changes of files as whole texts with plain line ends, others
/// unchanged. It refuses input that would end MLIR's server: messages and texts
/// that are nested too deeply, and bytecode that a child process cannot read.
/// Both write in one thread, so that answers do not mix.
///
/// `dialects` must be valid as long as the program reads. Returns false if
/// there is no memory for the filter.
bool filterStandardInput(const mlir::DialectRegistry &dialects);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_LSPSERVER_REQUESTS_H
