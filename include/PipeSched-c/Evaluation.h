//===- Evaluation.h - C API to time schedules ---------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Costs, evaluations of schedules with or without IR, and sweeps on threads.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_EVALUATION_H
#define PIPESCHED_C_EVALUATION_H

#include "PipeSched-c/Module.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEFINE_C_API_STRUCT(name, storage)                                     \
  struct name {                                                                \
    storage *ptr;                                                              \
  };                                                                           \
  typedef struct name name

/// What the costs of schedules follow from: a model, a system, times.
/// Immutable; any number of threads may use one.
DEFINE_C_API_STRUCT(PipeschedCosts, void);
/// All that is known of a schedule under costs. Immutable.
DEFINE_C_API_STRUCT(PipeschedEvaluation, void);

#undef DEFINE_C_API_STRUCT

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

typedef enum PipeschedSourceKind {
  PipeschedSourceNone,
  PipeschedSourceName, ///< of a description that ships
  PipeschedSourceFile, ///< the path of a JSON file
  PipeschedSourceJson, ///< the text of one
  PipeschedSourceTimes ///< profiles only: `F=18.5ms,B=27.4ms,comm=0.6ms`
} PipeschedSourceKind;

typedef struct PipeschedSource {
  PipeschedSourceKind kind;
  MlirStringRef text;
} PipeschedSource;

typedef enum PipeschedRecompute {
  PipeschedRecomputeNone,
  PipeschedRecomputeSelective,
  PipeschedRecomputeFull
} PipeschedRecompute;

typedef enum PipeschedAttention {
  PipeschedAttentionAsDescribed,
  PipeschedAttentionFused,
  PipeschedAttentionUnfused
} PipeschedAttention;

/// Of linear layers.
typedef enum PipeschedPrecision {
  PipeschedPrecisionBF16,
  PipeschedPrecisionFP8
} PipeschedPrecision;

/// What data-parallel pipelines divide among them.
typedef enum PipeschedSharding {
  PipeschedShardingNone,
  PipeschedShardingOptimizer,
  PipeschedShardingFull
} PipeschedSharding;

/// What stands next to each other on nodes, behind the devices of a worker.
typedef enum PipeschedRankOrder {
  PipeschedRankOrderData,
  PipeschedRankOrderPipeline
} PipeschedRankOrder;

/// Numbers that are 0, and boundaryBytes of -1, are not given.
typedef struct PipeschedCostOptions {
  PipeschedSource model, system, profile;
  int64_t microbatchSize; ///< sequences; or it follows from the global batch
  int64_t globalBatch;    ///< sequences of all pipelines; or the model's own
  int64_t sequence;       ///< tokens; or the model's own
  int64_t boundaryBytes;  ///< of a message between stages
  int64_t accelerators;   ///< of a worker; or the system's own
  PipeschedRecompute recompute;
  PipeschedAttention attention;
  PipeschedPrecision precision;
  /// Every device of a worker norms and keeps the whole residual stream.
  bool withoutSequenceParallel;
  int64_t dataParallel; ///< equal pipelines; or 1
  PipeschedSharding sharding;
  PipeschedRankOrder rankOrder;
} PipeschedCostOptions;

/// Errors: descriptions that cannot be read; numbers out of range or given
/// without a model; both a microbatch size and a global batch.
MLIR_CAPI_EXPORTED PipeschedCosts pipeschedCostsCreate(
    PipeschedCostOptions options, MlirStringCallback onError, void *userData);
MLIR_CAPI_EXPORTED void pipeschedCostsDestroy(PipeschedCosts costs);
static inline bool pipeschedCostsIsNull(PipeschedCosts costs) {
  return !costs.ptr;
}

/// FLOP/s that the matrix engines of a worker reach at most; 0 without a
/// system.
MLIR_CAPI_EXPORTED double pipeschedCostsGetPeakFlops(PipeschedCosts costs);

/// Writes the model in a few numbers, one JSON object: parameters, FLOPs per
/// token, bytes; for microbatches of one sequence unless costs say otherwise.
/// Errors, after which nothing is written: costs without a model; a model that
/// is too large for its numbers.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedCostsWriteModel(
    PipeschedCosts costs, MlirStringCallback callback, void *userData,
    MlirStringCallback onError, void *errorData);

//===----------------------------------------------------------------------===//
// Evaluations
//===----------------------------------------------------------------------===//

typedef enum PipeschedTransport {
  PipeschedTransportOverlap,
  PipeschedTransportDelay,
  PipeschedTransportBlocking
} PipeschedTransport;

typedef enum PipeschedReceivePlacement {
  PipeschedReceiveAtArrival,
  PipeschedReceiveAtConsumer
} PipeschedReceivePlacement;

typedef enum PipeschedForwardSends {
  PipeschedForwardSendsAsync,
  PipeschedForwardSendsSync
} PipeschedForwardSends;

typedef struct PipeschedTiming {
  PipeschedTransport transport;
  PipeschedReceivePlacement receivePlacement;
  PipeschedForwardSends forwardSends;
} PipeschedTiming;

/// How a step ends: with its last backward, or with optimizer steps, behind
/// all-reduces of gradients where there are any to make.
typedef enum PipeschedOptimizerStep {
  PipeschedOptimizerStepNone,
  PipeschedOptimizerStepOverlapped, ///< reduced as soon as gradients are there
  PipeschedOptimizerStepExposed ///< reduced behind all compute of the worker
} PipeschedOptimizerStep;

/// A schedule to generate and to evaluate. Without costs one slot is 1 us and
/// messages are free.
typedef struct PipeschedConfiguration {
  PipeschedProblem problem;
  PipeschedCosts costs; ///< may be null
  PipeschedTiming timing;
  PipeschedOptimizerStep optimizerStep;
} PipeschedConfiguration;

