//===- ShardyRules.h - Fragment schedule rules of Shardy MPMD ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the rows of a table as the rules that -mpmd-rule-based-schedule of
// Shardy's MPMD partitioner reads. docs/Exchange.md describes the format and
// its limits.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EXCHANGE_SHARDYRULES_H
#define PIPESCHED_EXCHANGE_SHARDYRULES_H

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// The fragments that the cells of a backward become.
enum class ShardyBackward : uint8_t {
  /// B is one whole fragment; I and W are the two parts of a split fragment.
  Cells,
  /// If any cell is split, does the same as -mpmd-split-bwd-fragments. A
  /// backward whose gradient is sent to another mesh becomes two parts, even if
  /// it is a B. All others become one whole fragment, at the place of their I.
  Fragments
};

template <>
struct EnumNames<ShardyBackward> {
  static constexpr EnumName<ShardyBackward> values[] = {
      {ShardyBackward::Cells, "cells", "one per cell"},
      {ShardyBackward::Fragments, "fragments",
       "those of a program that Shardy itself has split"}};
};

struct ShardyRulesOptions {
  /// With the default prefixes, stage 3 is the computation `s3` and worker 0
  /// the mesh `m0`.
  std::string stagePrefix = "s", meshPrefix = "m";
  /// Also writes the stage id. Shardy compares it, so it must be written
  /// exactly if the program's fragments have one.
  bool stageIds = false;
  ShardyBackward backward = ShardyBackward::Cells;
};

/// Writes a table that passes verifyTable as one command-line argument and a
/// newline, with one rule per worker that has cells. Idle slots are dropped.
///
/// If rules cannot express the table, returns a violation and writes nothing:
/// several paths; overlapped pairs; phases other than F, B, I, W; prefixes with
/// characters other than letters, digits and `_ - . : /`.
std::optional<Violation> writeShardyRules(llvm::raw_ostream &os,
                                          const TableView &table,
                                          const ShardyRulesOptions &options);

/// Finds the first I or W of a split backward that Shardy would not split,
/// because its gradient stays on the mesh.
std::optional<Violation> findUnsplitBackward(const TableView &table,
                                             const ShardyRulesOptions &options);

/// Whether a split backward sends its gradient after W. Shardy sends it after
/// I; the written order is valid in both cases.
bool sendsAfterWeightGrad(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_EXCHANGE_SHARDYRULES_H
