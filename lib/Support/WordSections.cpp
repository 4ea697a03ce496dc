//===- WordSections.cpp - Compact tables of repeated rows -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the rows by their shape, then analyzes each word of a period
// separately: one may cycle through seven values, its neighbour through four.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/WordSections.h"
#include "PipeSched/Support/Repeats.h"
#include "llvm/ADT/STLExtras.h"
#include <cassert>

using namespace pipesched;
using llvm::ArrayRef;

static constexpr uint32_t kMaxCycle = 1024;
/// The smallest number of repetitions that prove a cycle, so that a few equal
/// differences are not mistaken for one.
static constexpr uint32_t kLeastProof = 256;

uint32_t WordSection::read(ArrayRef<uint32_t> table, uint32_t i,
                           uint32_t r) const {
  if (times == 1)
    return table[position + i];
  ArrayRef<uint32_t> column = table.slice(position + 3 * i, 3);
  uint32_t base = column[0], cycle = column[1], step = column[2];
  return cycle == 0 ? base + r * step
                    : table[base + r % cycle] + r / cycle * step;
}

namespace {
/// A word in each repetition. In repetitions [first, last) its value is the
/// value `cycle` repetitions earlier plus `step`; cycle 0 if no cycle is known.
struct Column {
  uint32_t cycle = 0, step = 0, first = 0, last = 0;

  bool holds(uint32_t begin, uint32_t end) const {
    return cycle > 0 && first <= begin && end <= last;
  }
};

/// The words of a stretch by repetition and position.
class Repetitions {
public:
  Repetitions(ArrayRef<uint32_t> words, uint32_t times)
      : words(words), times(times), length(words.size() / times),
        columns(length) {}

  /// Finds the columns, and the repetitions [first, last) for which they are
  /// valid.
  void analyze();

  uint32_t first = 0, last = 0;

  /// Appends the columns and lists of repetitions [first, last) to `table`. If
  /// the words themselves take no more space, removes them again and returns
  /// false.
  bool write(std::vector<uint32_t> &table) const;

private:
  uint32_t at(uint32_t r, uint32_t i) const { return words[r * length + i]; }
  void guess(uint32_t i);
  void verify();
  void choose();

  ArrayRef<uint32_t> words;
  uint32_t times, length;
  std::vector<Column> columns;
};
} // namespace

/// Finds the shortest cycle that the column has in the middle.
void Repetitions::guess(uint32_t i) {
  uint32_t middle = times / 2;
  uint32_t longest = std::min(times / 4, kMaxCycle);
  for (uint32_t cycle = 1; cycle <= longest; ++cycle) {
    uint32_t step = at(middle + cycle, i) - at(middle, i), r = middle + 1;
    uint32_t last = std::min(middle + 2 * cycle + kLeastProof, times - cycle);
    while (r < last && at(r + cycle, i) - at(r, i) == step)
      ++r;
    if (r < last)
      continue;
    columns[i] = {cycle, step, 0, times};
    return;
  }
}

/// Finds the range in which the cycles are valid on both sides of the middle.
/// Walks in the order of the words, because these do not fit into the cache
/// column by column.
void Repetitions::verify() {
  uint32_t middle = times / 2;
  for (uint32_t r = middle; r-- > 0;)
    for (auto [i, column] : llvm::enumerate(columns))
      if (column.cycle > 0 && column.first <= r &&
          at(r + column.cycle, i) - at(r, i) != column.step)
        column.first = r + 1;
  for (uint32_t r = middle; r < times; ++r)
    for (auto [i, column] : llvm::enumerate(columns))
      if (column.cycle > 0 && r + column.cycle < column.last &&
          at(r + column.cycle, i) - at(r, i) != column.step)
        column.last = r + column.cycle;
}

/// Chooses columns and lists. Most columns become regular within a few
/// repetitions; a column that takes longer than an eighth of all repetitions is
/// listed instead.
void Repetitions::choose() {
  first = 0;
  last = times;
  for (const Column &column : columns) {
    if (!column.holds(times / 8, times - times / 8))
      continue;
    first = std::max(first, column.first);
    last = std::min(last, column.last);
  }
}

