//===- Collectives.h - Gradient all-reduces of a table ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which G cells take part together: there is one all-reduce per piece of the
// model (Replicas.h) that any of them holds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_COLLECTIVES_H
#define PIPESCHED_SCHEDULE_COLLECTIVES_H

#include "PipeSched/Schedule/Replicas.h"
#include "PipeSched/Schedule/Table.h"

namespace pipesched {

/// The all-reduces of a table with G cells, numbered like the pieces.
///
///   worker 0   .. 0G0 1G1        0G0, 0G1 meet for piece 0,
///   worker 1   .. 0G1 1G0        1G0, 1G1 for piece 1
///
/// A worker takes part in an all-reduce only once, even if several of its
/// stages hold the piece: at the last of their G cells in its row. If no other
/// worker holds the piece, it is the only member. A worker joins the
/// all-reduces of a G cell when its row reaches the cell, and the cell holds
/// the row until all of them are done.
class Collectives {
public:
  /// Linear in the table's entries, and in pieces times paths. The cells of the
  /// rows must be in range, and the table must outlive the result. Errors:
  /// those of Replicas.
  static llvm::Expected<Collectives> create(const TableView &table);

  const Replicas &getReplicas() const { return replicas; }
  /// The G cells by which workers take part, by ascending row; empty if no G
  /// cell holds the piece.
  llvm::ArrayRef<CellRef> membersOf(int64_t piece) const {
    return llvm::ArrayRef(members).slice(
        memberBegins[piece], memberBegins[piece + 1] - memberBegins[piece]);
  }
  /// The member in a row, or null. Logarithmic in the members.
  const CellRef *memberOn(int64_t piece, int64_t row) const;
  /// Whether the G cell at `at`, which must hold the piece, is the one by which
  /// its worker takes part.
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
