//===- PipeAddOffload.cpp - pipe-add-offload ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Offloads activations to host memory and reloads them.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Transforms/Passes.h"
#include "ReadRanges.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEADDOFFLOADPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Reports the number of selected activations that got no D, and why.
static void emitRemarks(ScheduleOp schedule, const OffloadChange &change,
                        int64_t ahead) {
  auto remark = [&](int64_t count) {
    return emitRemark(schedule.getLoc())
           << "@" << schedule.getSymName() << ": " << count << " activation"
           << (count == 1 ? " " : "s ");
  };
  if (change.numPresent > 0)
    remark(change.numPresent)
        << (change.numPresent == 1 ? "is" : "are") << " offloaded already";
  if (change.numRecomputed > 0)
    remark(change.numRecomputed) << (change.numRecomputed == 1 ? "is" : "are")
                                 << " recomputed, not offloaded";
  if (change.numBrief > 0)
    remark(change.numBrief)
        << (change.numBrief == 1 ? "stays" : "stay")
        << " on the device: fewer than " << ahead + 1 << " compute cell"
        << (ahead == 0 ? " stands" : "s stand")
        << " between forward and backward";
}

/// Reports which tensors stay on the device: a D right after the F of a slice
/// cannot take the keys and values that later slices read.
static void remarkKeptKeys(ScheduleOp schedule, int64_t numSlices) {
  if (numSlices > 1)
    emitRemark(schedule.getLoc())
        << "@" << schedule.getSymName()
        << ": keys and values of offloaded slices stay on the device for later "
           "slices; bytes count them there, numbers of activations do not";
}

static LogicalResult addOffload(ScheduleOp schedule,
                                const OffloadOptions &options) {
  ScheduleTable table(schedule);
  llvm::Expected<OffloadChange> change =
      pipesched::addOffload(table.view(), options);
  if (!change)
    return emitTableError(schedule, change.takeError());
  emitRemarks(schedule, *change, options.ahead);
  if (change->numAdded == 0 && change->numJoins == 0)
    return success();
  if (change->numAdded > 0)
    remarkKeptKeys(schedule, table.view().placement->getNumSlices());
  storeRows(schedule, std::move(change->rows));
  schedule.dropFamily();
  return success();
}

namespace {
struct PipeAddOffloadPass final
    : SchedulePass<PipeAddOffloadPass, pipe::impl::PipeAddOffloadPassBase> {
  using Base::Base;

  LogicalResult prepare() {
    options = {};
    options.amount = amount;
    options.keep = keep;
    options.ahead = ahead;
    options.memory = memory;
    return readSelection(getOperation(), getArgument(),
                         {*stages, *workers, *microbatches}, options);
  }

  LogicalResult treat(ScheduleOp op) const { return ::addOffload(op, options); }

private:
  OffloadOptions options;
};
} // namespace
