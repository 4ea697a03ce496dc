//===- Matmul.c - Products of matrices ------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008), with the names of BLIS:
//
//   for summands           in blocks of DEPTH
//     for rows of C        in blocks of BLOCK_ROWS   A: in the second cache
//       for columns of C   in panels of COLUMNS      B: packed, in the first
//         for tiles of ROWS x COLUMNS                C: in registers
//
// A is packed where that is worth it. While tiles are computed with a panel of
// B, they fetch the next one into the second cache: B is packed from there.
//
// Each element is c = fma(a[k], b[k], c) for k in order, then perhaps one more
// summand, and nothing else: the same bits from each of the kernels below, and
// from a plain loop.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// A tile of registers is named row by row, since a compiler keeps arrays in
// registers only if it unrolls all loops over them. AT(i) is where row i of A
// is.
#define ROWS_OF_1(X, AT) X(0, AT)
#define ROWS_OF_2(X, AT) ROWS_OF_1(X, AT) X(1, AT)
#define ROWS_OF_3(X, AT) ROWS_OF_2(X, AT) X(2, AT)
#define ROWS_OF_4(X, AT) ROWS_OF_3(X, AT) X(3, AT)
#define ROWS_OF_5(X, AT) ROWS_OF_4(X, AT) X(4, AT)
#define ROWS_OF_6(X, AT) ROWS_OF_5(X, AT) X(5, AT)
#define ROWS_OF_7(X, AT) ROWS_OF_6(X, AT) X(6, AT)
#define ROWS_OF_8(X, AT) ROWS_OF_7(X, AT) X(7, AT)
#define ROWS_OF_9(X, AT) ROWS_OF_8(X, AT) X(8, AT)
#define ROWS_OF_10(X, AT) ROWS_OF_9(X, AT) X(9, AT)
#define ROWS_OF_11(X, AT) ROWS_OF_10(X, AT) X(10, AT)
#define ROWS_OF_12(X, AT) ROWS_OF_11(X, AT) X(11, AT)
#define ROWS_OF_13(X, AT) ROWS_OF_12(X, AT) X(12, AT)
#define ROWS_OF_14(X, AT) ROWS_OF_13(X, AT) X(13, AT)

// DO(1) to DO(the number in the name)
#define EACH_OF_4(DO) DO(1) DO(2) DO(3) DO(4)
#define EACH_OF_6(DO) EACH_OF_4(DO) DO(5) DO(6)
#define EACH_OF_14(DO)                                                         \
  EACH_OF_6(DO) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14)

#define LOAD_ROW(i, AT)                                                        \
  Vector left##i = LOAD(of->start + i * of->startStride),                      \
         right##i = LOAD(of->start + i * of->startStride + LANES);
#define ADD_ROW(i, AT)                                                         \
  {                                                                            \
    Vector factor = SPLAT(a[AT(i)]);                                           \
    left##i = FMA(factor, left, left##i);                                      \
    right##i = FMA(factor, right, right##i);                                   \
  }
#define END_ROW(i, AT)                                                         \
  left##i = ADD(left##i, LOAD(of->end + i * of->endStride));                   \
  right##i = ADD(right##i, LOAD(of->end + i * of->endStride + LANES));
