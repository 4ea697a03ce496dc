//===- NearestMultiples.h - Nearest multiples for messages ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For diagnostics: suggests numbers instead of a number that cannot be divided.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_NEARESTMULTIPLES_H
#define PIPESCHED_SUPPORT_NEARESTMULTIPLES_H

#include <cstdint>
#include <string>

namespace pipesched {

/// Returns the positive multiples of `factor` closest to `value` from below and
/// above, as "6 and 12". Both arguments are positive; a multiple above 2^63 - 1
/// is left out.
std::string nearestMultiples(int64_t value, int64_t factor);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_NEARESTMULTIPLES_H
