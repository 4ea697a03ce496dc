//===- TableReductions.cpp - The all-reduces of a table -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers the pieces that some G reduces.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/TableReductions.h"

using namespace pipesched;

TableReductions::TableReductions(Collectives all)
    : collectives(std::move(all)),
      numbers(collectives.getReplicas().getNumPieces(), -1) {
  for (int64_t piece = 0, size = numbers.size(); piece != size; ++piece)
    if (!collectives.membersOf(piece).empty()) {
      numbers[piece] = pieces.size();
      pieces.push_back(piece);
    }
}

llvm::Expected<std::optional<TableReductions>>
TableReductions::create(const TableView &table) {
  llvm::Expected<ParameterSets> sets = ParameterSets::create(*table.placement);
  if (!sets)
    return sets.takeError();
  Collectives collectives(
      table, std::make_shared<const ParameterSets>(std::move(*sets)));
  for (int64_t stage = 0; stage != table.placement->getNumGlobalStages();
       ++stage)
    if (collectives.indexOf(stage) >= 0 &&
        collectives.piecesOf(stage).size() != 1)
      return std::nullopt;
  return TableReductions(std::move(collectives));
}
