//===- Cells.h - Cells in text, attributes and bytecode ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only reader and writer of cells, for the rows of pipe and the ops of
// exec.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_CELLS_H
#define PIPESCHED_DIALECT_PIPE_IR_CELLS_H

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include <vector>

namespace pipesched::pipe {

/// While an object of this class exists, the cells that this thread parses
/// belong to a table with this many slices per microbatch. A row cannot look up
/// its schedule while it is parsed, because the op of the schedule is created
/// after its rows.
class SlicesInText {
public:
  explicit SlicesInText(int64_t numSlices);
  ~SlicesInText();
  SlicesInText(const SlicesInText &) = delete;
  SlicesInText &operator=(const SlicesInText &) = delete;

private:
  int64_t outer;
};

/// Parses one cell: `2F0`, `2F0.1`, `_`, `_12`. Errors point to the cell.
mlir::ParseResult parseCell(mlir::AsmParser &parser, Cell &cell);
/// Parses a row: `[0F0 _2 0F1+0B0]`.
mlir::ParseResult parseCells(mlir::AsmParser &parser, std::vector<Cell> &cells);

void printCell(mlir::AsmPrinter &printer, CellName name);
inline void printCell(mlir::AsmPrinter &printer, Cell cell) {
  printCell(printer, CellName{cell});
}
void printCells(mlir::AsmPrinter &printer, llvm::ArrayRef<Cell> cells,
                int64_t numSlices = 1);

/// For `custom<Cell>`. It emits one error; a property in a format would add a
/// second one ("invalid value for property").
void printCell(mlir::AsmPrinter &printer, mlir::Operation *op, Cell cell);

using EmitErrorFn = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// Converts a cell to an i64 attribute with its bits, and back. Errors: another
/// kind of attribute; bits that are not a cell.
mlir::Attribute cellToAttribute(mlir::MLIRContext *context, Cell cell);
mlir::LogicalResult cellFromAttribute(Cell &cell, mlir::Attribute attribute,
                                      EmitErrorFn emitError);
/// Converts a row to an i64 array attribute, and back.
mlir::Attribute cellsToAttribute(mlir::MLIRContext *context,
                                 llvm::ArrayRef<Cell> cells);
mlir::LogicalResult cellsFromAttribute(std::vector<Cell> &cells,
                                       mlir::Attribute attribute,
                                       EmitErrorFn emitError);

/// Writes and reads a cell as a variable-length integer, and a row as a blob of
/// 8 bytes per cell, little endian, in the form of toStored. MLIR refers to
/// blobs until the file is written. So `cells` must outlive the writing, and
/// copies of rows are kept until this thread starts the next file
/// (dropWrittenCells). Errors of reading: a size that is not a multiple of 8;
/// bits that are not a cell.
void writeCell(mlir::DialectBytecodeWriter &writer, Cell cell);
mlir::LogicalResult readCell(mlir::DialectBytecodeReader &reader, Cell &cell);
void writeCells(mlir::DialectBytecodeWriter &writer,
                llvm::ArrayRef<Cell> cells);
mlir::LogicalResult readCells(mlir::DialectBytecodeReader &reader,
                              std::vector<Cell> &cells);
void dropWrittenCells();

llvm::hash_code hashCells(llvm::ArrayRef<Cell> cells);

} // namespace pipesched::pipe

#endif // PIPESCHED_DIALECT_PIPE_IR_CELLS_H
