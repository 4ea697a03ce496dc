//===- Overlap.h - C API for overlapped layers --------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward and a backward whose layers share a worker part by part
// (PipeSched/CostModel/Pairs/OverlappedLayers.h).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_OVERLAP_H
#define PIPESCHED_C_OVERLAP_H

#include "PipeSched-c/Evaluation.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The times of the parts of a layer, ps: F, I and W of each. Dispatch and
/// combine have no W.
typedef struct PipeschedLayerTimes {
  int64_t attention[3], dispatch[3], mlp[3], combine[3];
} PipeschedLayerTimes;

/// Numbers of pipesched::LayerPart.
typedef enum PipeschedLayerPart {
  PipeschedLayerPartAttention,
  PipeschedLayerPartDispatch,
  PipeschedLayerPartMlp,
  PipeschedLayerPartCombine
} PipeschedLayerPart;

/// Numbers of pipesched::PairOrder.
typedef enum PipeschedPairOrder {
  PipeschedPairOrderInTurn,
  PipeschedPairOrderDeepSeek,
  PipeschedPairOrderMegatron,
  PipeschedPairOrderBest,
  PipeschedPairOrderFluid
} PipeschedPairOrder;

typedef struct PipeschedPairOptions {
  PipeschedPairOrder order;
  /// An order of issue such as "combine.I,attention.F,...", in place of
  /// `order`; or empty.
  MlirStringRef pattern;
  bool delaysWeights; ///< W runs apart from I
  /// How long a part takes while the other stream is in use, in percent of its
  /// time alone, from 100 on.
  int64_t computePercent, exchangePercent;
} PipeschedPairOptions;

/// A part of a layer as it ran.
typedef struct PipeschedPartRun {
  PipeschedLayerPart part;
  PipeschedPhase phase;
  int64_t layer; ///< of the forward (F) or of the backward (I, W)
  int64_t startPs, endPs;
} PipeschedPartRun;

typedef struct PipeschedPairTimes {
  int64_t endPs;
  int64_t forwardPs;  ///< when the output of the forward is there
  int64_t gradientPs; ///< when the gradient of the backward's input is there
  int64_t computePs, exchangePs; ///< for how long each stream is in use
  int64_t exposedPs;             ///< for how long only the exchange is
  int64_t boundPs;               ///< no order ends earlier
  bool isOptimal;                ///< whether it is shown that none does
  int64_t numTimed, numCut;      ///< orders that a search timed and left out
} PipeschedPairTimes;

/// Schedules a forward through `numForward` layers beside a backward through
/// `numBackward`. Passes the order of issue to `onPattern`, and each part in
/// the order of issue to `onRun`; both may be null. Errors, after which nothing
/// is written: those of pipesched::schedulePair and of parsePairPattern.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedSchedulePair(intptr_t numForward, const PipeschedLayerTimes *forward,
                      intptr_t numBackward, const PipeschedLayerTimes *backward,
                      const PipeschedPairOptions *options,
                      PipeschedPairTimes *times, MlirStringCallback onPattern,
                      void (*onRun)(PipeschedPartRun run, void *userData),
                      MlirStringCallback onError, void *userData);

/// Passes the times of the parts of each kind of layer of the model of `costs`
/// on its system to `onKind`, with the name of the kind and how many layers of
/// it follow each other. Errors: costs without a model or a system;
/// numMicrobatches microbatches for which there are no costs; those of
/// pipesched::costLayerParts.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedCostsGetLayerParts(
    PipeschedCosts costs, int64_t numMicrobatches,
    void (*onKind)(MlirStringRef name, int64_t count, PipeschedLayerTimes times,
                   void *userData),
    MlirStringCallback onError, void *userData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_OVERLAP_H
