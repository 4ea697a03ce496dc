//===- TestEffort.h - How much tests try ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All of it with PIPESCHED_TEST_ALL=1 (scripts/test.sh --all), a quarter
// without, and less with sanitizers, where a test takes several times as long.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_TESTEFFORT_H
#define PIPESCHED_UNITTESTS_SUPPORT_TESTEFFORT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Compiler.h"
#include <cstdint>
#include <cstdlib>

namespace pipesched {

constexpr bool kIsSanitized = LLVM_ADDRESS_SANITIZER_BUILD;

/// Whether tests take their longest forms, as under scripts/test.sh --all.
inline bool runsAll() {
  const char *all = std::getenv("PIPESCHED_TEST_ALL");
  return all && llvm::StringRef(all) == "1";
}

/// Rounds that differ only in their random numbers.
inline int numRounds(int count) {
  int divisor = kIsSanitized ? 8 : runsAll() ? 1 : 4;
  return (count + divisor - 1) / divisor;
}

/// The sizes of a test that tries all small ones. DualPipe's messages need 6
/// workers to stop.
inline int64_t mostWorkers() { return runsAll() && !kIsSanitized ? 8 : 6; }
inline int64_t mostMicrobatches() {
  return runsAll() && !kIsSanitized ? 24 : 16;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_TESTEFFORT_H
