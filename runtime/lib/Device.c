//===- Device.c - Workers whose memory is on a device ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compute stream stands for the order of a worker's program: what the
// program starts waits for all that is on this stream by then, and what the
// program waits for is waited for by this stream. The host itself waits where
// it touches memory: in front of a message that it sends, a sum, or code of the
// processor.
//
//   compute   --kernel--+----------------kernel--+--kernel--------->
//                       | event                  ^ event, at the wait
//   offloads            +--copy to the host------+
//
// Messages and sums go through memory of the host, which each request has for
// itself: a send is copied there and posted when the copy has ended; a recv is
// copied to its place when it is waited for.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rtCompute, rtOffloads, rtReloads, rtMessages, rtNumStreams };

/// What a request moves between the device and the host.
struct Transfer {
  void *event;   // the last operation that it waits for or is waited for
  void *staging; // of messages and sums
  int64_t stagingBytes;
  bool isRead; // a copy out of `staging` may be under way, up to `event`
  void *place; // where `bytes` bytes of `staging` go at the wait, or NULL
  int64_t bytes;
};

struct RtDevice {
  const PipeschedDevice *table;
  char *name;    // of the file, or "cpu"
  void *library; // NULL for "cpu"
  void *handle;
  void *persistent;
  void *streams[rtNumStreams];
  struct Transfer *transfers; // by request
  bool isBusy;    // the compute stream has had work since the host waited
  void *terms[2]; // of pipesched_rt_add
  int64_t termBytes;
};

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// " returned 3: no memory", with the device's own text if it has one.
static void describeFailure(const struct RtDevice *device, int32_t result,
                            const char *function, char text[rtTextBytes]) {
  const char *own = device->table->last_error(device->handle);
  bool isGiven = own && *own;
  snprintf(text, rtTextBytes, "device '%s': %s returned %d%s%s", device->name,
           function, (int)result, isGiven ? ": " : "", isGiven ? own : "");
}

const char *rtErrorOfDevice(const struct RtWorker *worker) {
  const struct RtDevice *device = worker->device;
  const char *own = device ? device->table->last_error(device->handle) : NULL;
  return own ? own : "";
}

static int32_t verify(struct RtWorker *worker, int32_t result,
                      const char *function) {
  if (!result)
    return PIPESCHED_RT_OK;
  char text[rtTextBytes];
  describeFailure(worker->device, result, function, text);
  return rtFail(worker, PIPESCHED_RT_SYSTEM, "%s", text);
}

/// Calls a function of the device of a worker; a failure is that of the worker.
#define CALL(worker, function, ...)                                            \
  verify(worker,                                                               \
         (worker)->device->table->function((worker)->device->handle,           \
                                           __VA_ARGS__),                       \
         #function)

/// The host waits for the compute stream.
static int32_t synchronize(struct RtWorker *worker) {
  struct RtDevice *device = worker->device;
  if (!device->isBusy)
    return PIPESCHED_RT_OK;
  device->isBusy = false;
  return CALL(worker, synchronize, device->streams[rtCompute]);
}

/// Lets a stream wait for what is on another one now.
static int32_t follow(struct RtWorker *worker, void *event, int stream,
                      int other) {
  struct RtDevice *device = worker->device;
  int32_t status = CALL(worker, record_event, event, device->streams[other]);
  if (stream == rtCompute)
    device->isBusy = true;
  return status ? status
                : CALL(worker, stream_wait, device->streams[stream], event);
}

//===----------------------------------------------------------------------===//
// Opening and closing
//===----------------------------------------------------------------------===//

/// Finds the table of a device. A file without a folder is in the current one.
static bool loadTable(struct RtDevice *device, char *text) {
  if (strcmp(device->name, "cpu") == 0) {
    device->table = &rtCpuDevice;
    return true;
  }
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s%s", strchr(device->name, '/') ? "" : "./",
           device->name);
  device->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!device->library) {
    snprintf(text, rtTextBytes, "device '%s': %s", device->name, dlerror());
    return false;
  }
  device->table = dlsym(device->library, PIPESCHED_DEVICE_SYMBOL);
  if (!device->table) {
    snprintf(text, rtTextBytes, "device '%s': the library has no symbol '%s'",
             device->name, PIPESCHED_DEVICE_SYMBOL);
    return false;
  }
  if (device->table->version == PIPESCHED_DEVICE_VERSION &&
      device->table->bytes >= sizeof(PipeschedDevice))
    return true;
  snprintf(text, rtTextBytes,
           "device '%s': it has version %u of the interface with a table of %u "
           "bytes; expected version %d with %zu bytes or more",
           device->name, (unsigned)device->table->version,
           (unsigned)device->table->bytes, PIPESCHED_DEVICE_VERSION,
           sizeof(PipeschedDevice));
  device->table = NULL;
  return false;
}

