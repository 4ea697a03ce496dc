//===- fake-device.c - A device that checks order and waits ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread for each device runs what is enqueued, in an order that is meant to
// harm. Beside that, each operation is compared with earlier ones on the same
// memory when it is enqueued: vector clocks say whether streams, events and
// waits of the host put the two in order, whatever order they run in.
//
//   FAKE_ORDER=late     an operation runs when the host waits for it (default)
//              early    at once, copies before kernels
//              random   now or later
//   FAKE_FLAGS=N        the flags of the device; without
//                       PIPESCHED_DEVICE_HOST_USES_MEMORY the processor stops
//                       by a signal where it touches the device's memory
//   FAKE_FAIL=W:F:N     call N (from 0) of function F of worker W fails
//   FAKE_DROP=W:F:N     call N of stream_wait or host_wait does nothing
//   FAKE_LEAK=W         close of worker W finds an event more than there is
//   FAKE_COUNT=1        close prints how often each function was called
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include "fake-device.h"
#include "PipeSched-rt/Device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { maxStreams = 16, blockBytes = 64, failed = 7 };

typedef struct Clock {
  int64_t at[maxStreams]; // operations of each stream that are known to be over
} Clock;

/// What is known of 64 bytes of memory.
typedef struct Block {
  int writer;      // the stream that wrote last
  int64_t written; // the number of its operation; 0: never
  Clock read;      // last reads
} Block;

typedef struct Memory {
  struct Memory *next;
  char *address, *data; // the same unless the memory is hidden
  int64_t bytes;
  bool isHost;
  Block *blocks;
} Memory;

typedef struct Position {
  struct Stream *stream;
  int64_t number;
} Position;

typedef struct Event {
  Position position;
  Clock clock;
} Event;

typedef struct Operation {
  struct Operation *next;
  Position after;    // of a wait
  FakeKernel kernel; // NULL: a wait
  void *memory[FAKE_MAX];
  int64_t numbers[FAKE_MAX];
} Operation;

typedef struct Stream {
  struct Device *device;
  int id;
  Operation *first, **last;
  int64_t numEnqueued, numEnded;
  Clock clock;
  bool isLive;
} Stream;

typedef struct Count {
  const char *function;
  int calls;
} Count;

typedef struct Device {
  int32_t worker;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t engine, user;
  bool stop;
  Position wanted; // by the host, in late order
  Stream streams[maxStreams];
  int numStreams, numEvents;
  Memory *memories;
  Clock host;
  unsigned seed;
  Count counts[32];
  char error[256];
} Device;

static _Thread_local Device *current;     // as CUDA has a current device
static _Thread_local char openError[256]; // of open and close

static const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

__attribute__((format(printf, 2, 3))) static int32_t
fail(Device *device, const char *format, ...) {
  if (device->error[0])
    return failed;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device->error, sizeof(device->error), format, arguments);
  va_end(arguments);
  return failed;
}

/// Whether FAKE_FAIL or FAKE_DROP name this call.
static bool isNamed(const char *variable, const Device *device,
                    const char *function, int number) {
  char name[64];
  snprintf(name, sizeof(name), "%d:%s:%d", (int)device->worker, function,
           number);
  return strcmp(setting(variable, ""), name) == 0;
}

/// Begins a call: counts it, and checks its thread. Returns 0, `failed`, or -1
/// if the call is to do nothing.
static int32_t beginCall(Device *device, const char *function) {
  Count *count = device->counts;
  while (count->function && strcmp(count->function, function) != 0)
    ++count;
  count->function = function;
  int number = count->calls++;
  if (!pthread_equal(device->user, pthread_self()))
    return fail(device, "%s: this thread is not attached", function);
  if (isNamed("FAKE_FAIL", device, function, number))
    return fail(device, "made to fail");
  if (isNamed("FAKE_DROP", device, function, number))
    return -1;
  return device->error[0] ? failed : 0;
}

