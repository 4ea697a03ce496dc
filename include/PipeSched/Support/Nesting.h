//===- Nesting.h - How deeply a text is nested ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parsers of JSON and of MLIR recurse, so a text that is nested too deeply
// ends the process. This finds such texts before they are parsed.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_NESTING_H
#define PIPESCHED_SUPPORT_NESTING_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace pipesched {

/// A place of a text that is nested too deeply, and a message about it.
struct DeepPlace {
  size_t offset;
  std::string message;
};

/// The first value inside more than 64 objects and lists.
std::optional<DeepPlace> findDeepJson(llvm::StringRef text);

/// The first bracket, alias or minus sign of MLIR's text inside more than
/// kMaxIRDepth others, or the first affine map with more than 4,096 operators.
/// Aliases count as their definitions.
std::optional<DeepPlace> findDeepIR(llvm::StringRef text);

/// MLIR's parser and printer need some 2 KB of stack for each region, and a
/// thread has 8 MB.
inline constexpr size_t kMaxIRDepth = 256;

/// "file:line:column: " of a place within a text; both count from 1.
std::string placeInFile(llvm::StringRef file, llvm::StringRef text,
                        size_t offset);

/// Takes the string literal off the start of `rest`, with its quotes;
/// everything if the literal does not end.
llvm::StringRef takeString(llvm::StringRef &rest);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_NESTING_H
