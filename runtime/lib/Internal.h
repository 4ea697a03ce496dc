//===- Internal.h - Shared parts of implementations ---------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workers, requests, logs, copies, sums and options, which loopback and MPI
// share. Each of the two defines the functions at the end.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RT_INTERNAL_H
#define PIPESCHED_RT_INTERNAL_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "PipeSched-rt/Runtime.h"
#include "PipeSched-rt/World.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/// Longest text about one request or one failure, with its final zero.
enum { rtTextBytes = 512 };

//===----------------------------------------------------------------------===//
// Clock (Log.c)
//===----------------------------------------------------------------------===//

/// Whether ticks count the time stamp counter, which all cores share and which
/// no power state changes; otherwise ticks are ns of CLOCK_MONOTONIC.
extern bool rtTicksAreTsc;

/// Chooses the clock; must be called before any ticks are read.
void rtStartClock(void);

/// Returns ns of CLOCK_MONOTONIC.
int64_t rtNow(void);

/// Reads the ticks, which takes about 7 ns. It does not wait for earlier
/// instructions.
static inline uint64_t rtTicks(void) {
#if defined(__x86_64__)
  if (rtTicksAreTsc)
    return __rdtsc();
#endif
  return (uint64_t)rtNow();
}

/// The same instant in ticks and in ns.
struct RtAnchor {
  uint64_t ticks;
  int64_t ns;
};

/// Returns an anchor for this instant, accurate to about 30 ns.
struct RtAnchor rtAnchor(void);

//===----------------------------------------------------------------------===//
// Products of matrices (Blas.c)
//===----------------------------------------------------------------------===//

/// Whether this process reports on stderr that a BLAS library is wrong or
/// missing.
extern bool rtWarnsOfBlas;

//===----------------------------------------------------------------------===//
// Log (Log.c)
//===----------------------------------------------------------------------===//

/// Start and end, in ticks until the end of a run, then in ns; 0 or -1 for
/// instructions that did not run.
struct RtSpan {
  int64_t begin, end;
};

/// The log of one worker. Spans of instructions: [steps][instructions].
struct RtLog {
  struct RtSpan *instructions; // NULL without a log
  struct RtSpan *steps;
  int64_t numSteps;
  int64_t capacity; // number of steps with allocated memory
};

//===----------------------------------------------------------------------===//
// Requests and workers (Worker.c)
//===----------------------------------------------------------------------===//

enum RtKind { rtSend, rtRecv, rtOffload, rtReload, rtAllReduce, rtBroadcast };

/// Idle: not in use. Pending: started. Done: ended, but not yet waited for.
enum RtState { rtIdle, rtPending, rtDone };

struct RtRequest {
  atomic_int state; // RtState; others set it to rtDone
  enum RtKind kind;
  int32_t peer;        // for messages; root for broadcasts
  int32_t tag;         // for messages; group for sums and broadcasts
  int64_t size;        // in bytes; for sums in elements
  int32_t instruction; // that started it; -1: none
  int64_t until;       // its wait ends no earlier (rtNow); 0: no pace
  // For copies:
  void *to;
  const void *from;
  struct RtRequest *nextCopy;
};

/// Copies of one worker in one direction, and the thread that makes them, which
/// the first copy starts.
struct RtCopies {
  pthread_mutex_t mutex;
  pthread_cond_t changed; // a copy was added, or has ended, or stop was set
  struct RtRequest *first, **last;
  struct RtWorker *worker;
  pthread_t thread;
  bool started, stop;
  int64_t begin, until; // of the last instruction with copies, if paced
};

/// One worker. It is the first member of the handle of each implementation.
struct RtWorker {
  int32_t worker, numWorkers;
  int32_t numRequests;
  int32_t numInstructions;
  int32_t instruction;     // the last one that began; -1: none in this step
  struct RtSpan *stepSpan; // of the current step
  struct RtSpan *spans;    // of its instructions; NULL without a log
  struct RtLog log;
  int64_t *pace;     // by instruction, in ns, or NULL
  int64_t paceBegin; // start of the current instruction, if paced
  bool hasStarted;   // whether the current instruction has started a request
  double *losses;    // of the steps so far, or NULL; see rtKeepLosses
  char *requests;    // requestBytes for each; starts with a RtRequest
  size_t requestBytes;
  struct RtCopies copies[2]; // to host, from host
  void *persistent, *arena, *host;
  int64_t persistentBytes, arenaBytes, hostBytes;
  void *blocks[3]; // as allocated, before alignment
};

