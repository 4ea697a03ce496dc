//===- TestTables.h - Tables written as text, for tests ------- -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows in the syntax of the IR, parseRow("0F0 0F1+1B0 _2 0B1"), and the
// placements and tables of the tests. A mistake in the text fails the test.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_TESTTABLES_H
#define PIPESCHED_UNITTESTS_SUPPORT_TESTTABLES_H

#include "ErrorText.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

namespace pipesched {

/// Reads `2F0`, `_` or `_12`.
inline Cell parseCell(llvm::StringRef text) {
  int64_t stage = 0, number = 1;
  llvm::StringRef rest = text;
  if (rest.consume_front("_")) {
    EXPECT_TRUE(rest.empty() || !rest.getAsInteger(10, number)) << text.str();
    return Cell::idle(number);
  }
  bool isSpelled = !rest.consumeInteger(10, stage) && !rest.empty();
  std::optional<Phase> phase;
  if (isSpelled)
    phase = phaseFromLetter(rest.front());
  isSpelled &= phase && !rest.drop_front().getAsInteger(10, number);
  EXPECT_TRUE(isSpelled) << "not a cell: " << text.str();
  return isSpelled ? Cell(stage, *phase, number) : Cell();
}

/// Reads cells separated by blanks; `a+b` is an overlapped pair.
inline Row parseRow(llvm::StringRef text) {
  Row row;
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(text, words);
  for (llvm::StringRef word : words) {
    auto [first, second] = word.split('+');
    row.push_back(parseCell(first).withOverlap(!second.empty()));
    if (!second.empty())
      row.push_back(parseCell(second));
  }
  return row;
}

/// The inverse of parseRow.
inline std::string printRow(llvm::ArrayRef<Cell> row) {
  std::string text;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i != 0)
      text += row[i - 1].overlapsNext() ? "+" : " ";
    text += row[i].str();
  }
  return text;
}

inline std::vector<std::string> printRows(const std::vector<Row> &rows) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const Row &row : rows)
    texts.push_back(printRow(row));
  return texts;
}

inline Path pathOn(std::vector<int32_t> workers,
                   std::vector<MicrobatchRange> takes = {}) {
  Path path;
  path.workers = std::move(workers);
  path.takes = std::move(takes);
  return path;
}

inline Placement makePlacement(int64_t workers, int64_t microbatches,
                               std::vector<Path> paths) {
  return llvm::cantFail(
      Placement::create(workers, microbatches, std::move(paths)));
}

inline Placement makeLinear(int64_t workers, int64_t microbatches) {
  return makePlacement(workers, microbatches, {placeLinear(workers)});
}

inline Table makeTable(Placement placement,
                       std::initializer_list<llvm::StringRef> rows) {
  Table table;
  table.placement = std::move(placement);
  for (llvm::StringRef row : rows)
    table.rows.push_back(parseRow(row));
  return table;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_TESTTABLES_H
