//===- OpNumbers.h - Numbers of ops by their addresses ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the number of an instruction from its op. The ops of a worker are
// mostly created one after the other, so a table over their addresses is small
// and, unlike a hash map, is accessed nearly in order.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ADAPTER_OPNUMBERS_H
#define PIPESCHED_LIB_ADAPTER_OPNUMBERS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include <limits>
#include <vector>

namespace pipesched {

/// A table with an entry per granule of memory. An op is at least as large as a
/// granule, so no two ops start in the same granule:
///
///   granule   first  +1   +2   +3   +4   +5
///   starts    op 7        op 8           op 9
///   table     7      none 8    none none 9
///
/// Ops far away from most others are in a hash map.
class OpNumbers {
public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  /// Forgets all numbers.
  void clear();
  /// Gives an op without a number a number below kNone.
  void insert(const mlir::Operation *op, uint32_t number);
  /// The number of an op, or kNone; `op` may be null.
  uint32_t lookup(const mlir::Operation *op) const {
    uintptr_t granule = granuleOf(op);
    uintptr_t index = granule - first;
    uint32_t number = index < table.size() ? table[index] : kNone;
    if (number != kNone || far.empty())
      return number;
    auto found = far.find(granule);
    return found == far.end() ? kNone : found->second;
  }

private:
  static constexpr uintptr_t kGranule = 64;
  static_assert(sizeof(mlir::Operation) >= kGranule,
                "two ops could start in one granule");

  static uintptr_t granuleOf(const mlir::Operation *op) {
    return reinterpret_cast<uintptr_t>(op) / kGranule;
  }
  bool makeRoom(uintptr_t granule);
  void restart(uintptr_t granule);

  uintptr_t first = 0; ///< granule of the first entry
  std::vector<uint32_t> table;
  size_t numInTable = 0;
  llvm::DenseMap<uintptr_t, uint32_t> far; ///< by granule
};

} // namespace pipesched

#endif // PIPESCHED_LIB_ADAPTER_OPNUMBERS_H
