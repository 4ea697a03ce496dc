//===- ClosestName.h - The name that was probably meant ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For diagnostics: which of the known names is closest to an unknown one.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_CLOSESTNAME_H
#define PIPESCHED_SUPPORT_CLOSESTNAME_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <limits>

namespace pipesched {

/// The known name with the least edit distance, ignoring case; the first on a
/// tie. Empty if there are no names.
inline llvm::StringRef closestName(llvm::StringRef name,
                                   llvm::ArrayRef<llvm::StringRef> known) {
  llvm::StringRef best;
  unsigned bestDistance = std::numeric_limits<unsigned>::max();
  for (llvm::StringRef candidate : known) {
    llvm::StringRef front = candidate.take_front(name.size());
    unsigned distance = std::min(name.edit_distance_insensitive(candidate),
                                 name.edit_distance_insensitive(front) + 1);
    if (distance >= bestDistance)
      continue;
    best = candidate;
    bestDistance = distance;
  }
  return best;
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_CLOSESTNAME_H
