//===- Blas.c - Products of matrices by a BLAS library --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library is loaded before the first product, so that programs link without
// it. After loading it multiplies small matrices with known products: OpenBLAS
// 0.3.21 has wrong kernels for some newer processors, and old libraries skip
// zeros, which loses the NaN of 0 * NaN.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The arguments of pipesched_rt_matmul.
struct Product {
  int32_t type;
  int64_t m, n, k;
  const void *a;
  int64_t aRow, aColumn;
  const void *b;
  int64_t bRow, bColumn;
  void *c;
  int64_t cRow, cColumn;
};

enum { rowMajor = 101, notTransposed = 111, transposed = 112 };

typedef void GemmF32(int, int, int, int, int, int, float, const float *, int,
                     const float *, int, float, float *, int);
typedef void GemmF64(int, int, int, int, int, int, double, const double *, int,
                     const double *, int, double, double *, int);

/// Functions of a library, or null pointers for plain loops.
struct Blas {
  GemmF32 *gemmF32;
  GemmF64 *gemmF64;
  void (*setThreads)(int);
  void (*setBlisThreads)(int64_t);
};

/// A matrix in the form of CBLAS. `leading` is 0 if it has no such form.
struct Operand {
  int order;
  int64_t leading;
};

static struct Operand operandOf(int64_t rows, int64_t columns, int64_t row,
                                int64_t column) {
  // The strides of a single row or column have no effect.
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1))
    return (struct Operand){notTransposed, rows == 1 ? columns : row};
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1))
    return (struct Operand){transposed, columns == 1 ? rows : column};
  return (struct Operand){notTransposed, 0};
}

/// Workers are threads or processes that share the cores, so each multiplies in
/// its own thread. Some libraries store the number per calling thread.
static void useOneThread(const struct Blas *blas) {
  if (blas->setThreads)
    blas->setThreads(1);
  if (blas->setBlisThreads)
    blas->setBlisThreads(1);
}

/// Multiplies with the library. Returns false if it does not support the
/// matrices.
static bool callBlas(const struct Blas *blas, const struct Product *of) {
  struct Operand a = operandOf(of->m, of->k, of->aRow, of->aColumn);
  struct Operand b = operandOf(of->k, of->n, of->bRow, of->bColumn);
  struct Operand c = operandOf(of->m, of->n, of->cRow, of->cColumn);
  if (c.order != notTransposed)
    return false;
  const int64_t sizes[] = {of->m,     of->n,     of->k,
                           a.leading, b.leading, c.leading};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i)
    if (sizes[i] < 1 || sizes[i] > INT_MAX)
      return false;
  int m = (int)of->m, n = (int)of->n, k = (int)of->k;
  int lda = (int)a.leading, ldb = (int)b.leading, ldc = (int)c.leading;
  if (of->type == PIPESCHED_RT_F64)
    blas->gemmF64(rowMajor, a.order, b.order, m, n, k, 1, of->a, lda, of->b,
                  ldb, 1, of->c, ldc);
  else
    blas->gemmF32(rowMajor, a.order, b.order, m, n, k, 1, of->a, lda, of->b,
                  ldb, 1, of->c, ldc);
  return true;
}

/// Parts of `b` that stay in the second-level cache.
enum { blockDepth = 64, blockColumns = 512 };

#define MULTIPLY_BY_LOOPS(Real)                                                \
  for (int64_t part = 0; part < of->k; part += blockDepth)                     \
    for (int64_t left = 0; left < of->n; left += blockColumns)                 \
      for (int64_t i = 0; i < of->m; ++i)                                      \
        for (int64_t k = part; k < of->k && k < part + blockDepth; ++k) {      \
          Real a = ((const Real *)of->a)[i * of->aRow + k * of->aColumn];      \
          const Real *b = (const Real *)of->b + k * of->bRow;                  \
          Real *c = (Real *)of->c + i * of->cRow;                              \
          for (int64_t j = left; j < of->n && j < left + blockColumns; ++j)    \
            c[j * of->cColumn] += a * b[j * of->bColumn];                      \
        }

static void multiplyByLoops(const struct Product *of) {
  if (of->type == PIPESCHED_RT_F64)
    MULTIPLY_BY_LOOPS(double)
  else
    MULTIPLY_BY_LOOPS(float)
}

//===----------------------------------------------------------------------===//
// Check of a library
//===----------------------------------------------------------------------===//

/// Returns numbers that are added and multiplied without rounding.
static double numberAt(int64_t i, int64_t j) {
  return (double)((i * 7 + j * 13) % 17 - 8);
}

static void writeNumber(void *to, int32_t type, int64_t place, double number) {
  if (type == PIPESCHED_RT_F64)
    ((double *)to)[place] = number;
  else
    ((float *)to)[place] = (float)number;
}

