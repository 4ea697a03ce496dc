//===- Worker.c - Workers and their requests ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets up workers and checks their calls, for both implementations.
//
//===----------------------------------------------------------------------===//

#define _DEFAULT_SOURCE // madvise
#include "Internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int32_t rtNumWorkers(PipeschedSizeFunction size, char text[rtTextBytes]) {
  int64_t workers = size(0, PIPESCHED_RT_WORKERS);
  if (workers >= 1 && workers <= INT32_MAX)
    return (int32_t)workers;
  snprintf(text, rtTextBytes,
           "the program has %" PRId64 " workers, not 1 to %d", workers,
           INT32_MAX);
  return 0;
}

static bool readSize(PipeschedSizeFunction size, int32_t worker, int32_t what,
                     int64_t limit, int64_t *result, char *text) {
  static const char *const names[] = {"workers",     "persistent bytes",
                                      "arena bytes", "bytes of host",
                                      "requests",    "instructions"};
  *result = size(worker, what);
  if (*result >= 0 && *result <= limit)
    return true;
  snprintf(text, rtTextBytes,
           "worker %d: the program has %" PRId64 " %s, not 0 to %" PRId64,
           (int)worker, *result, names[what], limit);
  return false;
}

/// Asks the kernel for huge pages if they fit, because products read rows that
/// are far apart, each in another page. The kernel may ignore this advice.
static void preferHugePages(char *memory, int64_t bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t page = 2 << 20;
  uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) / page * page;
  if (begin < end)
    (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)bytes;
#endif
}

/// Allocates a block of zeros. The kernel allocates large blocks page by page
/// on first use, by the thread that uses them.
static bool allocateBlock(struct RtWorker *worker, int block, int64_t bytes,
                          void **result, char *text) {
  enum { alignment = 64 };
  *result = NULL;
  if (bytes == 0)
    return true;
  char *memory = calloc((size_t)bytes + alignment, 1);
  if (!memory) {
    snprintf(text, rtTextBytes,
             "worker %d: no memory for a block of %" PRId64 " bytes",
             (int)worker->worker, bytes);
    return false;
  }
  preferHugePages(memory, bytes);
  worker->blocks[block] = memory;
  *result = memory + (alignment - (uintptr_t)memory % alignment) % alignment;
  return true;
}

bool rtInitWorker(struct RtWorker *worker, PipeschedSizeFunction size,
                  int32_t index, int32_t numWorkers, size_t requestBytes,
                  char text[rtTextBytes]) {
  memset(worker, 0, sizeof(*worker));
  worker->worker = index;
  worker->numWorkers = numWorkers;
  worker->instruction = -1;
  rtInitCopies(worker);
  int64_t bytes[3], requests, instructions;
  for (int32_t i = 0; i < 3; ++i)
    if (!readSize(size, index, PIPESCHED_RT_PERSISTENT + i, INT64_MAX / 2,
                  &bytes[i], text))
      return false;
  if (!readSize(size, index, PIPESCHED_RT_REQUESTS, INT32_MAX, &requests,
                text) ||
      !readSize(size, index, PIPESCHED_RT_INSTRUCTIONS, INT32_MAX,
                &instructions, text))
    return false;
  worker->persistentBytes = bytes[0];
  worker->arenaBytes = bytes[1];
  worker->hostBytes = bytes[2];
  worker->numRequests = (int32_t)requests;
  worker->numInstructions = (int32_t)instructions;
  worker->requestBytes = requestBytes;
  worker->requests = calloc((size_t)requests + 1, requestBytes);
  if (!worker->requests) {
    snprintf(text, rtTextBytes, "worker %d: no memory for %" PRId64 " requests",
             (int)index, requests);
    return false;
  }
  return allocateBlock(worker, 0, bytes[0], &worker->persistent, text) &&
         allocateBlock(worker, 1, bytes[1], &worker->arena, text) &&
         allocateBlock(worker, 2, bytes[2], &worker->host, text);
}

void rtFreeWorker(struct RtWorker *worker) {
  for (int i = 0; i < 3; ++i)
    free(worker->blocks[i]);
  free(worker->pace);
  free(worker->losses);
  free(worker->requests);
  free(worker->log.instructions);
  free(worker->log.steps);
}

