//===- PrintableText.h - Printable text for terminals -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes text printable. A name from a file may contain characters that a
// terminal interprets instead of showing them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_PRINTABLETEXT_H
#define PIPESCHED_SUPPORT_PRINTABLETEXT_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace pipesched {

/// Returns a text in a form that is safe to show, in valid UTF-8. Control
/// characters, including C1, become `\x1b`. Direction marks, with which one
/// name could look like another, and code points that are not characters, such
/// as U+FFFE, become `\u202e`. The result may be used in XML.
std::string printableText(llvm::StringRef text);

/// The same for a text of several lines: ends of lines and tabs stay.
std::string printableLines(llvm::StringRef text);

/// Returns MLIR's text with the same characters, and bytes that are not UTF-8,
/// as escapes that are equivalent in its strings, such as `\1B`. Newlines and
/// tabs stay. A carriage return without a line feed outside of a string becomes
/// a newline, because users see it as the end of a line, but MLIR does not end
/// a comment there.
std::string escapeHidden(llvm::StringRef ir);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_PRINTABLETEXT_H
