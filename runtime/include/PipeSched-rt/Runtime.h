//===- Runtime.h - Interface of compiled schedules ----------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface between a compiled schedule and the runtime that carries its
// messages, copies and sums. It uses only bytes, worker numbers and request
// numbers. Two libraries implement it: loopback (`pipesched_rt`, a thread per
// worker in one process; World.h) and MPI (a process per worker, compiled with
// the user's mpicc). One object file links with either. See docs/Runtime.md.
//
// `context` is the handle of one worker. The runtime passes it to the step
// function; only the thread that runs the worker may use it.
//
// Asynchronous calls (send, recv, copies, all_reduce, broadcast) start here and
// end at the wait of their request. Requests are numbers from 0 to the number
// that the program declares (PIPESCHED_RT_REQUESTS), exclusive. A request is in
// use from the call that starts it to the return of its wait. Until then the
// program must not write bytes that are sent or copied, nor touch bytes that
// are received or summed.
//
// Every call returns 0 or the status of the first failure of any worker. After
// a failure every call of every worker returns that status at once and does
// nothing, and waits that block are woken, so that all programs end.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RT_RUNTIME_H
#define PIPESCHED_RT_RUNTIME_H

#include <stdint.h>

#if defined(__GNUC__)
#define PIPESCHED_RT_API __attribute__((visibility("default")))
#else
#define PIPESCHED_RT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// The status that calls return.
enum {
  PIPESCHED_RT_OK = 0,
  /// A call that violates a rule of this interface: a request out of range or
  /// in use, a peer that does not exist, sizes that differ.
  PIPESCHED_RT_MISUSE = 1,
  /// No worker can continue. Only loopback finds this.
  PIPESCHED_RT_DEADLOCK = 2,
  /// The program called pipesched_rt_fail or one of its variants, or its step
  /// returned non-zero.
  PIPESCHED_RT_FAILED = 3,
  /// No memory, no thread, a file that cannot be read, an error of MPI.
  PIPESCHED_RT_SYSTEM = 4
};

/// Element types of sums.
enum {
  PIPESCHED_RT_F32 = 0,
  PIPESCHED_RT_F64 = 1,
  PIPESCHED_RT_F16 = 2,
  PIPESCHED_RT_BF16 = 3,
  PIPESCHED_RT_I32 = 4,
  PIPESCHED_RT_I64 = 5
};

/// The argument of a size function.
enum {
  PIPESCHED_RT_WORKERS = 0,     ///< number of workers; `worker` is ignored
  PIPESCHED_RT_PERSISTENT = 1,  ///< bytes of memory for the whole training
  PIPESCHED_RT_ARENA = 2,       ///< bytes of memory for one step
  PIPESCHED_RT_HOST = 3,        ///< bytes of host memory for offloads
  PIPESCHED_RT_REQUESTS = 4,    ///< number of requests
  PIPESCHED_RT_INSTRUCTIONS = 5 ///< number of instructions of a step
};

/// Runs one step of one worker. `persistent`, `arena` and `host` are blocks
/// with the sizes that the size function returns, aligned to 64 bytes and zero
/// before the first step. Returns 0, or the status of the call that failed.
typedef int32_t (*PipeschedStepFunction)(int32_t worker, void *context,
                                         void *persistent, void *arena,
                                         void *host, int64_t step);

/// Returns the size `what` of `worker`.
typedef int64_t (*PipeschedSizeFunction)(int32_t worker, int32_t what);

/// Returns a description of the blocks and instructions as JSON.
typedef const char *(*PipeschedLayoutFunction)(void);

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Starts to send `bytes` bytes (0 or more) at `data` to worker `peer`, which
/// may be the worker itself. A send and a recv match by source, destination and
/// tag; if several have the same three, they match in the order in which they
/// were started, as in MPI. Tags are 0 or more; all implementations accept tags
/// up to 32767. Misuse: a bad peer, tag, size or request; a matching recv of
/// another size.
PIPESCHED_RT_API int32_t pipesched_rt_send(void *context, const void *data,
                                           int64_t bytes, int32_t peer,
                                           int32_t tag, int32_t request);

