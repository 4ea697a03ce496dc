//===- CellTimes.cpp - Rounded times of cells and their parts -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divides whole times into segments.
//
//===----------------------------------------------------------------------===//

#include "CellTimes.h"

using namespace pipesched;

llvm::Error CellTimes::storeIn(CellCosts &cells, int64_t slice) const {
  for (const EnumName<Phase> &entry : enumValues<Phase>()) {
    Phase phase = entry.value;
    if (all[phase] != 0)
      cells.set(phase, all[phase], slice);
    if (int64_t ps = dispatch[phase], hidden = hiddenDispatch[phase];
        ps != 0 || hidden != 0)
      if (auto error =
              cells.splitOff(phase, {Resource::Experts, ps, hidden}, slice))
        return error;
    const Exchange &passed = context[phase];
    if (passed.ps == 0 && passed.bytes == 0)
      continue;
    if (auto error =
            cells.splitOff(phase,
                           {Resource::Context, passed.exposedPs,
                            passed.ps - passed.exposedPs, passed.bytes},
                           slice))
      return error;
  }
  return llvm::Error::success();
}
