//===- BalanceLayers.h - How many layers a stage holds ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divides the layers of a model over the stages of a path as evenly as they go,
// by number or by cost, beside what stands on the first and the last stage.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_BALANCELAYERS_H
#define PIPESCHED_COSTMODEL_BALANCELAYERS_H

#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// What is to be even among stages: the number of layers, exactly or as far as
/// it goes, or the time of a microbatch.
enum class Balance { Exact, Count, Cost };

template <>
struct EnumNames<Balance> {
  static constexpr EnumName<Balance> values[] = {
      {Balance::Exact, "exact", "The number of layers, exactly"},
      {Balance::Count, "count", "The number of layers, as far as it goes"},
      {Balance::Cost, "cost", "The time of a microbatch"}};
};

/// Layers in their order and what the ends hold beside them, in one unit:
/// layers or picoseconds.
struct LayerLoads {
  struct Run {
    int64_t count = 0, each = 0; ///< `count` layers of load `each`
  };
  int64_t first = 0, last = 0; ///< beside layers, on the first and last stage
  std::vector<Run> runs;
};

/// F, B and what is recomputed of every block, for one microbatch, ps. Errors:
/// those of costBlocks.
llvm::Expected<LayerLoads> costLayers(const ModelFacts &model,
                                      const SystemFacts &system);

/// Layers of each stage that make all stages exactly alike, ends included.
/// Errors: a number of layers that does not, with the nearest that do.
llvm::Expected<std::vector<int64_t>>
divideExactly(int64_t numStages, int64_t layers, int64_t first, int64_t last);

/// Layers of each stage of a path (`workers` by stage), as even as they go.
///
/// Where all layers are alike, the busiest worker is as short as it can be,
/// then the next, and so on; then the same for the stages of each worker. A
/// tie goes to the worker that the path comes to last, and to its last stage:
/// it holds fewer activations. O(S log time).
///
/// Where they differ, the longest stage is as short as a division into
/// consecutive layers can make it, and of all that are, the one with the
/// smallest sum of squares is taken. How stages add up on a worker is not
/// looked at. O(S L log L) for L layers.
///
/// Errors: loads that add up to more than 2^63 - 1; layers that differ, with
/// S (L + 1) over 2^24.
llvm::Expected<std::vector<int64_t>>
balanceLayers(llvm::ArrayRef<int32_t> workers, const LayerLoads &loads);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_BALANCELAYERS_H
