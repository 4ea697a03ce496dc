//===- StageFusion.h - Which ops of a function share a kernel ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two bounds on the fusion of compilers (docs/StageCosts.md, "Fusion").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_STAGEFUSION_H
#define PIPESCHED_STAGES_STAGEFUSION_H

#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// Which ops of a function share a kernel.
enum class StageFusion : uint8_t {
  None, ///< each op is a separate kernel
  Full  ///< all of them, which reads arguments and writes results once
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
