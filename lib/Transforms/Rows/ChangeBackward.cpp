//===- ChangeBackward.cpp - Split and merged backwards --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes pipe-split-backward and pipe-merge-backward. They update the
// option `split_backward` of the family, or drop the family.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Schedule/Edit/Backward.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEMERGEBACKWARDPASS
#define GEN_PASS_DEF_PIPESPLITBACKWARDPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Writes `split_backward` like a generator: only if it differs from the
/// default of the family. If the family never has such rows, removes its name.
static void describeSplit(ScheduleOp schedule, bool isSplit, bool isWhole) {
  const Family *family = findFamily(schedule.getFamily().value_or(""));
  if (!family)
    return;
  if (!isWhole || !family->splitsBackward)
    return schedule.dropFamily();
  Builder builder(schedule.getContext());
  NamedAttrList options(schedule.getFamilyOptionsAttr());
  options.erase("split_backward");
  if (isSplit != *family->splitsBackward)
    options.set("split_backward", builder.getBoolAttr(isSplit));
  schedule.setFamily(*schedule.getFamily(), options.getAttrs());
}

/// Stores the rows and the gradient rule. Updates the option `split_backward`
/// if the family has it, unless some backwards were not changed.
static void storeBackward(ScheduleOp schedule, BackwardChange change,
                          bool isSplit) {
  if (change.numChanged == 0)
    return;
  describeSplit(schedule, isSplit, /*isWhole=*/change.numKept == 0);
  schedule.setGradientAfter(change.gradientAfter);
  storeRows(schedule, std::move(change.rows));
}

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

static LogicalResult merge(ScheduleOp schedule, const MergeOptions &options) {
  llvm::Expected<BackwardChange> change =
      mergeBackward(ScheduleTable(schedule).view(), options);
  if (!change)
    return emitTableError(schedule, change.takeError());
  if (change->numKept > 0)
    emitRemark(schedule.getLoc())
        << "@" << schedule.getSymName() << ": " << change->numKept
        << " backward" << (change->numKept == 1 ? " stays" : "s stay")
        << " split: W is not right after I";
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
