//===- Reduce.c - Sums of arrays ------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of the element types of the runtime. 16-bit floats are converted by
// hand, because C compilers need not support them.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <string.h>

int64_t rtElementBytes(int32_t elementType) {
  static const int64_t bytes[] = {4, 8, 2, 2, 4, 8};
  return (uint32_t)elementType < sizeof(bytes) / sizeof(bytes[0])
             ? bytes[elementType]
             : 0;
}

//===----------------------------------------------------------------------===//
// 16-bit floating point
//===----------------------------------------------------------------------===//

static float fromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint32_t toBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float fromBf16(uint16_t value) {
  return fromBits((uint32_t)value << 16);
}

/// Rounds to nearest, ties to even.
static uint16_t toBf16(float value) {
  uint32_t bits = toBits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) // keep a NaN a NaN
    return (uint16_t)((bits >> 16) | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// f16: 1 bit of sign, 5 of exponent with bias 15, 10 of mantissa.
static float fromF16(uint16_t value) {
  uint32_t sign = (uint32_t)(value & 0x8000) << 16;
  uint32_t rest = value & 0x7fff;
  if (rest >= 0x7c00) // infinity and NaN
    return fromBits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x400)
    return fromBits(sign | ((rest << 13) + ((127 - 15) << 23)));
  float subnormal = (float)rest * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

/// Rounds to nearest, ties to even.
static uint16_t toF16(float value) {
  uint32_t bits = toBits(value);
  uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
  uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) // keep a NaN a NaN
    return (uint16_t)(sign | 0x7e00 | ((rest >> 13) & 0x3ff));
  if (rest >= 0x477ff000) // rounds to 65536 or more, or is infinite
    return sign | 0x7c00;
  if (rest < 0x38800000) { // below 2^-14: a multiple of 2^-24
    // Adding 0.5 moves the last place of f32 to 2^-24, so that it rounds there.
    return (uint16_t)(sign | (toBits(fromBits(rest) + 0.5f) - 0x3f000000));
  }
  rest += 0xfff + ((rest >> 13) & 1);
  return (uint16_t)(sign | ((rest - ((127 - 15) << 23)) >> 13));
}

//===----------------------------------------------------------------------===//
// Blocks of a sum
//===----------------------------------------------------------------------===//

/// The number of elements that are summed before their sum is written to every
/// buffer; small enough to stay in the cache.
enum { blockElements = 512 };

/// The sum of a block: f16 and bf16 in f32; integers are unsigned so that they
/// wrap.
union Block {
  float f32[blockElements];
  double f64[blockElements];
  uint32_t i32[blockElements];
  uint64_t i64[blockElements];
};

static void addToBlock(union Block *block, const void *from, int64_t count,
                       int32_t elementType) {
  switch (elementType) {
  case PIPESCHED_RT_F32:
    for (int64_t i = 0; i < count; ++i)
      block->f32[i] += ((const float *)from)[i];
    break;
  case PIPESCHED_RT_F64:
    for (int64_t i = 0; i < count; ++i)
      block->f64[i] += ((const double *)from)[i];
    break;
  case PIPESCHED_RT_F16:
    for (int64_t i = 0; i < count; ++i)
      block->f32[i] += fromF16(((const uint16_t *)from)[i]);
    break;
  case PIPESCHED_RT_BF16:
    for (int64_t i = 0; i < count; ++i)
      block->f32[i] += fromBf16(((const uint16_t *)from)[i]);
    break;
  case PIPESCHED_RT_I32:
    for (int64_t i = 0; i < count; ++i)
      block->i32[i] += ((const uint32_t *)from)[i];
    break;
  case PIPESCHED_RT_I64:
    for (int64_t i = 0; i < count; ++i)
      block->i64[i] += ((const uint64_t *)from)[i];
    break;
  }
}

/// Starts with the first summand instead of zero, which would turn -0 into 0.
static void loadBlock(union Block *block, const void *from, int64_t count,
                      int32_t elementType) {
  if (elementType == PIPESCHED_RT_F16)
    for (int64_t i = 0; i < count; ++i)
      block->f32[i] = fromF16(((const uint16_t *)from)[i]);
  else if (elementType == PIPESCHED_RT_BF16)
    for (int64_t i = 0; i < count; ++i)
      block->f32[i] = fromBf16(((const uint16_t *)from)[i]);
  else
    memcpy(block, from, (size_t)(count * rtElementBytes(elementType)));
}

static void storeBlock(const union Block *block, void *to, int64_t count,
                       int32_t elementType) {
  if (elementType == PIPESCHED_RT_F16)
    for (int64_t i = 0; i < count; ++i)
      ((uint16_t *)to)[i] = toF16(block->f32[i]);
  else if (elementType == PIPESCHED_RT_BF16)
    for (int64_t i = 0; i < count; ++i)
      ((uint16_t *)to)[i] = toBf16(block->f32[i]);
  else
    memcpy(to, block, (size_t)(count * rtElementBytes(elementType)));
}

void rtSumBuffers(void *const *buffers, int32_t numBuffers, int64_t count,
                  int32_t elementType) {
  union Block block;
  int64_t elementBytes = rtElementBytes(elementType);
  for (int64_t start = 0; start < count; start += blockElements) {
    int64_t size =
        count - start < blockElements ? count - start : blockElements;
    int64_t offset = start * elementBytes;
    loadBlock(&block, (const char *)buffers[0] + offset, size, elementType);
    for (int32_t i = 1; i < numBuffers; ++i)
      addToBlock(&block, (const char *)buffers[i] + offset, size, elementType);
    for (int32_t i = 0; i < numBuffers; ++i)
      storeBlock(&block, (char *)buffers[i] + offset, size, elementType);
  }
}

void rtReadNumbers(double *to, const void *from, int64_t count,
                   int32_t elementType) {
  for (int64_t i = 0; i < count; ++i)
    switch (elementType) {
    case PIPESCHED_RT_F32:
      to[i] = (double)((const float *)from)[i];
      break;
    case PIPESCHED_RT_F16:
      to[i] = (double)fromF16(((const uint16_t *)from)[i]);
      break;
    case PIPESCHED_RT_BF16:
      to[i] = (double)fromBf16(((const uint16_t *)from)[i]);
      break;
    default:
      to[i] = ((const double *)from)[i];
    }
}

void rtAdd(void *to, const void *from, int64_t count, int32_t elementType) {
  union Block block;
  int64_t elementBytes = rtElementBytes(elementType);
  for (int64_t start = 0; start < count; start += blockElements) {
    int64_t size =
        count - start < blockElements ? count - start : blockElements;
    int64_t offset = start * elementBytes;
    loadBlock(&block, (char *)to + offset, size, elementType);
    addToBlock(&block, (const char *)from + offset, size, elementType);
    storeBlock(&block, (char *)to + offset, size, elementType);
  }
}
