//===- Evaluation.h - C API to time schedules ---------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Costs, evaluations of schedules with or without IR, and sweeps on threads. A
// null evaluation among several is an error; functions without errors then
// treat all as if there were none.
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

/// The data that costs of schedules are computed from: a model, a system,
/// measured times. Immutable; several threads may use one at the same time.
DEFINE_C_API_STRUCT(PipeschedCosts, void);
/// The results of evaluating a schedule under costs. Immutable.
DEFINE_C_API_STRUCT(PipeschedEvaluation, void);

#undef DEFINE_C_API_STRUCT

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

typedef enum PipeschedSourceKind {
  PipeschedSourceNone,
  PipeschedSourceName, ///< of a description that ships
  PipeschedSourceFile, ///< the path of a JSON file
  PipeschedSourceJson, ///< the text of a JSON file
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
  PipeschedAttentionUnfused,
  PipeschedAttentionFlash2,
  PipeschedAttentionFlash3,
  PipeschedAttentionCudnn
} PipeschedAttention;

/// The floats of linear layers.
typedef enum PipeschedPrecision {
  PipeschedPrecisionBF16,
  PipeschedPrecisionFP8
} PipeschedPrecision;

/// What data-parallel pipelines divide among them.
typedef enum PipeschedSharding {
  PipeschedShardingNone,
  PipeschedShardingOptimizer,
  PipeschedShardingGradients,
  PipeschedShardingFullKept,
  PipeschedShardingFull
} PipeschedSharding;

/// Which ranks are neighbours on a node, after the devices of a worker.
typedef enum PipeschedRankOrder {
  PipeschedRankOrderData,
  PipeschedRankOrderPipeline
} PipeschedRankOrder;

/// How accelerators that divide a sequence see the keys and values of others.
typedef enum PipeschedContextExchange {
  PipeschedContextExchangeRing,
  PipeschedContextExchangeGather
} PipeschedContextExchange;

/// What tokens send to experts on other nodes: a copy for each expert, one for
/// each node, or the latter and there one for each rank.
typedef enum PipeschedExpertDispatch {
  PipeschedExpertDispatchAllToAll,
  PipeschedExpertDispatchPerNode,
  PipeschedExpertDispatchPerRank
} PipeschedExpertDispatch;

/// A number of 0 means that it is not given, as does boundaryBytes of -1.
typedef struct PipeschedCostOptions {
  PipeschedSource model, system, profile;
  int64_t microbatchSize; ///< sequences; 0: by the global batch
  int64_t globalBatch;    ///< sequences of all pipelines; 0: the model's
  int64_t sequence;       ///< tokens; 0: the model's
  int64_t boundaryBytes;  ///< of a message between stages
  /// Three numbers, the bytes of a parameter's weight, gradient and optimizer
  /// state; null: the model's.
  const int64_t *parameterBytes;
  int64_t accelerators; ///< of a worker; 0: the system's
  PipeschedRecompute recompute;
  PipeschedAttention attention;
  PipeschedPrecision precision;
  /// Every device of a worker computes norms on the whole residual stream and
  /// keeps all of it.
  bool withoutSequenceParallel;
  int64_t dataParallel; ///< equal pipelines; 0: one
  PipeschedSharding sharding;
  PipeschedRankOrder rankOrder;
  int64_t contextParallel; ///< of the accelerators of a worker; 0: one
  int64_t expertParallel;  ///< of the accelerators of a stage; 0: one
  double expertBalance;    ///< rows of the fullest of them by the mean; 0: one
  PipeschedContextExchange contextExchange;
  PipeschedExpertDispatch expertDispatch;
  /// How the training is divided, by the names and values that
  /// pipeschedGetDeploymentOption lists. These have priority over the fields
  /// above; options that are newer than those have no field.
  intptr_t numDeploymentOptions;
  const PipeschedOption *deploymentOptions;
} PipeschedCostOptions;

/// Errors: descriptions that cannot be read; numbers out of range or given
/// without a model or system; both a microbatch size and a global batch;
/// degrees that do not divide; unknown options of a deployment, or values that
/// they do not have.
MLIR_CAPI_EXPORTED PipeschedCosts pipeschedCostsCreate(
    PipeschedCostOptions options, MlirStringCallback onError, void *userData);
MLIR_CAPI_EXPORTED void pipeschedCostsDestroy(PipeschedCosts costs);
static inline bool pipeschedCostsIsNull(PipeschedCosts costs) {
  return !costs.ptr;
}

