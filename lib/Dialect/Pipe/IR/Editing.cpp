//===- Editing.cpp - Interfaces for editors of rows -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The places of cells in text.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/Cells.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
/// Walks over the words of a row, which ends with its bracket.
class Words {
public:
  Words(const char *text, unsigned line, unsigned column)
      : at(text), line(line), column(column) {}

  /// Goes to the next word. False at the end of the row.
  bool next(std::pair<unsigned, unsigned> &place) {
    while (llvm::isSpace(*at) || *at == '+' || *at == '/')
      if (*at == '/')
        skipComment();
      else
        step();
    if (*at == ']' || *at == 0)
      return false;
    place = {line, column};
    while (*at && !llvm::isSpace(*at) && *at != '+' && *at != ']' && *at != '/')
      step();
    return true;
  }

private:
  void skipComment() {
    while (*at && *at != '\n')
      step();
  }

  void step() {
    if (*at++ != '\n') {
      ++column;
      return;
    }
    ++line;
    column = 1;
  }

  const char *at;
  unsigned line, column;
};
} // namespace

static std::string keyOf(FileLineColLoc row) {
  return (Twine(row.getLine()) + ":" + Twine(row.getColumn()) + " " +
          row.getFilename().getValue())
      .str();
}

void CellPlaces::keep(Location row, ArrayRef<Cell> cells, const char *text,
                      FileLineColLoc bracket) const {
  auto start = dyn_cast<FileLineColLoc>(row);
  if (!start || cells.size() > kMostCells)
    return;
  Row made;
  made.cells = hashCells(cells);
  Words words(text + 1, bracket.getLine(), bracket.getColumn() + 1);
  std::pair<unsigned, unsigned> place;
  while (words.next(place))
    made.linesAndColumns.push_back(place);
  if (made.linesAndColumns.size() != cells.size())
    return; // Not written as one word per cell.
  std::lock_guard<std::mutex> lock(mutex);
  rows[keyOf(start)] = std::move(made);
}

void CellPlaces::copyTo(const CellPlaces &other) const {
  if (this == &other)
    return;
  std::scoped_lock<std::mutex, std::mutex> lock(mutex, other.mutex);
  for (const auto &[key, row] : rows)
    other.rows[key] = row;
}

Location CellPlaces::find(WorkerOp row, size_t index) const {
  Location whole = row.getLoc();
  auto start = dyn_cast<FileLineColLoc>(whole);
  if (!start)
    return whole;
  std::lock_guard<std::mutex> lock(mutex);
  auto it = rows.find(keyOf(start));
  if (it == rows.end() || it->second.cells != hashCells(row.getCells()) ||
      index >= it->second.linesAndColumns.size())
    return whole;
  auto [line, column] = it->second.linesAndColumns[index];
  return FileLineColLoc::get(start.getFilename(), line, column);
}

Location pipe::locationOfCell(WorkerOp row, int64_t index) {
  const auto *places = row->getContext()
                           ->getLoadedDialect<PipeDialect>()
                           ->getRegisteredInterface<CellPlaces>();
  return places && index >= 0 ? places->find(row, index) : row.getLoc();
}
