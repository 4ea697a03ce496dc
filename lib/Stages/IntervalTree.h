//===- IntervalTree.h - Intervals in order, first fit -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Intervals of addresses that do not overlap. Finds the first one of so many
// bytes without looking at those in front of it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_INTERVALTREE_H
#define PIPESCHED_LIB_STAGES_INTERVALTREE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <vector>

namespace pipesched {

/// A search tree by `begin`, and a heap by priorities, which keep it balanced
/// (Seidel and Aragon 1996). Each node knows the longest interval below it.
/// O(log n) per call on average; the priorities are the same in each run.
class IntervalTree {
public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Inserts [begin, end), which must not be empty nor overlap another one.
  /// Returns its number, which stays the same until it is erased.
  uint32_t insert(int64_t begin, int64_t end);
  void erase(uint32_t interval);
  /// Moves the bounds of an interval; it must stay between its neighbours.
  void setBounds(uint32_t interval, int64_t begin, int64_t end);

  /// The first interval of `bytes` or more, or kNone.
  uint32_t findFit(int64_t bytes) const;
  /// The first interval that ends behind `offset`, or kNone.
  uint32_t findBehind(int64_t offset) const;
  /// The last interval that begins in front of `offset`, or kNone.
  uint32_t findBefore(int64_t offset) const;
  uint32_t findLast() const { return findBefore(INT64_MAX); }

  int64_t getBegin(uint32_t interval) const { return nodes[interval].begin; }
  int64_t getEnd(uint32_t interval) const { return nodes[interval].end; }
  uint32_t size() const { return numIntervals; }

  /// Calls `treat` for each interval, in order.
  void forEach(llvm::function_ref<void(uint32_t interval)> treat) const;

private:
  struct Node {
    int64_t begin, end, longest; ///< `longest` of the node and all below it
    uint32_t left, right, priority;
  };

  int64_t longestOf(uint32_t node) const {
    return node == kNone ? 0 : nodes[node].longest;
  }
  void update(uint32_t node);
  void updateTo(int64_t begin);
  void split(uint32_t node, int64_t begin, uint32_t &left, uint32_t &right);
  uint32_t merge(uint32_t left, uint32_t right);
  uint32_t makeNode(int64_t begin, int64_t end);

  std::vector<Node> nodes;
  uint32_t root = kNone;
  uint32_t unused = kNone; ///< a list by `left`
  uint32_t numIntervals = 0;
  uint32_t random = 2463534242; ///< any number but 0
  std::vector<uint32_t> path;   ///< of updateTo(), to allocate it once
};

/// A set of addresses: intervals that touch are one.
class AddressSet {
public:
  void add(int64_t begin, int64_t end);
  /// Removes what there is between `begin` and `end`.
  void remove(int64_t begin, int64_t end);

  const IntervalTree &intervals() const { return tree; }

private:
  IntervalTree tree;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_INTERVALTREE_H
