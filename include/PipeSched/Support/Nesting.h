//===- Nesting.h - Limits on the nesting of texts ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parsers of JSON and of MLIR are recursive, so a text that is nested too
// deeply ends the process. These functions find such texts before they are
// parsed.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_NESTING_H
#define PIPESCHED_SUPPORT_NESTING_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace pipesched {

/// A place in a text that is nested too deeply, and a message about it.
struct DeepPlace {
  size_t offset;
  std::string message;
};

/// Returns the first value inside more than 64 objects and lists.
std::optional<DeepPlace> findDeepJson(llvm::StringRef text);

/// Returns the first bracket, alias or minus sign of MLIR's text inside more
/// than kMaxIRDepth others, or the first affine map with more than 4,096
/// operators. Aliases count like their definitions.
std::optional<DeepPlace> findDeepIR(llvm::StringRef text);

/// MLIR's parser and printer need about 2 KB of stack for each region, and a
/// thread has 8 MB.
inline constexpr size_t kMaxIRDepth = 256;

/// Returns "file:line:column: " for a place in a text; both count from 1.
std::string placeInFile(llvm::StringRef file, llvm::StringRef text,
                        size_t offset);

/// Removes the string literal at the start of `rest`, with its quotes, and
/// returns it; removes everything if the literal does not end.
llvm::StringRef takeString(llvm::StringRef &rest);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_NESTING_H
