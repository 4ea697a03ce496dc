//===- FormatError.h - Errors from a format ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors with a text that llvm::formatv builds. Texts are lower case and end
// without a period.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_FORMATERROR_H
#define PIPESCHED_SUPPORT_FORMATERROR_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched {

/// Returns an error with the text `format`, in which values replace `{0}`,
/// `{1}` and so on.
template <typename... Values>
llvm::Error formatError(const char *format, Values &&...values) {
  return llvm::createStringError(
      llvm::formatv(format, std::forward<Values>(values)...).str());
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_FORMATERROR_H
