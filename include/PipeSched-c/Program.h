//===- Program.h - C API for programs as data ---------------------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a runtime needs to execute a schedule, as arrays: the stages of each
// worker, its instructions, and names of messages and groups on which all
// workers agree.
//
// A placement or program owns its arrays, and needs the module no longer once
// it is created. All arrays are borrowed: they live until it is destroyed.
// Several threads may read one at the same time. Instructions are numbered from
// 0 for each worker; -1 in a column stands for "none". An index that is out of
// range gives an empty struct: sizes 0 and null arrays.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_PROGRAM_H
#define PIPESCHED_C_PROGRAM_H

#include "PipeSched-c/Evaluation.h"
#include "PipeSched-c/Kinds.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Where the stages of a schedule or program are. Immutable.
typedef struct PipeschedPlacement {
  void *ptr;
} PipeschedPlacement;
/// The instructions of all workers. Immutable.
typedef struct PipeschedProgram {
  void *ptr;
} PipeschedProgram;

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

/// Reads the paths of a schedule, with or without rows, or of a program. A
/// program without paths has one, with stage s on the worker that runs it. Null
/// after an error, which is a diagnostic of the context: a program that does
/// not say where its stages are; stages whose lengths have a common total over
/// 2^63 - 1; parameter sets with more than 2^31 - 1 stages in all.
MLIR_CAPI_EXPORTED PipeschedPlacement
pipeschedPlacementCreate(MlirOperation scheduleOrProgram);
MLIR_CAPI_EXPORTED void pipeschedPlacementDestroy(PipeschedPlacement placement);
static inline bool pipeschedPlacementIsNull(PipeschedPlacement placement) {
  return !placement.ptr;
}

/// The number of blocks of the model, the unit of all blocks below: layers if
/// all paths say how many each stage has, otherwise equal parts of the model
/// into which the stages of all paths divide it.
MLIR_CAPI_EXPORTED int64_t
pipeschedPlacementGetNumBlocks(PipeschedPlacement placement);

/// The path that a microbatch takes. -1: no such microbatch, or a schedule
/// without rows whose paths do not say what they take.
MLIR_CAPI_EXPORTED int64_t
pipeschedPlacementGetPathOf(PipeschedPlacement placement, int64_t microbatch);

/// Stages of a worker, ascending by path and then by stage; all arrays have
/// `numStages` entries. A stage has the blocks firstBlock to endBlock - 1,
/// which may be none. What is pinned to the ends of the model (embedding, head)
/// belongs to the first and the last stage of each path.
///
/// It holds the sets firstSet to endSet - 1 of PipeschedParameterSets, and owns
/// those before endOwnedSet. A stage has an O and a G only if it owns one.
typedef struct PipeschedStages {
  intptr_t numStages;
  const int32_t *path, *stage;
  const int64_t *firstBlock, *endBlock;
  const int32_t *firstSet, *endOwnedSet, *endSet; ///< 0 without sets
} PipeschedStages;
MLIR_CAPI_EXPORTED PipeschedStages
pipeschedPlacementGetStages(PipeschedPlacement placement, intptr_t worker);

/// What a worker holds once, however many of its stages use it: one copy of the
/// parameters, one gradient to which the microbatches of all these stages add,
/// one optimizer state. Sets are numbered from 0 for each worker, in the order
/// of the model; together they have each block that the worker holds, once.
/// Arrays have `numSets` entries unless they say otherwise. "Stages" are
/// indices into PipeschedStages of the same worker.
///
/// Set k has the parameters of the blocks firstBlock[k] to endBlock[k] - 1. The
/// embedding belongs to the first set of stage 0 of a path, the head to the
/// last set of its last stage; a set may have nothing else, and then it has no
/// blocks.
typedef struct PipeschedParameterSets {
  intptr_t numSets;
  const int64_t *firstBlock, *endBlock;
  /// The stage whose O steps the set and whose G reduces its gradients.
  const int32_t *owner;
  /// The stages that hold set k, the owner among them, ascending:
  /// stages[stageBegins[k]] to stages[stageBegins[k + 1] - 1].
  const uint32_t *stageBegins; ///< numSets + 1 entries
  const int32_t *stages;       ///< stageBegins[numSets] entries
} PipeschedParameterSets;
MLIR_CAPI_EXPORTED PipeschedParameterSets pipeschedPlacementGetParameterSets(
    PipeschedPlacement placement, intptr_t worker);

/// Which cell of a split backward sends the gradient of its input upstream, the
/// first if there is no op; a whole B does so itself. The enum "gradient-after"
/// has the names.
typedef enum PipeschedGradientAfter {
  PipeschedGradientAfterInputGrad,
  PipeschedGradientAfterWeightGrad
} PipeschedGradientAfter;
MLIR_CAPI_EXPORTED PipeschedGradientAfter
pipeschedScheduleGetGradientAfter(MlirOperation scheduleOrProgram);

/// What R cells compute again; None if there are no R cells. Linear in cells.
MLIR_CAPI_EXPORTED PipeschedRecompute
pipeschedScheduleGetRecompute(MlirOperation scheduleOrProgram);
/// Sets which cell of a split backward sends the gradient upstream, and what R
/// computes again (for none: all, if there is an R). Errors: no schedule; a
/// number that the enum has not.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedScheduleSetBackward(
    MlirOperation schedule, PipeschedGradientAfter gradientAfter,
    PipeschedRecompute recompute);

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// What happens to the activation of a cell's stage and microbatch between its
/// F and its backward; bits of PipeschedInstructionCells::activation.
typedef enum PipeschedActivation {
  PipeschedActivationRecomputed = 1, ///< an R computes it again
  PipeschedActivationOffloaded = 2   ///< a D copies it to the host
} PipeschedActivation;

