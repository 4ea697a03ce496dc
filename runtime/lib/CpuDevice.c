//===- CpuDevice.c - The device "cpu" -------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory of the host, and a thread for each stream, which its first operation
// starts. One mutex guards the queues of a device; copies run without it.
//
// Operations of a stream have numbers from 1 on. An event is a stream and the
// number of the last operation in front of its record, and a wait is an
// operation that lasts until the stream of the event has ended that number.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CpuStream;

/// How far a stream is to come; nothing to wait for where `stream` is NULL.
struct Position {
  struct CpuStream *stream;
  int64_t number;
};

struct Operation {
  struct Operation *next;
  struct Position after; // of a wait
  void *to;
  const void *from; // NULL: zeros
  size_t bytes;     // 0 for waits
};

struct CpuDevice {
  pthread_mutex_t mutex;
  pthread_cond_t changed; // an operation was added or has ended
  struct CpuStream *streams;
  char error[rtTextBytes];
};

/// Streams stay until the device is closed, since events may name them.
struct CpuStream {
  struct CpuStream *next;
  struct CpuDevice *device;
  struct Operation *first, **last;
  int64_t numEnqueued, numEnded;
  pthread_t thread;
  bool started, stop;
};

static int32_t failCpu(struct CpuDevice *device, const char *text) {
  snprintf(device->error, sizeof(device->error), "%s", text);
  return PIPESCHED_RT_SYSTEM;
}

//===----------------------------------------------------------------------===//
// Devices and memory
//===----------------------------------------------------------------------===//

static int32_t openCpu(int32_t worker, int32_t numWorkers, void **result) {
  (void)worker;
  (void)numWorkers;
  struct CpuDevice *device = calloc(1, sizeof(*device));
  if (!device)
    return PIPESCHED_RT_SYSTEM;
  pthread_mutex_init(&device->mutex, NULL);
  pthread_cond_init(&device->changed, NULL);
  *result = device;
  return 0;
}

static int32_t closeCpu(void *handle) {
  struct CpuDevice *device = handle;
  while (device->streams) {
    struct CpuStream *stream = device->streams;
    device->streams = stream->next;
    free(stream);
  }
  pthread_cond_destroy(&device->changed);
  pthread_mutex_destroy(&device->mutex);
  free(device);
  return 0;
}

static int32_t attachCpu(void *device) {
  (void)device;
  return 0;
}

static const char *errorOfCpu(void *device) {
  return device ? ((struct CpuDevice *)device)->error : "no memory";
}

static int32_t allocateCpu(void *device, int64_t bytes, void **memory) {
  enum { alignment = 64 };
  if (posix_memalign(memory, alignment, bytes > 0 ? (size_t)bytes : 1) == 0)
    return 0;
  return failCpu(device, "no memory");
}

