//===- Format.h - Numbers and names as text -----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one way in which exports print times, sizes, ratios and names of cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_FORMAT_H
#define PIPESCHED_LIB_TARGET_FORMAT_H

#include "PipeSched/Analysis/TaskGraph.h"

namespace pipesched {

/// The shortest decimal that reads back as the same double; the value is
/// finite.
std::string formatDouble(double value);

/// value / unit exactly, without trailing zeros: (1500000, 1000000) is 1.5.
/// `unit` is a power of ten, `value` not negative.
void writeDecimal(llvm::raw_ostream &os, int64_t value, int64_t unit);

struct TimeUnit {
  int64_t ps;
  llvm::StringLiteral name;
};
/// The largest of s, ms, us, ns, ps that is not longer than `ps`.
TimeUnit timeUnitFor(int64_t ps);

/// Four digits and a unit: 59.32 ms.
std::string formatTime(int64_t ps);
/// Two digits after the point: 34.51 %.
std::string formatPercent(double ratio);
/// Two digits after the point, in GiB.
std::string formatGiB(int64_t bytes);

/// `forward`, `input gradient`, ...
llvm::StringRef phaseName(Phase phase);

/// The cell of a task, both of a pair: `2F0+1B3`.
void printTask(llvm::raw_ostream &os, const TaskGraph &graph, uint32_t task);
/// The second cell of a pair.
std::optional<Cell> overlappedCell(const TaskGraph &graph, uint32_t task);

/// The smallest of 1, 2, 5 times a power of ten that is at least `atLeast`.
int64_t niceStep(double atLeast);

/// Valid UTF-8 on one line: broken sequences and control characters replaced.
std::string printableName(llvm::StringRef name);

/// At most so many code points of valid UTF-8, the last an ellipsis where some
/// are left out.
std::string shorten(llvm::StringRef text, size_t length);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_FORMAT_H
