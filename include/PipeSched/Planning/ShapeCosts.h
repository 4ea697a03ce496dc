//===- ShapeCosts.h - Costs of the shapes of plans --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The costs of each division of the accelerators and of the batch, and steps
// that measure single layers by them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_SHAPECOSTS_H
#define PIPESCHED_PLANNING_SHAPECOSTS_H

#include "PipeSched/Planning/Placed.h"

namespace pipesched {

/// The costs of one accelerator without parallelism, divided by a shape. The
/// bytes of a parameter's weight, gradient and optimizer state depend on the
/// sharding. Without a host, the time of a stage is the sum of its layers.
/// Errors: as for setAccelerators, setParameterBytes and deploy.
llvm::Expected<CostSources> costsOn(const CostSources &whole,
                                    const PlanShape &shape,
                                    llvm::ArrayRef<int64_t> parameterBytes,
                                    bool hasHost);

/// A step of some microbatches, with one worker for each of some stages, which
/// are given by their numbers of layers. Weight gradients have cells if
/// `isSplit`.
Configuration probeOf(const CostSources &costs, llvm::ArrayRef<int64_t> stages,
                      int64_t microbatches, bool isSplit = false);

/// The lengths of runs of layers that cost the same, and 0 for the head. The
/// first layer, which has the embedding, is a run by itself. Errors here and
/// below: those of evaluateConfiguration.
llvm::Expected<std::vector<int64_t>> findRuns(const CostSources &costs,
                                              int64_t numLayers);

/// Time and bytes of the layers of these runs. `hasSplit` says whether the
/// costs have times of split backwards.
llvm::Expected<LayerSums> sumLayers(const CostSources &costs,
                                    llvm::ArrayRef<int64_t> runs,
                                    bool hasSplit);

/// Weights, gradients and optimizer state of layers; 0 without a model.
using ParameterSums = std::array<Sums, 3>;
llvm::Expected<ParameterSums> sumParameters(const CostSources &costs,
                                            llvm::ArrayRef<int64_t> runs);

/// The sums of a part of each of the three.
Sums addParts(const ParameterSums &sums, const std::array<double, 3> &parts);

} // namespace pipesched

#endif // PIPESCHED_PLANNING_SHAPECOSTS_H
