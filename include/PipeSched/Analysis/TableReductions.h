//===- TableReductions.h - The all-reduces of a table -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The groups of a table's G cells, as a walk times them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_TABLEREDUCTIONS_H
#define PIPESCHED_ANALYSIS_TABLEREDUCTIONS_H

#include "PipeSched/Schedule/Collectives.h"

namespace pipesched {

/// The all-reduces of a table of which every G takes part in one. They are
/// numbered in the order of their pieces, as are StageCosts::reductions of a
/// walk.
class TableReductions {
public:
  /// Nothing if some G takes part in several all-reduces, or in none: they need
  /// the graph. The table must outlive the result. Linear in entries. Errors:
  /// those of ParameterSets.
  static llvm::Expected<std::optional<TableReductions>>
  create(const TableView &table);

  const Collectives &getCollectives() const { return collectives; }
  int64_t size() const { return pieces.size(); }
  int64_t pieceOf(int64_t number) const { return pieces[number]; }
  int64_t numberOf(int64_t piece) const { return numbers[piece]; }
  /// The G cells of an all-reduce, by ascending row.
  llvm::ArrayRef<CellRef> membersOf(int64_t number) const {
    return collectives.membersOf(pieces[number]);
  }

private:
  explicit TableReductions(Collectives collectives);

  Collectives collectives;
  std::vector<int64_t> pieces;  ///< by number
  std::vector<int64_t> numbers; ///< by piece; -1: nobody reduces it
};

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_TABLEREDUCTIONS_H