static int32_t releaseCpu(void *device, void *memory) {
  (void)device;
  free(memory);
  return 0;
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

static bool hasCome(struct Position position) {
  return !position.stream || position.stream->numEnded >= position.number;
}

static void run(const struct Operation *operation) {
  if (operation->bytes > 0 && operation->from)
    memcpy(operation->to, operation->from, operation->bytes);
  else if (operation->bytes > 0)
    memset(operation->to, 0, operation->bytes);
}

static void *runStream(void *argument) {
  struct CpuStream *stream = argument;
  struct CpuDevice *device = stream->device;
  pthread_mutex_lock(&device->mutex);
  while (true) {
    struct Operation *operation = stream->first;
    if (!operation && stream->stop)
      break;
    if (!operation || !hasCome(operation->after)) {
      pthread_cond_wait(&device->changed, &device->mutex);
      continue;
    }
    stream->first = operation->next;
    if (!stream->first)
      stream->last = &stream->first;
    pthread_mutex_unlock(&device->mutex);
    run(operation);
    free(operation);
    pthread_mutex_lock(&device->mutex);
    ++stream->numEnded;
    pthread_cond_broadcast(&device->changed);
  }
  pthread_mutex_unlock(&device->mutex);
  return NULL;
}

static int32_t enqueue(struct CpuDevice *device, struct CpuStream *stream,
                       struct Operation operation) {
  struct Operation *added = malloc(sizeof(*added));
  if (!added)
    return failCpu(device, "no memory for an operation");
  if (!stream->started &&
      pthread_create(&stream->thread, NULL, runStream, stream)) {
    free(added);
    return failCpu(device, "cannot start the thread of a stream");
  }
  stream->started = true;
  *added = operation;
  added->next = NULL;
  pthread_mutex_lock(&device->mutex);
  *stream->last = added;
  stream->last = &added->next;
  ++stream->numEnqueued;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  return 0;
}

static void waitUntil(struct CpuDevice *device, struct Position position) {
  pthread_mutex_lock(&device->mutex);
  while (!hasCome(position))
    pthread_cond_wait(&device->changed, &device->mutex);
  pthread_mutex_unlock(&device->mutex);
}

static int32_t createStream(void *handle, void **result) {
  struct CpuDevice *device = handle;
  struct CpuStream *stream = calloc(1, sizeof(*stream));
  if (!stream)
    return failCpu(device, "no memory for a stream");
  stream->device = device;
  stream->last = &stream->first;
  stream->next = device->streams;
  device->streams = stream;
  *result = stream;
  return 0;
}

static int32_t destroyStream(void *handle, void *which) {
  struct CpuDevice *device = handle;
  struct CpuStream *stream = which;
  if (!stream->started)
    return 0;
  pthread_mutex_lock(&device->mutex);
  stream->stop = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  pthread_join(stream->thread, NULL);
  stream->started = false;
  return 0;
}

static int32_t synchronizeCpu(void *device, void *which) {
  struct CpuStream *stream = which;
  waitUntil(device, (struct Position){stream, stream->numEnqueued});
  return 0;
}

static int32_t copyCpu(void *device, void *stream, void *to, const void *from,
                       int64_t bytes) {
  return enqueue(
      device, stream,
      (struct Operation){.to = to, .from = from, .bytes = (size_t)bytes});
}

static int32_t clearCpu(void *device, void *stream, void *memory,
                        int64_t bytes) {
  return enqueue(device, stream,
                 (struct Operation){.to = memory, .bytes = (size_t)bytes});
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

static int32_t createEvent(void *device, void **result) {
  *result = calloc(1, sizeof(struct Position));
  return *result ? 0 : failCpu(device, "no memory for an event");
}

static int32_t destroyEvent(void *device, void *event) {
  (void)device;
  free(event);
  return 0;
}

static int32_t recordEvent(void *device, void *event, void *which) {
  (void)device;
  struct CpuStream *stream = which;
  *(struct Position *)event = (struct Position){stream, stream->numEnqueued};
  return 0;
}

static int32_t streamWait(void *handle, void *stream, void *event) {
  struct CpuDevice *device = handle;
  struct Position position = *(struct Position *)event;
  pthread_mutex_lock(&device->mutex);
  bool isThere = hasCome(position) || position.stream == stream;
  pthread_mutex_unlock(&device->mutex);
  return isThere
             ? 0
             : enqueue(device, stream, (struct Operation){.after = position});
}

static int32_t hostWait(void *device, void *event) {
  waitUntil(device, *(struct Position *)event);
  return 0;
}

const PipeschedDevice rtCpuDevice = {
    .version = PIPESCHED_DEVICE_VERSION,
    .bytes = sizeof(PipeschedDevice),
    .flags = PIPESCHED_DEVICE_HOST_USES_MEMORY |
             PIPESCHED_DEVICE_KERNELS_USE_HOST |
             PIPESCHED_DEVICE_KERNELS_ON_HOST,
    .open = openCpu,
    .close = closeCpu,
    .attach = attachCpu,
    .last_error = errorOfCpu,
    .allocate = allocateCpu,
    .release = releaseCpu,
    .allocate_host = allocateCpu,
    .release_host = releaseCpu,
    .create_stream = createStream,
    .destroy_stream = destroyStream,
    .create_event = createEvent,
    .destroy_event = destroyEvent,
    .copy_to_device = copyCpu,
    .copy_to_host = copyCpu,
    .copy_on_device = copyCpu,
    .clear = clearCpu,
    .record_event = recordEvent,
    .stream_wait = streamWait,
    .host_wait = hostWait,
    .synchronize = synchronizeCpu,
};
