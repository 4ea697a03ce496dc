//===- faults.c - A program that goes wrong -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Worker 1 of three fails in step 1, in the way that the environment variable
// FAULT names, while the others wait for it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-rt/Runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { bytes = 1 << 16 };

static int64_t size(int32_t worker, int32_t what) {
  const int64_t sizes[] = {3, 64, 2 * bytes, 0, 4, 5};
  (void)worker;
  return sizes[what];
}

static const char *layout(void) { return "{}\n"; }

static int32_t goWrong(void *context, char *arena, const char *fault) {
  const int32_t others[] = {0, 2};
  pipesched_rt_begin(context, 4);
  if (!strcmp(fault, "fail"))
    return pipesched_rt_fail(context, "the loss is not a number");
  if (!strcmp(fault, "status"))
    return 42;
  if (!strcmp(fault, "kill"))
    raise(SIGKILL);
  if (!strcmp(fault, "stop"))
    raise(SIGSTOP);
  if (!strcmp(fault, "short"))
    return pipesched_rt_send(context, arena, 100, 0, 3, 0);
  if (!strcmp(fault, "long"))
    return pipesched_rt_send(context, arena, bytes + 1, 0, 3, 0);
  if (!strcmp(fault, "busy")) {
    pipesched_rt_recv(context, arena, bytes, 0, 9, 3);
    return pipesched_rt_recv(context, arena, bytes, 0, 9, 3);
  }
  if (!strcmp(fault, "peer"))
    return pipesched_rt_send(context, arena, bytes, 3, 3, 0);
  if (!strcmp(fault, "request"))
    return pipesched_rt_wait(context, 4);
  if (!strcmp(fault, "member"))
    return pipesched_rt_all_reduce(context, arena, 1, 0, 0, others, 2, 0);
  return 0; // "silent": the others wait for a message that never comes
}

static int32_t step(int32_t worker, void *context, void *persistent,
                    void *arena, void *host, int64_t number) {
  (void)persistent, (void)host;
  char *from = arena, *to = from + bytes;
  const char *fault = getenv("FAULT");
  if (worker == 1 && number == 1 && fault) {
    int32_t status = goWrong(context, from, fault);
    return status ? status : pipesched_rt_wait(context, 0);
  }
  pipesched_rt_begin(context, 2);
  int32_t peer = worker == 1 ? 0 : 1;
  if (worker < 2) {
    pipesched_rt_send(context, from, bytes, peer, 3, 0);
    pipesched_rt_recv(context, to, bytes, peer, 3, 1);
  }
  int32_t status = pipesched_rt_wait(context, 1);
  return status ? status : pipesched_rt_wait(context, 0);
}

int main(int argc, char **argv) {
  return pipesched_rt_main(argc, argv, step, size, layout);
}
