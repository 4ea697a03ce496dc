//===- EditedTable.h - A table that is being edited -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule whose rows may lack cells or have invalid ones.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_EDITEDTABLE_H
#define PIPESCHED_TOOLS_LSPSERVER_EDITEDTABLE_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Table.h"
#include <memory>

namespace pipesched {

/// A table that is complete enough for dependences: missing cells are added
/// after the written ones, and misplaced cells are replaced by idle entries.
class EditedTable {
public:
  /// There is no help for tables with more forwards than this.
  static constexpr int64_t kMostPairs = int64_t(1) << 20;

  /// Returns nothing if the paths are wrong or do not assign all microbatches,
  /// or if the table is too large.
  static std::unique_ptr<EditedTable> load(pipe::ScheduleOp schedule);

  const Placement &getPlacement() const { return placement; }
  const TableView &getView() const { return view; }
  /// Returns null if the table has O or G cells that do not fit its paths.
  const CellIndex *getIndex() const { return index ? &*index : nullptr; }
  CellName nameOf(Cell cell) const { return placement.nameOf(cell); }
  bool isWritten(CellRef at) const { return at.index < numWritten[at.row]; }
  bool uses(Phase phase) const { return used.contains(phase); }
  /// The cells of a complete table that this one lacks.
  llvm::ArrayRef<Cell> getMissing() const { return missing; }
  /// The error of a single row; empty if there is none.
  llvm::StringRef getProblem() const { return problem; }
  /// The phases of the written cells of a stage and unit of its path.
  PhaseSet phasesOf(Cell cell) const { return present[placement.pairOf(cell)]; }
  PhaseSet pathPhasesOf(int64_t globalStage) const {
    return presentOfStage[globalStage];
  }
  /// The phases of the backward that a stage and unit without one should have.
  PhaseSet wantedBackward(int64_t globalStage) const;

private:
  void readRows(pipe::ScheduleOp schedule);
  bool take(int64_t worker, Cell cell);
  void complete();
  void complete(int64_t globalStage, int64_t unit);

  Placement placement;
  std::vector<Row> rows;
  TableView view;
  std::optional<CellIndex> index;
  std::vector<int64_t> numWritten;
  std::vector<PhaseSet> present, presentOfStage;
  std::vector<Cell> missing;
  PhaseSet used;
  std::string problem;
};

} // namespace pipesched

#endif // PIPESCHED_TOOLS_LSPSERVER_EDITEDTABLE_H
