//===- Optimize.h - C API to search for schedules -----------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs pipelines with pipe-optimize, and says what each of them found: the
// numbers that its remarks say in words.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_OPTIMIZE_H
#define PIPESCHED_C_OPTIMIZE_H

#include "PipeSched-c/Module.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What the searches of a pipeline found. Its creator owns it, and all strings
/// below live as long. Needs the module no longer. Immutable.
typedef struct PipeschedSearch {
  void *ptr;
} PipeschedSearch;

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

/// Runs a pipeline as pipeschedModuleRunSearchPipeline does. Null after an
/// error.
MLIR_CAPI_EXPORTED PipeschedSearch
pipeschedModuleSearch(MlirModule module, MlirStringRef pipeline);
MLIR_CAPI_EXPORTED void pipeschedSearchDestroy(PipeschedSearch search);
static inline bool pipeschedSearchIsNull(PipeschedSearch search) {
  return !search.ptr;
}

/// One result for each schedule that a pipe-optimize of the pipeline took.
MLIR_CAPI_EXPORTED intptr_t
pipeschedSearchGetNumResults(PipeschedSearch search);

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The enum "objective" has the names.
typedef enum PipeschedObjective {
  PipeschedObjectiveMakespan,
  PipeschedObjectivePeriod
} PipeschedObjective;

/// How much is proven.
typedef enum PipeschedSearchStatus {
  PipeschedSearchOptimal,    ///< the schedule meets the lower bound
  PipeschedSearchGapReached, ///< it is within the gap that was asked for
  PipeschedSearchLimit,      ///< the best within the limits
  PipeschedSearchInterrupted ///< the best until the interrupt
} PipeschedSearchStatus;

/// The enum "placements" has the names.
typedef enum PipeschedPlacementKind {
  PipeschedPlacementLinear,
  PipeschedPlacementInterleaved,
  PipeschedPlacementV,
  PipeschedPlacementWave
} PipeschedPlacementKind;

/// What was chosen besides the rows.
typedef struct PipeschedChoice {
  bool hasPlacement; ///< false: no placements were given to choose from
  PipeschedPlacementKind placement;
  int64_t microbatchSize; ///< in sequences; 0: no sizes were given
} PipeschedChoice;

/// The best schedule of a search, without its rows, which are in the module.
typedef struct PipeschedSearchResult {
  MlirStringRef schedule; ///< its name
  PipeschedChoice choice;
  PipeschedObjective objective;
  int64_t objectivePs; ///< the makespan or the period
  int64_t makespanPs, periodPs;
  int64_t lowerBoundPs; ///< no schedule has a smaller objective
  MlirStringRef bound;  ///< what that follows from
  double gap;           ///< distance from the bound, as a fraction of it
  PipeschedSearchStatus status;
  MlirStringRef origin; ///< what found the schedule
  int64_t startPs;      ///< the best objective to start from; 0: none fits
  MlirStringRef start;  ///< what rows have it; empty: none fit
  double seconds, secondsToBest;
  uint64_t evaluations;
  intptr_t numOthers;  ///< choices that were not taken
  intptr_t numWithout; ///< techniques that were left out, one at a time
} PipeschedSearchResult;

/// Errors, after which nothing is written: null in the place of a search or
/// result; no such result.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedSearchGetResult(
    PipeschedSearch search, intptr_t index, PipeschedSearchResult *result,
    MlirStringCallback onError, void *userData);

/// The objective with another choice, or without a technique.
typedef struct PipeschedAlternative {
  /// The choice in words, or the option of pipe-optimize: "offload".
  MlirStringRef name;
  PipeschedChoice choice; ///< empty for techniques
  bool hasSchedule;       ///< else `reason` says why there is none
  int64_t objectivePs;
  /// Nothing was searched, since `objectivePs`, a lower bound, is no better
  /// than the result.
  bool isBound;
  MlirStringRef reason;
} PipeschedAlternative;

/// The choices that were not taken, in the order in which they were given.
/// Errors, after which nothing is written: those of pipeschedSearchGetResult;
/// no such alternative.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedSearchGetOther(PipeschedSearch search, intptr_t index, intptr_t other,
                        PipeschedAlternative *alternative,
                        MlirStringCallback onError, void *userData);
/// The same for the techniques.
MLIR_CAPI_EXPORTED MlirLogicalResult
pipeschedSearchGetWithout(PipeschedSearch search, intptr_t index,
                          intptr_t technique, PipeschedAlternative *alternative,
                          MlirStringCallback onError, void *userData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_OPTIMIZE_H
