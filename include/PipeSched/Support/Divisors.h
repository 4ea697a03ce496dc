//===- Divisors.h - The nearest numbers that divide -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For diagnostics: suggests numbers to use instead of one that does not divide.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_DIVISORS_H
#define PIPESCHED_SUPPORT_DIVISORS_H

#include <cstdint>
#include <string>

namespace pipesched {

/// The divisors of `total` next to `parts`, as "6 and 10": the largest up to it
/// and the smallest above it. Both arguments are positive. Divisors further
/// away than 2^20 are not searched for, except 1.
std::string nearestDivisors(int64_t total, int64_t parts);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_DIVISORS_H
