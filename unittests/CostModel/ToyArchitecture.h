//===- ToyArchitecture.h - A small model of few numbers ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For tests of slices, whose costs are counted by hand.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_COSTMODEL_TOYARCHITECTURE_H
#define PIPESCHED_UNITTESTS_COSTMODEL_TOYARCHITECTURE_H

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"

namespace pipesched {

/// Four layers of 64, with two heads of keys and values for four of attention.
inline Architecture toyArchitecture(Attention attention) {
  Architecture arch;
  arch.name = "toy";
  arch.layers = 4;
  arch.hidden = 64;
  arch.feedforward = 256;
  arch.attentionHeads = 4;
  arch.keyValueHeads = 2;
  arch.attentionWidth = 64;
  arch.sequence = 96;
  arch.vocabulary = 100;
  arch.attention = attention;
  return arch;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_COSTMODEL_TOYARCHITECTURE_H