/// Replaces a block of the worker by memory of the device or, pinned, of the
/// host.
static int32_t moveBlock(struct RtWorker *worker, int block, int64_t bytes,
                         bool isPinned, void **result) {
  free(worker->blocks[block]);
  worker->blocks[block] = *result = NULL;
  if (bytes == 0)
    return PIPESCHED_RT_OK;
  if (!isPinned)
    return CALL(worker, allocate, bytes, result);
  int32_t status = CALL(worker, allocate_host, bytes, result);
  if (!status)
    memset(*result, 0, (size_t)bytes);
  return status;
}

static int32_t createParts(struct RtWorker *worker) {
  struct RtDevice *device = worker->device;
  int32_t status = PIPESCHED_RT_OK;
  for (int i = 0; !status && i < rtNumStreams; ++i)
    status = CALL(worker, create_stream, &device->streams[i]);
  for (int32_t i = 0; !status && i < worker->numRequests; ++i)
    status = CALL(worker, create_event, &device->transfers[i].event);
  if (!status)
    status = moveBlock(worker, 0, worker->persistentBytes, true,
                       &worker->persistent);
  if (!status && worker->persistentBytes > 0)
    status =
        CALL(worker, allocate, worker->persistentBytes, &device->persistent);
  if (!status)
    status = moveBlock(worker, 1, worker->arenaBytes, false, &worker->arena);
  if (!status)
    status = moveBlock(worker, 2, worker->hostBytes, true, &worker->host);
  return status;
}

int32_t rtOpenDevice(struct RtWorker *worker, const char *name) {
  char text[rtTextBytes];
  struct RtDevice *device = calloc(1, sizeof(*device));
  worker->device = device;
  if (device) {
    device->name = strdup(name);
    device->transfers =
        calloc((size_t)worker->numRequests + 1, sizeof(*device->transfers));
  }
  if (!device || !device->name || !device->transfers)
    return rtFail(worker, PIPESCHED_RT_SYSTEM, "no memory for a device");
  if (!loadTable(device, text))
    return rtFail(worker, PIPESCHED_RT_SYSTEM, "%s", text);
  void *handle = NULL;
  int32_t result =
      device->table->open(worker->worker, worker->numWorkers, &handle);
  if (result)
    return verify(worker, result, "open");
  device->handle = handle;
  return createParts(worker);
}

/// Releases what the handle of the device has; returns the first failure.
static int32_t releaseParts(struct RtWorker *worker, const char **function) {
  struct RtDevice *device = worker->device;
  const PipeschedDevice *table = device->table;
  int32_t first = 0;
#define RELEASE(name, part)                                                    \
  do {                                                                         \
    int32_t result = (part) ? table->name(device->handle, part) : 0;           \
    if (result && !first) {                                                    \
      first = result;                                                          \
      *function = #name;                                                       \
    }                                                                          \
  } while (false)
  for (int i = 0; i < rtNumStreams; ++i)
    RELEASE(synchronize, device->streams[i]);
  for (int32_t i = 0; i < worker->numRequests; ++i) {
    RELEASE(destroy_event, device->transfers[i].event);
    RELEASE(release_host, device->transfers[i].staging);
  }
  for (int i = 0; i < rtNumStreams; ++i)
    RELEASE(destroy_stream, device->streams[i]);
  for (int i = 0; i < 2; ++i)
    RELEASE(release_host, device->terms[i]);
  RELEASE(release, device->persistent);
  if (!worker->blocks[1])
    RELEASE(release, worker->arena);
  if (!worker->blocks[0])
    RELEASE(release_host, worker->persistent);
  if (!worker->blocks[2])
    RELEASE(release_host, worker->host);
#undef RELEASE
  return first;
}