bool rtSetPace(struct RtWorker *worker, const int64_t *ns) {
  int64_t *pace = NULL;
  size_t bytes = (size_t)worker->numInstructions * sizeof(*pace);
  if (ns && !(pace = malloc(bytes ? bytes : 1)))
    return false;
  if (ns)
    memcpy(pace, ns, bytes);
  free(worker->pace);
  worker->pace = pace;
  return true;
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

int32_t rtFail(struct RtWorker *worker, int32_t status, const char *format,
               ...) {
  char text[2 * rtTextBytes];
  int length = snprintf(text, sizeof(text), "worker %d", (int)worker->worker);
  if (worker->instruction >= 0)
    length += snprintf(text + length, sizeof(text) - (size_t)length,
                       ", instruction %d", (int)worker->instruction);
  length += snprintf(text + length, sizeof(text) - (size_t)length, ": ");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
  va_end(arguments);
  return rtSetFailure(worker, status, text);
}

int32_t pipesched_rt_fail(void *context, const char *text) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  return status ? status
                : rtFail(worker, PIPESCHED_RT_FAILED, "%s",
                         text ? text : "the program failed");
}

int32_t pipesched_rt_fail_index(void *context, const char *text, int64_t index,
                                int64_t size) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  if (status)
    return status;
  if (size <= 0)
    return rtFail(worker, PIPESCHED_RT_FAILED,
                  "%s: index %" PRId64 ", but there are no elements", text,
                  index);
  return rtFail(worker, PIPESCHED_RT_FAILED,
                "%s: index %" PRId64 ", expected 0 to %" PRId64, text, index,
                size - 1);
}

int32_t pipesched_rt_fail_status(void *context, const char *text,
                                 int32_t returned) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  if (status)
    return status;
  return rtFail(worker, PIPESCHED_RT_FAILED, "%s returned %" PRId32, text,
                returned);
}

int32_t pipesched_rt_add(void *context, void *to, const void *from,
                         int64_t count, int32_t element_type) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  if (status)
    return status;
  if (!rtElementBytes(element_type))
    return rtFail(worker, PIPESCHED_RT_MISUSE,
                  "add of element type %d, which does not exist",
                  (int)element_type);
  if (count < 0)
    return rtFail(worker, PIPESCHED_RT_MISUSE,
                  "add of %" PRId64 " elements, but sizes are 0 or more",
                  count);
  rtAdd(to, from, count, element_type);
  return 0;
}

