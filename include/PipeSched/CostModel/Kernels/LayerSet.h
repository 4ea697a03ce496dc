//===- LayerSet.h - A subset of a model's layers ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// States which layers have a property: experts, a window, linear attention.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_KERNELS_LAYERSET_H
#define PIPESCHED_COSTMODEL_KERNELS_LAYERSET_H

#include "llvm/ADT/STLExtras.h"
#include <optional>
#include <vector>

namespace pipesched {

/// A set of layers, counted from 0: `first`, first + every, ..., or a list of
/// layers.
struct LayerSet {
  int64_t first = 0;
  int64_t every = 1;                          ///< 0: none
  std::optional<std::vector<int64_t>> listed; ///< explicit layers, ascending

  static LayerSet none() { return {0, 0, std::nullopt}; }
  bool contains(int64_t layer) const {
    if (listed)
      return llvm::binary_search(*listed, layer);
    return every > 0 && layer >= first && (layer - first) % every == 0;
  }
  bool isNone() const { return listed ? listed->empty() : every == 0; }
  /// Whether it has all layers or none, whatever the number of layers.
  bool isAllOrNone() const {
    return !listed && (every == 0 || (every == 1 && first == 0));
  }
};

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_KERNELS_LAYERSET_H
