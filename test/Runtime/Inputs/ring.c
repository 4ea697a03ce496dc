//===- ring.c - A program that uses every call ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Four workers pass messages around a ring, move them to host memory and back,
// and sum in groups that overlap. Each step checks the data that arrives and
// adds the step number to the state.
//
//===----------------------------------------------------------------------===//

#define _POSIX_C_SOURCE 199309L // nanosleep

#include "PipeSched-rt/Runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { numWorkers = 4, elements = 5000, numRequests = 16, numInstructions = 3 };
#define BYTES ((int64_t)(elements * sizeof(int32_t)))

typedef struct State {
  int64_t sumOfSteps;
  int64_t worker;
} State;

typedef struct Arena {
  int32_t sent[elements], received[elements], loaded[elements];
} Arena;

static int64_t size(int32_t worker, int32_t what) {
  const int64_t sizes[] = {numWorkers, sizeof(State), sizeof(Arena),
                           BYTES,      numRequests,   numInstructions};
  (void)worker;
  return sizes[what];
}

static const char *layout(void) { return "{\"state\": \"two integers\"}\n"; }

#define TRY(call)                                                              \
  do {                                                                         \
    int32_t status = (call);                                                   \
    if (status)                                                                \
      return status;                                                           \
  } while (0)

static int32_t wrong(void *context, const char *what) {
  char text[100];
  snprintf(text, sizeof(text), "%s has a wrong value", what);
  return pipesched_rt_fail(context, text);
}

/// Passes data to the next worker, by way of the host of the one that gets it.
static int32_t passOn(int32_t worker, void *context, Arena *arena, void *host,
                      int64_t step) {
  int32_t next = (worker + 1) % numWorkers;
  int32_t last = (worker + numWorkers - 1) % numWorkers;
  int32_t tag = 32767 - (int32_t)(step % 3);
  for (int32_t i = 0; i < elements; ++i)
    arena->sent[i] = worker * elements + i + (int32_t)step;
  TRY(pipesched_rt_send(context, arena->sent, BYTES, next, tag, 0));
  TRY(pipesched_rt_send(context, &arena->sent[7], 4, next, 0, 1));
  TRY(pipesched_rt_send(context, NULL, 0, next, 1, 2));
  int32_t small = 0;
  TRY(pipesched_rt_recv(context, NULL, 0, last, 1, 3));
  TRY(pipesched_rt_recv(context, &small, 4, last, 0, 4));
  TRY(pipesched_rt_recv(context, arena->received, BYTES, last, tag, 5));
  for (int32_t request = 0; request <= 5; ++request)
    TRY(pipesched_rt_wait(context, request));
  TRY(pipesched_rt_offload(context, host, arena->received, BYTES, 6));
  TRY(pipesched_rt_wait(context, 6));
  TRY(pipesched_rt_reload(context, arena->loaded, host, BYTES, 6));
  TRY(pipesched_rt_wait(context, 6));
  for (int32_t i = 0; i < elements; ++i)
    if (arena->loaded[i] != last * elements + i + (int32_t)step)
      return wrong(context, "a message");
  return small == last * elements + 7 + (int32_t)step
             ? PIPESCHED_RT_OK
             : wrong(context, "a small message");
}

/// Sums one element of each type over all workers, in group 0.
static int32_t sumTypes(int32_t worker, void *context) {
  const int32_t all[] = {0, 1, 2, 3};
  float f32 = 0.5f * (float)worker;
  double f64 = 0.25 * worker;
  uint16_t f16 = 0x3c00;  // 1
  uint16_t bf16 = 0x3f80; // 1
  int32_t i32 = worker == 0 ? INT32_MAX : worker == 1;
  int64_t i64[300];
  for (int i = 0; i < 300; ++i)
    i64[i] = (int64_t)i * worker;
  void *const data[] = {&f32, &f64, &f16, &bf16, &i32, i64};
  for (int32_t type = 0; type < 6; ++type)
    TRY(pipesched_rt_all_reduce(context, data[type], type == 5 ? 300 : 1, type,
                                0, all, 4, type));
  for (int32_t type = 5; type >= 0; --type)
    TRY(pipesched_rt_wait(context, type));
  for (int i = 0; i < 300; ++i)
    if (i64[i] != 6 * i)
      return wrong(context, "a sum of i64");
  return f32 == 3 && f64 == 1.5 && f16 == 0x4400 && bf16 == 0x4080 &&
                 i32 == INT32_MIN
             ? PIPESCHED_RT_OK
             : wrong(context, "a sum");
}

