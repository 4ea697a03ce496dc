//===- Format.h - Numbers and names as text ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format of times, sizes, ratios and names of cells in all exports.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_FORMAT_H
#define PIPESCHED_LIB_TARGET_FORMAT_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"

namespace pipesched {

/// Returns the shortest decimal that reads back as the same double. `value`
/// must be finite.
std::string formatDouble(double value);

/// Prints value / unit exactly, without trailing zeros: (1500000, 1000000) is
/// 1.5. `unit` must be a power of ten, `value` not negative.
void writeDecimal(llvm::raw_ostream &os, int64_t value, int64_t unit);

struct TimeUnit {
  int64_t ps;
  llvm::StringLiteral name;
};
/// Returns the largest of s, ms, us, ns, ps that does not exceed `ps`.
TimeUnit timeUnitFor(int64_t ps);

/// Returns four digits and a unit: 59.32 ms.
std::string formatTime(int64_t ps);
/// Returns two digits after the point: 34.51 %.
std::string formatPercent(double ratio);
/// Returns two digits after the point, in GiB.
std::string formatGiB(int64_t bytes);

/// Prints the cell of a task, or both cells of a pair: `2F0+1B3`.
void printTask(llvm::raw_ostream &os, const TaskGraph &graph, uint32_t task);
/// Returns the second cell if the task is a pair.
std::optional<Cell> overlappedCell(const TaskGraph &graph, uint32_t task);

/// Returns the smallest of 1, 2, 5 times a power of ten that is at least
/// `atLeast`.
int64_t niceStep(double atLeast);

/// Returns a name in valid UTF-8 on one line (printableText).
std::string printableName(llvm::StringRef name);

/// Cuts valid UTF-8 to at most `length` code points. After a cut, the last one
/// is an ellipsis.
std::string shorten(llvm::StringRef text, size_t length);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_FORMAT_H