/// Whether a library gives the same bits as loops for a product of this size.
/// Each matrix has a NaN, which is multiplied by zeros of the other.
static bool isRightFor(const struct Blas *blas, int32_t type, int64_t m,
                       int64_t n, int64_t k, bool turnsA, bool turnsB) {
  size_t size = (size_t)rtElementBytes(type);
  int64_t count = m * k + k * n + 2 * m * n;
  char *memory = calloc((size_t)count, size);
  if (!memory)
    return false;
  char *b = memory + (size_t)(m * k) * size;
  char *found = b + (size_t)(k * n) * size;
  char *wanted = found + (size_t)(m * n) * size;
  for (int64_t i = 0; i < m * k; ++i)
    writeNumber(memory, type, i, numberAt(i, 1));
  for (int64_t i = 0; i < k * n; ++i)
    writeNumber(b, type, i, numberAt(2, i));
  writeNumber(memory, type, 3, (double)NAN);
  writeNumber(b, type, 5, (double)NAN);
  struct Product product = {type,
                            m,
                            n,
                            k,
                            memory,
                            turnsA ? 1 : k,
                            turnsA ? m : 1,
                            b,
                            turnsB ? 1 : n,
                            turnsB ? k : 1,
                            found,
                            n,
                            1};
  callBlas(blas, &product);
  product.c = wanted;
  multiplyByLoops(&product);
  bool isRight = true;
  for (int64_t i = 0; i < m * n; ++i) {
    double numbers[2];
    rtReadNumbers(&numbers[0], found + (size_t)i * size, 1, type);
    rtReadNumbers(&numbers[1], wanted + (size_t)i * size, 1, type);
    isRight &=
        numbers[0] == numbers[1] || (isnan(numbers[0]) && isnan(numbers[1]));
  }
  free(memory);
  return isRight;
}

/// Tests several sizes and orders, because libraries have other kernels for
/// small matrices, and for each order.
static bool isRight(const struct Blas *blas) {
  static const int64_t sizes[][3] = {{37, 29, 41}, {70, 150, 300}, {1, 33, 65}};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i)
    for (int order = 0; order < 4; ++order)
      for (int32_t type = PIPESCHED_RT_F32; type <= PIPESCHED_RT_F64; ++type)
        if (!isRightFor(blas, type, sizes[i][0], sizes[i][1], sizes[i][2],
                        order & 1, order & 2))
          return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// BLIS comes first: it is as fast as OpenBLAS, correct on processors on which
/// OpenBLAS is not, and single-threaded by default. The last two are the
/// system's names for its BLAS, which may be slow.
static const char *const libraries[] = {"libblis.so.4", "libblis.so",
                                        "libopenblas.so.0", "libcblas.so.3",
                                        "libblas.so.3"};

static const char noLibrary[] = "none";

bool rtWarnsOfBlas = true;
static struct Blas blas;
static char loadError[rtTextBytes];
static pthread_once_t loadOnce = PTHREAD_ONCE_INIT;

/// Finds a function. A pointer to an object cannot represent it.
#define FIND(place, handle, name) *(void **)&(place) = dlsym(handle, name)

/// Loads a library into `blas`. Returns false with a text: it does not exist;
/// it has no CBLAS; its products are wrong.
static bool loadLibrary(const char *name, char text[rtTextBytes]) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    snprintf(text, rtTextBytes, "%s", dlerror());
    return false;
  }
  struct Blas found = {NULL, NULL, NULL, NULL};
  FIND(found.gemmF32, handle, "cblas_sgemm");
  FIND(found.gemmF64, handle, "cblas_dgemm");
  FIND(found.setThreads, handle, "openblas_set_num_threads");
  if (!found.setThreads)
    FIND(found.setThreads, handle, "MKL_Set_Num_Threads");
  FIND(found.setBlisThreads, handle, "bli_thread_set_num_threads");
  useOneThread(&found);
  bool isUsable = found.gemmF32 && found.gemmF64;
  if (!isUsable)
    snprintf(text, rtTextBytes, "%s: has no cblas_sgemm and cblas_dgemm", name);
  else if (!(isUsable = isRight(&found)))
    snprintf(text, rtTextBytes, "%s: computes wrong products of matrices",
             name);
  if (isUsable)
    blas = found;
  else
    dlclose(handle);
  return isUsable;
}

static void loadAny(void) {
  const char *named = getenv("PIPESCHED_BLAS");
  if (named && !strcmp(named, noLibrary))
    return;
  char text[rtTextBytes];
  if (named && *named) {
    if (!loadLibrary(named, text))
      snprintf(loadError, rtTextBytes, "PIPESCHED_BLAS: %.400s", text);
    return;
  }
  for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); ++i) {
    if (loadLibrary(libraries[i], text))
      return;
    if (rtWarnsOfBlas && strstr(text, "wrong"))
      fprintf(stderr, "warning: %s; the next library is tried\n", text);
  }
  if (rtWarnsOfBlas)
    fprintf(stderr,
            "warning: no BLAS library is found (Debian: libblis4-serial);"
            " products of matrices are slow loops\n");
}

const char *pipesched_rt_load_blas(void) {
  const char *named = getenv("PIPESCHED_BLAS");
  if (named && *named)
    pthread_once(&loadOnce, loadAny);
  return *loadError ? loadError : NULL;
}

void pipesched_rt_matmul(int32_t element_type, int64_t m, int64_t n, int64_t k,
                         const void *a, int64_t a_row, int64_t a_column,
                         const void *b, int64_t b_row, int64_t b_column,
                         void *c, int64_t c_row, int64_t c_column) {
  pthread_once(&loadOnce, loadAny);
  static _Thread_local bool isSingle;
  if (!isSingle)
    useOneThread(&blas);
  isSingle = true;
  struct Product product = {element_type, m, n,     k,        a, a_row,
                            a_column,     b, b_row, b_column, c, c_row,
                            c_column};
  // CBLAS needs contiguous rows of C, which the transposed product has.
  if (c_column != 1 && c_row == 1)
    product = (struct Product){element_type, n, m,        k,     b, b_column,
                               b_row,        a, a_column, a_row, c, c_column,
                               c_row};
  if (!blas.gemmF32 || !callBlas(&blas, &product))
    multiplyByLoops(&product);
}
