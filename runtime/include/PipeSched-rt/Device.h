//===- Device.h - What a worker needs of an accelerator -----------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device is a table of functions: memory, streams, copies and events. The
// runtime calls them; kernels are launched by extern functions, on the stream
// that they are given. The runtime has a device of its own, "cpu"; others are
// shared libraries with the symbol `pipesched_device_v1`. docs/Devices.md says
// what runs where, and which calls of CUDA and HIP implement each entry.
//
// Streams. What is enqueued on one stream runs in this order. There is no order
// between streams but by events. Functions that take a stream return at once;
// their memory must be left alone until the host has waited for the stream or
// for an event behind them.
//
// Events. A wait is for the last record of the event in front of the call of
// the wait. Recording the event again does not change waits that were called
// before. An event that was never recorded has ended.
//
// Threads. A worker opens its own device, also where several share hardware.
// One thread at a time calls the functions of one device; it may be another
// thread later, which calls `attach` first. Devices of several workers are
// called at the same time.
//
// Errors. Functions return 0, or any other number after a failure. Then the
// runtime prints it with the text of `last_error`, and ends all workers. It
// still calls the functions that release and close. Asynchronous failures
// (of kernels, of copies) are returned by any later call, at the latest by
// `synchronize`.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RT_DEVICE_H
#define PIPESCHED_RT_DEVICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this interface. A change that is not an addition at the end
/// of the table gets another number, and another symbol.
#define PIPESCHED_DEVICE_VERSION 1

/// What a device can do.
enum {
  /// Code of the processor may read and write memory of `allocate`, while no
  /// stream uses it: memory of the host, or managed memory. Without this flag
  /// stages need extern functions alone.
  PIPESCHED_DEVICE_HOST_USES_MEMORY = 1,
  /// Kernels may read and write any memory of the host, as that of malloc.
  /// Without this flag a stage may not call extern functions on temporaries
  /// of its own code.
  PIPESCHED_DEVICE_KERNELS_USE_HOST = 2,
  /// Extern functions compute in the calling thread. They are given no stream;
  /// the runtime waits for the compute stream before it calls them.
  PIPESCHED_DEVICE_KERNELS_ON_HOST = 4
};

/// All pointers are set. `device`, `stream` and `event` are handles of the
/// implementation. Sizes are bytes, 0 or more, and memory of size 0 may be
/// NULL. Whoever calls a function that opens, creates or allocates hands the
/// handle back to the function that undoes it, before `close`.
typedef struct PipeschedDevice {
  /// PIPESCHED_DEVICE_VERSION, and sizeof(PipeschedDevice) of the header that
  /// the implementation was compiled with.
  uint32_t version, bytes;
  /// PIPESCHED_DEVICE_HOST_USES_MEMORY and so on.
  uint64_t flags;

  /// Opens the device of worker `worker` (0 to `num_workers`, exclusive), for
  /// the calling thread. Under MPI each process opens that of its worker.
  int32_t (*open)(int32_t worker, int32_t num_workers, void **device);
  /// Closes a device. All of its memory, streams and events are released; a
  /// device may fail here if they are not. It is closed in any case.
  int32_t (*close)(void *device);
  /// Tells the device that the calling thread is going to use it, and that
  /// extern functions launch kernels from this thread.
  int32_t (*attach)(void *device);
  /// Returns the text of the last failure, one line: of this device, or, where
  /// `device` is NULL, of `open` and `close` in this thread. It may be NULL,
  /// and lives until the next call.
  const char *(*last_error)(void *device);

  /// Allocates memory of the device, aligned to 64 bytes or more. It holds
  /// anything. Addresses inside of it are computed by adding bytes.
  int32_t (*allocate)(void *device, int64_t bytes, void **memory);
  /// Frees it. Nothing uses it any more.
  int32_t (*release)(void *device, void *memory);
  /// Allocates memory of the host that copies of this device reach fast
  /// (pinned), aligned to 64 bytes or more. The processor reads and writes it.
  int32_t (*allocate_host)(void *device, int64_t bytes, void **memory);
  int32_t (*release_host)(void *device, void *memory);

  /// Creates a stream. Its handle is what extern functions are given.
  int32_t (*create_stream)(void *device, void **stream);
  /// Destroys a stream. All that was enqueued has ended.
  int32_t (*destroy_stream)(void *device, void *stream);
  int32_t (*create_event)(void *device, void **event);
  /// Destroys an event. No wait for it is under way.
  int32_t (*destroy_event)(void *device, void *event);

  /// Enqueue copies of memory of `allocate_host` to that of the device, back,
  /// and inside of the device. The two areas do not overlap.
  int32_t (*copy_to_device)(void *device, void *stream, void *to,
                            const void *from, int64_t bytes);
  int32_t (*copy_to_host)(void *device, void *stream, void *to,
                          const void *from, int64_t bytes);
  int32_t (*copy_on_device)(void *device, void *stream, void *to,
                            const void *from, int64_t bytes);
  /// Enqueues zeros into memory of the device.
  int32_t (*clear)(void *device, void *stream, void *memory, int64_t bytes);

  /// Records in the event all that was enqueued on the stream so far.
  int32_t (*record_event)(void *device, void *event, void *stream);
  /// What is enqueued on the stream later waits for the event. The host does
  /// not wait.
  int32_t (*stream_wait)(void *device, void *stream, void *event);
  /// The calling thread waits for the event.
  int32_t (*host_wait)(void *device, void *event);
  /// The calling thread waits for all that was enqueued on the stream, kernels
  /// of extern functions among it.
  int32_t (*synchronize)(void *device, void *stream);
} PipeschedDevice;

/// The name of the table, a visible symbol of a shared library:
///
///   const PipeschedDevice pipesched_device_v1 = {..};
#define PIPESCHED_DEVICE_SYMBOL "pipesched_device_v1"

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_RT_DEVICE_H
