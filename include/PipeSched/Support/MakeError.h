//===- MakeError.h - Errors from a text --------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors that consist of a text. Texts are lower case and end without a period.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_MAKEERROR_H
#define PIPESCHED_SUPPORT_MAKEERROR_H

#include "llvm/Support/Error.h"

namespace pipesched {

inline llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_MAKEERROR_H
