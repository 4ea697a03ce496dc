//===- blas.c - A BLAS library of the test ----------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Says when it multiplies for the first time. With -DWRONG its f64 products are
// wrong in one element; with -DSKIPS_ZEROS it loses the NaN of 0 * NaN.
//
//===----------------------------------------------------------------------===//

#include <stdio.h>

void openblas_set_num_threads(int threads) {
  static int isSaid;
  if (threads == 1 && !isSaid++)
    fprintf(stderr, "the library of the test has one thread\n");
}

#ifdef SKIPS_ZEROS
#define SKIPS(number) ((number) == 0)
#else
#define SKIPS(number) 0
#endif

#define GEMM(name, Real, isWrong)                                              \
  void name(int order, int turnA, int turnB, int m, int n, int k, Real alpha,  \
            const Real *a, int lda, const Real *b, int ldb, Real beta,         \
            Real *c, int ldc) {                                                \
    static int isSaid;                                                         \
    if (!isSaid++)                                                             \
      fprintf(stderr, "the library of the test multiplies\n");                 \
    for (int i = 0; i < m; ++i)                                                \
      for (int j = 0; j < n; ++j) {                                            \
        Real sum = 0;                                                          \
        for (int l = 0; l < k; ++l) {                                          \
          Real x = turnA == 112 ? a[l * lda + i] : a[i * lda + l];             \
          Real y = turnB == 112 ? b[j * ldb + l] : b[l * ldb + j];             \
          if (!SKIPS(y))                                                       \
            sum += x * y;                                                      \
        }                                                                      \
        c[i * ldc + j] = alpha * sum + beta * c[i * ldc + j];                  \
      }                                                                        \
    if (isWrong)                                                               \
      c[(m - 1) * ldc + n - 1] += 1;                                           \
    (void)order;                                                               \
  }

#ifdef WRONG
GEMM(cblas_dgemm, double, 1)
#else
GEMM(cblas_dgemm, double, 0)
#endif
GEMM(cblas_sgemm, float, 0)