/// The FLOP/s of the matrix engines of a worker by the data sheet, in the
/// precision of linear layers, whatever share of them is sustained; 0 without a
/// system.
MLIR_CAPI_EXPORTED double pipeschedCostsGetPeakFlops(PipeschedCosts costs);

/// Writes a summary of the model as one JSON object: parameters, FLOPs per
/// token, bytes. Microbatches have one sequence unless the costs say otherwise.
/// Errors, after which nothing is written: costs without a model; a model whose
/// numbers overflow.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedCostsWriteModel(
    PipeschedCosts costs, MlirStringCallback callback, void *userData,
    MlirStringCallback onError, void *errorData);

//===----------------------------------------------------------------------===//
// Evaluations
//===----------------------------------------------------------------------===//

typedef enum PipeschedTransport {
  PipeschedTransportOverlap,
  PipeschedTransportDelay,
  PipeschedTransportBlocking,
  PipeschedTransportPairs
} PipeschedTransport;

typedef enum PipeschedReceivePlacement {
  PipeschedReceiveAtArrival,
  PipeschedReceiveAtConsumer
} PipeschedReceivePlacement;

typedef enum PipeschedForwardSends {
  PipeschedForwardSendsAsync,
  PipeschedForwardSendsSync
} PipeschedForwardSends;

/// What executes the cells (docs/CostModel.md, "Runtimes").
typedef enum PipeschedRuntime {
  PipeschedRuntimeTable,
  PipeschedRuntimeTorch
} PipeschedRuntime;

typedef struct PipeschedTiming {
  PipeschedTransport transport;
  PipeschedReceivePlacement receivePlacement;
  PipeschedForwardSends forwardSends;
  PipeschedRuntime runtime;
  /// Slow workers and stages and jitter, as
  /// `worker3=1.3,stage5=1.2,jitter=5%,seed=7`; empty: none.
  MlirStringRef disturbance;
} PipeschedTiming;

/// How a step ends: with its last backward, or with optimizer steps.
/// All-reduces of gradients come before these if other workers hold the same
/// blocks.
typedef enum PipeschedOptimizerStep {
  PipeschedOptimizerStepNone,
  PipeschedOptimizerStepOverlapped, ///< reduced as soon as ready
  PipeschedOptimizerStepExposed     ///< reduced after all compute of the worker
} PipeschedOptimizerStep;

/// A schedule to generate and evaluate. Without costs one slot is 1 us and
/// messages are free.
typedef struct PipeschedConfiguration {
  PipeschedProblem problem;
  PipeschedCosts costs; ///< may be null
  PipeschedTiming timing;
  PipeschedOptimizerStep optimizerStep;
} PipeschedConfiguration;

/// Evaluates a schedule or program of a module, which must outlive the result
/// and stay unchanged. What `costs` gives has priority over the model, system
/// and profile that the op names; it may be null. Null after an error, which is
/// a diagnostic of the context.
MLIR_CAPI_EXPORTED PipeschedEvaluation
pipeschedScheduleEvaluate(MlirOperation scheduleOrProgram, PipeschedCosts costs,
                          PipeschedTiming timing);

/// Generates and evaluates a schedule without IR. Errors: those of generating,
/// of costs and of timing.
MLIR_CAPI_EXPORTED PipeschedEvaluation
pipeschedConfigurationEvaluate(const PipeschedConfiguration *configuration,
                               MlirStringCallback onError, void *userData);

/// Returns an evaluation of the same schedule with the times of a run, for
/// pictures, traces and cells. Its name is `name`. `startPs` and `endPs` have
/// one entry per instruction, row by row with the numbers of
/// pipeschedProgramGetInstructions (PipeSched/Evaluation/MeasuredTimes.h says
/// what they are), and `makespanPs` is the length of the step. `predicted` must
/// outlive the result. Errors: other numbers of instructions than the schedule
/// has; times outside of the step; an evaluation under the transport
/// `blocking`.
MLIR_CAPI_EXPORTED PipeschedEvaluation pipeschedEvaluationCreateMeasured(
    PipeschedEvaluation predicted, MlirStringRef name, intptr_t numInstructions,
    const int64_t *startPs, const int64_t *endPs, int64_t makespanPs,
    MlirStringCallback onError, void *userData);

