//===- StageBackward.cpp - Which stages have a backward -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows edges forward to find the stages that need a gradient, and backward
// from the losses to find the stages that can receive one.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/StageBackward.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using llvm::Expected;

using NameStage = llvm::function_ref<std::string(int64_t)>;

/// Finds a circle among the stages that still wait, and refuses it. Each of
/// them waits for another one of them.
static llvm::Error refuseCircle(const StageEdges &edges,
                                llvm::ArrayRef<int32_t> numAwaited,
                                NameStage nameOf) {
  int64_t stage = llvm::find_if(numAwaited, [](int32_t n) { return n > 0; }) -
                  numAwaited.begin();
  std::vector<int64_t> visited;
  while (!llvm::is_contained(visited, stage)) {
    visited.push_back(stage);
    stage =
        *llvm::find_if(edges.sourcesOf(Flow::Activation, stage),
                       [&](int64_t source) { return numAwaited[source] > 0; });
  }
  std::string text = nameOf(stage);
  for (int64_t other : llvm::reverse(visited)) {
    text += " -> " + nameOf(other);
    if (other == stage)
      break;
  }
  return formatError("the edges between stages form a circle: {0}", text);
}

/// Sorts stages such that each comes after all stages that pass a flow to it.
static Expected<std::vector<int32_t>>
sortStages(const StageEdges &edges, int64_t numStages, NameStage nameOf) {
  std::vector<int32_t> order, numAwaited;
  for (int64_t stage = 0; stage != numStages; ++stage) {
    numAwaited.push_back(edges.sourcesOf(Flow::Activation, stage).size());
    if (numAwaited.back() == 0)
      order.push_back(stage);
  }
  for (size_t i = 0; i != order.size(); ++i)
    for (int32_t target : edges.targetsOf(Flow::Activation, order[i]))
      if (--numAwaited[target] == 0)
        order.push_back(target);
  if (static_cast<int64_t>(order.size()) != numStages)
    return refuseCircle(edges, numAwaited, nameOf);
  return order;
}

///   stage       0         1        2         3         4
///   is          frozen -> trained -> frozen -> trained -> frozen
///   needs one   no        yes      yes       yes       yes     forward
///   has a loss  yes       yes      yes       yes       yes     backward
///   runs        F         F B      F I       F B       F I
Expected<std::vector<StageBackward>>
pipesched::stageBackwards(llvm::ArrayRef<StageKind> kinds,
                          llvm::MutableArrayRef<StageEdge> edges,
                          NameStage nameOf) {
  StageEdges possible(edges, kinds.size());
  Expected<std::vector<int32_t>> order =
      sortStages(possible, kinds.size(), nameOf);
  if (!order)
    return order.takeError();
  auto is = [&](int64_t stage, StageKind kind) { return kinds[stage] == kind; };
  std::vector<uint8_t> needsOne(kinds.size()), leads(kinds.size());
  std::vector<int64_t> endedAt(kinds.size(), -1);
  for (int32_t stage : *order) {
    for (int32_t source : possible.sourcesOf(Flow::Activation, stage))
      endedAt[stage] = std::max(endedAt[stage], endedAt[source]);
    if (is(stage, StageKind::Trained) && endedAt[stage] >= 0)
      return formatError("{0} trains after {1}, which has no backward: freeze "
                         "{1}, or remove the backward of {0}",
                         nameOf(stage), nameOf(endedAt[stage]));
    if (is(stage, StageKind::NoBackward))
      endedAt[stage] = stage;
    needsOne[stage] =
        is(stage, StageKind::Trained) ||
        (is(stage, StageKind::Frozen) &&
         llvm::any_of(possible.targetsOf(Flow::Gradient, stage),
                      [&](int32_t source) { return needsOne[source]; }));
  }
  for (int32_t stage : llvm::reverse(*order))
    leads[stage] =
        !is(stage, StageKind::NoBackward) &&
        (possible.targetsOf(Flow::Activation, stage).empty() ||
         llvm::any_of(possible.sourcesOf(Flow::Gradient, stage),
                      [&](int32_t target) { return leads[target]; }));
  std::vector<StageBackward> backwards(kinds.size(), StageBackward::None);
  for (auto [stage, backward] : llvm::enumerate(backwards))
    if (leads[stage] && needsOne[stage])
      backward = is(stage, StageKind::Trained) ? StageBackward::Whole
                                               : StageBackward::Input;
  for (StageEdge &edge : edges)
    edge.carriesGradient &= backwards[edge.from] != StageBackward::None &&
                            backwards[edge.to] != StageBackward::None;
  return backwards;
}