#define BEGIN(device)                                                          \
  do {                                                                         \
    int32_t begun = beginCall(device, __func__);                               \
    if (begun)                                                                 \
      return begun < 0 ? 0 : begun;                                            \
  } while (0)

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static bool hasCome(Position position) {
  return !position.stream || position.stream->numEnded >= position.number;
}

/// With the mutex held: runs the next operation of a stream.
static void step(Stream *stream) {
  Operation *operation = stream->first;
  stream->first = operation->next;
  if (!stream->first)
    stream->last = &stream->first;
  if (operation->kernel)
    operation->kernel(operation->memory, operation->numbers);
  free(operation);
  ++stream->numEnded;
  pthread_cond_broadcast(&stream->device->changed);
}

/// Runs a stream up to a position, and other streams as far as it waits for
/// them.
static void runUpTo(Position position) {
  while (!hasCome(position)) {
    runUpTo(position.stream->first->after);
    step(position.stream);
  }
}

/// Returns a stream that can go on, the last or any.
static Stream *findReady(Device *device, bool isRandom) {
  int first = isRandom ? rand_r(&device->seed) % maxStreams : 0;
  for (int i = 1; i <= maxStreams; ++i) {
    Stream *stream = &device->streams[(first + maxStreams - i) % maxStreams];
    if (stream->first && hasCome(stream->first->after))
      return stream;
  }
  return NULL;
}

static void *runEngine(void *argument) {
  Device *device = argument;
  bool isLate = strcmp(setting("FAKE_ORDER", "late"), "late") == 0;
  bool isRandom = strcmp(setting("FAKE_ORDER", ""), "random") == 0;
  pthread_mutex_lock(&device->mutex);
  while (!device->stop) {
    Stream *ready = isLate ? NULL : findReady(device, isRandom);
    if (isLate && !hasCome(device->wanted)) {
      runUpTo(device->wanted);
    } else if (ready) {
      step(ready);
      if (isRandom && rand_r(&device->seed) % 4 == 0) {
        const struct timespec moment = {0, rand_r(&device->seed) % 200000};
        pthread_mutex_unlock(&device->mutex);
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&device->mutex);
      }
    } else {
      pthread_cond_wait(&device->changed, &device->mutex);
    }
  }
  pthread_mutex_unlock(&device->mutex);
  return NULL;
}

static void enqueue(Stream *stream, Operation operation) {
  Operation *added = malloc(sizeof(*added));
  *added = operation;
  added->next = NULL;
  pthread_mutex_lock(&stream->device->mutex);
  *stream->last = added;
  stream->last = &added->next;
  ++stream->numEnqueued;
  pthread_cond_broadcast(&stream->device->changed);
  pthread_mutex_unlock(&stream->device->mutex);
}

