//===- TextLine.cpp - A line of a picture in letters ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blanks are written only once something follows them. Colours are the escape
// sequences of terminals with 256 of them.
//
//===----------------------------------------------------------------------===//

#include "TextLine.h"

using namespace pipesched;
using llvm::StringRef;

void TextLine::write(StringRef text, int64_t columns, Style style) {
  static constexpr const char *kCodes[] = {"", "\033[1m", "\033[2m"};
  writeAs(text, columns, kCodes[style]);
}

void TextLine::write(StringRef text, int64_t columns, Colour background) {
  std::string code;
  llvm::raw_string_ostream(code)
      << "\033[48;5;" << int(nearestAnsi(background)) << ";38;5;"
      << (background.isDark() ? "231m" : "16m");
  writeAs(text, columns, code);
}

void TextLine::writeAs(StringRef text, int64_t columns, StringRef code) {
  os.indent(column - written);
  if (hasColours && !code.empty() && !text.empty())
    os << code << text << "\033[0m";
  else
    os << text;
  column += columns;
  written = column;
}

std::string pipesched::repeatText(StringRef text, int64_t count) {
  std::string result;
  result.reserve(text.size() * count);
  for (int64_t i = 0; i < count; ++i)
    result += text;
  return result;
}
