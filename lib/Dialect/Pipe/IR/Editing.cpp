//===- Editing.cpp - Interfaces for editors of rows -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores and finds the places of cells in the text.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/Cells.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
/// Walks over the words of a row up to its closing bracket.
class Words {
public:
  Words(const char *text, unsigned line, unsigned column)
      : at(text), line(line), column(column) {}

  /// Advances to the next word. Returns false at the end of the row.
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

const CellPlaces::Row *CellPlaces::lookUp(WorkerOp row) const {
  auto start = dyn_cast<FileLineColLoc>(row.getLoc());
  if (!start)
    return nullptr;
  auto it = rows.find(keyOf(start));
  return it != rows.end() && it->second.cells == hashCells(row.getCells())
             ? &it->second
             : nullptr;
}

Location CellPlaces::Row::at(size_t index, StringAttr file) const {
  auto [line, column] = linesAndColumns[index];
  return FileLineColLoc::get(file, line, column);
}

Location CellPlaces::find(WorkerOp row, size_t index) const {
  std::lock_guard<std::mutex> lock(mutex);
  const Row *known = lookUp(row);
  if (!known || index >= known->linesAndColumns.size())
    return row.getLoc();
  return known->at(index, cast<FileLineColLoc>(row.getLoc()).getFilename());
}

SmallVector<Location> CellPlaces::findAll(WorkerOp row) const {
  SmallVector<Location> found(row.getCells().size(), row.getLoc());
  std::lock_guard<std::mutex> lock(mutex);
  if (const Row *known = lookUp(row))
    for (auto [index, location] : llvm::enumerate(found))
      location =
          known->at(index, cast<FileLineColLoc>(row.getLoc()).getFilename());
  return found;
}

static const CellPlaces *placesOf(WorkerOp row) {
  return row->getContext()
      ->getLoadedDialect<PipeDialect>()
      ->getRegisteredInterface<CellPlaces>();
}

Location pipe::locationOfCell(WorkerOp row, int64_t index) {
  const CellPlaces *places = placesOf(row);
  return places && index >= 0 ? places->find(row, index) : row.getLoc();
}

SmallVector<Location> pipe::locationsOfCells(WorkerOp row, int64_t numSlices) {
  ArrayRef<Cell> cells = row.getCells();
  const CellPlaces *places = placesOf(row);
  if (!places || cells.size() > CellPlaces::kMostCells)
    return SmallVector<Location>(cells.size(), row.getLoc());
  SmallVector<Location> found = places->findAll(row);
  for (auto [cell, location] : llvm::zip_equal(cells, found))
    if (!cell.isIdle())
      location = NameLoc::get(
          StringAttr::get(row.getContext(),
                          CellName{cell.withOverlap(false), numSlices}.str()),
          location);
  return found;
}
