//===- Format.cpp - Numbers and names as text -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exact decimals are computed from integers; only numbers for users are
// rounded.
//
//===----------------------------------------------------------------------===//

#include "Format.h"
#include "PipeSched/Support/PrintableText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <charconv>

using namespace pipesched;

static std::string formatFixed(double value, int decimals) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f", decimals, value);
  return text;
}

std::string pipesched::formatDouble(double value) {
  char buffer[32]; // the longest result has 24 characters
  auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void pipesched::writeDecimal(llvm::raw_ostream &os, int64_t value,
                             int64_t unit) {
  os << value / unit;
  int64_t rest = value % unit;
  if (rest == 0)
    return;
  os << '.';
  for (; rest != 0; rest %= unit) {
    unit /= 10;
    os << static_cast<char>('0' + rest / unit);
  }
}

TimeUnit pipesched::timeUnitFor(int64_t ps) {
  for (TimeUnit unit : {TimeUnit{1000000000000, "s"},
                        {1000000000, "ms"},
                        {1000000, "us"},
                        {1000, "ns"}})
    if (ps >= unit.ps)
      return unit;
  return {1, "ps"};
}

std::string pipesched::formatTime(int64_t ps) {
  TimeUnit unit = timeUnitFor(ps);
  double value = static_cast<double>(ps) / static_cast<double>(unit.ps);
  int decimals = unit.ps == 1 ? 0 : value < 10 ? 3 : value < 100 ? 2 : 1;
  return formatFixed(value, decimals) + " " + unit.name.str();
}

std::string pipesched::formatPercent(double ratio) {
  return formatFixed(100 * ratio, 2) + " %";
}

std::string pipesched::formatGiB(int64_t bytes) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  return formatFixed(static_cast<double>(bytes) / kGiB, 2) + " GiB";
}

std::optional<Cell> pipesched::overlappedCell(const TaskGraph &graph,
                                              uint32_t task) {
  if (graph.overlapped.empty() || !graph.cell[task].overlapsNext())
    return std::nullopt;
  return graph.overlapped[task];
}

void pipesched::printTask(llvm::raw_ostream &os, const TaskGraph &graph,
                          uint32_t task) {
  os << graph.nameOf(graph.cell[task]);
  if (std::optional<Cell> second = overlappedCell(graph, task))
    os << '+' << graph.nameOf(*second);
}

int64_t pipesched::niceStep(double atLeast) {
  int64_t power = 1;
  while (static_cast<double>(power) * 10 <= atLeast &&
         power < 100000000000000000)
    power *= 10;
  for (int64_t factor : {1, 2, 5})
    if (static_cast<double>(factor * power) >= atLeast)
      return factor * power;
  return 10 * power;
}

std::string pipesched::printableName(llvm::StringRef name) {
  return printableText(name);
}

std::string pipesched::shorten(llvm::StringRef text, size_t length) {
  auto isStart = [](char c) { return (c & 0xc0) != 0x80; };
  size_t kept = 0, end = 0; // `end` is the position of the ellipsis
  for (size_t i = 0; i < text.size(); ++i) {
    if (!isStart(text[i]))
      continue;
    if (kept + 1 == length)
      end = i;
    if (kept++ == length)
      return (text.take_front(end) + "…").str();
  }
  return text.str();
}
