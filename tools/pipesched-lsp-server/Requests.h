//===- Requests.h - Requests about rows ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers requests of an editor about cells, and hands everything else to
// MLIR's language server.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_REQUESTS_H
#define PIPESCHED_TOOLS_LSPSERVER_REQUESTS_H

#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// Puts a filter before the standard input. MLIR's server reads one message
/// after the other from `stdin`, and answers each before it reads the next: it
/// can be extended only through its input. The filter reads in its place, keeps
/// the text of open files, answers `textDocument/hover` and
/// `textDocument/completion` at cells of rows, and hands on all other messages:
/// changes of files as whole texts with plain ends of lines, others as they
/// came. It refuses input that would end MLIR's server: messages and texts that
/// are nested deeply, and bytecode that a child process cannot read. Both write
/// in one thread, so that answers do not mix.
///
/// `dialects` must live as long as the program reads. False if there is no
/// memory for it.
bool filterStandardInput(const mlir::DialectRegistry &dialects);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_LSPSERVER_REQUESTS_H