/// Evaluates a schedule or program of a module, which must outlive the result
/// unchanged. What `costs` has (it may be null) goes before the model, system
/// and profile that the op names. Null after an error, which is a diagnostic
/// of the context.
MLIR_CAPI_EXPORTED PipeschedEvaluation
pipeschedScheduleEvaluate(MlirOperation scheduleOrProgram, PipeschedCosts costs,
                          PipeschedTiming timing);

/// Generates and evaluates without IR. Errors: those of generating, of costs
/// and of timing.
MLIR_CAPI_EXPORTED PipeschedEvaluation
pipeschedConfigurationEvaluate(const PipeschedConfiguration *configuration,
                               MlirStringCallback onError, void *userData);

MLIR_CAPI_EXPORTED void
pipeschedEvaluationDestroy(PipeschedEvaluation evaluation);
static inline bool pipeschedEvaluationIsNull(PipeschedEvaluation evaluation) {
  return !evaluation.ptr;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// An evaluation in single numbers, by the names of the report. Where one is
/// not known, ratios are NaN and integers -1. Memory is that of the bottleneck
/// worker.
typedef struct PipeschedSummary {
  int64_t workers, stages, microbatches, microbatchSize;
  double formulaBubbleRatio, formulaBubbleRatioGeneral;
  double tableBubbleRatio;
  int64_t slots, peakActivations; ///< the largest of all workers
  int64_t makespanPs, spanPs, exposedCommunicationPs;
  double idleRatio, spanBubbleRatio;
  /// Idle time by cause, as parts of workers times makespan.
  double fill, drain, dependency, queueOrder, communication;
  int64_t messages;
  int64_t bottleneckWorker;
  int64_t persistentBytes, peakActivationBytes, peakBytes, capacityBytes;
} PipeschedSummary;

MLIR_CAPI_EXPORTED PipeschedSummary
pipeschedEvaluationGetSummary(PipeschedEvaluation evaluation);

/// The cells with their times, row by row. Both cells of an overlapped pair
/// have the time of the pair. A G lasts from the start of the first to the end
/// of the last all-reduce in which its worker takes part by this cell; without
/// any it is left out, as idle entries and joins are.
MLIR_CAPI_EXPORTED intptr_t
pipeschedEvaluationGetNumCells(PipeschedEvaluation evaluation);
MLIR_CAPI_EXPORTED void
pipeschedEvaluationGetCells(PipeschedEvaluation evaluation,
                            PipeschedCellColumns columns);

/// The report, one JSON object.
MLIR_CAPI_EXPORTED void
pipeschedEvaluationWriteReport(PipeschedEvaluation evaluation,
                               MlirStringCallback callback, void *userData);

/// Timelines in the Chrome trace event format, for Perfetto.
MLIR_CAPI_EXPORTED void
pipeschedWriteChromeTrace(intptr_t numEvaluations,
                          const PipeschedEvaluation *evaluations,
                          MlirStringCallback callback, void *userData);

/// Schedules side by side, as text for a person.
MLIR_CAPI_EXPORTED void
pipeschedWriteComparison(intptr_t numEvaluations,
                         const PipeschedEvaluation *evaluations,
                         MlirStringCallback callback, void *userData);

/// Takes one finding of a comparison: what it is about (a name of the enum
/// "finding", see pipeschedGetEnumValue) and a sentence. Both end with the
/// call.
typedef void (*PipeschedFindingCallback)(MlirStringRef kind, MlirStringRef text,
                                         void *userData);

/// Calls back with each finding that pipeschedWriteComparison lists.
MLIR_CAPI_EXPORTED void
pipeschedListFindings(intptr_t numEvaluations,
                      const PipeschedEvaluation *evaluations,
                      PipeschedFindingCallback callback, void *userData);

/// Writes the tables in their slots, as text for a terminal of that many
/// columns; 0: as wide as they are. Errors, after which nothing is written: an
/// evaluation of a program.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedWriteText(
    intptr_t numEvaluations, const PipeschedEvaluation *evaluations,
    int64_t width, bool hasColours, MlirStringCallback callback, void *userData,
    MlirStringCallback onError, void *errorData);

typedef enum PipeschedSvgVariant {
  PipeschedSvgTimed, ///< the timeline
  PipeschedSvgSlots  ///< the table in its slots; for schedules only
} PipeschedSvgVariant;

/// Pictures of schedules on one scale. Errors, with nothing written: a program
/// asked for slots; a table that cannot be aligned.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedWriteSvg(
    intptr_t numEvaluations, const PipeschedEvaluation *evaluations,
    PipeschedSvgVariant variant, MlirStringCallback callback, void *userData,
    MlirStringCallback onError, void *errorData);

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

/// What a sweep calls.
typedef struct PipeschedSweepCalls {
  /// Called once per configuration, in any order and by several threads at
  /// once: with an evaluation, which is destroyed after the call, or with a
  /// null one and the error.
  void (*consume)(intptr_t index, PipeschedEvaluation evaluation,
                  MlirStringRef error, void *userData);
  /// Called by the caller's thread about twenty times a second, and at the
  /// end, with how many are done; false: begin no more. May be null.
  bool (*keepGoing)(intptr_t done, void *userData);
  void *userData;
} PipeschedSweepCalls;

/// Evaluates configurations on threads (0: one per core) and returns when none
/// works any more: true if all are done. Results depend neither on the number
/// of threads nor on each other.
MLIR_CAPI_EXPORTED bool
pipeschedSweep(intptr_t numConfigurations,
               const PipeschedConfiguration *configurations,
               unsigned numThreads, PipeschedSweepCalls calls);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_EVALUATION_H
