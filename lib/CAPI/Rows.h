//===- Rows.h - Rows of the C API -------------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts cells from and to structs of C, which say nothing of how the library
// stores them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CAPI_ROWS_H
#define PIPESCHED_LIB_CAPI_ROWS_H

#include "PipeSched-c/Schedule.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Writes a row of a table with so many slices to `cells`. Error: `cells` is
/// null or has not room for exactly `row`.
llvm::Error writeRow(llvm::ArrayRef<Cell> row, int64_t numSlices,
                     intptr_t numCells, PipeschedCell *cells);

/// Reads the rows of a caller for a table with so many slices. Errors: those of
/// readArray; numbers of which no cell can be made, with the worker and the
/// position.
llvm::Expected<std::vector<Row>> readRows(int64_t numSlices, intptr_t numRows,
                                          const PipeschedRow *rows);

} // namespace pipesched

#endif // PIPESCHED_LIB_CAPI_ROWS_H
