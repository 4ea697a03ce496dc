//===- LinearAttention.h - Layers that keep a state -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention, state spaces and short convolutions. Instead of keys and
// values of all earlier tokens, these layers keep a state of constant size.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_KERNELS_LINEARATTENTION_H
#define PIPESCHED_COSTMODEL_KERNELS_LINEARATTENTION_H

#include "PipeSched/CostModel/Kernels/LayerSet.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// The rule by which the next state follows from the previous one.
enum class Recurrence : uint8_t { GatedDelta, Mamba2, Mamba, Convolution };

template <>
struct EnumNames<Recurrence> {
  static constexpr EnumName<Recurrence> values[] = {
      {Recurrence::GatedDelta, "gated_delta",
       "Gated DeltaNet (arXiv 2412.06464)"},
      {Recurrence::Mamba2, "mamba2", "Mamba-2 (arXiv 2405.21060)"},
      {Recurrence::Mamba, "mamba", "Mamba (arXiv 2312.00752)"},
      {Recurrence::Convolution, "convolution",
       "A short convolution between two gates, without a state (LFM2)"}};
};

/// Layers with a recurrence in place of attention. Sizes in elements; Mamba-2's
/// names in brackets.
struct LinearAttention {
  Recurrence recurrence = Recurrence::GatedDelta;
  int64_t keyHeads = 1;      ///< of queries and keys (groups of B and C)
  int64_t keyHeadSize = 0;   ///< of one head (size of the state)
  int64_t valueHeads = 0;    ///< (heads); a multiple of keyHeads
  int64_t valueHeadSize = 0; ///< of one head (size of a head)
  int64_t convolution = 4;   ///< tokens that the convolution reads; 0: none
  int64_t chunk = 64;        ///< tokens that a kernel processes at once
  int64_t timeRank = 0;      ///< of Mamba's step sizes
  bool convolutionBias = false, projectionBias = false;
  bool innerNorms = false; ///< norms of Mamba's step sizes, B and C (Jamba)
  LayerSet layers;         ///< with recurrence; all others have attention

  CheckedInt keys() const { return CheckedInt(keyHeads) * keyHeadSize; }
  CheckedInt values() const { return CheckedInt(valueHeads) * valueHeadSize; }
};

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_KERNELS_LINEARATTENTION_H
