//===- StageEdges.cpp - Edges between stages ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sorts edges by their sources and by their targets, as rows of one array.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/StageEdges.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

StageEdges::StageEdges(llvm::ArrayRef<StageEdge> edges, int64_t numStages) {
  using Ends = std::pair<int32_t, int32_t>;
  auto collect = [&](Flow flow, bool byTarget) {
    std::vector<Ends> pairs; // the stage of the list, and the stage in it
    for (const StageEdge &edge : edges)
      if (flow == Flow::Activation)
        pairs.push_back(byTarget ? Ends(edge.to, edge.from)
                                 : Ends(edge.from, edge.to));
      else if (edge.carriesGradient)
        pairs.push_back(byTarget ? Ends(edge.from, edge.to)
                                 : Ends(edge.to, edge.from));
    llvm::sort(pairs);
    Lists lists;
    lists.begins.assign(numStages + 1, 0);
    for (auto [stage, other] : pairs) {
      isLinear &= ++lists.begins[stage + 1] == 1;
      lists.stages.push_back(other);
    }
    for (int64_t stage = 0; stage != numStages; ++stage)
      lists.begins[stage + 1] += lists.begins[stage];
    return lists;
  };
  std::vector<StageEdge> sorted = edges;
  llvm::sort(sorted, [](const StageEdge &a, const StageEdge &b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  for (const StageEdge &edge : sorted)
    tensors.push_back(edge.tensor);
  for (Flow flow : {Flow::Activation, Flow::Gradient}) {
    auto number = static_cast<unsigned>(flow);
    sources[number] = collect(flow, /*byTarget=*/true);
    targets[number] = collect(flow, /*byTarget=*/false);
  }
}
