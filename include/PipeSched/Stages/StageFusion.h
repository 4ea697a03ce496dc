//===- StageFusion.h - Fusion of the ops of a function ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two extremes of compiler fusion, as bounds (docs/StageCosts.md,
// "Fusion").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_STAGEFUSION_H
#define PIPESCHED_STAGES_STAGEFUSION_H

#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// How the ops of a function are grouped into kernels.
enum class StageFusion : uint8_t {
  None, ///< each op is a separate kernel
  /// All ops are one kernel, which reads arguments and writes results once.
  Full
};

template <>
struct EnumNames<StageFusion> {
  static constexpr EnumName<StageFusion> values[] = {
      {StageFusion::None, "none",
       "Every op reads its operands and writes its results"},
      {StageFusion::Full, "full",
       "A function reads its arguments and writes its results"}};
};

} // namespace pipesched

#endif // PIPESCHED_STAGES_STAGEFUSION_H
