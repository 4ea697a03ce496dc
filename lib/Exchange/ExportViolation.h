//===- ExportViolation.h - What a format cannot express ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Findings that several writers report in the same words.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EXCHANGE_EXPORTVIOLATION_H
#define PIPESCHED_LIB_EXCHANGE_EXPORTVIOLATION_H

#include "PipeSched/Schedule/Verify.h"

namespace pipesched {

inline Violation makeViolation(std::string message,
                               std::optional<CellRef> at = {}) {
  return {at, std::move(message), {}};
}

/// Names a phase other than F, B, I, W and idle, after "the format has no ...
/// for ".
inline const char *describeOtherPhase(Phase phase) {
  switch (phase) {
  case Phase::Recompute:
    return "a recompute";
  case Phase::Offload:
    return "an offload";
  case Phase::Reload:
    return "a reload";
  case Phase::Optimizer:
    return "an optimizer step";
  case Phase::AllReduce:
    return "a gradient all-reduce";
  case Phase::OffloadJoin:
    return "a wait for an offload";
  default:
    return "a wait for a reload";
  }
}

} // namespace pipesched

#endif // PIPESCHED_LIB_EXCHANGE_EXPORTVIOLATION_H
