//===- CellNumbers.h - Cells as numbers of other languages ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the numbers of cells that C and Python pass, and makes rows of them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_CELLNUMBERS_H
#define PIPESCHED_SCHEDULE_TABLE_CELLNUMBERS_H

#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// A cell as separate numbers; `slice` is 0 if microbatches are not divided.
struct CellNumbers {
  uint32_t phase = 0; ///< PhaseTraits::code
  int64_t stage = 0, number = 0, slice = 0;
  bool overlapsNext = false;
};

/// Returns the numbers of a cell of a table with this many slices.
CellNumbers numbersOf(Cell cell, int64_t numSlices);

/// Makes rows of a table with this many slices. Errors: numbers that are not a
/// cell, with the worker and the position.
llvm::Expected<std::vector<Row>>
makeRows(llvm::ArrayRef<std::vector<CellNumbers>> rows, int64_t numSlices);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_CELLNUMBERS_H
