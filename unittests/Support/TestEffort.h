//===- TestEffort.h - How much tests try ------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Less with sanitizers: there a test takes several times as long, and whether
// memory is used well shows in few cases. Whether results are right is for the
// builds without sanitizers to test.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_TESTEFFORT_H
#define PIPESCHED_UNITTESTS_SUPPORT_TESTEFFORT_H

#include "llvm/Support/Compiler.h"
#include <cstdint>

namespace pipesched {

constexpr bool kIsSanitized = LLVM_ADDRESS_SANITIZER_BUILD;

/// Rounds that differ in their random numbers alone.
constexpr int numRounds(int count) {
  return kIsSanitized ? (count + 7) / 8 : count;
}

/// The sizes of a test that tries all small ones.
constexpr int64_t kMostWorkers = kIsSanitized ? 6 : 8;
constexpr int64_t kMostMicrobatches = kIsSanitized ? 16 : 24;

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_TESTEFFORT_H
