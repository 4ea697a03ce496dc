//===- TextPicture.h - The table in a terminal ------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws schedules as papers do, with letters: a row per worker, a column of
// text per slot, folded to the width of a terminal.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TEXTPICTURE_H
#define PIPESCHED_TARGET_TEXTPICTURE_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// Slots or workers begin, begin + 1, ... below end.
struct TextRange {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};

/// Reads `a:b`, `a:`, `:b` or `:`. Errors: anything else; an empty range.
llvm::Expected<TextRange> parseTextRange(llvm::StringRef text);

struct TextPictureOptions {
  static constexpr int64_t kDefaultWidth = 120;
  /// What 0 stands for: one panel, unless that is absurd.
  static constexpr int64_t kMaxWidth = int64_t(1) << 16;

  int64_t width = kDefaultWidth; ///< columns of the terminal; 0: kMaxWidth
  bool hasColours = false;       ///< ANSI, of the 256 that all terminals have
  /// What is drawn. Nothing: all, or so much that it can be overlooked, and a
  /// line that says what was left out.
  std::optional<TextRange> slots, workers;
};

/// Writes one picture per table, and a legend. Errors, before anything is
/// written: a table that cannot be aligned.
llvm::Error writeTextPictures(llvm::raw_ostream &os,
                              llvm::ArrayRef<const NamedTable *> tables,
                              const TextPictureOptions &options);

} // namespace pipesched

#endif // PIPESCHED_TARGET_TEXTPICTURE_H