#define STORE_ROW(i, AT)                                                       \
  STORE(of->c + i * of->stride, left##i);                                      \
  STORE(of->c + i * of->stride + LANES, right##i);
// Rows of C lie far apart: fetch those of the next tile, but one at a time,
// since loads would wait for all at once. Also fetch what is packed next.
#define TILE_IN_REGISTERS(EACH_ROW, rows, AT)                                  \
  const Real *a = of->a, *b = of->b;                                           \
  const int64_t aRow = of->aRow, aStep = of->aStep, part = of->depth / (rows); \
  (void)aRow;                                                                  \
  EACH_ROW(LOAD_ROW, AT)                                                       \
  for (int64_t i = 0; i <= (rows); ++i) {                                      \
    int64_t steps = i < (rows) ? part : of->depth - part * (rows);             \
    if (i < (rows)) {                                                          \
      __builtin_prefetch(of->nextC + i * of->stride, 1);                       \
      __builtin_prefetch(of->nextC + i * of->stride + COLUMNS - 1, 1);         \
      if (of->nextStart) {                                                     \
        __builtin_prefetch(of->nextStart + i * of->startStride);               \
        __builtin_prefetch(of->nextStart + i * of->startStride + COLUMNS - 1); \
      }                                                                        \
      uintptr_t next = of->next + (uintptr_t)i * of->nextStep;                 \
      __builtin_prefetch((const void *)next, 0, 2);                            \
      __builtin_prefetch((const void *)(next + 64), 0, 2);                     \
    }                                                                          \
    for (; steps > 0; --steps, a += aStep, b += COLUMNS) {                     \
      Vector left = LOAD(b), right = LOAD(b + LANES);                          \
      EACH_ROW(ADD_ROW, AT)                                                    \
    }                                                                          \
  }                                                                            \
  if (of->end) {                                                               \
    EACH_ROW(END_ROW, AT)                                                      \
  }                                                                            \
  EACH_ROW(STORE_ROW, AT)

#if defined(__x86_64__)

// Squares of elements, transposed: to[k * width + j] = from[j * stride + k].
// Left to itself, the compiler scatters elements one by one.

#define AVX __attribute__((target("avx"), always_inline)) static inline

AVX void transpose4F32(float *to, int64_t width, const float *from,
                       int64_t stride) {
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + stride),
         c = _mm_loadu_ps(from + 2 * stride),
         d = _mm_loadu_ps(from + 3 * stride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + width, b);
  _mm_storeu_ps(to + 2 * width, c);
  _mm_storeu_ps(to + 3 * width, d);
}

/// Four elements at `low`, then four at `high`.
AVX __m256 load2x4F32(const float *low, const float *high) {
  __m256 first = _mm256_castps128_ps256(_mm_loadu_ps(low));
  return _mm256_insertf128_ps(first, _mm_loadu_ps(high), 1);
}

/// The left four columns of a square of 8 become the first four rows.
AVX void transposeHalf8F32(float *to, int64_t width, const float *from,
                           int64_t stride) {
  const float *low = from + 4 * stride;
  __m256 a = load2x4F32(from, low);
  __m256 b = load2x4F32(from + stride, low + stride);
  __m256 c = load2x4F32(from + 2 * stride, low + 2 * stride);
  __m256 d = load2x4F32(from + 3 * stride, low + 3 * stride);
  __m256d left = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
  __m256d right = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
  _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(left, right)));
  _mm256_storeu_ps(to + width,
                   _mm256_castpd_ps(_mm256_unpackhi_pd(left, right)));
  left = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  right = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
  _mm256_storeu_ps(to + 2 * width,
                   _mm256_castpd_ps(_mm256_unpacklo_pd(left, right)));
  _mm256_storeu_ps(to + 3 * width,
                   _mm256_castpd_ps(_mm256_unpackhi_pd(left, right)));
}

AVX void transpose8F32(float *to, int64_t width, const float *from,
                       int64_t stride) {
  transposeHalf8F32(to, width, from, stride);
  transposeHalf8F32(to + 4 * width, width, from + 4, stride);
}

AVX __m256d load2x2F64(const double *low, const double *high) {
  __m256d first = _mm256_castpd128_pd256(_mm_loadu_pd(low));
  return _mm256_insertf128_pd(first, _mm_loadu_pd(high), 1);
}

AVX void transpose4F64(double *to, int64_t width, const double *from,
                       int64_t stride) {
  for (int64_t k = 0; k < 4; k += 2, from += 2, to += 2 * width) {
    __m256d left = load2x2F64(from, from + 2 * stride);
    __m256d right = load2x2F64(from + stride, from + 3 * stride);
    _mm256_storeu_pd(to, _mm256_unpacklo_pd(left, right));
    _mm256_storeu_pd(to + width, _mm256_unpackhi_pd(left, right));
  }
}

#define NAME(x) x##Avx512F32
#define TARGET __attribute__((target("avx512f")))
#define Real float
#define ROWS 14
#define COLUMNS 32
#define DEPTH 256
#define BLOCK_ROWS 512
#define LANES 16
#define Vector __m512
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SPLAT _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define ADD _mm512_add_ps
#define SQUARE 8
#define TRANSPOSE transpose8F32
#define EACH_HEIGHT EACH_OF_14
#define CODE_OF_TILE(rows, AT) TILE_IN_REGISTERS(ROWS_OF_##rows, rows, AT)
#include "MatmulTile.h"