int32_t rtCloseDevice(struct RtWorker *worker) {
  struct RtDevice *device = worker->device;
  if (!device)
    return PIPESCHED_RT_OK;
  int32_t result = 0;
  char text[rtTextBytes] = "";
  if (device->handle) {
    const char *function = "attach";
    result = device->table->attach(device->handle);
    int32_t released = releaseParts(worker, &function);
    result = result ? result : released;
    if (result)
      describeFailure(device, result, function, text);
    void *handle = device->handle;
    int32_t closed = device->table->close(handle);
    device->handle = NULL; // so that last_error is that of `close`
    if (closed && !result)
      describeFailure(device, closed, "close", text);
    result = result ? result : closed;
    worker->persistent = worker->arena = worker->host = NULL;
  }
  if (device->library)
    dlclose(device->library);
  free(device->transfers);
  free(device->name);
  free(device);
  worker->device = NULL;
  worker->instruction = -1;
  return result ? rtFail(worker, PIPESCHED_RT_SYSTEM, "%s", text)
                : PIPESCHED_RT_OK;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

void *rtPersistentOfStep(const struct RtWorker *worker) {
  return worker->device ? worker->device->persistent : worker->persistent;
}

int32_t rtBeginRun(struct RtWorker *worker) {
  struct RtDevice *device = worker->device;
  if (!device)
    return PIPESCHED_RT_OK;
  worker->instruction = -1;
  int32_t status =
      verify(worker, device->table->attach(device->handle), "attach");
  if (status || worker->persistentBytes == 0)
    return status;
  device->isBusy = true;
  status =
      CALL(worker, copy_to_device, device->streams[rtCompute],
           device->persistent, worker->persistent, worker->persistentBytes);
  return status ? status : synchronize(worker);
}

int32_t rtFetchPersistent(struct RtWorker *worker, int64_t offset,
                          int64_t bytes) {
  struct RtDevice *device = worker->device;
  if (!device || bytes == 0)
    return PIPESCHED_RT_OK;
  device->isBusy = true;
  int32_t status = CALL(worker, copy_to_host, device->streams[rtCompute],
                        (char *)worker->persistent + offset,
                        (char *)device->persistent + offset, bytes);
  return status ? status : synchronize(worker);
}

int32_t rtEndStep(struct RtWorker *worker) {
  return worker->device ? synchronize(worker) : PIPESCHED_RT_OK;
}

//===----------------------------------------------------------------------===//
// Messages, sums and copies
//===----------------------------------------------------------------------===//

/// Makes memory of the host for `bytes` bytes of a transfer, which nothing
/// uses any more.
static int32_t reserve(struct RtWorker *worker, struct Transfer *transfer,
                       int64_t bytes) {
  int32_t status = PIPESCHED_RT_OK;
  if (transfer->isRead)
    status = CALL(worker, host_wait, transfer->event);
  transfer->isRead = false;
  if (status || bytes <= transfer->stagingBytes)
    return status;
  if (transfer->staging)
    status = CALL(worker, release_host, transfer->staging);
  transfer->staging = NULL;
  transfer->stagingBytes = 0;
  if (!status)
    status = CALL(worker, allocate_host, bytes, &transfer->staging);
  if (!status)
    transfer->stagingBytes = bytes;
  return status;
}

int32_t rtStageSend(struct RtWorker *worker, int32_t request, const void *data,
                    int64_t bytes, const void **staged) {
  struct RtDevice *device = worker->device;
  struct Transfer *transfer = &device->transfers[request];
  transfer->place = NULL;
  int32_t status = reserve(worker, transfer, bytes);
  *staged = transfer->staging;
  if (status || bytes == 0)
    return status;
  void *stream = device->streams[rtMessages];
  status = follow(worker, transfer->event, rtMessages, rtCompute);
  if (!status)
    status = CALL(worker, copy_to_host, stream, transfer->staging, data, bytes);
  if (!status)
    status = CALL(worker, record_event, transfer->event, stream);
  return status ? status : CALL(worker, host_wait, transfer->event);
}

int32_t rtStageRecv(struct RtWorker *worker, int32_t request, void *data,
                    int64_t bytes, void **staged) {
  struct RtDevice *device = worker->device;
  struct Transfer *transfer = &device->transfers[request];
  transfer->place = bytes > 0 ? data : NULL;
  transfer->bytes = bytes;
  int32_t status = reserve(worker, transfer, bytes);
  *staged = transfer->staging;
  return status ? status
                : CALL(worker, record_event, transfer->event,
                       device->streams[rtCompute]);
}

int32_t rtStageSum(struct RtWorker *worker, int32_t request, void *data,
                   int64_t bytes, void **staged) {
  const void *from;
  int32_t status = rtStageSend(worker, request, data, bytes, &from);
  struct Transfer *transfer = &worker->device->transfers[request];
  transfer->place = bytes > 0 ? data : NULL;
  transfer->bytes = bytes;
  *staged = transfer->staging;
  return status;
}

int32_t rtStageBroadcast(struct RtWorker *worker, int32_t request, bool isRoot,
                         void *data, int64_t bytes, void **staged) {
  if (!isRoot)
    return rtStageRecv(worker, request, data, bytes, staged);
  const void *from;
  int32_t status = rtStageSend(worker, request, data, bytes, &from);
  *staged = worker->device->transfers[request].staging;
  return status;
}

int32_t rtCopyOnStream(struct RtWorker *worker, struct RtRequest *copy,
                       int32_t request) {
  struct RtDevice *device = worker->device;
  struct Transfer *transfer = &device->transfers[request];
  int number = copy->kind == rtOffload ? rtOffloads : rtReloads;
  void *stream = device->streams[number];
  int32_t status = follow(worker, transfer->event, number, rtCompute);
  if (!status && copy->size > 0)
    status = copy->kind == rtOffload ? CALL(worker, copy_to_host, stream,
                                            copy->to, copy->from, copy->size)
                                     : CALL(worker, copy_to_device, stream,
                                            copy->to, copy->from, copy->size);
  if (!status)
    status = CALL(worker, record_event, transfer->event, stream);
  atomic_store_explicit(&copy->state, rtDone, memory_order_relaxed);
  return status;
}

/// The copy of a recv waits for what was there when the recv was posted, since
/// its place is free from then on.
static int32_t copyToPlace(struct RtWorker *worker, struct Transfer *transfer) {
  void *stream = worker->device->streams[rtMessages];
  int32_t status = CALL(worker, stream_wait, stream, transfer->event);
  if (!status)
    status = CALL(worker, copy_to_device, stream, transfer->place,
                  transfer->staging, transfer->bytes);
  if (!status)
    status = follow(worker, transfer->event, rtCompute, rtMessages);
  transfer->place = NULL;
  transfer->isRead = true;
  return status;
}

int32_t rtEndTransfer(struct RtWorker *worker, const struct RtRequest *request,
                      int32_t index) {
  struct Transfer *transfer = &worker->device->transfers[index];
  if (request->kind != rtOffload && request->kind != rtReload)
    return transfer->place ? copyToPlace(worker, transfer) : PIPESCHED_RT_OK;
  struct RtDevice *device = worker->device;
  device->isBusy = true;
  return CALL(worker, stream_wait, device->streams[rtCompute], transfer->event);
}

//===----------------------------------------------------------------------===//
// What programs for devices call
//===----------------------------------------------------------------------===//

int32_t pipesched_rt_clear(void *context, void *data, int64_t bytes) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  if (status || bytes <= 0)
    return status;
  if (!worker->device) {
    memset(data, 0, (size_t)bytes);
    return PIPESCHED_RT_OK;
  }
  worker->device->isBusy = true;
  return CALL(worker, clear, worker->device->streams[rtCompute], data, bytes);
}

