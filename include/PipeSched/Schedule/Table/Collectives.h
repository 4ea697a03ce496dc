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

#ifndef PIPESCHED_SCHEDULE_TABLE_COLLECTIVES_H
#define PIPESCHED_SCHEDULE_TABLE_COLLECTIVES_H

#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// The all-reduces of a table with G cells, one for each piece that some G
/// reduces. They are numbered from 0 in the order of their blocks; programs,
/// task graphs, walks, costs and pictures of the table use the same numbers.
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
  /// The all-reduces of a table, which must outlive the result. Errors: those
  /// of ParameterSets::create.
  static llvm::Expected<Collectives> create(const TableView &table);
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

  /// How many all-reduces there are.
  int64_t size() const { return pieces.size(); }
  /// The piece that an all-reduce reduces.
  int64_t pieceOf(int64_t number) const { return pieces[number]; }
  BlockSpan blocksOf(int64_t number) const {
    return getReplicas().blocksOf(pieces[number]);
  }
  /// The number of the all-reduce of a piece, or -1 if no G reduces it.
  int64_t numberOf(int64_t piece) const { return numbers[piece]; }
  /// Whether every G takes part in exactly one all-reduce. Only then can a walk
  /// time the table (docs/Dialects/RationaleTimes.md).
  bool eachReducesOnce() const;

private:
  std::shared_ptr<const ParameterSets> parameterSets;
  std::vector<int64_t> indices;       ///< by global stage
  std::vector<uint32_t> memberBegins; ///< by piece: CSR
  std::vector<CellRef> members;
  std::vector<int64_t> pieces;  ///< by number, ascending
  std::vector<int64_t> numbers; ///< by piece
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_COLLECTIVES_H
