//===- Divisors.h - Nearest divisors for messages ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For diagnostics: suggests numbers instead of a number that does not divide.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_DIVISORS_H
#define PIPESCHED_SUPPORT_DIVISORS_H

#include <cstdint>
#include <string>

namespace pipesched {

/// Returns the divisors of `total` closest to `parts`, as "6 and 10": the
/// largest up to it and the smallest above it. Both arguments are positive.
/// Divisors further away than 2^20 are not searched, except 1.
std::string nearestDivisors(int64_t total, int64_t parts);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_DIVISORS_H
