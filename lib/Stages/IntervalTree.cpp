//===- IntervalTree.cpp - Intervals in order, first fit -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A treap. An erased node is the merge of what was below it.
//
//===----------------------------------------------------------------------===//

#include "IntervalTree.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace pipesched;

uint32_t IntervalTree::makeNode(int64_t begin, int64_t end) {
  // Xorshift (Marsaglia 2003).
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  Node made{begin, end, end - begin, kNone, kNone, random};
  if (unused == kNone) {
    nodes.push_back(made);
    return nodes.size() - 1;
  }
  uint32_t node = std::exchange(unused, nodes[unused].left);
  nodes[node] = made;
  return node;
}

void IntervalTree::update(uint32_t node) {
  Node &own = nodes[node];
  own.longest = std::max(
      {own.end - own.begin, longestOf(own.left), longestOf(own.right)});
}

/// Updates the nodes from the one that begins at `begin` up to the root.
void IntervalTree::updateTo(int64_t begin) {
  path.clear();
  for (uint32_t node = root; node != kNone;) {
    path.push_back(node);
    if (nodes[node].begin == begin)
      break;
    node = begin < nodes[node].begin ? nodes[node].left : nodes[node].right;
  }
  for (uint32_t node : llvm::reverse(path))
    update(node);
}

/// Splits a tree into what begins in front of `begin`, and the rest.
void IntervalTree::split(uint32_t node, int64_t begin, uint32_t &left,
                         uint32_t &right) {
  if (node == kNone) {
    left = right = kNone;
    return;
  }
  uint32_t inner;
  if (nodes[node].begin < begin) {
    split(nodes[node].right, begin, inner, right);
    nodes[node].right = inner;
    left = node;
  } else {
    split(nodes[node].left, begin, left, inner);
    nodes[node].left = inner;
    right = node;
  }
  update(node);
}

/// Joins two trees; all of `left` is in front of `right`.
uint32_t IntervalTree::merge(uint32_t left, uint32_t right) {
  if (left == kNone || right == kNone)
    return left == kNone ? right : left;
  if (nodes[left].priority > nodes[right].priority) {
    uint32_t merged = merge(nodes[left].right, right);
    nodes[left].right = merged;
    update(left);
    return left;
  }
  uint32_t merged = merge(left, nodes[right].left);
  nodes[right].left = merged;
  update(right);
  return right;
}

uint32_t IntervalTree::insert(int64_t begin, int64_t end) {
  uint32_t made = makeNode(begin, end);
  uint32_t *link = &root;
  while (*link != kNone && nodes[*link].priority >= nodes[made].priority)
    link =
        begin < nodes[*link].begin ? &nodes[*link].left : &nodes[*link].right;
  uint32_t left, right;
  split(*link, begin, left, right);
  nodes[made].left = left;
  nodes[made].right = right;
  *link = made;
  updateTo(begin);
  ++numIntervals;
  return made;
}

void IntervalTree::erase(uint32_t interval) {
  int64_t begin = nodes[interval].begin;
  uint32_t *link = &root;
  while (*link != interval)
    link =
        begin < nodes[*link].begin ? &nodes[*link].left : &nodes[*link].right;
  *link = merge(nodes[interval].left, nodes[interval].right);
  nodes[interval].left = std::exchange(unused, interval);
  updateTo(begin);
  --numIntervals;
}

void IntervalTree::setBounds(uint32_t interval, int64_t begin, int64_t end) {
  nodes[interval].begin = begin;
  nodes[interval].end = end;
  updateTo(begin);
}

uint32_t IntervalTree::findFit(int64_t bytes) const {
  if (longestOf(root) < bytes)
    return kNone;
  for (uint32_t node = root;;) {
    const Node &own = nodes[node];
    if (longestOf(own.left) >= bytes)
      node = own.left;
    else if (own.end - own.begin >= bytes)
      return node;
    else
      node = own.right;
  }
}

uint32_t IntervalTree::findBehind(int64_t offset) const {
  uint32_t found = kNone;
  for (uint32_t node = root; node != kNone;) {
    bool isBehind = nodes[node].end > offset;
    if (isBehind)
      found = node;
    node = isBehind ? nodes[node].left : nodes[node].right;
  }
  return found;
}

uint32_t IntervalTree::findBefore(int64_t offset) const {
  uint32_t found = kNone;
  for (uint32_t node = root; node != kNone;) {
    bool isBefore = nodes[node].begin < offset;
    if (isBefore)
      found = node;
    node = isBefore ? nodes[node].right : nodes[node].left;
  }
  return found;
}

void IntervalTree::forEach(
    llvm::function_ref<void(uint32_t interval)> treat) const {
  llvm::SmallVector<uint32_t, 64> above;
  for (uint32_t node = root; node != kNone || !above.empty();) {
    for (; node != kNone; node = nodes[node].left)
      above.push_back(node);
    node = above.pop_back_val();
    treat(node);
    node = nodes[node].right;
  }
}

//===----------------------------------------------------------------------===//
// Sets of addresses
//===----------------------------------------------------------------------===//

void AddressSet::add(int64_t begin, int64_t end) {
  uint32_t before = tree.findBefore(begin);
  uint32_t behind = tree.findBehind(begin);
  bool joinsBefore =
      before != IntervalTree::kNone && tree.getEnd(before) == begin;
  bool joinsBehind =
      behind != IntervalTree::kNone && tree.getBegin(behind) == end;
  if (joinsBehind)
    end = tree.getEnd(behind);
  if (joinsBefore) {
    if (joinsBehind)
      tree.erase(behind);
    tree.setBounds(before, tree.getBegin(before), end);
  } else if (joinsBehind) {
    tree.setBounds(behind, begin, end);
  } else {
    tree.insert(begin, end);
  }
}

void AddressSet::remove(int64_t begin, int64_t end) {
  for (;;) {
    uint32_t found = tree.findBehind(begin);
    if (found == IntervalTree::kNone || tree.getBegin(found) >= end)
      return;
    auto [foundBegin, foundEnd] =
        std::pair(tree.getBegin(found), tree.getEnd(found));
    if (foundBegin < begin) {
      tree.setBounds(found, foundBegin, begin);
      if (foundEnd > end)
        tree.insert(end, foundEnd);
    } else if (foundEnd > end) {
      tree.setBounds(found, end, foundEnd);
    } else {
      tree.erase(found);
    }
  }
}