MLIR_CAPI_EXPORTED void
pipeschedEvaluationDestroy(PipeschedEvaluation evaluation);
static inline bool pipeschedEvaluationIsNull(PipeschedEvaluation evaluation) {
  return !evaluation.ptr;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// An evaluation in single numbers, with the names that they have in the
/// report. A ratio that is not known is NaN, an integer -1; of a null
/// evaluation none is. Memory is that of the bottleneck worker.
typedef struct PipeschedSummary {
  int64_t workers, stages, microbatches, microbatchSize;
  int64_t slices; ///< of each microbatch
  double formulaBubbleRatio, formulaBubbleRatioGeneral;
  double tableBubbleRatio;
  int64_t slots, peakActivations; ///< the maximum over workers
  int64_t makespanPs, spanPs, exposedCommunicationPs;
  double idleRatio, spanBubbleRatio;
  /// Idle time by cause, divided by workers times makespan.
  double fill, drain, dependency, queueOrder, communication;
  /// The FLOPs of the model that the cells of the step compute, divided by the
  /// makespan and what the matrix engines could do by their data sheet
  /// (docs/CostModel.md, "MFU").
  double mfu;
  int64_t messages;
  int64_t bottleneckWorker;
  int64_t persistentBytes, peakActivationBytes, peakBytes, capacityBytes;
} PipeschedSummary;

MLIR_CAPI_EXPORTED PipeschedSummary
pipeschedEvaluationGetSummary(PipeschedEvaluation evaluation);

/// The cells with their times, row by row. Both cells of an overlapped pair
/// have the time of the pair. A G lasts from the start of the first to the end
/// of the last all-reduce that it takes part in. Idle entries, joins, and G
/// cells without an all-reduce are left out.
MLIR_CAPI_EXPORTED intptr_t
pipeschedEvaluationGetNumCells(PipeschedEvaluation evaluation);
MLIR_CAPI_EXPORTED void
pipeschedEvaluationGetCells(PipeschedEvaluation evaluation,
                            PipeschedCellColumns columns);

/// Writes the report as one JSON object.
MLIR_CAPI_EXPORTED void
pipeschedEvaluationWriteReport(PipeschedEvaluation evaluation,
                               MlirStringCallback callback, void *userData);

/// Writes timelines in the Chrome trace event format, for Perfetto.
MLIR_CAPI_EXPORTED void
pipeschedWriteChromeTrace(intptr_t numEvaluations,
                          const PipeschedEvaluation *evaluations,
                          MlirStringCallback callback, void *userData);

/// Compares schedules side by side, as text for people.
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

/// Writes the tables in their slots, as text for a terminal with `width`
/// columns; 0: no limit. Errors, after which nothing is written: an evaluation
/// of a program, or without cells.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedWriteText(
    intptr_t numEvaluations, const PipeschedEvaluation *evaluations,
    int64_t width, bool hasColours, MlirStringCallback callback, void *userData,
    MlirStringCallback onError, void *errorData);

typedef enum PipeschedSvgVariant {
  PipeschedSvgTimed, ///< the timeline
  PipeschedSvgSlots, ///< the table in its slots; for schedules only
  PipeschedSvgRows   ///< the timelines, with the rows of each worker below each
                     ///< other
} PipeschedSvgVariant;

/// Draws schedules on one scale. Errors, after which nothing is written: slots
/// of a program; a table that cannot be aligned; an evaluation without cells.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedWriteSvg(
    intptr_t numEvaluations, const PipeschedEvaluation *evaluations,
    PipeschedSvgVariant variant, MlirStringCallback callback, void *userData,
    MlirStringCallback onError, void *errorData);

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

/// The callbacks of a sweep.
typedef struct PipeschedSweepCalls {
  /// Called once per configuration, in any order and by several threads at
  /// once, unless it is null. `evaluation` is destroyed after the call; it is
  /// null after an error, which `error` describes.
  void (*consume)(intptr_t index, PipeschedEvaluation evaluation,
                  MlirStringRef error, void *userData);
  /// Called by the calling thread about twenty times a second, and at the end,
  /// with the number of finished configurations. If it returns false, no more
  /// configurations start. May be null.
  bool (*keepGoing)(intptr_t done, void *userData);
  void *userData;
} PipeschedSweepCalls;

/// Evaluates configurations on threads (0: one per core) and returns when all
/// threads have stopped: true if all configurations are done. Results depend
/// neither on the number of threads nor on each other. False without a call if
/// the configurations are null or their number is negative.
MLIR_CAPI_EXPORTED bool
pipeschedSweep(intptr_t numConfigurations,
               const PipeschedConfiguration *configurations,
               unsigned numThreads, PipeschedSweepCalls calls);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_EVALUATION_H
