//===- ResultTable.h - Results of several instances -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One row for each instance: the best known value, what was found, and what
// simpler methods find.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_OPTIMIZE_RESULTTABLE_H
#define PIPESCHED_TOOLS_PIPESCHED_OPTIMIZE_RESULTTABLE_H

#include "PipeSched/Description/Instance.h"

namespace pipesched::optimize {

enum class TableFormat { Text, Json, Csv };

} // namespace pipesched::optimize

namespace pipesched {
template <>
struct EnumNames<optimize::TableFormat> {
  static constexpr EnumName<optimize::TableFormat> values[] = {
      {optimize::TableFormat::Text, "text", "columns"},
      {optimize::TableFormat::Json, "json", "an array of objects"},
      {optimize::TableFormat::Csv, "csv", "with a line of names"}};
};
} // namespace pipesched

namespace pipesched::optimize {

/// The result for one instance. Objectives and bounds are in ticks.
struct ResultRow {
  std::string name;
  Objective objective = Objective::Makespan;
  std::optional<int64_t> bestKnown;
  int64_t found = 0, lowerBound = 0;
  std::string bound;  ///< name of the lower bound
  std::string origin; ///< what found the schedule
  Status status = Status::TimeLimit;
  double seconds = 0;
  std::optional<int64_t> heuristic; ///< of the constructive heuristics alone
  std::optional<int64_t> seed;      ///< of the best static schedule that fits
  std::string seedName;
};

void writeTable(llvm::ArrayRef<ResultRow> rows, TableFormat format,
                llvm::raw_ostream &os);

} // namespace pipesched::optimize

#endif // PIPESCHED_TOOLS_PIPESCHED_OPTIMIZE_RESULTTABLE_H
