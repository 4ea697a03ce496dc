//===- WideDivision.h - Division of 128 bits --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of times and factors have up to 128 bits. The compiler implements
// their division as a call that takes several times longer than the rest of
// such a product, even for a constant divisor.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_WIDEDIVISION_H
#define PIPESCHED_SUPPORT_WIDEDIVISION_H

#include "llvm/ADT/bit.h"
#include <cassert>
#include <cstdint>

namespace pipesched {

/// Returns number / divisor, rounded down. Takes two divisions of 64 bits for a
/// number below 2^96 and a divisor below 2^32, both without the divisor's
/// factors of two; 10^12 has 12 of these. Requires number >= 0 and divisor > 0.
inline __int128 divideWide(__int128 number, uint64_t divisor) {
  assert(number >= 0 && divisor != 0);
  int twos = llvm::countr_zero(divisor);
  uint64_t odd = divisor >> twos;
  number >>= twos;
  if (odd >> 32 != 0 || number >> 96 != 0)
    return number / static_cast<__int128>(odd);
  auto high = static_cast<uint64_t>(number >> 32);
  uint64_t low = static_cast<uint32_t>(number);
  return static_cast<__int128>(high / odd) << 32 |
         (high % odd << 32 | low) / odd;
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_WIDEDIVISION_H
