//===- TextPicture.h - The table in a terminal ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws schedules as in papers, but with letters: one row per worker, columns
// of text for each slot, folded to the width of a terminal.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TEXTPICTURE_H
#define PIPESCHED_TARGET_TEXTPICTURE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// Slots or workers from `begin` to `end` - 1.
struct TextRange {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};

/// Reads `a:b`, `a:`, `:b` or `:`. Errors: any other text; an empty range.
llvm::Expected<TextRange> parseTextRange(llvm::StringRef text);

struct TextPictureOptions {
  static constexpr int64_t kDefaultWidth = 120;
  /// The width for the value 0: enough for one panel, except in extreme cases.
  static constexpr int64_t kMaxWidth = int64_t(1) << 16;

  /// Columns, up to kMaxWidth; 0 means kMaxWidth.
  int64_t width = kDefaultWidth;
  bool hasColours = false; ///< whether to use the 256 ANSI colours
  /// The drawn ranges. If absent: everything, or the ends of a large table,
  /// with a line that names the omitted part.
  std::optional<TextRange> slots, workers;
};

/// Writes one picture per table, and a legend. Errors, before anything is
/// written: a table that cannot be aligned.
llvm::Error writeTextPictures(llvm::raw_ostream &os,
                              llvm::ArrayRef<const NamedTable *> tables,
                              const TextPictureOptions &options);

} // namespace pipesched

#endif // PIPESCHED_TARGET_TEXTPICTURE_H
