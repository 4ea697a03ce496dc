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
#include <vector>

namespace pipesched {

/// An edge between two global stages.
struct StageEdge {
  int32_t from, to;
  bool carriesGradient;
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
  bool isLinear = true;
};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_STAGEEDGES_H
