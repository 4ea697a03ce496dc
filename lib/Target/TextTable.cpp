//===- TextTable.cpp - Aligned columns of text ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Widths are columns of a terminal, not bytes.
//
//===----------------------------------------------------------------------===//

#include "TextTable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Unicode.h"

using namespace pipesched;

static size_t displayWidth(llvm::StringRef text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : width; // unprintable text: any width will do
}

TextTable::TextTable(llvm::ArrayRef<Column> columns) {
  std::vector<std::string> titles;
  for (const Column &column : columns) {
    aligns.push_back(column.align);
    titles.push_back(column.title.str());
  }
  widths.resize(columns.size());
  addRow(std::move(titles));
}

void TextTable::addRow(std::vector<std::string> row) {
  assert(row.size() == aligns.size() && "one text per column");
  for (auto [width, text] : llvm::zip(widths, row))
    width = std::max(width, displayWidth(text));
  rows.push_back(std::move(row));
}

void TextTable::printRow(llvm::raw_ostream &os,
                         const std::vector<std::string> &row) const {
  size_t pending = 0; // spaces that are written only if text follows
  for (auto [column, text] : llvm::enumerate(row)) {
    size_t padding = widths[column] - displayWidth(text);
    bool isRight = aligns[column] == Align::Right;
    if (!text.empty()) {
      os.indent(pending + (isRight ? padding : 0)) << text;
      pending = isRight ? 0 : padding;
    } else {
      pending += padding;
    }
    pending += 2;
  }
  os << '\n';
}

void TextTable::print(llvm::raw_ostream &os) const {
  printRow(os, rows.front());
  size_t total = 2 * (widths.size() - 1);
  for (size_t width : widths)
    total += width;
  os << std::string(total, '-') << '\n';
  for (const std::vector<std::string> &row : llvm::drop_begin(rows))
    printRow(os, row);
}