/// Lowers a schedule, as convert-pipe-to-exec does with this placement of
/// receives, or reads a program, whose receives stand where they are. Null
/// after an error, which is a diagnostic of the context: a schedule without
/// rows, or one that pipe-verify rejects; a program that does not say where its
/// stages are; more than 2^31 - 1 instructions.
MLIR_CAPI_EXPORTED PipeschedProgram pipeschedProgramCreate(
    MlirOperation scheduleOrProgram, PipeschedReceivePlacement receives);
MLIR_CAPI_EXPORTED void pipeschedProgramDestroy(PipeschedProgram program);
static inline bool pipeschedProgramIsNull(PipeschedProgram program) {
  return !program.ptr;
}
MLIR_CAPI_EXPORTED intptr_t
pipeschedProgramGetNumWorkers(PipeschedProgram program);

/// One cell per instruction, `numInstructions` entries each.
typedef struct PipeschedInstructionCells {
  const int32_t *path;       ///< the path of the cell's microbatch
  const int32_t *stage;      ///< a position on that path
  const int32_t *microbatch; ///< the path for O and G
  const int8_t *phase;       ///< a PipeschedPhase
  const int8_t *activation;  ///< bits of PipeschedActivation
} PipeschedInstructionCells;

/// The instructions of a worker in program order, `numInstructions` entries per
/// column.
///
///   compute     runs `first`, or `first` and `second` together
///   send, recv  one end of message `message`, whose data `first` has produced
///               (F: its output; B, I, W: the gradient of its input)
///   offload     D: copies what F of the same stage and microbatch keeps for
///               its backward to the host
///   reload      U: copies it back
///   wait        a join; done when all that it waits for is done
///   all_reduce  one part of a G: sums gradients among the group `group`
///
/// Each kind that has a group starts when all its members have come to theirs.
typedef struct PipeschedInstructions {
  intptr_t numInstructions;
  const int8_t *kind; ///< a PipeschedInstructionKind
  PipeschedInstructionCells first;
  /// The second half of an overlapped pair; -1 if there is none.
  PipeschedInstructionCells second;
  const int32_t *peer; ///< send: the receiver; recv: the sender
  /// The number of the message, the same for its send and its recv. Messages of
  /// the program are numbered from 0.
  const int32_t *message;
  /// How many messages of the same sender to the same receiver are sent before
  /// it: a tag that is dense per channel.
  const int32_t *sequence;
  const int32_t *group; ///< a number of PipeschedGroups
  /// Of a wait: the first instruction that it holds.
  const int32_t *holds;
  /// The earlier instructions of this worker that must be done before it
  /// starts: waits[waitBegins[i]] to waits[waitBegins[i + 1] - 1]; numWaits in
  /// all. What a wait holds lists the wait.
  const uint32_t *waitBegins; ///< numInstructions + 1 entries
  intptr_t numWaits;
  const int32_t *waits;
} PipeschedInstructions;
MLIR_CAPI_EXPORTED PipeschedInstructions
pipeschedProgramGetInstructions(PipeschedProgram program, intptr_t worker);

/// The groups of collectives, numbered in the same order for all workers: the
/// order in which to create communicators. All-reduces come first, ascending by
/// block. Group g of an all-reduce sums the gradients of the parameters of
/// blocks firstBlock[g] to endBlock[g] - 1, each over all microbatches of the
/// stages that hold the block. A worker that has several such stages adds up
/// its own first, and takes part once. A group of another collective meets for
/// a microbatch.
typedef struct PipeschedGroups {
  intptr_t numGroups;
  const int8_t *kind;                   ///< a PipeschedInstructionKind
  const int64_t *firstBlock, *endBlock; ///< 0 if it meets for a microbatch
  const int32_t *microbatch;            ///< -1 if it meets for blocks
  /// The workers of group g, ascending: members[memberBegins[g]] and following.
  const uint32_t *memberBegins; ///< numGroups + 1 entries
  const int32_t *members;
  /// The stages that hold its blocks, ascending by path, or those of its cells:
  /// path and stage [stageBegins[g]] and following.
  const uint32_t *stageBegins; ///< numGroups + 1 entries
  const int32_t *path, *stage;
} PipeschedGroups;
MLIR_CAPI_EXPORTED PipeschedGroups
pipeschedProgramGetGroups(PipeschedProgram program);

//===----------------------------------------------------------------------===//
// Measured programs
//===----------------------------------------------------------------------===//

/// When the instructions of one worker ran, in ns of a clock that all workers
/// share; INT64_MIN is not known. Arrays have steps * numInstructions entries,
/// step by step (PipeSched/Evaluation/MeasuredProfile.h says what they are).
typedef struct PipeschedStamps {
  const int64_t *ready, *start, *end, *done, *arrived;
} PipeschedStamps;

/// Writes the profile of a run of the program, as options of passes take it:
/// means by stage, for messages medians. `placement` is that of the same
/// schedule or program; `workers` has `numWorkers` entries. With `issue`, cells
/// also have what their workers did between them and the next ones that was no
/// wait. Errors, after which nothing is written: another number of workers than
/// the program has; null in the place of times.
MLIR_CAPI_EXPORTED MlirLogicalResult pipeschedProgramWriteProfile(
    PipeschedProgram program, PipeschedPlacement placement, intptr_t numSteps,
    intptr_t numWorkers, const PipeschedStamps *workers, bool issue,
    MlirStringCallback callback, void *userData, MlirStringCallback onError,
    void *errorData);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_PROGRAM_H
