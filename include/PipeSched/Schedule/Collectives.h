//===- Collectives.h - Gradient all-reduces of a table ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which G cells take part together: there is one all-reduce per piece of the
// model (Replicas.h), among the stages that own it on their workers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_COLLECTIVES_H
#define PIPESCHED_SCHEDULE_COLLECTIVES_H

#include "PipeSched/Schedule/ParameterSets.h"
#include "PipeSched/Schedule/Table.h"

namespace pipesched {

/// The all-reduces of a table with G cells, numbered like the pieces.
///
///   worker 0   .. 0G0 1G1        0G0, 0G1 meet for piece 0,
///   worker 1   .. 0G1 1G0        1G0, 1G1 for piece 1
///
/// A worker holds a piece once, even if several of its stages use it, so it
/// takes part in an all-reduce once: at the G of the stage that owns the piece
/// (ParameterSets.h). If no other worker holds the piece, it is the only
/// member. A worker joins the all-reduces of a G cell when its row reaches the
/// cell, and the cell holds the row until all of them are done.
class Collectives {
public:
  /// Linear in the table's entries and in the pieces of all stages. The cells
  /// of the rows must be in range, and the table must outlive the result.
  Collectives(const TableView &table,
              std::shared_ptr<const ParameterSets> parameterSets);

  const ParameterSets &getParameterSets() const { return *parameterSets; }
  const Replicas &getReplicas() const { return parameterSets->getReplicas(); }
  /// The pieces that the G of a stage reduces: those that the stage owns.
  llvm::iota_range<int64_t> piecesOf(int64_t globalStage) const {
    return parameterSets->ownedPiecesOf(globalStage);
  }
  /// The G cells by which workers take part, by ascending row; empty if no G
  /// cell reduces the piece.
  llvm::ArrayRef<CellRef> membersOf(int64_t piece) const {
    return llvm::ArrayRef(members).slice(
        memberBegins[piece], memberBegins[piece + 1] - memberBegins[piece]);
  }
  /// Index of a stage's G in the row of its worker, or -1.
  int64_t indexOf(int64_t globalStage) const { return indices[globalStage]; }

private:
  std::shared_ptr<const ParameterSets> parameterSets;
  std::vector<int64_t> indices;       ///< by global stage
  std::vector<uint32_t> memberBegins; ///< by piece: CSR
  std::vector<CellRef> members;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_COLLECTIVES_H
