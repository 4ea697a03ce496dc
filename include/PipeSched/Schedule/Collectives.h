//===- Collectives.h - Gradient all-reduces of a table ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which G cells meet: one all-reduce per piece of the model (Replicas.h) that
// any of them holds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_COLLECTIVES_H
#define PIPESCHED_SCHEDULE_COLLECTIVES_H

#include "PipeSched/Schedule/Replicas.h"
#include "PipeSched/Schedule/Table.h"

namespace pipesched {

/// The all-reduces of a table with G cells, numbered as the pieces.
///
///   worker 0   .. 0G0 1G1        0G0, 0G1 meet for piece 0,
///   worker 1   .. 0G1 1G0        1G0, 1G1 for piece 1
///
/// A worker takes part in an all-reduce once, however many of its stages hold
/// the piece: at the last of their G cells in its row. Alone on its piece, it
/// meets nobody. A G cell holds its row until all its all-reduces are done; it
/// takes part in them from when the row reaches it.
class Collectives {
public:
  /// Linear in the table's entries, and in pieces times paths. Needs rows whose
  /// cells are in range, and a table that outlives it. Errors: those of
  /// Replicas.
  static llvm::Expected<Collectives> create(const TableView &table);

  const Replicas &getReplicas() const { return replicas; }
  /// The G cell by which each worker takes part, by ascending row; empty where
  /// no G cell holds the piece.
  llvm::ArrayRef<CellRef> membersOf(int64_t piece) const {
    return llvm::ArrayRef(members).slice(
        memberBegins[piece], memberBegins[piece + 1] - memberBegins[piece]);
  }
  /// The one of a row, or null. Logarithmic in the members.
  const CellRef *memberOn(int64_t piece, int64_t row) const;
  /// Whether a worker takes part for a piece at the G cell at `at`, which holds
  /// it.
  bool meetsAt(int64_t piece, CellRef at) const {
    return memberOn(piece, at.row)->index == at.index;
  }
  /// Index of a stage's G in the row of its worker, or -1.
  int64_t indexOf(int64_t globalStage) const { return indices[globalStage]; }

private:
  explicit Collectives(Replicas replicas) : replicas(std::move(replicas)) {}
  void addMembers(const Placement &placement, int64_t piece);

  Replicas replicas;
  std::vector<int64_t> indices;       ///< by global stage
  std::vector<uint32_t> memberBegins; ///< by piece: CSR
  std::vector<CellRef> members;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_COLLECTIVES_H
