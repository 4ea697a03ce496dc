//===- ShardyRules.h - Fragment schedule rules of Shardy MPMD ---*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the rows of a table as the rules that -mpmd-rule-based-schedule of
// Shardy's MPMD partitioner reads. docs/Exchange.md has the format and its
// limits.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EXCHANGE_SHARDYRULES_H
#define PIPESCHED_EXCHANGE_SHARDYRULES_H

#include "PipeSched/Schedule/Table.h"
#include "PipeSched/Schedule/Verify.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// Which fragments a backward is written as.
enum class ShardyBackward : uint8_t {
  /// B as a whole one, I and W as the two parts of a split one.
  Cells,
  /// What -mpmd-split-bwd-fragments makes of a program, if any cell is split:
  /// where the gradient goes to another mesh, two parts (of a B as well), else
  /// a whole one (in the place of I).
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
  /// Stage 3 is the computation `s3`, worker 0 the mesh `m0`.
  std::string stagePrefix = "s", meshPrefix = "m";
  /// Writes the stage id too. Shardy compares it: it must be written exactly if
  /// the program's fragments have one.
  bool stageIds = false;
  ShardyBackward backward = ShardyBackward::Cells;
};

/// Writes a table that verifies (verifyTable) as one command-line argument, one
/// rule per worker that has cells, and the end of the line. Idle slots are
/// dropped.
///
/// Returns, with nothing written, what rules cannot express: several paths;
/// overlapped pairs; other phases than F, B, I, W; prefixes of other characters
/// than letters, digits and `_ - . : /`.
std::optional<Violation> writeShardyRules(llvm::raw_ostream &os,
                                          const TableView &table,
                                          const ShardyRulesOptions &options);

/// The first I or W, written as part of a split backward, that Shardy would not
/// split from its other half, since its gradient stays on the mesh.
std::optional<Violation> findUnsplitBackward(const TableView &table,
                                             const ShardyRulesOptions &options);

/// A backward is split and sends its gradient after W; Shardy sends it after I.
/// What is written is in order either way.
bool sendsAfterWeightGrad(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_EXCHANGE_SHARDYRULES_H
