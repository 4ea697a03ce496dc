//===- RowText.h - Rows in the text of a file -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the row of a schedule around a place in a file that is being edited and
// may be invalid.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_LSPSERVER_ROWTEXT_H
#define PIPESCHED_TOOLS_LSPSERVER_ROWTEXT_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace pipesched {

/// Offsets of a piece of text; the end is exclusive.
struct TextSpan {
  size_t begin = 0, end = 0;
};

/// A row, `worker 1 runs [1F0 1B0]`, around a place in a file. All offsets are
/// relative to `chunk`.
struct RowText {
  /// The part of the file between the lines `// -----` around the place, which
  /// is a separate module, and its offset in the file.
  std::string chunk;
  size_t chunkBegin = 0;
  /// The line and column, from 1, of the op.
  unsigned line = 1, column = 1;
  /// Its cells in order, and the end of the row: its bracket, or text that
  /// cannot belong to a row.
  std::vector<TextSpan> words;
  size_t end = 0;
  bool isClosed = false;
  /// The place, the number of words before it, and the index of the word that
  /// contains or precedes it.
  size_t place = 0, numBefore = 0;
  std::optional<size_t> word;

  /// Returns the chunk with changes that make its rows valid while one of them
  /// is edited: words that are not cells become spaces, and unclosed rows get
  /// their bracket. With `dropsWord`, also removes the word at the place.
  std::string repaired(bool dropsWord) const;
  llvm::StringRef textOf(TextSpan span) const {
    return llvm::StringRef(chunk).slice(span.begin, span.end);
  }
};

/// Returns the row around an offset in a file, or nothing.
std::optional<RowText> findRow(llvm::StringRef file, size_t offset);

/// Returns the text in quotes after the word `family`, up to its closing quote
/// or the end of the line, if it contains the offset.
std::optional<TextSpan> findFamily(llvm::StringRef file, size_t offset);

/// Returns the offset of a line and a UTF-16 character, both from 0, in a file;
/// the next function is the inverse. Places after the end of a line count as
/// its end.
size_t offsetOf(llvm::StringRef file, int64_t line, int64_t character);
std::pair<int64_t, int64_t> placeOf(llvm::StringRef file, size_t offset);

} // namespace pipesched

#endif // PIPESCHED_TOOLS_LSPSERVER_ROWTEXT_H
