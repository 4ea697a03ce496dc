//===- GroupName.h - Names of groups ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The name of a group consists of its collective, and of the blocks or the
// microbatch for which its members meet. Tables, programs, graphs and pictures
// use the same names.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_GROUPNAME_H
#define PIPESCHED_SCHEDULE_TABLE_GROUPNAME_H

#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Table/Replicas.h"
#include <tuple>

namespace pipesched {

/// Fields that the name does not use keep their initial values.
struct GroupName {
  InstructionKind kind = InstructionKind::AllReduce;
  BlockSpan blocks;  ///< for a grouping by blocks
  int64_t unit = -1; ///< for a grouping by unit: the microbatch, or its slice

  Grouping grouping() const { return traitsOf(kind).grouping; }
  auto asTuple() const {
    return std::tuple(grouping(), kind, blocks.begin, blocks.end, unit);
  }
  friend bool operator==(const GroupName &a, const GroupName &b) {
    return a.asTuple() == b.asTuple();
  }
  /// The order in which groups are numbered: groups of blocks come first, so
  /// that their numbers are also the indices of their costs
  /// (StageCosts::reductions).
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

/// Returns "blocks 0 to 2" or "microbatch 3".
std::string describeGroup(const GroupName &name);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_GROUPNAME_H
