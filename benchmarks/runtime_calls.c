//===- runtime_calls.c - Costs of calls of the runtime --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program of two workers in which worker 0 measures, and prints lines of
// `name bytes ns ns`: the median and the lowest of many short chunks.
// runtime.py links it with loopback and MPI, and runs it.
//
//===----------------------------------------------------------------------===//

#define _POSIX_C_SOURCE 200809L // clock_gettime

#include "PipeSched-rt/Runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LARGEST ((int64_t)4 << 20)
enum { instructions = 4096 };

#ifndef CHUNKS
#define CHUNKS 100
#endif

static int64_t size(int32_t worker, int32_t what) {
  const int64_t sizes[] = {2, 0, 2 * LARGEST, LARGEST, 2, instructions};
  (void)worker;
  return sizes[what];
}

static const char *layout(void) { return "{}\n"; }

static double readClock(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

/// A place for two messages.
struct Buffers {
  char *sent, *received;
};

/// There and back: two messages.
static void pingPong(int32_t worker, void *context, struct Buffers buffers,
                     int64_t bytes) {
  int32_t peer = 1 - worker;
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == worker)
      pipesched_rt_send(context, buffers.sent, bytes, peer, 0, 0);
    else
      pipesched_rt_recv(context, buffers.received, bytes, peer, 0, 0);
    pipesched_rt_wait(context, 0);
  }
}

/// Both at once, as neighbours of a pipeline in its steady state.
static void exchange(int32_t worker, void *context, struct Buffers buffers,
                     int64_t bytes) {
  pipesched_rt_recv(context, buffers.received, bytes, 1 - worker, 0, 0);
  pipesched_rt_send(context, buffers.sent, bytes, 1 - worker, 0, 1);
  pipesched_rt_wait(context, 0);
  pipesched_rt_wait(context, 1);
}

/// To the worker itself: the cost of the calls, without a thread to wake.
static void self(int32_t worker, void *context, struct Buffers buffers,
                 int64_t bytes) {
  pipesched_rt_recv(context, buffers.received, bytes, worker, 0, 0);
  pipesched_rt_send(context, buffers.sent, bytes, worker, 0, 1);
  pipesched_rt_wait(context, 0);
  pipesched_rt_wait(context, 1);
}

static void allReduce(int32_t worker, void *context, struct Buffers buffers,
                      int64_t bytes) {
  const int32_t members[] = {0, 1};
  (void)worker;
  pipesched_rt_all_reduce(context, buffers.sent, bytes / 4, PIPESCHED_RT_F32, 0,
                          members, 2, 0);
  pipesched_rt_wait(context, 0);
}

/// `clock` is the CPU time of the thread where no other thread has a part, so
/// that other programs on the machine do not count.
struct Case {
  const char *name;
  clockid_t clock;
  void (*run)(int32_t, void *, struct Buffers, int64_t);
  double perRun; // messages
};

static int compare(const void *one, const void *other) {
  double left = *(const double *)one, right = *(const double *)other;
  return (left > right) - (left < right);
}

static void print(const char *name, int64_t bytes, double *times, int count) {
  qsort(times, (size_t)count, sizeof(*times), compare);
  printf("%s %" PRId64 " %.1f %.1f\n", name, bytes, times[count / 2], times[0]);
}

/// Chunks are so short that some of them run undisturbed on a machine that
/// others use, too.
static void measure(int32_t worker, void *context, struct Buffers buffers,
                    const struct Case *of, int64_t bytes) {
  enum { chunks = CHUNKS };
  double times[chunks];
  int64_t runs = bytes > 100000 ? 4 : 100;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    double start = readClock(of->clock);
    for (int64_t i = 0; i < runs; ++i)
      of->run(worker, context, buffers, bytes);
    times[chunk] = (readClock(of->clock) - start) / (double)runs / of->perRun;
  }
  if (worker == 0)
    print(of->name, bytes, times, chunks);
}

/// Start and end of instructions, as a compiled program calls them.
static void measureLog(void *context) {
  enum { sweeps = 500 };
  double times[sweeps];
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    double start = readClock(CLOCK_THREAD_CPUTIME_ID);
    for (int32_t i = 0; i < instructions; ++i) {
      pipesched_rt_begin(context, i);
      pipesched_rt_end(context, i);
    }
    double end = readClock(CLOCK_THREAD_CPUTIME_ID);
    times[sweep] = (end - start) / instructions;
  }
  print("begin-end", 0, times, sweeps);
}

static int32_t step(int32_t worker, void *context, void *persistent,
                    void *arena, void *host, int64_t number) {
  static const struct Case cases[] = {
      {"self", CLOCK_THREAD_CPUTIME_ID, self, 1},
      {"ping-pong", CLOCK_MONOTONIC, pingPong, 2},
      {"exchange", CLOCK_MONOTONIC, exchange, 1},
      {"all-reduce", CLOCK_MONOTONIC, allReduce, 1}};
  (void)persistent, (void)host, (void)number;
  struct Buffers buffers = {arena, (char *)arena + LARGEST};
  for (int64_t i = 0; i < 2 * LARGEST; ++i)
    buffers.sent[i] = 0;
  if (worker == 0)
    measureLog(context);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    for (int64_t bytes = 8; bytes <= LARGEST;
         bytes = bytes == 8 ? 4096 : bytes * 32)
      measure(worker, context, buffers, &cases[i], bytes);
  return PIPESCHED_RT_OK;
}

int main(int argc, char **argv) {
  return pipesched_rt_main(argc, argv, step, size, layout);
}
