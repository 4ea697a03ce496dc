//===- TextTable.h - Aligned columns of text --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns are as wide as their widest cell on a terminal, in any script.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_TEXTTABLE_H
#define PIPESCHED_LIB_TARGET_TEXTTABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace pipesched {

enum class Align { Left, Right };

class TextTable {
public:
  struct Column {
    llvm::StringRef title;
    Align align;
  };
  explicit TextTable(llvm::ArrayRef<Column> columns);

  /// Adds a row with one text per column.
  void addRow(std::vector<std::string> row);
  /// Prints titles, a rule and the rows, without spaces at the ends of lines.
  void print(llvm::raw_ostream &os) const;

private:
  void printRow(llvm::raw_ostream &os,
                const std::vector<std::string> &row) const;

  std::vector<Align> aligns;
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> rows; ///< the first is the titles
};

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_TEXTTABLE_H
