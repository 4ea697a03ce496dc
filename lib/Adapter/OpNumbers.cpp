//===- OpNumbers.cpp - Numbers of ops by their addresses ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table grows on the side where ops appear, as long as it stays in
// proportion to the number of ops.
//
//===----------------------------------------------------------------------===//

#include "OpNumbers.h"
#include <algorithm>

using namespace mlir;
using namespace pipesched;

/// How many granules the table may have for each op, and how many it may always
/// have. An op with its operands takes two to four.
static constexpr uintptr_t kGranulesPerOp = 16, kMinGranules = 1024;

void OpNumbers::clear() {
  table.clear();
  numInTable = 0;
  far.clear();
}

/// Begins a new table at a granule, and leaves the entries of the old one to
/// the map.
void OpNumbers::restart(uintptr_t granule) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != kNone)
      far[first + i] = table[i];
  first = granule;
  table.assign(1, kNone);
  numInTable = 0;
}

/// Extends the table to a granule outside of it, and as far beyond as the table
/// is long. Returns whether the table may be that long.
bool OpNumbers::makeRoom(uintptr_t granule) {
  if (table.empty())
    return false;
  uintptr_t limit = kMinGranules + kGranulesPerOp * numInTable;
  uintptr_t size = table.size();
  bool isBelow = granule < first;
  uintptr_t missing = isBelow ? first - granule : granule - first - size + 1;
  if (missing > limit || size + missing > limit)
    return false;
  uintptr_t added = std::min(std::max(missing, size), limit - size);
  if (!isBelow) {
    table.resize(size + added, kNone);
    return true;
  }
  added = std::min(added, first);
  table.insert(table.begin(), added, kNone);
  first -= added;
  return true;
}

void OpNumbers::insert(const Operation *op, uint32_t number) {
  assert(number != kNone && "no number");
  uintptr_t granule = granuleOf(op);
  if (granule - first >= table.size() && !makeRoom(granule)) {
    if (far.size() < numInTable) {
      far[granule] = number;
      return;
    }
    // Most ops are outside of the table, so begin a new one.
    restart(granule);
  }
  table[granule - first] = number;
  ++numInTable;
}
