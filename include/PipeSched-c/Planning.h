//===- Planning.h - C API for planning ----------------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes of a model and a system, and the best division of its layers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_PLANNING_H
#define PIPESCHED_C_PLANNING_H

#include "PipeSched-c/Evaluation.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Sizes that determine how a model can be divided. 0: not known, because there
/// is no model or system or it does not say.
typedef struct PipeschedSizes {
  int64_t layers;
  int64_t attentionHeads;      ///< of queries
  int64_t keyValueHeads;       ///< for latent attention the same as queries;
                               ///< with a recurrence also a divisor of the
                               ///< heads of its keys
  int64_t experts;             ///< of a layer that has some
  int64_t recurrence;          ///< in place of attention in some layers: 1
                               ///< gated_delta, 2 mamba2, 3 mamba, 4
                               ///< convolution
  int64_t sequence;            ///< tokens
  int64_t globalBatch;         ///< sequences of a step, by the model
  int64_t accelerators;        ///< of a worker
  int64_t acceleratorsPerNode; ///< as `accelerators` if there are no nodes
  /// Of the matrix engine in 8-bit floats by the data sheet, whatever share of
  /// it is sustained.
  int64_t fp8FlopsPerSecond;
  int64_t memoryBytes;        ///< of one accelerator
  int64_t hostBytesPerSecond; ///< to host memory, of one accelerator
} PipeschedSizes;

MLIR_CAPI_EXPORTED PipeschedSizes pipeschedCostsGetSizes(PipeschedCosts costs);

/// Writes to `layers` how many layers each stage of a path should hold so that
/// the load of the busiest worker is minimal, including embedding and head.
/// `workers` has the worker of each stage. Errors, after which nothing is
/// written: costs without a model or a system; numMicrobatches microbatches for
/// which there are no costs.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedCostsBalanceLayers(
    PipeschedCosts costs, int64_t numMicrobatches, intptr_t numStages,
    const int32_t *workers, int64_t *layers, MlirStringCallback onError,
    void *userData);

/// The same for loads that are given, such as measured times in ps: `counts[i]`
/// layers of load `each[i]` for each of numRuns runs, in their order, and what
/// the first and the last stage hold beside layers. Errors, after which nothing
/// is written: no stages, no layers, negative numbers, and those of
/// pipesched::balanceLayers.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedBalanceLoads(
    intptr_t numStages, const int32_t *workers, intptr_t numRuns,
    const int64_t *counts, const int64_t *each, int64_t first, int64_t last,
    int64_t *layers, MlirStringCallback onError, void *userData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_PLANNING_H