static void waitFor(Device *device, Position position) {
  pthread_mutex_lock(&device->mutex);
  device->wanted = position;
  pthread_cond_broadcast(&device->changed);
  while (!hasCome(position))
    pthread_cond_wait(&device->changed, &device->mutex);
  pthread_mutex_unlock(&device->mutex);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

static void join(Clock *clock, const Clock *other) {
  for (int i = 0; i < maxStreams; ++i)
    if (other->at[i] > clock->at[i])
      clock->at[i] = other->at[i];
}

/// Returns a stream whose use of a block is not known to be over, or -1.
static int findUser(const Block *block, const Clock *clock, bool reads) {
  if (block->written > clock->at[block->writer])
    return block->writer;
  for (int i = 0; reads && i < maxStreams; ++i)
    if (block->read.at[i] > clock->at[i])
      return i;
  return -1;
}

static Memory *find(Device *device, const char *address, int64_t bytes) {
  for (Memory *memory = device->memories; memory; memory = memory->next)
    if (address >= memory->address &&
        address + bytes <= memory->address + memory->bytes)
      return memory;
  return NULL;
}

/// Checks what operation `number` of the stream, whose clock counts it already,
/// does with a block, and notes it.
static int32_t touchBlock(Stream *stream, Block *block, bool isHidden, int mode,
                          const char *what) {
  Device *device = stream->device;
  int user = findUser(block, &stream->clock, mode & FAKE_WRITES);
  if (user >= 0)
    return fail(device,
                "%s on stream %d %s memory that stream %d may still use; a "
                "wait is missing",
                what, stream->id, mode & FAKE_WRITES ? "writes" : "reads",
                user);
  if ((mode & FAKE_READS) && isHidden && block->written == 0)
    return fail(device, "%s on stream %d reads memory that nothing has written",
                what, stream->id);
  int64_t number = stream->clock.at[stream->id];
  if (mode & FAKE_READS)
    block->read.at[stream->id] = number;
  if (mode & FAKE_WRITES) {
    block->writer = stream->id;
    block->written = number;
  }
  return 0;
}

/// Finds the memory of an access, and checks its order.
static int32_t touch(Stream *stream, FakeAccess access, int isHost,
                     const char *what, void **data) {
  Device *device = stream->device;
  const char *address = access.memory;
  Memory *memory = find(device, address, access.bytes);
  if (!memory && isHost < 0) { // a kernel on memory that is no device's
    *data = (void *)access.memory;
    return 0;
  }
  if (!memory || (isHost >= 0 && memory->isHost != isHost))
    return fail(device, "%s on stream %d uses memory that is not allocated",
                what, stream->id);
  int64_t begin = address - memory->address;
  *data = memory->data + begin;
  for (int64_t i = begin / blockBytes; i * blockBytes < begin + access.bytes;
       ++i)
    if (touchBlock(stream, &memory->blocks[i], memory->address != memory->data,
                   access.mode, what))
      return failed;
  return 0;
}

static int32_t launch(Stream *stream, FakeKernel kernel,
                      const FakeAccess *accesses, const int *isHost, int count,
                      const int64_t *numbers, int numNumbers,
                      const char *what) {
  Device *device = stream->device;
  Operation operation = {.kernel = kernel};
  join(&stream->clock, &device->host);
  ++stream->clock.at[stream->id];
  for (int i = 0; i < count; ++i)
    if (touch(stream, accesses[i], isHost[i], what, &operation.memory[i]))
      return failed;
  memcpy(operation.numbers, numbers, (size_t)numNumbers * sizeof(*numbers));
  enqueue(stream, operation);
  return 0;
}

int32_t fake_launch(void *handle, FakeKernel kernel, const FakeAccess *accesses,
                    int count, const int64_t *numbers, int numNumbers) {
  Stream *stream = handle;
  if (!stream) {
    void *memory[FAKE_MAX];
    for (int i = 0; i < count; ++i)
      memory[i] = (void *)accesses[i].memory;
    kernel(memory, numbers);
    return 0;
  }
  BEGIN(stream->device);
  if (current != stream->device)
    return fail(stream->device, "a kernel is launched for another device");
  bool usesHost = strtol(setting("FAKE_FLAGS", "0"), NULL, 0) &
                  PIPESCHED_DEVICE_KERNELS_USE_HOST;
  int where[FAKE_MAX];
  for (int i = 0; i < count; ++i)
    where[i] = usesHost ? -1 : 0;
  return launch(stream, kernel, accesses, where, count, numbers, numNumbers,
                "a kernel");
}

//===----------------------------------------------------------------------===//
// Devices and memory
//===----------------------------------------------------------------------===//

static int32_t open_device(int32_t worker, int32_t numWorkers, void **result) {
  (void)numWorkers;
  Device *device = calloc(1, sizeof(*device));
  device->worker = worker;
  device->seed = (unsigned)worker + 1;
  device->user = pthread_self();
  if (isNamed("FAKE_FAIL", device, "open", 0)) {
    free(device);
    snprintf(openError, sizeof(openError), "there is no such device");
    return failed;
  }
  pthread_mutex_init(&device->mutex, NULL);
  pthread_cond_init(&device->changed, NULL);
  pthread_create(&device->engine, NULL, runEngine, device);
  current = *result = device;
  return 0;
}

static int32_t close_device(void *handle) {
  Device *device = handle;
  int numStreams = 0, numMemories = 0;
  for (int i = 0; i < device->numStreams; ++i)
    numStreams += device->streams[i].isLive;
  for (Memory *memory = device->memories; memory; memory = memory->next)
    ++numMemories;
  if (atoi(setting("FAKE_LEAK", "-1")) == device->worker)
    ++device->numEvents;
  bool isLeaking = numStreams > 0 || numMemories > 0 || device->numEvents > 0;
  if (isLeaking)
    snprintf(openError, sizeof(openError),
             "not released: %d streams, %d events, %d areas of memory",
             numStreams, device->numEvents, numMemories);
  for (Count *count = device->counts;
       count->function && *setting("FAKE_COUNT", ""); ++count)
    fprintf(stderr, "worker %d: %s %d\n", (int)device->worker, count->function,
            count->calls);
  pthread_mutex_lock(&device->mutex);
  device->stop = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  pthread_join(device->engine, NULL);
  free(device);
  return isLeaking ? failed : 0;
}

static int32_t attach(void *handle) {
  Device *device = handle;
  device->user = pthread_self();
  current = device;
  BEGIN(device);
  return 0;
}

static const char *last_error(void *device) {
  return device ? ((Device *)device)->error : openError;
}

static int32_t add(Device *device, int64_t bytes, bool isHost, void **result) {
  bool isHidden = !isHost && !(strtol(setting("FAKE_FLAGS", "0"), NULL, 0) &
                               PIPESCHED_DEVICE_HOST_USES_MEMORY);
  Memory *memory = calloc(1, sizeof(*memory));
  memory->bytes = bytes;
  memory->isHost = isHost;
  memory->data = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
  memset(memory->data, 0xff, (size_t)bytes); // NaN
  memory->address = memory->data;
  if (isHidden)
    memory->address = mmap(NULL, (size_t)bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory->blocks =
      calloc((size_t)bytes / blockBytes + 1, sizeof(*memory->blocks));
  memory->next = device->memories;
  device->memories = memory;
  *result = memory->address;
  return 0;
}

static int32_t drop(Device *device, void *address, bool isHost) {
  for (Memory **at = &device->memories; *at; at = &(*at)->next) {
    Memory *memory = *at;
    if (memory->address != address || memory->isHost != isHost)
      continue;
    for (int64_t i = 0; i * blockBytes < memory->bytes; ++i)
      if (findUser(&memory->blocks[i], &device->host, true) >= 0)
        fail(device, "memory is released that a stream may still use");
    *at = memory->next;
    if (memory->address != memory->data)
      munmap(memory->address, (size_t)memory->bytes);
    free(memory->data);
    free(memory->blocks);
    free(memory);
    return device->error[0] ? failed : 0;
  }
  return fail(device, "memory is released that is not allocated");
}

static int32_t allocate(void *device, int64_t bytes, void **memory) {
  BEGIN(device);
  return add(device, bytes, false, memory);
}

static int32_t release(void *device, void *memory) {
  int32_t begun = beginCall(device, __func__);
  int32_t dropped = drop(device, memory, false);
  return begun ? begun : dropped;
}

static int32_t allocate_host(void *device, int64_t bytes, void **memory) {
  BEGIN(device);
  return add(device, bytes, true, memory);
}

static int32_t release_host(void *device, void *memory) {
  int32_t begun = beginCall(device, __func__);
  int32_t dropped = drop(device, memory, true);
  return begun ? begun : dropped;
}

//===----------------------------------------------------------------------===//
// Streams, copies and events
//===----------------------------------------------------------------------===//

static int32_t create_stream(void *handle, void **result) {
  Device *device = handle;
  BEGIN(device);
  Stream *stream = &device->streams[device->numStreams];
  stream->device = device;
  stream->id = device->numStreams++;
  stream->last = &stream->first;
  stream->isLive = true;
  *result = stream;
  return 0;
}

static int32_t destroy_stream(void *device, void *handle) {
  Stream *stream = handle;
  int32_t begun = beginCall(device, __func__);
  stream->isLive = false;
  if (stream->first)
    return fail(device, "stream %d is destroyed before it has ended",
                stream->id);
  return begun;
}

static int32_t create_event(void *device, void **event) {
  BEGIN((Device *)device);
  *event = calloc(1, sizeof(Event));
  ++((Device *)device)->numEvents;
  return 0;
}

static int32_t destroy_event(void *device, void *event) {
  int32_t begun = beginCall(device, __func__);
  free(event);
  --((Device *)device)->numEvents;
  return begun;
}

static void move(void *const *memory, const int64_t *numbers) {
  memcpy(memory[0], memory[1], (size_t)numbers[0]);
}

static void zero(void *const *memory, const int64_t *numbers) {
  memset(memory[0], 0, (size_t)numbers[0]);
}

static int32_t copy(Stream *stream, void *to, int toHost, const void *from,
                    int fromHost, int64_t bytes, const char *what) {
  FakeAccess accesses[] = {{to, bytes, FAKE_WRITES}, {from, bytes, FAKE_READS}};
  int isHost[] = {toHost, fromHost};
  return launch(stream, move, accesses, isHost, 2, &bytes, 1, what);
}

static int32_t copy_to_device(void *device, void *stream, void *to,
                              const void *from, int64_t bytes) {
  BEGIN(device);
  return copy(stream, to, false, from, true, bytes, "a copy to the device");
}

static int32_t copy_to_host(void *device, void *stream, void *to,
                            const void *from, int64_t bytes) {
  BEGIN(device);
  return copy(stream, to, true, from, false, bytes, "a copy to the host");
}

static int32_t copy_on_device(void *device, void *stream, void *to,
                              const void *from, int64_t bytes) {
  BEGIN(device);
  return copy(stream, to, false, from, false, bytes, "a copy on the device");
}

static int32_t clear(void *device, void *stream, void *memory, int64_t bytes) {
  BEGIN(device);
  FakeAccess access = {memory, bytes, FAKE_WRITES};
  int isHost = false;
  return launch(stream, zero, &access, &isHost, 1, &bytes, 1, "clear");
}

static int32_t record_event(void *device, void *handle, void *which) {
  BEGIN(device);
  Event *event = handle;
  Stream *stream = which;
  event->position = (Position){stream, stream->numEnqueued};
  event->clock = stream->clock;
  join(&event->clock, &((Device *)device)->host);
  return 0;
}

static int32_t stream_wait(void *device, void *which, void *handle) {
  BEGIN(device);
  Stream *stream = which;
  Event *event = handle;
  join(&stream->clock, &event->clock);
  enqueue(stream, (Operation){.after = event->position});
  return 0;
}

static int32_t host_wait(void *device, void *event) {
  BEGIN(device);
  join(&((Device *)device)->host, &((Event *)event)->clock);
  waitFor(device, ((Event *)event)->position);
  return 0;
}

static int32_t synchronize(void *device, void *which) {
  int32_t begun = beginCall(device, __func__);
  if (begun < 0)
    return 0;
  Stream *stream = which;
  join(&((Device *)device)->host, &stream->clock);
  waitFor(device, (Position){stream, stream->numEnqueued});
  return begun;
}

PipeschedDevice pipesched_device_v1 = {
    PIPESCHED_DEVICE_VERSION,
    sizeof(PipeschedDevice),
    0,
    open_device,
    close_device,
    attach,
    last_error,
    allocate,
    release,
    allocate_host,
    release_host,
    create_stream,
    destroy_stream,
    create_event,
    destroy_event,
    copy_to_device,
    copy_to_host,
    copy_on_device,
    clear,
    record_event,
    stream_wait,
    host_wait,
    synchronize,
};

__attribute__((constructor)) static void readFlags(void) {
  pipesched_device_v1.flags = strtoul(setting("FAKE_FLAGS", "0"), NULL, 0);
}
