//===- PipeAddRecompute.cpp - pipe-add-recompute --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts an R before each backward.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Edit/Recompute.h"
#include "PipeSched/Transforms/Passes.h"
#include "ReadRanges.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEADDRECOMPUTEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Checks that existing R cells are of `kind`, because all R of a schedule
/// recompute the same kind.
static LogicalResult checkKind(ScheduleOp schedule, Recompute kind) {
  RecomputeKind present = schedule.getRecompute().value_or(RecomputeKind::Full);
  if (present == RecomputeKind(kind))
    return success();
  for (WorkerOp row : schedule.getRows())
    for (auto [index, cell] : llvm::enumerate(row.getCells()))
      if (cell.is(Phase::Recompute))
        return emitTableError(row)
               << "cell " << index << " (" << cell.str() << ") recomputes "
               << stringifyRecomputeKind(present)
               << ", as all R of a schedule do; found kind="
               << stringifyRecomputeKind(RecomputeKind(kind));
  return success();
}

static LogicalResult recompute(ScheduleOp schedule, Recompute kind,
                               const RecomputeOptions &options) {
  llvm::Expected<RecomputeChange> change =
      addRecompute(ScheduleTable(schedule).view(), options);
  if (!change)
    return emitTableError(schedule, change.takeError());
  if (failed(checkKind(schedule, kind)))
    return failure();
  if (change->numPresent > 0)
    emitRemark(schedule.getLoc())
        << "@" << schedule.getSymName() << ": " << change->numPresent
        << " backward" << (change->numPresent == 1 ? " has an" : "s have their")
        << " R already";
  if (change->numAdded == 0)
    return success();
  storeRows(schedule, std::move(change->rows));
  schedule.removeRecomputeAttr();
  if (kind != Recompute::Full) // the default
    schedule.setRecompute(RecomputeKind(kind));
  schedule.dropFamily();
  return success();
}

namespace {
struct PipeAddRecomputePass final
    : SchedulePass<PipeAddRecomputePass, pipe::impl::PipeAddRecomputePassBase> {
  using Base::Base;

  LogicalResult prepare() {
    options = {};
    options.keep = keep;
    options.skipAdjacent = skipAdjacent;
    options.ahead = ahead;
    return readSelection(getOperation(), getArgument(),
                         {*stages, *workers, *microbatches}, options);
  }

  LogicalResult treat(ScheduleOp op) const {
    return recompute(op, kind, options);
  }

private:
  RecomputeOptions options;
};
} // namespace
