//===- MessageCosts.cpp - Tensors and costs of messages -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of one tensor by several stages of a worker are summed there and
// leave with the last of them, which the order of the sends shows.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/MessageCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Dependences.h"

using namespace pipesched;

EdgesOfMessages::EdgesOfMessages(const TaskGraph &graph,
                                 const Placement &placement)
    : graph(graph), placement(placement) {
  for (int32_t worker = 0; worker != graph.getNumWorkers(); ++worker)
    for (uint32_t i = graph.instructionBegins[worker];
         i != graph.instructionBegins[worker + 1]; ++i) {
      uint32_t task = graph.taskOfInstruction[i];
      if (task == TaskGraph::kNone || !graph.isMessage(task) ||
          graph.worker[task] != worker ||
          makesActivation(graph.cell[task].getPhase()))
        continue;
      gradients[{placement.pairOf(graph.cell[task]), graph.peer[task]}] = i;
    }
}

/// Whether another stage of the worker sends its gradient of the same tensor of
/// `target` later.
bool EdgesOfMessages::isSummedLater(int64_t stage, int64_t target,
                                    int64_t unit) const {
  const StageEdges &edges = placement.getEdges();
  auto sendOf = [&](int64_t other) {
    auto found = gradients.find(
        {placement.pairOf(other, unit), int32_t(placement.workerOf(target))});
    return found == gradients.end() ? -1 : int64_t(found->second);
  };
  return llvm::any_of(
      edges.sourcesOf(Flow::Gradient, target), [&](int32_t other) {
        return placement.workerOf(other) == placement.workerOf(stage) &&
               edges.tensorOf(target, other) == edges.tensorOf(target, stage) &&
               sendOf(other) > sendOf(stage);
      });
}

void EdgesOfMessages::forEach(
    uint32_t task, llvm::function_ref<void(int32_t, int32_t)> visit) const {
  Cell cell = graph.cell[task];
  int64_t stage = placement.globalStage(cell), unit = cell.getUnit();
  int32_t receiver =
      graph.isMessage(task) ? graph.peer[task] : graph.worker[task];
  Flow flow =
      makesActivation(cell.getPhase()) ? Flow::Activation : Flow::Gradient;
  auto isLater = [&](int64_t target) {
    return flow == Flow::Gradient && isSummedLater(stage, target, unit);
  };
  forEachCarriedEdge(placement, flow, stage, unit, receiver, isLater, visit);
}

/// A program that was read may have messages that no stage takes. They cost as
/// much as any message of their stage.
MessageCost MessageCosts::of(uint32_t task) const {
  Cell cell = graph.cell[task];
  if (!edges)
    return stageCosts.message(placement, cell);
  MessageCost sum;
  bool isEmpty = true;
  edges->forEach(task, [&](int32_t from, int32_t to) {
    sum.addTensor(stageCosts.tensorOf(cell, from, to));
    isEmpty = false;
  });
  return isEmpty ? stageCosts.message(placement, cell) : sum;
}
