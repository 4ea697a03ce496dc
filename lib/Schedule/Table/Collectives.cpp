//===- Collectives.cpp - Gradient all-reduces of a table ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two sweeps over the rows find the G cells: one counts the members of each
// piece, one writes them. The pieces with members are then numbered.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Collectives.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

/// Calls `visit(at, stage)` for each G cell, row by row.
template <typename Visit>
static void forEachReduction(const TableView &table, Visit &&visit) {
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (auto [index, cell] : llvm::enumerate(table.rows[row]))
      if (cell.is(Phase::AllReduce))
        visit(CellRef{row, int64_t(index)}, table.placement->globalStage(cell));
}

Collectives::Collectives(const TableView &table,
                         std::shared_ptr<const ParameterSets> sets)
    : parameterSets(std::move(sets)) {
  indices.assign(table.placement->getNumGlobalStages(), -1);
  memberBegins.assign(getReplicas().getNumPieces() + 1, 0);
  forEachReduction(table, [&](CellRef at, int64_t stage) {
    if (indices[stage] >= 0)
      return; // occurs twice
    indices[stage] = at.index;
    for (int64_t piece : piecesOf(stage))
      ++memberBegins[piece + 1];
  });
  for (size_t piece = 1; piece < memberBegins.size(); ++piece)
    memberBegins[piece] += memberBegins[piece - 1];
  members.resize(memberBegins.back());
  std::vector<uint32_t> next(memberBegins.begin(), memberBegins.end() - 1);
  forEachReduction(table, [&](CellRef at, int64_t stage) {
    if (indices[stage] == at.index)
      for (int64_t piece : piecesOf(stage))
        members[next[piece]++] = at;
  });
  numbers.assign(getReplicas().getNumPieces(), -1);
  for (int64_t piece = 0, size = numbers.size(); piece != size; ++piece)
    if (!membersOf(piece).empty()) {
      numbers[piece] = pieces.size();
      pieces.push_back(piece);
    }
}

llvm::Expected<Collectives> Collectives::create(const TableView &table) {
  llvm::Expected<ParameterSets> sets = ParameterSets::create(*table.placement);
  if (!sets)
    return sets.takeError();
  return Collectives(table,
                     std::make_shared<const ParameterSets>(std::move(*sets)));
}

bool Collectives::eachReducesOnce() const {
  for (auto [stage, index] : llvm::enumerate(indices))
    if (index >= 0 && piecesOf(stage).size() != 1)
      return false;
  return true;
}
