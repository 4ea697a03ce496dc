//===- hidden.c - Forward and input gradient of a hidden layer ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that mlp.mlir alongside this file names as extern functions. Each
// tensor is a pointer and its sizes; arguments come before results; the stream
// is for accelerators (docs/Stages.md). They work for all sizes.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>

/// Returned where sizes do not belong together.
enum { BAD_SIZES = 1 };

/// y = max(x w + b, 0)
int32_t hidden(const float *w, int64_t w_rows, int64_t w_columns,
               const float *b, int64_t b_size, const float *x, int64_t x_rows,
               int64_t x_columns, float *y, int64_t y_rows, int64_t y_columns,
               void *stream) {
  (void)stream;
  if (x_columns != w_rows || b_size != w_columns || y_rows != x_rows ||
      y_columns != w_columns)
    return BAD_SIZES;
  for (int64_t i = 0; i < y_rows; ++i) {
    float *row = y + i * y_columns;
    for (int64_t j = 0; j < y_columns; ++j)
      row[j] = b[j];
    for (int64_t k = 0; k < x_columns; ++k)
      for (int64_t j = 0; j < y_columns; ++j)
        row[j] += x[i * x_columns + k] * w[k * w_columns + j];
    for (int64_t j = 0; j < y_columns; ++j)
      row[j] = row[j] > 0 ? row[j] : 0;
  }
  return 0;
}

/// dz = dy where y > 0, else 0; dx = dz w^T
int32_t hidden_input(const float *w, int64_t w_rows, int64_t w_columns,
                     const float *y, int64_t y_rows, int64_t y_columns,
                     const float *dy, int64_t dy_rows, int64_t dy_columns,
                     float *dx, int64_t dx_rows, int64_t dx_columns, float *dz,
                     int64_t dz_rows, int64_t dz_columns, void *stream) {
  (void)stream;
  if (y_columns != w_columns || dx_columns != w_rows || dx_rows != y_rows ||
      dy_rows != y_rows || dy_columns != y_columns || dz_rows != y_rows ||
      dz_columns != y_columns)
    return BAD_SIZES;
  for (int64_t i = 0; i < y_rows * y_columns; ++i)
    dz[i] = y[i] > 0 ? dy[i] : 0;
  for (int64_t i = 0; i < dx_rows; ++i)
    for (int64_t k = 0; k < dx_columns; ++k) {
      float sum = 0;
      for (int64_t j = 0; j < dz_columns; ++j)
        sum += dz[i * dz_columns + j] * w[k * w_columns + j];
      dx[i * dx_columns + k] = sum;
    }
  return 0;
}
