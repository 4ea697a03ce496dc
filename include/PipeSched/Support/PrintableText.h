//===- PrintableText.h - Names on a terminal --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes text printable. A name from a file may contain characters that a
// terminal obeys instead of showing them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_PRINTABLETEXT_H
#define PIPESCHED_SUPPORT_PRINTABLETEXT_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace pipesched {

/// A text as people may see it, in valid UTF-8: control characters, including
/// C1, as `\x1b`, and as `\u202e` the marks that change the direction of
/// writing, which could make one name look like another, and the code points
/// that are no characters, such as U+FFFE. All of it may be in XML.
std::string printableText(llvm::StringRef text);

/// The same for a text of several lines: ends of lines and tabs stay.
std::string printableLines(llvm::StringRef text);

/// MLIR's text with the same characters, and bytes that are not UTF-8, as
/// escapes that mean the same in its strings, such as `\1B`. Ends of lines and
/// tabs stay; a carriage return alone, which ends a line for people and a
/// comment for MLIR, becomes a new line where it is not part of a string.
std::string escapeHidden(llvm::StringRef ir);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_PRINTABLETEXT_H
