//===- Collectives.cpp - Gradient all-reduces of a table ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One sweep over the rows finds the G cells; one loop over the pieces finds
// which of them take part together.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Collectives.h"
#include "llvm/ADT/STLExtras.h"
#include <tuple>

using namespace pipesched;
using llvm::Expected;

/// Adds the last G of each worker among the stages that hold the piece.
void Collectives::addMembers(const Placement &placement, int64_t piece) {
  size_t begin = members.size();
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t stage = replicas.holderOf(piece, path);
    if (indices[stage] >= 0)
      members.push_back({placement.workerOf(stage), indices[stage]});
  }
  auto last = members.begin() + begin;
  std::sort(last, members.end(), [](CellRef a, CellRef b) {
    return std::tie(a.row, b.index) < std::tie(b.row, a.index);
  });
  members.erase(
      std::unique(last, members.end(),
                  [](CellRef a, CellRef b) { return a.row == b.row; }),
      members.end());
  memberBegins.push_back(members.size());
}

Expected<Collectives> Collectives::create(const TableView &table) {
  const Placement &placement = *table.placement;
  Expected<Replicas> replicas = Replicas::create(placement);
  if (!replicas)
    return replicas.takeError();
  Collectives collectives(std::move(*replicas));
  collectives.indices.assign(placement.getNumGlobalStages(), -1);
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (auto [index, cell] : llvm::enumerate(row))
      if (cell.is(Phase::AllReduce))
        collectives.indices[placement.globalStage(cell)] = index;
  collectives.memberBegins.push_back(0);
  int64_t numPieces = collectives.replicas.getNumPieces();
  for (int64_t piece = 0; piece < numPieces; ++piece)
    collectives.addMembers(placement, piece);
  return std::move(collectives);
}

const CellRef *Collectives::memberOn(int64_t piece, int64_t row) const {
  llvm::ArrayRef<CellRef> sorted = membersOf(piece);
  const CellRef *member = llvm::lower_bound(
      sorted, row, [](CellRef a, int64_t row) { return a.row < row; });
  return member != sorted.end() && member->row == row ? member : nullptr;
}
