//===- Copies.c - Copies between device and host memory -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread per worker and direction makes copies one after the other, like a
// copy engine of a device.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <string.h>

void rtInitCopies(struct RtWorker *worker) {
  for (int i = 0; i < 2; ++i) {
    struct RtCopies *copies = &worker->copies[i];
    pthread_mutex_init(&copies->mutex, NULL);
    pthread_cond_init(&copies->changed, NULL);
    copies->worker = worker;
    copies->first = NULL;
    copies->last = &copies->first;
  }
}

static void *makeCopies(void *argument) {
  struct RtCopies *copies = argument;
  pthread_mutex_lock(&copies->mutex);
  while (true) {
    while (!copies->first && !copies->stop)
      pthread_cond_wait(&copies->changed, &copies->mutex);
    if (copies->stop)
      break;
    struct RtRequest *copy = copies->first;
    copies->first = copy->nextCopy;
    if (!copies->first)
      copies->last = &copies->first;
    pthread_mutex_unlock(&copies->mutex);
    if (copy->size > 0)
      memcpy(copy->to, copy->from, (size_t)copy->size);
    rtCopyHasEnded(copies->worker, copy);
    pthread_mutex_lock(&copies->mutex);
    pthread_cond_broadcast(&copies->changed);
  }
  pthread_mutex_unlock(&copies->mutex);
  return NULL;
}

static int32_t startCopy(struct RtWorker *worker, enum RtKind kind, void *to,
                         const void *from, int64_t bytes, int32_t request) {
  struct RtRequest *copy = rtStart(worker, kind, request, -1, -1, bytes);
  if (!copy)
    return rtStatus(worker);
  struct RtCopies *copies = &worker->copies[kind == rtReload];
  if (!copies->started) {
    copies->stop = false;
    if (pthread_create(&copies->thread, NULL, makeCopies, copies))
      return rtFail(worker, PIPESCHED_RT_SYSTEM, "cannot start a thread");
    copies->started = true;
  }
  if (copy->until > 0) {
    // All copies of an instruction together take its time, after the copies of
    // the previous instruction.
    int64_t ns = copy->until - worker->paceBegin;
    if (copies->begin != worker->paceBegin && copies->until > worker->paceBegin)
      copies->until += ns;
    else if (copies->begin != worker->paceBegin)
      copies->until = copy->until;
    copies->begin = worker->paceBegin;
    copy->until = copies->until;
  }
  copy->to = to;
  copy->from = from;
  copy->nextCopy = NULL;
  rtCopyStarts(worker);
  pthread_mutex_lock(&copies->mutex);
  *copies->last = copy;
  copies->last = &copy->nextCopy;
  pthread_cond_broadcast(&copies->changed);
  pthread_mutex_unlock(&copies->mutex);
  return PIPESCHED_RT_OK;
}

int32_t pipesched_rt_offload(void *context, void *host, const void *data,
                             int64_t bytes, int32_t request) {
  return startCopy(context, rtOffload, host, data, bytes, request);
}

int32_t pipesched_rt_reload(void *context, void *data, const void *host,
                            int64_t bytes, int32_t request) {
  return startCopy(context, rtReload, data, host, bytes, request);
}

void rtWaitForCopy(struct RtWorker *worker, struct RtRequest *request) {
  struct RtCopies *copies = &worker->copies[request->kind == rtReload];
  pthread_mutex_lock(&copies->mutex);
  while (atomic_load(&request->state) == rtPending)
    pthread_cond_wait(&copies->changed, &copies->mutex);
  pthread_mutex_unlock(&copies->mutex);
}

void rtJoinCopies(struct RtWorker *worker) {
  for (int i = 0; i < 2; ++i) {
    struct RtCopies *copies = &worker->copies[i];
    if (!copies->started)
      continue;
    pthread_mutex_lock(&copies->mutex);
    copies->stop = true;
    pthread_cond_broadcast(&copies->changed);
    pthread_mutex_unlock(&copies->mutex);
    pthread_join(copies->thread, NULL);
    copies->started = false;
    copies->first = NULL;
    copies->last = &copies->first;
  }
}
