//===- PipeSplitBackward.cpp - pipe-split-backward ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits each backward into I and W.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Transforms/Passes.h"
#include "StoreBackward.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESPLITBACKWARDPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static LogicalResult split(ScheduleOp schedule, const SplitOptions &options) {
  llvm::Expected<BackwardChange> change =
      splitBackward(ScheduleTable(schedule).view(), options);
  if (!change)
    return emitTableError(schedule, change.takeError());
  if (change->numKept > 0)
    emitRemark(schedule.getLoc())
        << "@" << schedule.getSymName() << ": " << change->numKept
        << " overlapped backward"
        << (change->numKept == 1 ? " stays" : "s stay") << " whole";
  storeBackward(schedule, std::move(*change), /*isSplit=*/true);
  return success();
}

static std::optional<GradientAfter> givenRule(SplitGradient option) {
  switch (option) {
  case SplitGradient::Auto:
    return std::nullopt;
  case SplitGradient::InputGrad:
    return GradientAfter::InputGrad;
  case SplitGradient::WeightGrad:
    return GradientAfter::WeightGrad;
  }
  llvm_unreachable("covered switch");
}

namespace {
struct PipeSplitBackwardPass final
    : SchedulePass<PipeSplitBackwardPass,
                   pipe::impl::PipeSplitBackwardPassBase> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return split(op, {givenRule(gradientAfter), overlapped});
  }
};
} // namespace
