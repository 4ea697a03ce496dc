//===- ErrorText.h - Texts of errors for tests ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns errors into text.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_ERRORTEXT_H
#define PIPESCHED_UNITTESTS_SUPPORT_ERRORTEXT_H

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

namespace pipesched {

/// The text of an error; success fails the test.
inline std::string errorOf(llvm::Error error) {
  EXPECT_TRUE(bool(error)) << "expected an error";
  return llvm::toString(std::move(error));
}

template <typename T>
std::string errorOf(llvm::Expected<T> result) {
  return errorOf(result.takeError());
}

/// The text of an error, or nothing for success.
template <typename T>
std::string errorOrNothing(llvm::Expected<T> result) {
  return llvm::toString(result.takeError());
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_ERRORTEXT_H
