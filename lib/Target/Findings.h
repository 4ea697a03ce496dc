//===- Findings.h - What a comparison's numbers say -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sentences that are derived from comparison entries only.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_FINDINGS_H
#define PIPESCHED_LIB_TARGET_FINDINGS_H

#include "PipeSched/Target/Comparison.h"

namespace pipesched {

/// A cause of idle time as a person reads it: `queue order`.
std::string nameOfCause(const IdleCause &cause);

/// Every entry knows its microbatch size.
bool knowsSequences(llvm::ArrayRef<ComparisonEntry> entries);

/// The sequences of a step, or its microbatches if any entry lacks a microbatch
/// size.
std::vector<uint64_t> workPerStep(llvm::ArrayRef<ComparisonEntry> entries);

/// Work per time of each entry, relative to the best; 0 for an empty step.
std::vector<double> relativeSpeeds(llvm::ArrayRef<ComparisonEntry> entries);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_FINDINGS_H
