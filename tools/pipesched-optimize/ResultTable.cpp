//===- ResultTable.cpp - Results of several instances ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The columns are listed once. Formats differ only in how they write a value.
//
//===----------------------------------------------------------------------===//

#include "ResultTable.h"
#include "PipeSched/Support/PrintableText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Unicode.h"

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::StringRef;

namespace {

/// A value as text; empty if it is missing.
struct Value {
  std::string text;
  bool isNumber = false;
};

struct Column {
  StringRef title; ///< of the text table
  StringRef key;   ///< of JSON and CSV
  Value (*valueOf)(const ResultRow &row);
};

} // namespace

static Value number(std::optional<int64_t> value) {
  return {value ? llvm::itostr(*value) : "", /*isNumber=*/true};
}

static Value decimal(double value, const char *format) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(format, value);
  return {text, /*isNumber=*/true};
}

static Value ratio(const ResultRow &row) {
  if (row.bestKnown.value_or(0) == 0)
    return number(std::nullopt);
  return decimal(double(row.found) / double(*row.bestKnown), "%.4f");
}

static const Column kColumns[] = {
    {"name", "name", [](const ResultRow &row) { return Value{row.name}; }},
    {"objective", "objective",
     [](const ResultRow &row) { return Value{enumName(row.objective).str()}; }},
    {"best known", "best_known",
     [](const ResultRow &row) { return number(row.bestKnown); }},
    {"found", "found", [](const ResultRow &row) { return number(row.found); }},
    {"ratio", "ratio", ratio},
    {"lower bound", "lower_bound",
     [](const ResultRow &row) { return number(row.lowerBound); }},
    {"status", "status",
     [](const ResultRow &row) { return Value{nameOf(row.status).str()}; }},
    {"seconds", "seconds",
     [](const ResultRow &row) { return decimal(row.seconds, "%.2f"); }},
    {"heuristic", "heuristic",
     [](const ResultRow &row) { return number(row.heuristic); }},
    {"best static", "best_static",
     [](const ResultRow &row) { return number(row.seed); }},
    {"which", "best_static_name",
     [](const ResultRow &row) { return Value{row.seedName}; }},
    {"bound by", "bound_by",
     [](const ResultRow &row) { return Value{row.bound}; }},
    {"found by", "found_by",
     [](const ResultRow &row) { return Value{row.origin}; }},
};

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// The text as a terminal may show it, or a dash if it is empty.
static std::string onOneLine(StringRef text) {
  return text.empty() ? "-" : printableText(text);
}

/// Aligns numbers to the right; a dash stands for a missing value.
static void writeText(llvm::ArrayRef<ResultRow> rows, llvm::raw_ostream &os) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const Column &column : kColumns) {
    std::vector<Value> cells = {{column.title.str()}};
    for (const ResultRow &row : rows)
      cells.push_back(column.valueOf(row));
    cells.front().isNumber = cells.back().isNumber;
    int width = 0;
    for (Value &cell : cells) {
      cell.text = onOneLine(cell.text);
      width = std::max(width, llvm::sys::unicode::columnWidthUTF8(cell.text));
    }
    for (auto [line, cell] : llvm::zip(lines, cells)) {
      int own = llvm::sys::unicode::columnWidthUTF8(cell.text);
      std::string padding(std::max(width - own, 0), ' ');
      line += line.empty() ? "" : "  ";
      line += cell.isNumber ? padding + cell.text : cell.text + padding;
    }
  }
  for (StringRef line : lines)
    os << line.rtrim() << "\n";
}

static void writeJson(llvm::ArrayRef<ResultRow> rows, llvm::raw_ostream &os) {
  StringRef separator = "[\n";
  for (const ResultRow &row : rows) {
    os << separator << "  {";
    separator = ",\n";
    StringRef comma;
    for (const Column &column : kColumns) {
      Value value = column.valueOf(row);
      os << comma << '"' << column.key << "\": ";
      comma = ", ";
      if (value.text.empty())
        os << "null";
      else if (value.isNumber)
        os << value.text;
      else
        os << llvm::json::Value(value.text);
    }
    os << "}";
  }
  os << (rows.empty() ? "[]\n" : "\n]\n");
}

/// Quotes text with a comma, a quote or a line break (RFC 4180).
static std::string quote(StringRef text) {
  if (text.find_first_of(",\"\r\n") == StringRef::npos)
    return text.str();
  std::string quoted = "\"";
  for (char c : text) {
    quoted += c;
    if (c == '"')
      quoted += c;
  }
  return quoted + "\"";
}

static void writeCsv(llvm::ArrayRef<ResultRow> rows, llvm::raw_ostream &os) {
  auto title = [](const Column &column) { return column.key.str(); };
  os << llvm::join(llvm::map_range(kColumns, title), ",") << "\n";
  for (const ResultRow &row : rows) {
    auto value = [&](const Column &column) {
      return quote(column.valueOf(row).text);
    };
    os << llvm::join(llvm::map_range(kColumns, value), ",") << "\n";
  }
}

void optimize::writeTable(llvm::ArrayRef<ResultRow> rows, TableFormat format,
                          llvm::raw_ostream &os) {
  switch (format) {
  case TableFormat::Text:
    return writeText(rows, os);
  case TableFormat::Json:
    return writeJson(rows, os);
  case TableFormat::Csv:
    return writeCsv(rows, os);
  }
}