#define NAME(x) x##Avx512F64
#define TARGET __attribute__((target("avx512f")))
#define Real double
#define ROWS 14
#define COLUMNS 16
#define DEPTH 256
#define BLOCK_ROWS 256
#define LANES 8
#define Vector __m512d
#define LOAD _mm512_loadu_pd
#define STORE _mm512_storeu_pd
#define SPLAT _mm512_set1_pd
#define FMA _mm512_fmadd_pd
#define ADD _mm512_add_pd
#define SQUARE 4
#define TRANSPOSE transpose4F64
#define EACH_HEIGHT EACH_OF_14
#define CODE_OF_TILE(rows, AT) TILE_IN_REGISTERS(ROWS_OF_##rows, rows, AT)
#include "MatmulTile.h"

#define NAME(x) x##Avx2F32
#define TARGET __attribute__((target("avx2,fma")))
#define Real float
#define ROWS 6
#define COLUMNS 16
#define DEPTH 256
#define BLOCK_ROWS 256
#define LANES 8
#define Vector __m256
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SPLAT _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define ADD _mm256_add_ps
#define SQUARE 4
#define TRANSPOSE transpose4F32
#define EACH_HEIGHT EACH_OF_6
#define CODE_OF_TILE(rows, AT) TILE_IN_REGISTERS(ROWS_OF_##rows, rows, AT)
#include "MatmulTile.h"

#define NAME(x) x##Avx2F64
#define TARGET __attribute__((target("avx2,fma")))
#define Real double
#define ROWS 6
#define COLUMNS 8
#define DEPTH 256
#define BLOCK_ROWS 192
#define LANES 4
#define Vector __m256d
#define LOAD _mm256_loadu_pd
#define STORE _mm256_storeu_pd
#define SPLAT _mm256_set1_pd
#define FMA _mm256_fmadd_pd
#define ADD _mm256_add_pd
#define SQUARE 4
#define TRANSPOSE transpose4F64
#define EACH_HEIGHT EACH_OF_6
#define CODE_OF_TILE(rows, AT) TILE_IN_REGISTERS(ROWS_OF_##rows, rows, AT)
#include "MatmulTile.h"

#endif // __x86_64__

// Other processors: the compiler makes vectors of the innermost loop, where it
// knows of an instruction for fma.
#define TILE_OF_LOOPS(FMA, rows, AT)                                           \
  const Real *a = of->a, *b = of->b;                                           \
  const int64_t aRow = of->aRow;                                               \
  (void)aRow;                                                                  \
  Real sums[rows][COLUMNS];                                                    \
  for (int64_t i = 0; i < (rows); ++i)                                         \
    for (int64_t j = 0; j < COLUMNS; ++j)                                      \
      sums[i][j] = of->start[i * of->startStride + j];                         \
  for (int64_t k = 0; k < of->depth; ++k, a += of->aStep, b += COLUMNS)        \
    for (int64_t i = 0; i < (rows); ++i)                                       \
      for (int64_t j = 0; j < COLUMNS; ++j)                                    \
        sums[i][j] = FMA(a[AT(i)], b[j], sums[i][j]);                          \
  for (int64_t i = 0; i < (rows); ++i)                                         \
    for (int64_t j = 0; j < COLUMNS; ++j)                                      \
      of->c[i * of->stride + j] =                                              \
          of->end ? sums[i][j] + of->end[i * of->endStride + j] : sums[i][j];

#define NAME(x) x##PlainF32
#define TARGET
#define Real float
#define ROWS 4
#define COLUMNS 16
#define DEPTH 256
#define BLOCK_ROWS 256
#define EACH_HEIGHT EACH_OF_4
#define CODE_OF_TILE(rows, AT) TILE_OF_LOOPS(fmaf, rows, AT)
#include "MatmulTile.h"

#define NAME(x) x##PlainF64
#define TARGET
#define Real double
#define ROWS 4
#define COLUMNS 8
#define DEPTH 256
#define BLOCK_ROWS 192
#define EACH_HEIGHT EACH_OF_4
#define CODE_OF_TILE(rows, AT) TILE_OF_LOOPS(fma, rows, AT)
#include "MatmulTile.h"

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

int32_t rtMatmulKernels(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f"))
    return RT_MATMUL_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return RT_MATMUL_AVX2;
#endif
  return RT_MATMUL_PLAIN;
}

