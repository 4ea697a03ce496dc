//===- MessageCosts.h - Tensors and costs of messages -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A message has all tensors of a cell that a worker needs, so that its cost
// follows from the stages there that take them (docs/CostModel.md, "Messages:
// Hockney").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_MESSAGECOSTS_H
#define PIPESCHED_ANALYSIS_GRAPH_MESSAGECOSTS_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"
#include "llvm/ADT/DenseMap.h"

namespace pipesched {

/// The edges between stages of which messages carry the tensor or the gradient.
class EdgesOfMessages {
public:
  EdgesOfMessages(const TaskGraph &graph, const Placement &placement);

  /// Calls `visit(from, to)` for each of them. Several edges with one tensor
  /// are visited once, since the tensor is sent once.
  void forEach(uint32_t task,
               llvm::function_ref<void(int32_t, int32_t)> visit) const;

private:
  /// The order in its row of the message of a stage and unit to a worker.
  using Sends = llvm::DenseMap<std::pair<int64_t, int32_t>, uint32_t>;

  bool isSummedLater(int64_t stage, int64_t target, int64_t unit) const;

  const TaskGraph &graph;
  const Placement &placement;
  Sends gradients;
};

/// The costs of the messages of a graph. Refers to its arguments.
class MessageCosts {
public:
  MessageCosts(const TaskGraph &graph, const Placement &placement,
               const StageCosts &stageCosts)
      : graph(graph), placement(placement), stageCosts(stageCosts) {
    if (!stageCosts.edges.empty())
      edges.emplace(graph, placement);
  }

  /// The cost of a Send or a Recv: occupancies and bytes add up, and the
  /// largest latency counts.
  MessageCost of(uint32_t task) const;

private:
  const TaskGraph &graph;
  const Placement &placement;
  const StageCosts &stageCosts;
  std::optional<EdgesOfMessages> edges; ///< if messages of a stage differ
};

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_MESSAGECOSTS_H
