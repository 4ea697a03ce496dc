//===- StorePs.h - Times as integers ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs are computed as floating-point numbers and stored as whole picoseconds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_COMM_STOREPS_H
#define PIPESCHED_LIB_COSTMODEL_COMM_STOREPS_H

#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/Twine.h"
#include <cmath>

namespace pipesched {

inline constexpr double kPsPerSecond = 1e12;

/// 2^63, the first time that does not fit into int64.
inline constexpr double kPsLimit = 9223372036854775808.0;

/// Stores a time, rounded to the nearest picosecond.
inline llvm::Error store(double ps, const char *what, int64_t &result) {
  double rounded = std::nearbyint(ps);
  if (!(rounded < kPsLimit))
    return makeError("the time of " + llvm::Twine(what) +
                     " is over 2^63 - 1 ps");
  result = static_cast<int64_t>(rounded);
  return llvm::Error::success();
}

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_COMM_STOREPS_H