static int32_t startSum(void *context, int64_t *value, int32_t group,
                        const int32_t *members) {
  return pipesched_rt_all_reduce(context, value, 1, PIPESCHED_RT_I64, group,
                                 members, 2, group);
}

/// Each worker gives the others its data, in group 0 after the sums.
static int32_t broadcastAll(int32_t worker, void *context, int64_t step) {
  const int32_t all[] = {0, 1, 2, 3};
  int64_t given[4][300];
  for (int32_t root = 0; root < 4; ++root) {
    for (int i = 0; i < 300; ++i)
      given[root][i] = 1000 * worker + i + step;
    TRY(pipesched_rt_broadcast(context, given[root], sizeof(given[root]), root,
                               0, all, 4, root));
  }
  for (int32_t root = 3; root >= 0; --root)
    TRY(pipesched_rt_wait(context, root));
  for (int32_t root = 0; root < 4; ++root)
    for (int i = 0; i < 300; ++i)
      if (given[root][i] != 1000 * root + i + step)
        return wrong(context, "a broadcast");
  return PIPESCHED_RT_OK;
}

/// Workers 0 and 1 sum in groups 1 and 2, which they start in different orders,
/// with a message between: an all_reduce that waits for the other member, or
/// for another group, ends in a deadlock here. Workers 1 to 3 and 0 sum in a
/// ring of pairs.
static int32_t sumPairs(int32_t worker, void *context) {
  const int32_t pair[] = {0, 1};
  int64_t one = worker + 1, two = 10 * (worker + 1), message = worker;
  if (worker == 0) {
    TRY(startSum(context, &one, 1, pair));
    TRY(startSum(context, &two, 2, pair));
    TRY(pipesched_rt_send(context, &message, 8, 1, 2, 0));
  }
  if (worker == 1) {
    TRY(pipesched_rt_recv(context, &message, 8, 0, 2, 0));
    TRY(pipesched_rt_wait(context, 0));
    TRY(startSum(context, &two, 2, pair));
    TRY(pipesched_rt_wait(context, 2));
    TRY(startSum(context, &one, 1, pair));
  }
  int64_t left = worker + 1, right = worker + 1;
  for (int32_t i = 0; i < numWorkers; ++i) {
    const int32_t neighbours[] = {i, (i + 1) % numWorkers};
    if (neighbours[0] == worker)
      TRY(startSum(context, &right, 3 + i, neighbours));
    if (neighbours[1] == worker)
      TRY(startSum(context, &left, 3 + i, neighbours));
  }
  for (int32_t request = 0; request < numRequests; ++request)
    TRY(pipesched_rt_wait(context, request));
  int32_t next = (worker + 1) % numWorkers;
  int32_t last = (worker + numWorkers - 1) % numWorkers;
  if (worker < 2 && (one != 3 || two != 30))
    return wrong(context, "a sum of a pair");
  return right == worker + next + 2 && left == worker + last + 2
             ? PIPESCHED_RT_OK
             : wrong(context, "a sum of neighbours");
}

/// After its part of a step the last worker pauses, if PAUSE_MS says so, while
/// no worker waits for it.
static void pauseLast(int32_t worker) {
  const char *text = getenv("PAUSE_MS");
  if (!text || worker != numWorkers - 1)
    return;
  struct timespec time = {0, atol(text) * 1000000};
  nanosleep(&time, NULL);
}

static int32_t step(int32_t worker, void *context, void *persistent,
                    void *memory, void *host, int64_t number) {
  State *state = persistent;
  pipesched_rt_begin(context, 0);
  TRY(passOn(worker, context, memory, host, number));
  pipesched_rt_end(context, 0);
  pipesched_rt_begin(context, 1);
  TRY(sumTypes(worker, context));
  TRY(broadcastAll(worker, context, number));
  TRY(sumPairs(worker, context));
  pipesched_rt_end(context, 1);
  state->sumOfSteps += number;
  state->worker = worker;
  pauseLast(worker);
  return PIPESCHED_RT_OK;
}

int main(int argc, char **argv) {
  return pipesched_rt_main(argc, argv, step, size, layout);
}
