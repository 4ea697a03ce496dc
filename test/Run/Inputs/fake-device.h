//===- fake-device.h - Kernels of the device of the tests ---------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What stands for <<<..>>> in the kernels of the tests. Each launch says which
// memory it reads and writes, so that the device can check the order.
//
//===----------------------------------------------------------------------===//

#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stdint.h>

enum { FAKE_READS = 1, FAKE_WRITES = 2, FAKE_MAX = 8 };

typedef struct FakeAccess {
  const void *memory;
  int64_t bytes;
  int mode;
} FakeAccess;

/// A kernel sees its memory where the device has it.
typedef void (*FakeKernel)(void *const *memory, const int64_t *numbers);

/// Launches a kernel on a stream, or runs it here if that is NULL. Returns 0.
int32_t fake_launch(void *stream, FakeKernel kernel, const FakeAccess *accesses,
                    int num_accesses, const int64_t *numbers, int num_numbers);

#endif // FAKE_DEVICE_H