/// Sets up a worker with the sizes that `size` returns, and requests of
/// `requestBytes` bytes each. Returns false with a text if that fails.
bool rtInitWorker(struct RtWorker *worker, PipeschedSizeFunction size,
                  int32_t index, int32_t numWorkers, size_t requestBytes,
                  char text[rtTextBytes]);

/// Frees the memory that rtInitWorker and rtExtendLog have allocated.
void rtFreeWorker(struct RtWorker *worker);

/// Copies the paces of all instructions, or ends the pacing if `ns` is NULL.
/// Returns false if there is no memory.
bool rtSetPace(struct RtWorker *worker, const int64_t *ns);

/// Returns the number of workers, or 0 with a text.
int32_t rtNumWorkers(PipeschedSizeFunction size, char text[rtTextBytes]);

/// Returns request `index`, which must exist.
static inline struct RtRequest *rtRequest(struct RtWorker *worker,
                                          int32_t index) {
  return (struct RtRequest *)(worker->requests +
                              (size_t)index * worker->requestBytes);
}

/// Starts using a request. Returns NULL after a failure, or after reporting
/// that it is in use, out of range, or that peer, tag or size is wrong;
/// rtStatus then returns the status.
struct RtRequest *rtStart(struct RtWorker *worker, enum RtKind kind,
                          int32_t request, int32_t peer, int32_t tag,
                          int64_t size);

/// Returns the request to wait for: NULL if it is idle, or after a failure, or
/// after reporting that it is out of range.
struct RtRequest *rtToWaitFor(struct RtWorker *worker, int32_t request);

/// Reports a wrong element type or group, or members without this worker.
bool rtCheckSum(struct RtWorker *worker, int32_t elementType, int32_t group,
                const int32_t *members, int32_t numMembers);

/// Reports a wrong group, or members without this worker or the root.
bool rtCheckBroadcast(struct RtWorker *worker, int32_t root, int32_t group,
                      const int32_t *members, int32_t numMembers);

/// Describes a request: "send of 32 bytes to worker 1 with tag 3".
void rtDescribe(const struct RtRequest *request, char text[rtTextBytes]);

