//===- ReadyQueues.cpp - Ready cells of workers, furthest first -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constructor numbers the queues by sorting the positions of all stages.
//
//===----------------------------------------------------------------------===//

#include "ReadyQueues.h"
#include <algorithm>
#include <tuple>

using namespace pipesched;

namespace {
/// One of the two positions of a stage.
struct Position {
  int64_t worker, position, globalStage;
  bool isForward;

  auto key() const { return std::tie(worker, position); }
};
} // namespace

static std::vector<Position> sortPositions(const Placement &placement) {
  std::vector<Position> positions;
  positions.reserve(2 * placement.getNumGlobalStages());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0, n = placement.getNumStages(path); stage < n;
         ++stage) {
      int64_t globalStage = placement.stageOffset(path) + stage;
      int64_t worker = placement.workerOf(globalStage);
      positions.push_back({worker, stage, globalStage, true});
      positions.push_back({worker, 2 * n - 1 - stage, globalStage, false});
    }
  std::sort(
      positions.begin(), positions.end(),
      [](const Position &a, const Position &b) { return a.key() < b.key(); });
  return positions;
}

ReadyQueues::ReadyQueues(const Placement &placement)
    : queuesOf(placement.getNumGlobalStages()),
      heapBegins(placement.getNumWorkers(), 0),
      heapSizes(placement.getNumWorkers(), 0) {
  const Position *previous = nullptr;
  std::vector<Position> positions = sortPositions(placement);
  for (const Position &position : positions) {
    if (!previous || previous->worker != position.worker)
      heapBegins[position.worker] = queues.size();
    if (!previous || previous->key() != position.key())
      queues.emplace_back();
    StageQueues &stageQueues = queuesOf[position.globalStage];
    (position.isForward ? stageQueues.forward : stageQueues.backward) =
        queues.size() - 1;
    previous = &position;
  }
  heaps.resize(queues.size());
  nodes.reserve(placement.getNumMicrobatches());
}

uint32_t ReadyQueues::allocate(Cell cell) {
  if (freeNode == kNone) {
    nodes.push_back({cell, kNone});
    return nodes.size() - 1;
  }
  uint32_t node = freeNode;
  freeNode = nodes[node].next;
  nodes[node] = {cell, kNone};
  return node;
}

void ReadyQueues::push(int64_t worker, int64_t globalStage, Cell cell) {
  const StageQueues &stageQueues = queuesOf[globalStage];
  uint32_t number =
      cell.is(Phase::Forward) ? stageQueues.forward : stageQueues.backward;
  Queue &queue = queues[number];
  uint32_t node = allocate(cell);
  if (queue.first != kNone) {
    nodes[queue.last].next = node;
    queue.last = node;
    return;
  }
  queue = {node, node};
  uint32_t *heap = heaps.data() + heapBegins[worker];
  heap[heapSizes[worker]++] = number;
  std::push_heap(heap, heap + heapSizes[worker]);
}

Cell ReadyQueues::pop(int64_t worker) {
  uint32_t *heap = heaps.data() + heapBegins[worker];
  Queue &queue = queues[heap[0]];
  uint32_t node = queue.first;
  queue.first = nodes[node].next;
  if (queue.first == kNone)
    std::pop_heap(heap, heap + heapSizes[worker]--);
  Cell cell = nodes[node].cell;
  nodes[node].next = freeNode;
  freeNode = node;
  return cell;
}