/// Starts to receive `bytes` bytes from worker `peer` into `data`. The
/// counterpart of pipesched_rt_send, with the same rules and errors.
PIPESCHED_RT_API int32_t pipesched_rt_recv(void *context, void *data,
                                           int64_t bytes, int32_t peer,
                                           int32_t tag, int32_t request);

//===----------------------------------------------------------------------===//
// Copies to and from host memory
//===----------------------------------------------------------------------===//

/// Starts to copy `bytes` bytes from `data` to `host`. Offloads of a worker run
/// one after the other in the order of their calls, and in parallel with its
/// reloads. Between an offload and a reload there is no order: wait for an
/// offload before its reload.
PIPESCHED_RT_API int32_t pipesched_rt_offload(void *context, void *host,
                                              const void *data, int64_t bytes,
                                              int32_t request);

/// Starts to copy `bytes` bytes from `host` to `data`; as pipesched_rt_offload.
PIPESCHED_RT_API int32_t pipesched_rt_reload(void *context, void *data,
                                             const void *host, int64_t bytes,
                                             int32_t request);

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Starts to replace the `count` elements at `data` of every member of a group
/// by their sum over the members. `group` is a number, 0 or more, that all
/// members use only for these `num_members` members; `members` are distinct
/// workers, including this one, in the same order on all of them. Sums of one
/// group must be started in the same order by all members. Loopback adds in the
/// order of `members`, so that results do not depend on time; f16 and bf16 are
/// added in f32 and rounded once. MPI may add in another order, and rounds f16
/// and bf16 after each addition. i32 and i64 wrap. Misuse: a bad element type,
/// count, group, member or request; members of a group that pass different
/// arguments.
PIPESCHED_RT_API int32_t pipesched_rt_all_reduce(
    void *context, void *data, int64_t count, int32_t element_type,
    int32_t group, const int32_t *members, int32_t num_members,
    int32_t request);

/// Starts to copy the `bytes` bytes at `data` of worker `root`, a member, to
/// the `data` of all other members of a group. Groups are the same as for
/// pipesched_rt_all_reduce: sums and broadcasts of one group must be started in
/// the same order by all members. Misuse: as there; a root that is not a
/// member.
PIPESCHED_RT_API int32_t pipesched_rt_broadcast(
    void *context, void *data, int64_t bytes, int32_t root, int32_t group,
    const int32_t *members, int32_t num_members, int32_t request);

/// Adds the `count` elements at `from` to the elements at `to`, with the
/// element types and rounding of loopback's sums. Blocks until it has ended.
/// Misuse: a bad element type or count.
PIPESCHED_RT_API int32_t pipesched_rt_add(void *context, void *to,
                                          const void *from, int64_t count,
                                          int32_t element_type);

//===----------------------------------------------------------------------===//
// Products of matrices
//===----------------------------------------------------------------------===//

/// Adds a product of matrices to another one: for i < m and j < n,
///
///   c[i][j] += a[i][0] * b[0][j] + .. + a[i][k - 1] * b[k - 1][j]
///
/// Here x[i][j] is the element `i * x_row + j * x_column` after the first. If
/// rows or columns of each matrix are contiguous, a BLAS library multiplies; it
/// determines the order and the rounding of the sums. Otherwise, and without a
/// library, plain loops multiply. `c` must not overlap `a` or `b`. The element
/// type is PIPESCHED_RT_F32 or PIPESCHED_RT_F64. Threads may call it at the
/// same time; the library uses no threads itself.
PIPESCHED_RT_API void pipesched_rt_matmul(int32_t element_type, int64_t m,
                                          int64_t n, int64_t k, const void *a,
                                          int64_t a_row, int64_t a_column,
                                          const void *b, int64_t b_row,
                                          int64_t b_column, void *c,
                                          int64_t c_row, int64_t c_column);