/// Fails with a text that starts with the worker and its instruction. Returns
/// the status, which may come from an earlier failure.
int32_t rtFail(struct RtWorker *worker, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Runs one step between its two time stamps, and waits for all requests that
/// are still in use. Returns the status.
int32_t rtRunStep(struct RtWorker *worker, PipeschedStepFunction step,
                  int64_t number);

//===----------------------------------------------------------------------===//
// Trainings (Training.c)
//===----------------------------------------------------------------------===//

/// Prepares a worker to run `steps` steps of a training: fills its block, its
/// paces and the memory for its losses. Returns false with a text: no memory,
/// or a piece or losses that are not inside the block.
bool rtStartTraining(struct RtWorker *worker, const PipeschedTraining *training,
                     int64_t steps, char text[rtTextBytes]);

/// Copies the losses that step `index` of the run has left in the block of the
/// worker to its `losses`: [steps][microbatches], 0 if the worker has none.
void rtKeepLosses(struct RtWorker *worker, const PipeschedTraining *training,
                  int64_t index);

/// Prints the time of a step on stdout, preceded by its loss if `losses` has
/// one for each microbatch.
void rtPrintStep(int64_t step, int64_t ns, const double *losses, int64_t count);

//===----------------------------------------------------------------------===//
// Logs of runs (Log.c)
//===----------------------------------------------------------------------===//

/// Allocates memory for `steps` more steps. Returns false if there is none.
bool rtExtendLog(struct RtWorker *worker, int64_t steps, bool instructions);

/// Makes rtRunStep and the log calls write to step `index` of the log.
void rtSelectStep(struct RtWorker *worker, int64_t index);

/// Converts the ticks from step `first` of the log on into ns, using two
/// anchors from before and after them. Adds to each the offset of another
/// clock, which changes from `offset[0]` at the first anchor to `offset[1]` at
/// the second.
void rtFinishLog(struct RtWorker *worker, int64_t first,
                 const struct RtAnchor anchor[2], const int64_t offset[2]);

//===----------------------------------------------------------------------===//
// Copies (Copies.c)
//===----------------------------------------------------------------------===//

void rtInitCopies(struct RtWorker *worker);

/// Ends the threads of copies. Copies that have not started are dropped.
void rtJoinCopies(struct RtWorker *worker);

/// Blocks until a copy has ended.
void rtWaitForCopy(struct RtWorker *worker, struct RtRequest *request);

//===----------------------------------------------------------------------===//
// Sums (Reduce.c)
//===----------------------------------------------------------------------===//

/// Returns the bytes of an element, or 0 for a type that does not exist.
int64_t rtElementBytes(int32_t elementType);

/// Replaces `count` elements at each of `buffers` by their sum, in the order of
/// the buffers. f16 and bf16 are added in f32 and rounded once.
void rtSumBuffers(void *const *buffers, int32_t numBuffers, int64_t count,
                  int32_t elementType);

/// Adds `count` elements at `from` to the elements at `to`, in their own type.
void rtAdd(void *to, const void *from, int64_t count, int32_t elementType);

/// Reads `count` elements of a floating-point type.
void rtReadNumbers(double *to, const void *from, int64_t count,
                   int32_t elementType);

//===----------------------------------------------------------------------===//
// Main program (Options.c, Files.c)
//===----------------------------------------------------------------------===//

struct RtOptions {
  int64_t steps, firstStep;
  int64_t timeout; // seconds of a wait for other processes; 0: no limit
  const char *stateIn, *stateOut, *log; // prefixes, or NULL
  enum { rtByDefault, rtBuffered, rtRendezvous } messages;
  bool blocking, help, layout;
};

extern const char rtUsage[];

/// Makes malloc keep freed memory: kernels allocate their temporaries each
/// time, and fresh pages would take longer than the computation in them. Only
/// for programs whose main function is the runtime's.
void rtKeepFreedMemory(void);

/// Reads the command line; missing values come from the training, which may be
/// NULL. Returns false with a text if it is wrong.
bool rtParseOptions(int argc, char **argv, const PipeschedTraining *training,
                    struct RtOptions *options, char text[rtTextBytes]);

/// Reads the persistent block of a worker from PREFIX.<worker>, a file of
/// exactly its size. Returns false with a text.
bool rtReadState(struct RtWorker *worker, const char *prefix,
                 char text[rtTextBytes]);

/// Writes the persistent block of a worker to PREFIX.<worker>. The file appears
/// when it is complete. Returns false with a text.
bool rtWriteState(const struct RtWorker *worker, const char *prefix,
                  char text[rtTextBytes]);

/// Writes the log of a worker to PREFIX.<worker> in the format of
/// docs/Runtime.md, like rtWriteState.
bool rtWriteLog(const struct RtWorker *worker, const char *prefix,
                int64_t firstStep, char text[rtTextBytes]);

/// Prints a failure on stderr.
void rtPrintError(const char *text);

//===----------------------------------------------------------------------===//
// Defined by each implementation
//===----------------------------------------------------------------------===//

/// Returns the status of the first failure, or 0.
int32_t rtStatus(const struct RtWorker *worker);

/// Records a failure, unless there is an earlier one, and wakes all workers.
/// Returns the status. Under MPI it does not return.
int32_t rtSetFailure(struct RtWorker *worker, int32_t status, const char *text);

/// Sleeps until rtNow is `ns`. Messages progress in the meantime.
void rtSleepUntil(struct RtWorker *worker, int64_t ns);

/// Called before a copy is added and after it has ended.
void rtCopyStarts(struct RtWorker *worker);
void rtCopyHasEnded(struct RtWorker *worker, struct RtRequest *request);

#endif // PIPESCHED_RT_INTERNAL_H
