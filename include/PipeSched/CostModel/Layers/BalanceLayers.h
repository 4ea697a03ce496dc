//===- BalanceLayers.h - The division of layers over stages -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the layers of a model over the stages of a path as evenly as
// possible, by number or by cost. Includes the other blocks of the first and
// the last stage, such as embedding and head.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_BALANCELAYERS_H
#define PIPESCHED_COSTMODEL_LAYERS_BALANCELAYERS_H

#include "PipeSched/Facts/System.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// The quantity that is divided over the stages: the number of layers, without
/// a remainder (Exact) or as evenly as possible (Count), or the time of a
/// microbatch (Cost).
enum class Balance { Exact, Count, Cost };

template <>
struct EnumNames<Balance> {
  static constexpr EnumName<Balance> values[] = {
      {Balance::Exact, "exact", "The number of layers, exactly"},
      {Balance::Count, "count", "The number of layers, as far as it goes"},
      {Balance::Cost, "cost", "The time of a microbatch"}};
};

/// The loads of the layers in their order, and of the other blocks of the first
/// and the last stage, in one unit: layers or picoseconds.
struct LayerLoads {
  struct Run {
    int64_t count = 0, each = 0; ///< `count` layers of load `each`
  };
  int64_t first = 0,
          last = 0; ///< load of other blocks of the first and last stage
  std::vector<Run> runs;
};

/// The time of F, B and recomputation of every block, for one microbatch, in
/// ps. Errors: as for costBlocks.
llvm::Expected<LayerLoads> costLayers(const ModelFacts &model,
                                      const SystemFacts &system);

/// Returns, for each of `numWorkers` workers, the time of all blocks on its
/// group of nodes relative to the first group of the system; 1 without groups.
/// Errors: as for costLayers and groupOfWorker.
llvm::Expected<std::vector<double>> factorsOfWorkers(const ModelFacts &model,
                                                     const SystemFacts &system,
                                                     int64_t numWorkers);

/// Returns the weights of stages whose times are multiplied by these factors.
std::vector<int64_t> weightsOf(llvm::ArrayRef<double> factors);

/// Returns the layers of each stage such that all stages have equal loads,
/// including the other blocks of the first and last stage. Errors: a number of
/// layers that cannot be divided so, with the nearest possible numbers.
llvm::Expected<std::vector<int64_t>>
divideExactly(int64_t numStages, int64_t layers, int64_t first, int64_t last);

/// Divides the layers over the stages of a path (`workers` by stage) as evenly
/// as possible.
///
/// If all layers are equal, the busiest worker gets the smallest possible load,
/// then the next busiest, and so on; the same rule then divides a worker's
/// layers among its stages. On ties the layer goes to the worker that the path
/// reaches last, and to its last stage, because these hold fewer activations.
/// O(S log time).
///
/// If layers differ, the stages are runs of consecutive layers. The longest
/// stage is as short as possible; among all such divisions, the division with
/// the smallest sum of squares is used. The sum over the stages of a worker is
/// not considered. O(S L log L) for L layers.
///
/// `weights` of the stages, at least 1, state how slow their workers are: the
/// loads multiplied by the weights become even. Without weights all are 1. If
/// stages of a worker have different weights, the worker gets its load by their
/// mean, and its stages divide it.
///
/// Errors: a worker below 0 or above the limit; loads that add up to more than
/// 2^63 - 1; layers that differ, with S (L + 1) over 2^24.
llvm::Expected<std::vector<int64_t>>
balanceLayers(llvm::ArrayRef<int32_t> workers, const LayerLoads &loads,
              llvm::ArrayRef<int64_t> weights = {});

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_BALANCELAYERS_H
