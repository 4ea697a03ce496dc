//===- RowHelp.h - Descriptions of cells ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text that an editor shows for a cell, and the cells that it suggests for
// a row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_ROWHELP_H
#define PIPESCHED_TOOLS_LSPSERVER_ROWHELP_H

#include "RowText.h"
#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// A cell that could come next in a row.
struct CellOffer {
  std::string name, detail;
};

/// Returns the work of a cell, its time, its dependences and the cells that
/// depend on it, as Markdown. Returns nothing if there is no cell at the place,
/// or if the text has syntax errors, which the server shows anyway.
std::optional<std::string> describeCell(const RowText &row,
                                        const mlir::DialectRegistry &dialects);

/// Returns the cells that the row lacks, and optional cells of phases that the
/// schedule uses elsewhere. Cells that could run at this place come first.
/// Returns nothing if the rest of the text has syntax errors.
std::optional<std::vector<CellOffer>>
offerCells(const RowText &row, const mlir::DialectRegistry &dialects);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_LSPSERVER_ROWHELP_H