void rtDescribe(const struct RtRequest *request, char text[rtTextBytes]) {
  int length = 0;
  switch (request->kind) {
  case rtSend:
  case rtRecv:
    length = snprintf(text, rtTextBytes,
                      "%s of %" PRId64 " bytes %s worker %d with tag %d",
                      request->kind == rtSend ? "send" : "recv", request->size,
                      request->kind == rtSend ? "to" : "from",
                      (int)request->peer, (int)request->tag);
    break;
  case rtOffload:
  case rtReload:
    length = snprintf(text, rtTextBytes, "%s of %" PRId64 " bytes",
                      request->kind == rtOffload ? "offload" : "reload",
                      request->size);
    break;
  case rtAllReduce:
    length = snprintf(text, rtTextBytes,
                      "all_reduce of %" PRId64 " elements in group %d",
                      request->size, (int)request->tag);
    break;
  case rtBroadcast:
    length = snprintf(text, rtTextBytes,
                      "broadcast of %" PRId64 " bytes of worker %d in group %d",
                      request->size, (int)request->peer, (int)request->tag);
  }
  if (request->instruction >= 0)
    snprintf(text + length, rtTextBytes - (size_t)length,
             " (started by instruction %d)", (int)request->instruction);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static const char *nameOf(enum RtKind kind) {
  static const char *const names[] = {"send",   "recv",       "offload",
                                      "reload", "all_reduce", "broadcast"};
  return names[kind];
}

static struct RtRequest *inRange(struct RtWorker *worker, int32_t request,
                                 const char *call) {
  if ((uint32_t)request < (uint32_t)worker->numRequests)
    return rtRequest(worker, request);
  rtFail(worker, PIPESCHED_RT_MISUSE,
         "%s with request %d, but the program has %d requests", call,
         (int)request, (int)worker->numRequests);
  return NULL;
}

static bool checkMessage(struct RtWorker *worker, enum RtKind kind,
                         int32_t peer, int32_t tag) {
  if ((uint32_t)peer >= (uint32_t)worker->numWorkers) {
    rtFail(worker, PIPESCHED_RT_MISUSE,
           "%s %s worker %d, but the program has %d workers", nameOf(kind),
           kind == rtSend ? "to" : "from", (int)peer, (int)worker->numWorkers);
    return false;
  }
  if (tag >= 0)
    return true;
  rtFail(worker, PIPESCHED_RT_MISUSE, "%s with tag %d, but tags are 0 or more",
         nameOf(kind), (int)tag);
  return false;
}

static void reportInUse(struct RtWorker *worker, enum RtKind kind,
                        int32_t request, const struct RtRequest *used) {
  char text[rtTextBytes];
  rtDescribe(used, text);
  rtFail(worker, PIPESCHED_RT_MISUSE,
         "%s with request %d, which is in use by a %s; wait for it first",
         nameOf(kind), (int)request, text);
}

struct RtRequest *rtStart(struct RtWorker *worker, enum RtKind kind,
                          int32_t request, int32_t peer, int32_t tag,
                          int64_t size) {
  if (rtStatus(worker))
    return NULL;
  struct RtRequest *started = inRange(worker, request, nameOf(kind));
  if (!started)
    return NULL;
  if (atomic_load_explicit(&started->state, memory_order_relaxed) != rtIdle) {
    reportInUse(worker, kind, request, started);
    return NULL;
  }
  if (kind <= rtRecv && !checkMessage(worker, kind, peer, tag))
    return NULL;
  if (size < 0) {
    rtFail(worker, PIPESCHED_RT_MISUSE, "%s of %" PRId64 " %s", nameOf(kind),
           size, kind == rtAllReduce ? "elements" : "bytes");
    return NULL;
  }
  started->kind = kind;
  started->peer = peer;
  started->tag = tag;
  started->size = size;
  started->instruction = worker->instruction;
  started->until = 0;
  if (worker->pace && worker->instruction >= 0) {
    worker->hasStarted = true;
    if (kind != rtRecv && worker->pace[worker->instruction] > 0)
      started->until = worker->paceBegin + worker->pace[worker->instruction];
  }
  atomic_store_explicit(&started->state, rtPending, memory_order_relaxed);
  return started;
}

struct RtRequest *rtToWaitFor(struct RtWorker *worker, int32_t request) {
  if (rtStatus(worker))
    return NULL;
  struct RtRequest *found = inRange(worker, request, "wait");
  if (!found ||
      atomic_load_explicit(&found->state, memory_order_relaxed) == rtIdle)
    return NULL;
  return found;
}

/// Reports a wrong group, or members without this worker.
static bool checkMembers(struct RtWorker *worker, enum RtKind kind,
                         int32_t group, const int32_t *members,
                         int32_t numMembers) {
  const char *call = nameOf(kind);
  if (group < 0) {
    rtFail(worker, PIPESCHED_RT_MISUSE,
           "%s in group %d, but groups are 0 or more", call, (int)group);
    return false;
  }
  bool isMember = false;
  for (int32_t i = 0; i < numMembers; ++i) {
    if ((uint32_t)members[i] >= (uint32_t)worker->numWorkers) {
      rtFail(worker, PIPESCHED_RT_MISUSE,
             "%s with worker %d, but the program has %d workers", call,
             (int)members[i], (int)worker->numWorkers);
      return false;
    }
    if (isMember && members[i] == worker->worker) {
      rtFail(worker, PIPESCHED_RT_MISUSE, "%s with worker %d twice", call,
             (int)members[i]);
      return false;
    }
    isMember |= members[i] == worker->worker;
  }
  if (!isMember)
    rtFail(worker, PIPESCHED_RT_MISUSE,
           "%s in a group of %d members without this worker", call,
           (int)numMembers);
  return isMember;
}

bool rtCheckSum(struct RtWorker *worker, int32_t elementType, int32_t group,
                const int32_t *members, int32_t numMembers) {
  if (rtElementBytes(elementType))
    return checkMembers(worker, rtAllReduce, group, members, numMembers);
  rtFail(worker, PIPESCHED_RT_MISUSE,
         "all_reduce of element type %d, which does not exist",
         (int)elementType);
  return false;
}

bool rtCheckBroadcast(struct RtWorker *worker, int32_t root, int32_t group,
                      const int32_t *members, int32_t numMembers) {
  if (!checkMembers(worker, rtBroadcast, group, members, numMembers))
    return false;
  for (int32_t i = 0; i < numMembers; ++i)
    if (members[i] == root)
      return true;
  rtFail(worker, PIPESCHED_RT_MISUSE,
         "broadcast of worker %d in group %d, of which it is no member",
         (int)root, (int)group);
  return false;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

int32_t rtRunStep(struct RtWorker *worker, PipeschedStepFunction step,
                  int64_t number) {
  worker->instruction = -1;
  worker->stepSpan->begin = (int64_t)rtTicks();
  int32_t result = step(worker->worker, worker, worker->persistent,
                        worker->arena, worker->host, number);
  if (result && !rtStatus(worker))
    return rtFail(worker, PIPESCHED_RT_FAILED, "step %" PRId64 " returned %d",
                  number, (int)result);
  for (int32_t i = 0; i < worker->numRequests; ++i) {
    int32_t status = pipesched_rt_wait(worker, i);
    if (status)
      return status;
  }
  worker->stepSpan->end = (int64_t)rtTicks();
  return rtStatus(worker);
}
