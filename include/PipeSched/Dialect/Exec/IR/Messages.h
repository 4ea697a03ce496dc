//===- Messages.h - Ends of messages and of collectives ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of messages and groups. The name of a message consists of the cell that
// produces it and the two workers. Sorted by name, the sends and the receives
// of a valid program are equal lists. GroupName.h has the name of a group.
// Sorted by name, the instructions of a group are adjacent.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_MESSAGES_H
#define PIPESCHED_DIALECT_EXEC_IR_MESSAGES_H

#include "PipeSched/Schedule/Table/GroupName.h"
#include "llvm/ADT/STLExtras.h"
#include <tuple>

namespace pipesched::exec {

/// One end of a message. `instruction` is a number that the caller chooses.
struct MessageEnd {
  static_assert(kMaxWorkers <= 1 << 16, "workers are 16 bits here");

  uint64_t cell;
  uint16_t source, destination;
  uint32_t instruction;

  MessageEnd(Cell cell, int64_t source, int64_t destination,
             uint32_t instruction)
      : cell(cell.getRaw()), source(source), destination(destination),
        instruction(instruction) {}

  auto getName() const { return std::tie(cell, source, destination); }
};

/// Sorts by name; ends with the same name keep the order of their instructions.
inline void sortByName(std::vector<MessageEnd> &ends) {
  llvm::sort(ends, [](const MessageEnd &a, const MessageEnd &b) {
    return std::tie(a.cell, a.source, a.destination, a.instruction) <
           std::tie(b.cell, b.source, b.destination, b.instruction);
  });
}

/// The part of one worker in a collective.
struct CollectiveEnd {
  GroupName name;
  int64_t worker;
  uint32_t instruction;
};

/// Sorts by name; ends with the same name are sorted by worker.
inline void sortByName(std::vector<CollectiveEnd> &ends) {
  llvm::sort(ends, [](const CollectiveEnd &a, const CollectiveEnd &b) {
    return std::tie(a.name, a.worker, a.instruction) <
           std::tie(b.name, b.worker, b.instruction);
  });
}

/// Calls `visit(group)` with the ends of each name. `ends` must be sorted.
template <typename Visit>
void forEachGroup(llvm::ArrayRef<CollectiveEnd> ends, Visit &&visit) {
  while (!ends.empty()) {
    llvm::ArrayRef<CollectiveEnd> group =
        ends.take_while([&](const CollectiveEnd &end) {
          return end.name == ends.front().name;
        });
    visit(group);
    ends = ends.drop_front(group.size());
  }
}

} // namespace pipesched::exec

#endif // PIPESCHED_DIALECT_EXEC_IR_MESSAGES_H
