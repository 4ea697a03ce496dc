//===- ShardyRulesTranslation.cpp - Shardy's schedule rules for the tool --===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects schedule ops to lib/Exchange: options, names, diagnostics.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Target/ShardyRules.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "SelectSchedule.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace pipesched;

namespace {

struct ShardyOptions {
  llvm::cl::opt<std::string> stagePrefix{
      "shardy-stage-prefix",
      llvm::cl::desc("Before the number of a stage: the name of its "
                     "computation (default: s)"),
      llvm::cl::value_desc("text"), llvm::cl::init("s")};
  llvm::cl::opt<std::string> meshPrefix{
      "shardy-mesh-prefix",
      llvm::cl::desc("Before the number of a worker: the name of its mesh "
                     "(default: m)"),
      llvm::cl::value_desc("text"), llvm::cl::init("m")};
  llvm::cl::opt<bool> stageIds{
      "shardy-stage-ids",
      llvm::cl::desc("Write stage ids too, for programs whose fragments have "
                     "them"),
      llvm::cl::init(false)};
  llvm::cl::opt<ShardyBackward> backward{
      "shardy-backward",
      llvm::cl::desc("Which fragments --export-shardy-rules writes"),
      enumOptionValuesWithDefault<ShardyBackward::Cells>(),
      llvm::cl::init(ShardyBackward::Cells)};
  llvm::cl::opt<std::string> schedule{
      "shardy-schedule",
      llvm::cl::desc("The schedule that --export-shardy-rules writes, where "
                     "there are several"),
      llvm::cl::value_desc("name")};

  ShardyRulesOptions rules() const {
    return {stagePrefix, meshPrefix, stageIds, backward};
  }
};

} // namespace

/// Created at the first registration; LLVM requires options to outlive parsing.
static ShardyOptions &shardyOptions() {
  static ShardyOptions instance;
  return instance;
}

/// Warns about what Shardy does differently from the schedule.
static void warn(pipe::ScheduleOp schedule, const TableView &table,
                 const ShardyRulesOptions &rules) {
  if (std::optional<Violation> violation = findUnsplitBackward(table, rules))
    emitWarning(schedule->getLoc())
        << "worker " << violation->at->row << ": " << violation->message
        << "; --shardy-backward=fragments writes it whole";
  if (sendsAfterWeightGrad(table))
    emitWarning(schedule->getLoc())
        << "Shardy sends gradients after I, the schedule after W; the order "
           "of fragments is the same";
}

LogicalResult pipesched::exportShardyRules(pipe::ScheduleOp schedule,
                                           const ShardyRulesOptions &rules,
                                           raw_ostream &os) {
  pipe::ScheduleTable loaded(schedule);
  TableView table = loaded.view();
  if (failed(verifyForExport(schedule, table)))
    return failure();
  if (std::optional<Violation> violation = writeShardyRules(os, table, rules))
    return pipe::emitViolation(schedule, *violation);
  warn(schedule, table, rules);
  return success();
}

static LogicalResult exportRules(Operation *root, raw_ostream &os) {
  FailureOr<pipe::ScheduleOp> schedule =
      selectSchedule(root, shardyOptions().schedule,
                     shardyOptions().schedule.ArgStr, "a set of rules");
  if (failed(schedule))
    return failure();
  return exportShardyRules(*schedule, shardyOptions().rules(), os);
}

void pipesched::registerShardyTranslations() {
  shardyOptions();
  registerExport("export-shardy-rules",
                 "fragment schedule rules for Shardy MPMD", exportRules);
}