int32_t pipesched_rt_copy(void *context, void *to, const void *from,
                          int64_t bytes) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  if (status || bytes <= 0)
    return status;
  if (!worker->device) {
    memcpy(to, from, (size_t)bytes);
    return PIPESCHED_RT_OK;
  }
  worker->device->isBusy = true;
  return CALL(worker, copy_on_device, worker->device->streams[rtCompute], to,
              from, bytes);
}

int32_t pipesched_rt_enter(void *context, int32_t code, const char *what) {
  struct RtWorker *worker = context;
  int32_t status = rtStatus(worker);
  struct RtDevice *device = worker->device;
  if (status || !device)
    return status;
  uint64_t flags = device->table->flags;
  if (code != PIPESCHED_RT_LAUNCHES &&
      !(flags & PIPESCHED_DEVICE_HOST_USES_MEMORY))
    return rtFail(worker, PIPESCHED_RT_FAILED,
                  "%s has code for the processor, which cannot use the memory "
                  "of device '%s'; let it call extern functions alone",
                  what, device->name);
  if (code == PIPESCHED_RT_LENDS &&
      !(flags & PIPESCHED_DEVICE_KERNELS_USE_HOST))
    return rtFail(worker, PIPESCHED_RT_FAILED,
                  "%s calls an extern function on a temporary, which kernels "
                  "of device '%s' cannot use; let it call extern functions on "
                  "its arguments and results alone",
                  what, device->name);
  if (code != PIPESCHED_RT_LAUNCHES ||
      (flags & PIPESCHED_DEVICE_KERNELS_ON_HOST))
    return synchronize(worker);
  return PIPESCHED_RT_OK;
}

