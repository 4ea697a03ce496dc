//===- device-kernels.c - Kernels of device.mlir --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Extern functions that launch a kernel and return. A layer is y = w x + 1, all
// of them of as many numbers.
//
//===----------------------------------------------------------------------===//

#include "fake-device.h"

#define READ(name) {name, name##_size * (int64_t)sizeof(float), FAKE_READS}
#define WRITE(name) {name, name##_size * (int64_t)sizeof(float), FAKE_WRITES}
#define BOTH(name)                                                             \
  {name, name##_size * (int64_t)sizeof(float), FAKE_READS | FAKE_WRITES}

static void forwardKernel(void *const *memory, const int64_t *numbers) {
  const float *w = memory[0], *x = memory[1];
  float *y = memory[2];
  for (int64_t i = 0; i < numbers[0]; ++i)
    y[i] = w[i] * x[i] + 1;
}

int32_t layer(const float *w, int64_t w_size, const float *x, int64_t x_size,
              float *y, int64_t y_size, void *stream) {
  FakeAccess accesses[] = {READ(w), READ(x), WRITE(y)};
  return fake_launch(stream, forwardKernel, accesses, 3, &y_size, 1);
}

static void inputKernel(void *const *memory, const int64_t *numbers) {
  const float *w = memory[0], *dy = memory[1];
  float *dx = memory[2];
  for (int64_t i = 0; i < numbers[0]; ++i)
    dx[i] = w[i] * dy[i];
}

int32_t layer_input(const float *w, int64_t w_size, const float *dy,
                    int64_t dy_size, float *dx, int64_t dx_size, void *stream) {
  FakeAccess accesses[] = {READ(w), READ(dy), WRITE(dx)};
  return fake_launch(stream, inputKernel, accesses, 3, &dx_size, 1);
}

static void weightKernel(void *const *memory, const int64_t *numbers) {
  const float *x = memory[0], *dy = memory[1];
  float *dw = memory[2];
  for (int64_t i = 0; i < numbers[0]; ++i)
    dw[i] += x[i] * dy[i];
}

int32_t layer_weight(const float *x, int64_t x_size, const float *dy,
                     int64_t dy_size, float *dw, int64_t dw_size,
                     void *stream) {
  FakeAccess accesses[] = {READ(x), READ(dy), BOTH(dw)};
  return fake_launch(stream, weightKernel, accesses, 3, &dw_size, 1);
}

static void updateKernel(void *const *memory, const int64_t *numbers) {
  float *w = memory[0];
  const float *dw = memory[1];
  for (int64_t i = 0; i < numbers[0]; ++i)
    w[i] -= 0.01f * dw[i];
}

int32_t layer_update(float *w, int64_t w_size, const float *dw, int64_t dw_size,
                     void *stream) {
  FakeAccess accesses[] = {BOTH(w), READ(dw)};
  return fake_launch(stream, updateKernel, accesses, 2, &w_size, 1);
}

static void dataKernel(void *const *memory, const int64_t *numbers) {
  float *x = memory[0];
  for (int64_t i = 0; i < numbers[0]; ++i)
    x[i] = (float)((i + 3 * numbers[1] + 5 * numbers[2]) % 7) / 8;
}

int32_t samples(int64_t microbatch, int64_t step, float *x, int64_t x_size,
                void *stream) {
  FakeAccess accesses[] = {WRITE(x)};
  const int64_t numbers[] = {x_size, microbatch, step};
  return fake_launch(stream, dataKernel, accesses, 1, numbers, 3);
}

static void lossKernel(void *const *memory, const int64_t *numbers) {
  const float *y = memory[0];
  float *loss = memory[1], *dy = memory[2];
  *loss = 0;
  for (int64_t i = 0; i < numbers[0]; ++i) {
    dy[i] = y[i] / (float)numbers[0];
    *loss += y[i] * dy[i] / 2;
  }
}

int32_t loss_of(const float *y, int64_t y_size, float *loss, float *dy,
                int64_t dy_size, void *stream) {
  const int64_t loss_size = 1;
  FakeAccess accesses[] = {READ(y), WRITE(loss), WRITE(dy)};
  return fake_launch(stream, lossKernel, accesses, 3, &y_size, 1);
}
