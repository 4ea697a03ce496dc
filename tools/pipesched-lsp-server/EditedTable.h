//===- EditedTable.h - A table that is being written ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule whose rows lack cells, or have some that they must not have.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_EDITEDTABLE_H
#define PIPESCHED_TOOLS_LSPSERVER_EDITEDTABLE_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/Table.h"
#include <memory>

namespace pipesched {

/// A table as complete as dependences need it: missing cells come after the
/// written ones, and written cells that do not belong where they are have
/// become idle entries.
class EditedTable {
public:
  /// Tables with more forwards than this get no help.
  static constexpr int64_t kMostPairs = int64_t(1) << 20;

  /// Nothing if the paths are wrong or do not say which microbatches they take,
  /// or the table is large.
  static std::unique_ptr<EditedTable> load(pipe::ScheduleOp schedule);

  const Placement &getPlacement() const { return placement; }
  const TableView &getView() const { return view; }
  /// Null if the table has O or G cells that do not fit its paths.
  const CellIndex *getIndex() const { return index ? &*index : nullptr; }
  CellName nameOf(Cell cell) const { return placement.nameOf(cell); }
  bool isWritten(CellRef at) const { return at.index < numWritten[at.row]; }
  bool uses(Phase phase) const { return used.contains(phase); }
  /// The cells that a complete table has and this one lacks.
  llvm::ArrayRef<Cell> getMissing() const { return missing; }
  /// The mistake in a row by itself; empty if there is none.
  llvm::StringRef getProblem() const { return problem; }
  /// The phases that are written for a stage and unit of its path.
  PhaseSet phasesOf(Cell cell) const { return present[placement.pairOf(cell)]; }
  PhaseSet pathPhasesOf(int64_t globalStage) const {
    return presentOfStage[globalStage];
  }
  /// The backward phases that a stage and unit without them should have.
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
