//===- World.h - Run compiled schedules in this process -----------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loopback world has the workers of a program: their memory, their messages
// and their logs. Each run executes some steps with one thread per worker. For
// programs that were compiled at run time, and for tests. Only one thread at a
// time may use a world.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RT_WORLD_H
#define PIPESCHED_RT_WORLD_H

#include "PipeSched-rt/Runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PipeschedWorld PipeschedWorld;

/// When a send ends.
typedef enum PipeschedMessages {
  /// When its recv is posted and the data has been copied from buffer to
  /// buffer. The data is read only at that moment, so that a program that
  /// overwrites it too early computes wrong results, which may also happen on a
  /// network.
  PIPESCHED_RT_RENDEZVOUS = 0,
  /// At once: the send copies its data.
  PIPESCHED_RT_BUFFERED = 1
} PipeschedMessages;

typedef struct PipeschedWorldOptions {
  PipeschedMessages messages;
  /// Not 0: a send returns when it has ended.
  int32_t blocking;
  /// Not 0: keep a log of all instructions, 16 bytes per instruction and step.
  int32_t log;
} PipeschedWorldOptions;

/// Creates the workers of a program with the memory that `size` requests, all
/// zero. `options` may be NULL: rendezvous, not blocking, no log. Returns NULL
/// only if there is no memory for the world itself; other failures (negative
/// sizes, no memory for a block) are in pipesched_rt_world_error.
PIPESCHED_RT_API PipeschedWorld *
pipesched_rt_world_create(PipeschedSizeFunction size,
                          const PipeschedWorldOptions *options);

/// Frees a world and its memory. NULL is allowed.
PIPESCHED_RT_API void pipesched_rt_world_destroy(PipeschedWorld *world);

/// Returns the number of workers.
PIPESCHED_RT_API int32_t
pipesched_rt_world_workers(const PipeschedWorld *world);

/// Returns a block of a worker (`what`: PIPESCHED_RT_PERSISTENT, _ARENA or
/// _HOST), aligned to 64 bytes; the size function gives its size. NULL for
/// another `what`, a worker that does not exist, or an empty block. The caller
/// may read and write blocks between runs.
PIPESCHED_RT_API void *pipesched_rt_world_block(PipeschedWorld *world,
                                                int32_t worker, int32_t what);

/// Sets minimum durations of a worker's instructions, so that a machine with
/// fewer cores than workers runs a step at the pace of another machine.
/// Instruction i ends no earlier than `ns[i]` after its start, and its thread
/// sleeps until then. For an instruction that starts an operation, waits for
/// the operation last longer instead: they return no earlier than `ns[i]` after
/// the send, after the previous copy in the same direction, or after the last
/// member of the sum. Entries of recvs have no meaning. `ns` has an entry for
/// each instruction and is copied; NULL ends the pacing. Returns
/// PIPESCHED_RT_OK, PIPESCHED_RT_MISUSE for a worker that does not exist, or
/// PIPESCHED_RT_SYSTEM without memory.
PIPESCHED_RT_API int32_t pipesched_rt_world_pace(PipeschedWorld *world,
                                                 int32_t worker,
                                                 const int64_t *ns);

/// Runs steps `first_step` to `first_step + steps`, exclusive, on a thread for
/// each worker, and returns when all threads have ended. All workers start a
/// step together. Returns the status; after a failure the world stays failed
/// and runs nothing more.
PIPESCHED_RT_API int32_t pipesched_rt_world_run(PipeschedWorld *world,
                                                PipeschedStepFunction step,
                                                int64_t first_step,
                                                int64_t steps);

/// Ends a run that has lasted too long; called from another thread. From now on
/// all calls of workers fail, with `why` and the numbers of the workers that
/// are computing, which notice it at their next call.
PIPESCHED_RT_API void pipesched_rt_world_stop(PipeschedWorld *world,
                                              const char *why);

/// Returns the failure, one or more lines without a final newline, or "". The
/// text is valid as long as the world.
PIPESCHED_RT_API const char *
pipesched_rt_world_error(const PipeschedWorld *world);

/// Returns start and end of every instruction of a worker in all steps that
/// were run so far, in ns of CLOCK_MONOTONIC: an array
/// [*steps][*instructions][2], with -1 for instructions that did not run. NULL
/// without a log. The array is valid until the next run. `steps` and
/// `instructions` may be NULL.
PIPESCHED_RT_API const int64_t *
pipesched_rt_world_log(const PipeschedWorld *world, int32_t worker,
                       int64_t *steps, int64_t *instructions);

/// Returns start and end of every step of a worker like pipesched_rt_world_log:
/// an array [*steps][2]. It is also kept without a log.
PIPESCHED_RT_API const int64_t *
pipesched_rt_world_steps(const PipeschedWorld *world, int32_t worker,
                         int64_t *steps);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_RT_WORLD_H
