//===- Deadlock.c - Reports of deadlocks ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A deadlock is certain when it is found: see Loopback.h.
//
//===----------------------------------------------------------------------===//

#include "Loopback.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/// A growing text. Text that does not fit into memory is left out.
struct Text {
  char *data;
  size_t size;
};

__attribute__((format(printf, 2, 3))) static void
append(struct Text *text, const char *format, ...) {
  char part[2 * rtTextBytes];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(part, sizeof(part), format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof(part))
    return;
  char *longer = realloc(text->data, text->size + (size_t)length + 1);
  if (!longer)
    return;
  text->data = longer;
  for (int i = 0; i <= length; ++i)
    text->data[text->size + (size_t)i] = part[i];
  text->size += (size_t)length;
}

/// Names the members that have not started a sum.
static void appendMissing(struct Text *text, const struct Group *group,
                          const struct Sum *sum) {
  const char *separator = "; missing: worker ";
  for (int32_t i = 0; i < group->numMembers; ++i) {
    if (sum->arrivals[i].worker)
      continue;
    append(text, "%s%d", separator, (int)group->members[i]);
    separator = ", ";
  }
}

static void appendSum(struct Text *text, const PipeschedWorld *world,
                      const struct Worker *worker) {
  for (struct Group *group = world->groups; group; group = group->next)
    for (struct Sum *sum = group->sums; sum; sum = sum->next)
      for (int32_t i = 0; i < group->numMembers; ++i)
        if (sum->arrivals[i].worker == worker &&
            &sum->arrivals[i].request->base == worker->waitsFor)
          appendMissing(text, group, sum);
}

static void appendWorker(struct Text *text, const PipeschedWorld *world,
                         const struct Worker *worker) {
  append(text, "\nworker %d", (int)worker->base.worker);
  if (worker->waiting == forNothing) {
    append(text, " has ended");
    return;
  }
  if (worker->waiting == forStep) {
    append(text, " waits for the others to start step %" PRId64,
           world->firstStep + worker->numEnded);
    return;
  }
  if (worker->base.instruction >= 0)
    append(text, ", instruction %d", (int)worker->base.instruction);
  char request[rtTextBytes];
  rtDescribe(worker->waitsFor, request);
  append(text, ": waits for its %s", request);
  if (worker->waitsFor->kind == rtAllReduce ||
      worker->waitsFor->kind == rtBroadcast)
    appendSum(text, world, worker);
}

void checkDeadlock(PipeschedWorld *world, struct Woken *woken) {
  if (world->numRunning > 0 || world->numCopies > 0 ||
      atomic_load(&world->status))
    return;
  int32_t numWaiting = 0;
  for (int32_t i = 0; i < world->numWorkers; ++i)
    numWaiting += world->workers[i].waiting != forNothing;
  if (numWaiting == 0)
    return;
  struct Text text = {NULL, 0};
  append(&text, "deadlock: no worker can go on");
  for (int32_t i = 0; i < world->numWorkers; ++i)
    appendWorker(&text, world, &world->workers[i]);
  failWorld(world, PIPESCHED_RT_DEADLOCK, text.data ? text.data : "deadlock",
            woken);
  free(text.data);
}
