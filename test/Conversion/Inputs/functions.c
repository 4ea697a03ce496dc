//===- functions.c - Errors of functions of f32 ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares functions of f32 with those of double, for every 1021st f32 and at
// the edges, and prints the largest error in units in the last place.
//
//===----------------------------------------------------------------------===//

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

float exp_f32(float), erf_f32(float), tanh_f32(float);

static float fromBits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

/// The distance of floats at `wanted`; that of denormal ones is the least.
static double unit(double wanted) {
  int exponent;
  frexp(wanted, &exponent);
  return ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static double error(float found, double wanted) {
  if (isnan(wanted) || isnan(found))
    return isnan(wanted) && isnan(found) ? 0 : INFINITY;
  if (isinf((float)wanted) || isinf(found))
    return (float)wanted == found ? 0 : INFINITY;
  return fabs(found - wanted) / unit(wanted);
}

static void compare(const char *name, float (*f)(float), double (*g)(double)) {
  static const float edges[] = {0,
                                -0.0f,
                                0x1p-149f,
                                0x1p-126f,
                                0.6f,
                                0.92f,
                                4,
                                10,
                                88.7228317f,
                                88.7228394f,
                                -87.3365479f,
                                -103.972076f,
                                -103.972084f,
                                INFINITY,
                                -INFINITY,
                                NAN};
  double worst = 0;
  float at = 0;
  uint32_t numEdges = sizeof(edges) / sizeof(*edges);
  for (uint64_t i = 0; i < (1ull << 32) + 1021 * numEdges; i += 1021) {
    float x = i < 1ull << 32 ? fromBits((uint32_t)i)
                             : edges[(i - (1ull << 32)) / 1021];
    double found = error(f(x), g(x));
    if (found > worst) {
      worst = found;
      at = x;
    }
  }
  int signs = signbit(f(-0.0f)) == signbit(g(-0.0));
  printf("%s: %s (%.3f units at %a)%s\n", name,
         worst <= 1.5 ? "within 1.5 units" : "WRONG", worst, at,
         signs ? "" : " WRONG sign of 0");
}

int main(void) {
  compare("exp", exp_f32, exp);
  compare("erf", erf_f32, erf);
  compare("tanh", tanh_f32, tanh);
  return 0;
}