void Repetitions::analyze() {
  for (uint32_t i = 0; i < length; ++i)
    guess(i);
  verify();
  choose();
}

bool Repetitions::write(std::vector<uint32_t> &table) const {
  size_t begin = table.size();
  table.resize(begin + 3 * length);
  for (auto [i, column] : llvm::enumerate(columns)) {
    bool holds = column.holds(first, last);
    uint32_t cycle = holds ? column.cycle : last - first;
    uint32_t *words = &table[begin + 3 * i];
    words[0] = cycle == 1 ? at(first, i) : table.size();
    words[1] = cycle == 1 ? 0 : cycle;
    words[2] = holds ? column.step : 0;
    if (cycle > 1)
      for (uint32_t r = first; r < first + cycle; ++r)
        table.push_back(at(r, i));
  }
  if (table.size() - begin < size_t(length) * (last - first))
    return true;
  table.resize(begin);
  return false;
}

namespace {
class SectionWriter {
public:
  SectionWriter(ArrayRef<uint32_t> words, ArrayRef<uint32_t> rowBegins,
                std::vector<uint32_t> &table)
      : words(words), rowBegins(rowBegins), table(table) {}

  void run();

  std::vector<WordSection> sections;

private:
  uint32_t beginOf(uint32_t row) const {
    return row < rowBegins.size() ? rowBegins[row] : words.size();
  }
  void writePlain(uint32_t begin, uint32_t end);
  void write(Stretch stretch);

  ArrayRef<uint32_t> words, rowBegins;
  std::vector<uint32_t> &table;
};
} // namespace

/// Writes rows [`begin`, `end`) unchanged.
void SectionWriter::writePlain(uint32_t begin, uint32_t end) {
  while (begin < end) {
    uint32_t next = begin + 1;
    while (next < end && beginOf(next + 1) - beginOf(begin) <= kMaxSectionWords)
      ++next;
    uint32_t length = beginOf(next) - beginOf(begin);
    sections.push_back({static_cast<uint32_t>(table.size()), length, 1});
    llvm::append_range(table, words.slice(beginOf(begin), length));
    begin = next;
  }
}

void SectionWriter::write(Stretch stretch) {
  auto [begin, period, times] = stretch;
  uint32_t length = beginOf(begin + period) - beginOf(begin);
  if (times == 1 || length > kMaxSectionWords)
    return writePlain(begin, stretch.end());
  Repetitions repetitions(words.slice(beginOf(begin), length * times), times);
  repetitions.analyze();
  uint32_t first = begin + repetitions.first * period;
  uint32_t last = begin + repetitions.last * period;
  writePlain(begin, first);
  uint32_t position = table.size();
  if (repetitions.write(table))
    sections.push_back(
        {position, length, repetitions.last - repetitions.first});
  else
    writePlain(first, last);
  writePlain(last, stretch.end());
}

void SectionWriter::run() {
  auto follows = [&](uint32_t i, uint32_t period, uint32_t) {
    return words[rowBegins[i]] == words[rowBegins[i + period]] &&
           beginOf(i + 1) - beginOf(i) ==
               beginOf(i + period + 1) - beginOf(i + period);
  };
  for (Stretch stretch : findRepeats(rowBegins.size(), follows))
    write(stretch);
}

std::vector<WordSection>
pipesched::writeSections(ArrayRef<uint32_t> words, ArrayRef<uint32_t> rowBegins,
                         std::vector<uint32_t> &table) {
  SectionWriter writer(words, rowBegins, table);
  writer.run();
  assert(ArrayRef(readSections(writer.sections, table)) == words &&
         "sections read as the words that they were written from");
  return std::move(writer.sections);
}

std::vector<uint32_t> pipesched::readSections(ArrayRef<WordSection> sections,
                                              ArrayRef<uint32_t> table) {
  std::vector<uint32_t> words;
  for (const WordSection &section : sections)
    for (uint32_t r = 0; r < section.times; ++r)
      for (uint32_t i = 0; i < section.length; ++i)
        words.push_back(section.read(table, i, r));
  return words;
}
