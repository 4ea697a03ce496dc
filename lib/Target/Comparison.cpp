//===- Comparison.cpp - Schedules side by side, as text -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two tables, a line that explains their columns, and the findings.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Comparison.h"
#include "Findings.h"
#include "Format.h"
#include "PipeSched/Evaluation/Summary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

using namespace pipesched;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Tables of text
//===----------------------------------------------------------------------===//

namespace {
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
} // namespace

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

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

ComparisonEntry
pipesched::summarizeForComparison(const NamedEvaluation &result) {
  const Evaluation &evaluation = result.evaluation;
  const ExecutionTotals &execution = evaluation.totals;
  ExecutionSummary summary = summarize(execution);
  int64_t stepPs = execution.makespanPs;
  ComparisonEntry entry;
  entry.name = result.name;
  entry.family = result.family;
  entry.workers = result.placement.getNumWorkers();
  entry.microbatches = result.placement.getNumMicrobatches();
  entry.slices = result.placement.getNumSlices();
  entry.microbatchSize = result.microbatchSize;
  entry.stepPs = stepPs;
  entry.idle = summary.idleRatio;
  entry.idleByCause = summary.idleByCause;
  if (stepPs > 0)
    entry.exposed = static_cast<double>(summary.exposedCommunicationPs) /
                    static_cast<double>(stepPs);
  if (evaluation.table)
    entry.tableBubble = evaluation.table->bubbleRatio;
  if (evaluation.formula)
    entry.formulaBubble = evaluation.formula->bubbleRatio;
  if (execution.memory) {
    entry.bottleneckWorker = execution.memory->bottleneckWorker;
    entry.memory = execution.memory->workers[entry.bottleneckWorker];
    entry.capacityBytes = execution.memory->capacityBytes;
  }
  return entry;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static std::string percentOrDash(std::optional<double> ratio) {
  return ratio ? formatPercent(*ratio) : "-";
}

static std::string nameOrDash(llvm::StringRef name) {
  return name.empty() ? "-" : printableName(name);
}

static std::string describeFit(const ComparisonEntry &entry) {
  if (!entry.memory || entry.capacityBytes == 0)
    return "-";
  int64_t missing = entry.memory->peakBytes() - entry.capacityBytes;
  return missing <= 0 ? "yes" : "no, " + formatGiB(missing) + " short";
}

static std::string describeWhere(const ComparisonEntry &entry) {
  if (!entry.memory)
    return "-";
  std::string where = "worker " + std::to_string(entry.bottleneckWorker);
  if (entry.memory->peakCell)
    where += " at " + CellName{*entry.memory->peakCell, entry.slices}.str();
  return where;
}

static void printResults(llvm::raw_ostream &os,
                         ArrayRef<ComparisonEntry> entries) {
  TextTable table({{"schedule", Align::Left},
                   {"family", Align::Left},
                   {"D", Align::Right},
                   {"N", Align::Right},
                   {"step", Align::Right},
                   {"speed", Align::Right},
                   {"idle", Align::Right},
                   {"table", Align::Right},
                   {"formula", Align::Right},
                   {"exposed", Align::Right},
                   {"memory/worker", Align::Right},
                   {"where", Align::Left},
                   {"fits", Align::Left}});
  std::vector<double> speeds = relativeSpeeds(entries);
  for (auto [entry, speed] : llvm::zip(entries, speeds)) {
    std::string speedText;
    llvm::raw_string_ostream(speedText) << llvm::format("%.4f", speed);
    table.addRow(
        {printableName(entry.name), nameOrDash(entry.family),
         std::to_string(entry.workers), std::to_string(entry.microbatches),
         formatTime(entry.stepPs), speedText, formatPercent(entry.idle),
         percentOrDash(entry.tableBubble), percentOrDash(entry.formulaBubble),
         formatPercent(entry.exposed),
         entry.memory ? formatGiB(entry.memory->peakBytes()) : "-",
         describeWhere(entry), describeFit(entry)});
  }
  table.print(os);
}

static void printIdle(llvm::raw_ostream &os,
                      ArrayRef<ComparisonEntry> entries) {
  std::array<std::string, kNumIdleCauses> names;
  llvm::transform(kIdleCauses, names.begin(), nameOfCause);
  std::vector<TextTable::Column> columns = {{"idle by cause", Align::Left}};
  for (const std::string &name : names)
    columns.push_back({name, Align::Right});
  columns.push_back({"all", Align::Right});
  TextTable table(columns);
  for (const ComparisonEntry &entry : entries) {
    std::vector<std::string> cells = {printableName(entry.name)};
    for (double ratio : entry.idleByCause)
      cells.push_back(formatPercent(ratio));
    cells.push_back(formatPercent(entry.idle));
    table.addRow(std::move(cells));
  }
  table.print(os);
}

void pipesched::writeComparison(llvm::raw_ostream &os,
                                ArrayRef<ComparisonEntry> entries) {
  if (entries.empty())
    return;
  printResults(os, entries);
  os << "\nD workers, N microbatches. speed: "
     << (knowsSequences(entries) ? "sequences" : "microbatches")
     << " per second, relative to the fastest.\n"
        "idle: of workers x step; table and formula: the same by slots and by "
        "closed formula.\n"
        "exposed: part of the step that free messages would save. "
        "memory/worker: of the fullest worker, with all its accelerators.\n\n";
  printIdle(os, entries);
  os << '\n';
  for (const Finding &finding : findFindings(entries))
    os << "- " << finding.text << '\n';
}
