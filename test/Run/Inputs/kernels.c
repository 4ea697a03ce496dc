//===- kernels.c - Kernels of extern.mlir ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of extern.mlir: y = factor * x + step, for all sizes.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>

int32_t scale(const float *x, int64_t rows, int64_t columns, int64_t step,
              float factor, float *y, int64_t y_rows, int64_t y_columns,
              void *stream) {
  if (rows != y_rows || columns != y_columns || stream)
    return 1;
  for (int64_t i = 0; i < rows * columns; ++i)
    y[i] = factor * x[i] + (float)step;
  return 0;
}

int32_t scale_once(const float *x, int64_t rows, int64_t columns, int64_t step,
                   float factor, float *y, int64_t y_rows, int64_t y_columns,
                   void *stream) {
  return step > 0 ? 7
                  : scale(x, rows, columns, step, factor, y, y_rows, y_columns,
                          stream);
}