typedef void (*Multiply)(const struct RtMatmul *, void *);

static Multiply chooseMultiply(int32_t elementType, int32_t kernels) {
  bool isDouble = elementType == PIPESCHED_RT_F64;
#if defined(__x86_64__)
  if (kernels == RT_MATMUL_AVX512)
    return isDouble ? multiplyAvx512F64 : multiplyAvx512F32;
  if (kernels == RT_MATMUL_AVX2)
    return isDouble ? multiplyAvx2F64 : multiplyAvx2F32;
#endif
  (void)kernels;
  return isDouble ? multiplyPlainF64 : multiplyPlainF32;
}

//===----------------------------------------------------------------------===//
// Memory for packed blocks
//===----------------------------------------------------------------------===//

/// Room for a block and a panel of any kernel.
enum { packedBytes = (512 + 32) * 256 * sizeof(float) };

static pthread_once_t bufferOnce = PTHREAD_ONCE_INIT;
static pthread_key_t bufferKey;
static bool hasBufferKey;

static void makeBufferKey(void) {
  hasBufferKey = pthread_key_create(&bufferKey, free) == 0;
}

/// Each thread keeps its buffer until it ends: new pages for each product would
/// cost as much as a small one. Returns NULL if there is no memory.
static void *getBuffer(void) {
  pthread_once(&bufferOnce, makeBufferKey);
  if (!hasBufferKey)
    return NULL;
  void *buffer = pthread_getspecific(bufferKey);
  if (buffer)
    return buffer;
  if (posix_memalign(&buffer, 64, packedBytes))
    return NULL;
  if (pthread_setspecific(bufferKey, buffer)) {
    free(buffer);
    return NULL;
  }
  return buffer;
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// Without a buffer: slow, but the same numbers.
#define MULTIPLY_IN_PLACE(Real, FMA)                                           \
  for (int64_t i = 0; i < of->m; ++i)                                          \
    for (int64_t j = 0; j < of->n; ++j) {                                      \
      const Real *start = of->start, *end = of->end;                           \
      Real sum = start ? start[i * of->startRow + j * of->startColumn] : 0;    \
      for (int64_t k = 0; k < of->k; ++k)                                      \
        sum = FMA(((const Real *)of->a)[i * of->aRow + k * of->aColumn],       \
                  ((const Real *)of->b)[k * of->bRow + j * of->bColumn], sum); \
      if (end)                                                                 \
        sum += end[i * of->endRow + j * of->endColumn];                        \
      ((Real *)of->c)[i * of->cRow + j * of->cColumn] = sum;                   \
    }

static void multiplyInPlace(const struct RtMatmul *of, bool isDouble) {
  if (isDouble)
    MULTIPLY_IN_PLACE(double, fma)
  else
    MULTIPLY_IN_PLACE(float, fmaf)
}

void rtMatmul(int32_t elementType, int32_t kernels, struct RtMatmul of) {
  // Tiles want contiguous rows of C: transpose the product where columns are.
  if (of.cColumn != 1 && of.cRow == 1) {
    struct RtMatmul turned = {
        of.n,       of.m,         of.k,      of.b,           of.a,
        of.c,       of.bColumn,   of.bRow,   of.aColumn,     of.aRow,
        of.cColumn, of.cRow,      of.start,  of.startColumn, of.startRow,
        of.end,     of.endColumn, of.endRow, of.partial};
    of = turned;
  }
  void *buffer = getBuffer();
  if (buffer && of.k > 0)
    chooseMultiply(elementType, kernels)(&of, buffer);
  else
    multiplyInPlace(&of, elementType == PIPESCHED_RT_F64);
}

void pipesched_rt_matmul(int32_t element_type, int64_t m, int64_t n, int64_t k,
                         const void *a, int64_t a_row, int64_t a_column,
                         const void *b, int64_t b_row, int64_t b_column,
                         void *c, int64_t c_row, int64_t c_column,
                         const void *start, int64_t start_row,
                         int64_t start_column, const void *end, int64_t end_row,
                         int64_t end_column, void *partial) {
  struct RtMatmul of = {m,     n,        k,          a,         b,
                        c,     a_row,    a_column,   b_row,     b_column,
                        c_row, c_column, start,      start_row, start_column,
                        end,   end_row,  end_column, partial};
  rtMatmul(element_type, rtMatmulKernels(), of);
}
