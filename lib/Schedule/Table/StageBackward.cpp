//===- StageBackward.cpp - Which stages have a backward -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the need for a gradient along a path.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/StageBackward.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

///   frozen     x     x           x
///   stage      0     1     2     3     4
///   runs       F     F     F B   F I   F B
std::vector<StageBackward> pipesched::stageBackwards(const PathBackward &path,
                                                     int64_t numStages) {
  std::vector<StageBackward> backwards(numStages, StageBackward::None);
  if (path.isNone)
    return backwards;
  bool needsGradient = false; // the input of the stage
  auto frozen = path.frozen.begin();
  for (int64_t stage = 0; stage != numStages; ++stage) {
    bool isFrozen = frozen != path.frozen.end() && *frozen == stage;
    if (isFrozen)
      ++frozen;
    else
      backwards[stage] = StageBackward::Whole;
    if (isFrozen && needsGradient)
      backwards[stage] = StageBackward::Input;
    needsGradient |= !isFrozen;
  }
  return backwards;
}
