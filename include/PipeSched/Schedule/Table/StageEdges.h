//===- StageEdges.h - Edges between stages ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The edges between the stages of a table. Activations flow along an edge;
// gradients flow back along the edges that carry gradients.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_STAGEEDGES_H
#define PIPESCHED_SCHEDULE_TABLE_STAGEEDGES_H

#include "PipeSched/Schedule/Kinds/Phase.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <vector>

namespace pipesched {

/// An edge between two global stages.
struct StageEdge {
  int32_t from, to;
  bool carriesGradient;
  int32_t tensor = 0; ///< of `from`: 0 its output, then its named tensors
};

class StageEdges {
public:
  StageEdges() = default;
  StageEdges(llvm::ArrayRef<StageEdge> edges, int64_t numStages);

  /// The stages from which a stage receives a flow, and the stages to which it
  /// passes one, both ascending.
  llvm::ArrayRef<int32_t> sourcesOf(Flow flow, int64_t stage) const {
    return sources[static_cast<unsigned>(flow)].of(stage);
  }
  llvm::ArrayRef<int32_t> targetsOf(Flow flow, int64_t stage) const {
    return targets[static_cast<unsigned>(flow)].of(stage);
  }
  /// The tensor of the edge between two stages; requires that there is one.
  int32_t tensorOf(int64_t from, int64_t to) const {
    const Lists &lists = targets[static_cast<unsigned>(Flow::Activation)];
    llvm::ArrayRef<int32_t> found = lists.of(from);
    return tensors[lists.begins[from] +
                   (llvm::lower_bound(found, to) - found.begin())];
  }
  /// Whether each stage has at most one source and one target of each flow, as
  /// on the chain of a path.
  bool areLines() const { return isLinear; }

private:
  struct Lists {
    llvm::ArrayRef<int32_t> of(int64_t stage) const {
      return llvm::ArrayRef(stages).slice(begins[stage],
                                          begins[stage + 1] - begins[stage]);
    }
    std::vector<uint32_t> begins; ///< by stage, and the end
    std::vector<int32_t> stages;
  };

  std::array<Lists, kNumFlows> sources, targets;
  std::vector<int32_t> tensors; ///< by edge: source, then target
  bool isLinear = true;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_STAGEEDGES_H
