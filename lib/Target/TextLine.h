//===- TextLine.h - A line of a picture in letters --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns, blanks and colours of one line at a time; nothing of schedules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_TEXTLINE_H
#define PIPESCHED_LIB_TARGET_TEXTLINE_H

#include "Palette.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <string>

namespace pipesched {

/// A line of text, without blanks at its end; columns count from its begin.
class TextLine {
public:
  TextLine(llvm::raw_ostream &os, bool hasColours)
      : os(os), hasColours(hasColours) {}
  ~TextLine() { end(); }

  /// Ends the line. What follows is on the next one.
  void end() {
    os << '\n';
    column = written = 0;
  }
  int64_t getColumn() const { return column; }
  /// Writes blanks up to a column; nothing if the line has passed it.
  void moveTo(int64_t to) { column = std::max(column, to); }

  enum Style { Plain, Bold, Faint };
  /// `columns` is the width of `text` on a terminal.
  void write(llvm::StringRef text, int64_t columns, Style style = Plain);
  void write(llvm::StringRef text, int64_t columns, Colour background);

private:
  void writeAs(llvm::StringRef text, int64_t columns, llvm::StringRef code);

  llvm::raw_ostream &os;
  bool hasColours;
  int64_t column = 0, written = 0;
};

/// Writes a text of one column `count` times.
std::string repeatText(llvm::StringRef text, int64_t count);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_TEXTLINE_H
