//===- Deadlock.cpp - A cycle of tasks as waits of instructions -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns a cycle of nodes back into waits between instructions.
//
//===----------------------------------------------------------------------===//

#include "../Graph/InstructionWaits.h"

using namespace pipesched;

/// The first wait among those of `node` that waits for `awaitedNode`.
static Wait findWait(const InstructionWaits &waits, uint32_t node,
                     uint32_t awaitedNode) {
  Wait found = {Program::kNone, Program::kNone, WaitReason::Need};
  waits.forEach(node, [&](uint32_t waiter, uint32_t awaited,
                          WaitReason reason) {
    if (found.waiter == Program::kNone && waits.nodeOf(awaited) == awaitedNode)
      found = {waiter, awaited, reason};
  });
  assert(found.waiter != Program::kNone && "neighbours of a cycle wait");
  return found;
}

Deadlock pipesched::explainCycle(const InstructionWaits &waits,
                                 llvm::ArrayRef<uint32_t> cycle) {
  Deadlock deadlock;
  for (std::size_t i = 0; i < cycle.size(); ++i)
    deadlock.cycle.push_back(
        findWait(waits, cycle[i], cycle[(i + 1) % cycle.size()]));

  // If one wait ends at an instruction and the next begins at another one of
  // the same node (a recv and its send), a wait between the two joins them.
  std::vector<Wait> chain;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Wait &wait = deadlock.cycle[i];
    uint32_t next = deadlock.cycle[(i + 1) % cycle.size()].waiter;
    chain.push_back(wait);
    if (wait.awaited != next)
      chain.push_back({wait.awaited, next, WaitReason::Need});
  }
  deadlock.cycle = std::move(chain);
  return deadlock;
}
