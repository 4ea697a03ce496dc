//===- ReadyCells.h - Ready cells of workers, furthest first ----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A worker has one first-in, first-out list of cells per position on a chain.
// These lists give the ready cell that is furthest along, and the oldest of
// several, without comparing cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_READYCELLS_H
#define PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_READYCELLS_H

#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// Positions are s for F and 2S-1-s for backward phases of stage s of S. The
/// lists of a worker are numbered by position, one after the other:
///
///   worker 0: positions 0, 3, 4, 7   lists 0, 1, 2, 3
///   worker 1: positions 1, 2, 5, 6   lists 4, 5, 6, 7
///
/// A heap per worker holds the numbers of the lists that are not empty. Cells
/// are nodes of linked lists in one pool.
class ReadyCells {
public:
  explicit ReadyCells(const Placement &placement);

  bool isEmpty(int64_t worker) const { return heapSizes[worker] == 0; }

  /// `globalStage` is the stage of the cell, which runs on `worker`.
  void push(int64_t worker, int64_t globalStage, Cell cell);

  /// Takes the first cell of the last list; needs !isEmpty(worker).
  Cell pop(int64_t worker);

private:
  static constexpr uint32_t kNone = ~uint32_t(0);

  struct CellList {
    uint32_t first = kNone, last = kNone;
  };
  struct Node {
    Cell cell;
    uint32_t next;
  };
  struct StageLists {
    uint32_t forward, backward;
  };

  uint32_t allocate(Cell cell);

  std::vector<StageLists> listsOf; ///< by global stage
  std::vector<CellList> lists;
  std::vector<uint32_t> heaps;      ///< of all workers, one after the other
  std::vector<uint32_t> heapBegins; ///< by worker
  std::vector<uint32_t> heapSizes;  ///< by worker
  std::vector<Node> nodes;
  uint32_t freeNode = kNone;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_READYCELLS_H
