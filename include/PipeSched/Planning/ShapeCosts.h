//===- ShapeCosts.h - Costs of the shapes of plans --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The costs of each shape, and steps that measure the costs of single layers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_SHAPECOSTS_H
#define PIPESCHED_PLANNING_SHAPECOSTS_H

#include "PipeSched/Planning/Placed.h"

namespace pipesched {

/// Distributes the costs of one accelerator without parallelism by a shape. The
/// bytes per parameter of weights, gradients and optimizer state depend on the
/// sharding. Without host times, the time of a stage is the sum of its layers.
/// Errors: as for setAccelerators, setParameterBytes and deploy.
llvm::Expected<CostSources> costsOn(const CostSources &whole,
                                    const PlanShape &shape,
                                    llvm::ArrayRef<int64_t> parameterBytes,
                                    bool hasHost);

/// Returns a step of some microbatches with one worker per stage; the stages
/// are given by their numbers of layers. Weight gradients have their own cells
/// if `isSplit`.
Configuration probeOf(const CostSources &costs, llvm::ArrayRef<int64_t> stages,
                      int64_t microbatches, bool isSplit = false);

/// Returns the lengths of runs of layers with equal costs, and 0 for the head.
/// The first layer, which has the embedding, is a separate run. Errors here and
/// below: as for evaluateConfiguration.
llvm::Expected<std::vector<int64_t>> findRuns(const CostSources &costs,
                                              int64_t numLayers);

/// Returns time and bytes of the layers of these runs. `hasSplit` states
/// whether the costs have times of split backwards.
llvm::Expected<LayerSums> sumLayers(const CostSources &costs,
                                    llvm::ArrayRef<int64_t> runs,
                                    bool hasSplit);

/// Weights, gradients and optimizer state of layers; 0 without a model.
using ParameterSums = std::array<Sums, 3>;
llvm::Expected<ParameterSums> sumParameters(const CostSources &costs,
                                            llvm::ArrayRef<int64_t> runs);

/// Returns the sum of fractions of the three.
Sums addParts(const ParameterSums &sums, const std::array<double, 3> &parts);

} // namespace pipesched

#endif // PIPESCHED_PLANNING_SHAPECOSTS_H
