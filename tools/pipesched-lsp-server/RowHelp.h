//===- RowHelp.h - Descriptions of cells ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text that an editor shows for a cell, and the cells that it offers for a
// row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_ROWHELP_H
#define PIPESCHED_TOOLS_LSPSERVER_ROWHELP_H

#include "RowText.h"
#include "mlir/IR/DialectRegistry.h"

namespace pipesched {

/// A cell that a row could have next.
struct CellOffer {
  std::string name, detail;
};

/// The work of a cell, its time, its dependences and the cells that depend on
/// it, as Markdown; nothing if the place is at no cell, or the text has syntax
/// errors, which the server shows anyway.
std::optional<std::string> describeCell(const RowText &row,
                                        const mlir::DialectRegistry &dialects);

/// The cells that the row lacks, and cells of phases that some may have and
/// that the schedule uses elsewhere. Cells that could run at the place come
/// first. Nothing if the rest of the text has syntax errors.
std::optional<std::vector<CellOffer>>
offerCells(const RowText &row, const mlir::DialectRegistry &dialects);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_LSPSERVER_ROWHELP_H