/// Loads the library that the environment variable PIPESCHED_BLAS names, if it
/// is set; `none` selects plain loops. Without the variable, the first product
/// looks for a library. Returns NULL, or the reason why the named library
/// cannot be used: it does not exist, has no CBLAS, or computes wrong products.
/// Worlds and main programs call it and fail with that text.
PIPESCHED_RT_API const char *pipesched_rt_load_blas(void);

//===----------------------------------------------------------------------===//
// Waiting, failing
//===----------------------------------------------------------------------===//

/// Waits until the operation of `request` has ended; returns at once if the
/// request is not in use. At the end of a step the runtime waits for all other
/// requests.
PIPESCHED_RT_API int32_t pipesched_rt_wait(void *context, int32_t request);

/// Reports that the program of this worker cannot continue, with a text of one
/// line for the user. All workers end. Returns PIPESCHED_RT_FAILED, or the
/// status of an earlier failure. Under MPI it ends the job and does not return.
PIPESCHED_RT_API int32_t pipesched_rt_fail(void *context, const char *text);

/// The same for an index that is not in [0, size). The text, which describes
/// the indexed object, is printed before both numbers.
PIPESCHED_RT_API int32_t pipesched_rt_fail_index(void *context,
                                                 const char *text,
                                                 int64_t index, int64_t size);

/// The same for a function that returned a status other than 0. The text, which
/// describes the function, is printed before the status.
PIPESCHED_RT_API int32_t pipesched_rt_fail_status(void *context,
                                                  const char *text,
                                                  int32_t returned);

//===----------------------------------------------------------------------===//
// Log
//===----------------------------------------------------------------------===//

/// Records the start of instruction `instruction` of this step (0 to the number
/// that the size function returns, exclusive). Takes less than 100 ns together
/// with its end. Errors name the instruction that started last.
PIPESCHED_RT_API void pipesched_rt_begin(void *context, int32_t instruction);

/// Records the end of an instruction. Instructions may overlap.
PIPESCHED_RT_API void pipesched_rt_end(void *context, int32_t instruction);

//===----------------------------------------------------------------------===//
// Main program
//===----------------------------------------------------------------------===//

/// Runs all workers of a program (MPI: the worker of this process) with the
/// options of the command line, prints the time of each step, and returns the
/// exit status for `main`: 0, 1 after a failure (which it has printed on
/// stderr), or 2 for a wrong command line. `--help` lists the options, which
/// docs/Runtime.md explains.
PIPESCHED_RT_API int32_t pipesched_rt_main(int argc, char **argv,
                                           PipeschedStepFunction step,
                                           PipeschedSizeFunction size,
                                           PipeschedLayoutFunction layout);

/// Initial bytes in the persistent block of a worker.
typedef struct PipeschedPiece {
  int64_t worker, offset, bytes;
  const void *data;
} PipeschedPiece;

/// The description of a program's training. Numbers have 64 bits, so that the
/// struct can be written as data without a C compiler.
typedef struct PipeschedTraining {
  /// Steps to run if the command line does not give a number.
  int64_t steps;
  /// The initial contents of blocks; all other bytes are 0.
  int64_t num_pieces;
  const PipeschedPiece *pieces;
  /// Each step leaves one loss for each microbatch in the persistent blocks:
  /// numbers of a floating-point type (PIPESCHED_RT_F32, ..) at the offset in
  /// `losses` of the worker; -1 if the worker has none. Losses of microbatches
  /// that another worker computes are 0.
  int64_t microbatches, loss_type;
  const int64_t *losses;
  /// For each worker: the argument of pipesched_rt_world_pace, or NULL.
  const int64_t *const *paces;
} PipeschedTraining;

/// Like pipesched_rt_main, but starts with the pieces of `training` instead of
/// zeros, and prints the loss of each step: the sum over its microbatches in
/// order, over all workers.
PIPESCHED_RT_API int32_t pipesched_rt_train(int argc, char **argv,
                                            PipeschedStepFunction step,
                                            PipeschedSizeFunction size,
                                            PipeschedLayoutFunction layout,
                                            const PipeschedTraining *training);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_RT_RUNTIME_H
