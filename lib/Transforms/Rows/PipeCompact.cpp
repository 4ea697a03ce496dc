//===- PipeCompact.cpp - pipe-compact -------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes the idle slots out of the rows.
//
//===----------------------------------------------------------------------===//

#include "../Schedules.h"
#include "PipeSched/Schedule/Slots.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPECOMPACTPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeCompactPass final
    : pipe::impl::PipeCompactPassBase<PipeCompactPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<ScheduleOp>> schedules =
        selectSolutions(getOperation(), schedule);
    if (failed(schedules))
      return signalPassFailure();
    for (ScheduleOp op : *schedules) {
      storeRows(op, compactRows(ScheduleTable(op).view()));
      op.setAligned(false);
    }
  }
};
} // namespace
