//===- GroupName.h - Names of groups ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group is named by its collective, and by the blocks or the microbatch for
// which its members meet. Tables, programs, graphs and pictures have the same
// names.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_GROUPNAME_H
#define PIPESCHED_SCHEDULE_TABLE_GROUPNAME_H

#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Table/Replicas.h"
#include <tuple>

namespace pipesched {

/// Fields that are not part of the name keep their initial values.
struct GroupName {
  InstructionKind kind = InstructionKind::AllReduce;
  BlockSpan blocks;  ///< if it is grouped by blocks
  int64_t unit = -1; ///< if it is grouped by unit: the microbatch, or its slice

  Grouping grouping() const { return traitsOf(kind).grouping; }
  auto asTuple() const {
    return std::tuple(grouping(), kind, blocks.begin, blocks.end, unit);
  }
  friend bool operator==(const GroupName &a, const GroupName &b) {
    return a.asTuple() == b.asTuple();
  }
  /// The order in which groups are numbered: groups of blocks come first, so
  /// that their costs (StageCosts::reductions) have the same numbers.
  friend bool operator<(const GroupName &a, const GroupName &b) {
    return a.asTuple() < b.asTuple();
  }
};

inline GroupName nameGroup(InstructionKind kind, Cell cell, BlockSpan blocks) {
  GroupName name;
  name.kind = kind;
  if (name.grouping() == Grouping::Blocks)
    name.blocks = blocks;
  else
    name.unit = cell.getUnit();
  return name;
}

/// "blocks 0 to 2", or "microbatch 3".
std::string describeGroup(const GroupName &name);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_GROUPNAME_H
