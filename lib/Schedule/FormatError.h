//===- FormatError.h - Errors from a format string ------------ -*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An llvm::Error from formatv arguments, for the checks of this library.
// Messages are lower case and end without a period.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FORMATERROR_H
#define PIPESCHED_LIB_SCHEDULE_FORMATERROR_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched {

template <typename... Values>
llvm::Error formatError(const char *format, Values &&...values) {
  return llvm::createStringError(
      llvm::formatv(format, std::forward<Values>(values)...).str());
}

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_FORMATERROR_H
