//===- Bindings.h - Critical waits of a walk --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the critical path of a table without a task graph.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_WALK_BINDINGS_H
#define PIPESCHED_LIB_ANALYSIS_WALK_BINDINGS_H

#include "PipeSched/Analysis/Graph/Timeline.h"
#include "PipeSched/Schedule/Walk/Wavefront.h"

namespace pipesched {

/// The wait that determined the start of a cell, and the message that the cell
/// sent.
class Bindings {
public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  explicit Bindings(const TableView &table)
      : table(table), bindings(new Binding[table.getNumCells()]) {
    rowBegins.push_back(0);
    for (llvm::ArrayRef<Cell> row : table.rows)
      rowBegins.push_back(rowBegins.back() + row.size());
  }

  uint32_t flatOf(const WaveStep &step) const {
    return rowBegins[step.row] + (step.cells - table.rows[step.row].data());
  }

  /// These functions record that a cell or a copy waited for the previous cell
  /// in its row, for the message of a cell, for a copy, or for nothing. A pair
  /// is identified by its first cell.
  void bindToRow(uint32_t cell) { bindings[cell].cell = kRow; }
  void bindCell(uint32_t cell, uint32_t producer) {
    bindings[cell].cell = producer;
  }
  void bindToNothing(uint32_t cell) { bindings[cell].cell = kNone; }
  /// Records that the message of a cell waited for the cell, or for another
  /// message.
  void bindMessage(uint32_t producer, uint32_t before) {
    bindings[producer].message = before;
  }

  /// Records that an all-reduce waited for its predecessor in a queue, for the
  /// row of one of its cells, or for nothing. It is identified by the first of
  /// its G cells.
  void bindMeeting(uint32_t meeting, uint32_t before, uint32_t cell) {
    bindings[meeting] = {cell, before};
  }

  /// Records cells that a walk leaps over. They have the bindings of the same
  /// cells in the previous period.
  void noteLeap(llvm::ArrayRef<LeapedRow> rows) {
    leaped.assign(rows.begin(), rows.end());
  }

  /// Returns the critical path that ends with the last cell of a row; the next
  /// function, the path that ends with an all-reduce.
  std::vector<PathStep> traceRow(int64_t row) const;
  std::vector<PathStep> traceMeeting(uint32_t flat) const;

private:
  static constexpr uint32_t kRow = kNone - 1;

  struct Binding {
    uint32_t cell, message;
  };
  /// A step of a path: a cell or a copy, the message of a cell, or an
  /// all-reduce.
  struct Node {
    enum Kind : uint8_t { Step, Message, Meeting } kind = Step;
    int64_t row = 0;
    uint32_t flat = kNone; ///< kNone: no node
  };

  Cell at(int64_t row, uint32_t flat) const {
    return table.rows[row][flat - rowBegins[row]];
  }
  int64_t rowOf(uint32_t flat) const {
    return llvm::upper_bound(rowBegins, flat) - rowBegins.begin() - 1;
  }
  uint32_t bindingOfCell(int64_t row, uint32_t flat) const;
  uint32_t bindingOfMessage(int64_t row, uint32_t flat) const;
  uint32_t moveAhead(uint32_t flat, int64_t numPeriods) const;
  std::vector<PathStep> trace(Node node) const;
  Node nodeOf(uint32_t flat) const;
  Node stepBefore(int64_t row, uint32_t flat) const;
  Node bindingOf(Node node) const;
  PathStep describe(Node node) const;
  /// Returns the first cell of the last step that ends at or before `flat`, or
  /// kNone.
  uint32_t stepAtOrBefore(int64_t row, int64_t flat) const;

  const TableView &table;
  std::vector<uint32_t> rowBegins;
  /// By flat index; not initialized for cells that the walk did not record.
  std::unique_ptr<Binding[]> bindings;
  std::vector<LeapedRow> leaped; ///< by row; empty if there are none
};

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_WALK_BINDINGS_H
