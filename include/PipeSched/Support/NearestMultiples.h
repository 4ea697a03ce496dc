//===- NearestMultiples.h - The nearest numbers that fit --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For diagnostics: suggests numbers to use instead of one that cannot be
// divided.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_NEARESTMULTIPLES_H
#define PIPESCHED_SUPPORT_NEARESTMULTIPLES_H

#include <cstdint>
#include <string>

namespace pipesched {

/// The positive multiples of `factor` next below and above `value`, as "6 and
/// 12". Both arguments are positive; a multiple above 2^63 - 1 is left out.
std::string nearestMultiples(int64_t value, int64_t factor);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_NEARESTMULTIPLES_H
