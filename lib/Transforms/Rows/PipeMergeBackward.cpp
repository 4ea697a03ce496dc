//===- PipeMergeBackward.cpp - pipe-merge-backward ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Merges each I with the W behind it.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Transforms/Passes.h"
#include "StoreBackward.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEMERGEBACKWARDPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult merge(ScheduleOp schedule, const MergeOptions &options) {
  llvm::Expected<BackwardChange> change =
      mergeBackward(ScheduleTable(schedule).view(), options);
  if (!change)
    return emitTableError(schedule, change.takeError());
  if (change->numKept > 0)
    emitRemark(schedule.getLoc())
        << "@" << schedule.getSymName() << ": " << change->numKept
        << " backward" << (change->numKept == 1 ? " stays" : "s stay")
        << " split, W not being right behind I";
  storeBackward(schedule, std::move(*change), /*isSplit=*/false);
  return success();
}

namespace {
struct PipeMergeBackwardPass final
    : SchedulePass<PipeMergeBackwardPass,
                   pipe::impl::PipeMergeBackwardPassBase> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const { return merge(op, {apart}); }
};
} // namespace