void *pipesched_rt_stream(void *context) {
  struct RtDevice *device = ((struct RtWorker *)context)->device;
  if (!device || (device->table->flags & PIPESCHED_DEVICE_KERNELS_ON_HOST))
    return NULL;
  device->isBusy = true;
  return device->streams[rtCompute];
}

static int32_t reserveTerms(struct RtWorker *worker, int64_t bytes) {
  struct RtDevice *device = worker->device;
  int32_t status = PIPESCHED_RT_OK;
  if (bytes <= device->termBytes)
    return status;
  device->termBytes = 0;
  for (int i = 0; !status && i < 2; ++i) {
    if (device->terms[i])
      status = CALL(worker, release_host, device->terms[i]);
    device->terms[i] = NULL;
    if (!status)
      status = CALL(worker, allocate_host, bytes, &device->terms[i]);
  }
  if (!status)
    device->termBytes = bytes;
  return status;
}

int32_t rtAddOnDevice(struct RtWorker *worker, void *to, const void *from,
                      int64_t count, int32_t elementType) {
  struct RtDevice *device = worker->device;
  void *stream = device->streams[rtCompute];
  int64_t bytes = count * rtElementBytes(elementType);
  const void *sources[] = {to, from};
  int32_t status = reserveTerms(worker, bytes);
  for (int i = 0; !status && i < 2; ++i)
    status =
        CALL(worker, copy_to_host, stream, device->terms[i], sources[i], bytes);
  device->isBusy = true;
  if (!status)
    status = synchronize(worker);
  if (status || bytes == 0)
    return status;
  rtAdd(device->terms[0], device->terms[1], count, elementType);
  device->isBusy = true;
  status = CALL(worker, copy_to_device, stream, to, device->terms[0], bytes);
  return status ? status : synchronize(worker);
}
