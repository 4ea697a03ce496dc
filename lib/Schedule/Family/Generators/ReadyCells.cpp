//===- ReadyCells.cpp - Ready cells of workers, furthest first ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constructor numbers the lists by sorting the positions of all stages.
//
//===----------------------------------------------------------------------===//

#include "ReadyCells.h"
#include <algorithm>
#include <tuple>

using namespace pipesched;

namespace {
/// One of the two positions of a stage.
struct CellPosition {
  int64_t worker, position, globalStage;
  bool isForward;

  auto key() const { return std::tie(worker, position); }
};
} // namespace

static std::vector<CellPosition> sortPositions(const Placement &placement) {
  std::vector<CellPosition> positions;
  positions.reserve(2 * placement.getNumGlobalStages());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0, n = placement.getNumStages(path); stage < n;
         ++stage) {
      int64_t globalStage = placement.stageOffset(path) + stage;
      int64_t worker = placement.workerOf(globalStage);
      positions.push_back({worker, stage, globalStage, true});
      positions.push_back({worker, 2 * n - 1 - stage, globalStage, false});
    }
  std::sort(positions.begin(), positions.end(),
            [](const CellPosition &a, const CellPosition &b) {
              return a.key() < b.key();
            });
  return positions;
}

ReadyCells::ReadyCells(const Placement &placement)
    : listsOf(placement.getNumGlobalStages()),
      heapBegins(placement.getNumWorkers(), 0),
      heapSizes(placement.getNumWorkers(), 0) {
  const CellPosition *previous = nullptr;
  std::vector<CellPosition> positions = sortPositions(placement);
  for (const CellPosition &position : positions) {
    if (!previous || previous->worker != position.worker)
      heapBegins[position.worker] = lists.size();
    if (!previous || previous->key() != position.key())
      lists.emplace_back();
    StageLists &stageLists = listsOf[position.globalStage];
    (position.isForward ? stageLists.forward : stageLists.backward) =
        lists.size() - 1;
    previous = &position;
  }
  heaps.resize(lists.size());
  nodes.reserve(placement.getNumUnits());
}

uint32_t ReadyCells::allocate(Cell cell) {
  if (freeNode == kNone) {
    nodes.push_back({cell, kNone});
    return nodes.size() - 1;
  }
  uint32_t node = freeNode;
  freeNode = nodes[node].next;
  nodes[node] = {cell, kNone};
  return node;
}

void ReadyCells::push(int64_t worker, int64_t globalStage, Cell cell) {
  const StageLists &stageLists = listsOf[globalStage];
  uint32_t number =
      cell.is(Phase::Forward) ? stageLists.forward : stageLists.backward;
  CellList &list = lists[number];
  uint32_t node = allocate(cell);
  if (list.first != kNone) {
    nodes[list.last].next = node;
    list.last = node;
    return;
  }
  list = {node, node};
  uint32_t *heap = heaps.data() + heapBegins[worker];
  heap[heapSizes[worker]++] = number;
  std::push_heap(heap, heap + heapSizes[worker]);
}

Cell ReadyCells::pop(int64_t worker) {
  uint32_t *heap = heaps.data() + heapBegins[worker];
  CellList &list = lists[heap[0]];
  uint32_t node = list.first;
  list.first = nodes[node].next;
  if (list.first == kNone)
    std::pop_heap(heap, heap + heapSizes[worker]--);
  Cell cell = nodes[node].cell;
  nodes[node].next = freeNode;
  freeNode = node;
  return cell;
}
