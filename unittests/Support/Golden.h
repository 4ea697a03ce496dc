//===- Golden.h - Schedules of other implementations ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the compute files of test/data/golden (its README has the format) and
// compares orders with them. A file that cannot be read fails the test.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_GOLDEN_H
#define PIPESCHED_UNITTESTS_SUPPORT_GOLDEN_H

#include "TestTables.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#ifndef PIPESCHED_GOLDEN_DIR
#error "PIPESCHED_GOLDEN_DIR names the folder of the golden files"
#endif

namespace pipesched {

/// Appends `2F0`, `(2F0;1B3)OVERLAP_F_B`, or nothing for an empty cell.
inline void appendGoldenCell(Row &row, llvm::StringRef text) {
  text = text.trim();
  if (text.empty())
    return;
  if (!text.consume_front("(")) {
    row.push_back(parseCell(text));
    return;
  }
  EXPECT_TRUE(text.consume_back(")OVERLAP_F_B")) << text.str();
  auto [first, second] = text.split(';');
  row.push_back(parseCell(first).withOverlap(true));
  row.push_back(parseCell(second));
}

/// The rows of `<name>.csv`, idle cells dropped. Stages are as written: replica
/// p of stage s of S is stage p * S + s.
inline std::vector<Row> loadGolden(llvm::StringRef name) {
  llvm::SmallString<256> path(PIPESCHED_GOLDEN_DIR);
  llvm::sys::path::append(path, name + ".csv");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer) {
    ADD_FAILURE() << path.c_str() << ": " << buffer.getError().message();
    return {};
  }
  std::vector<Row> rows;
  llvm::SmallVector<llvm::StringRef> lines, cells;
  (*buffer)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    cells.clear();
    line.split(cells, ',');
    Row &row = rows.emplace_back();
    for (llvm::StringRef cell : cells)
      appendGoldenCell(row, cell);
  }
  return rows;
}

/// A golden file as a table on the given placement.
inline Table loadGoldenTable(llvm::StringRef name, Placement placement) {
  Table table;
  table.placement = std::move(placement);
  table.rows = loadGolden(name);
  return table;
}

/// The rows of a table in the spelling of the golden files: no idle cells;
/// stages of later paths are numbered after stages of earlier ones.
inline std::vector<Row> goldenRows(const Table &table) {
  std::vector<Row> rows;
  for (const Row &cells : table.rows) {
    Row &row = rows.emplace_back();
    for (Cell cell : cells)
      if (!cell.isIdle())
        row.emplace_back(table.placement.globalStage(cell), cell.getPhase(),
                         cell.getUnit(), cell.overlapsNext());
  }
  return rows;
}

/// Expects the order of every row to equal the golden file's.
inline void expectGoldenOrder(const Table &table, llvm::StringRef name) {
  SCOPED_TRACE(name.str());
  EXPECT_EQ(printRows(goldenRows(table)), printRows(loadGolden(name)));
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_GOLDEN_H
