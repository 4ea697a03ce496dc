//===- ExportViolation.h - Limits of export formats -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Violations that several writers report in the same words.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EXCHANGE_EXPORTVIOLATION_H
#define PIPESCHED_LIB_EXCHANGE_EXPORTVIOLATION_H

#include "PipeSched/Schedule/Check/Verify.h"

namespace pipesched {

inline Violation makeViolation(std::string message,
                               std::optional<CellRef> at = {}) {
  return {at, std::move(message), {}};
}

/// The phases that PyTorch's runtime and Shardy have.
inline constexpr PhaseSet kKnownPhases = kBackwardPhases | Phase::Forward;

/// Names an unsupported phase, after "the format has no ... for ".
inline std::string describeOtherPhase(Phase phase) {
  return llvm::formatv("{0} ({1})", enumName(phase), enumMeaning(phase));
}

} // namespace pipesched

#endif // PIPESCHED_LIB_EXCHANGE_EXPORTVIOLATION_H
