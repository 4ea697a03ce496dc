//===- PipeScheduleGreedy.cpp - The greedy rule ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On any paths, and on waves as Hanayo.
//
//===----------------------------------------------------------------------===//

#include "../Rows/MeasureSlots.h"
#include "GeneratorPasses.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Schedule/Slots.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULEGREEDYPASS
#define GEN_PASS_DEF_PIPESCHEDULEHANAYOPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// The cells of a table that is not there yet.
static CellsInUse greedyCells(bool splitBackward) {
  auto bit = [](Phase phase) { return 1u << static_cast<unsigned>(phase); };
  unsigned backward = splitBackward
                          ? bit(Phase::InputGrad) | bit(Phase::WeightGrad)
                          : bit(Phase::Backward);
  return {bit(Phase::Forward) | backward};
}

/// The rows as the rule gives them, at the slots at which it does.
static FailureOr<Table> generateBySlots(ScheduleOp problem,
                                        const Placement &placement,
                                        FamilyOptions options,
                                        const SlotOptions &slotOptions) {
  FailureOr<std::vector<StageSlots>> slots = measureSlots(
      problem, placement, slotOptions, greedyCells(*options.splitBackward));
  if (failed(slots))
    return failure();
  options.slots = std::move(*slots);
  FailureOr<Table> table =
      generateFor(problem, *findFamily("greedy"), placement, options);
  if (failed(table))
    return failure();
  llvm::Expected<std::vector<Row>> rows = alignRows(table->view());
  if (!rows)
    return emitTableError(problem)
           << llvm::toString(rows.takeError()) << adviseOnSlots(slotOptions);
  table->rows = std::move(*rows);
  table->aligned = true;
  return table;
}

namespace {
struct PipeScheduleGreedyPass final
    : pipe::impl::PipeScheduleGreedyPassBase<PipeScheduleGreedyPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SlotOptions> slotOptions =
        readSlotOptions(getOperation(), getArgument(), slots, slot);
    if (failed(slotOptions) || failed(fill(*slotOptions)))
      signalPassFailure();
  }

private:
  LogicalResult fill(const SlotOptions &slotOptions) {
    FamilyOptions options = readBackward(splitBackward, gradientAfter);
    if (slotOptions.measure == SlotMeasure::Unit)
      return runGenerator(getOperation(), getArgument(), schedule, options);
    const Family &family = *findFamily("greedy");
    Builder builder(&getContext());
    SmallVector<NamedAttribute> written =
        describeFamily(builder, family, options);
    written.push_back(builder.getNamedAttr(
        "slots", builder.getStringAttr(enumName(slotOptions.measure))));
    return fillSchedules(getOperation(), schedule, family.name, written,
                         [&](ScheduleOp problem, const Placement &placement) {
                           return generateBySlots(problem, placement, options,
                                                  slotOptions);
                         });
  }
};

struct PipeScheduleHanayoPass final
    : pipe::impl::PipeScheduleHanayoPassBase<PipeScheduleHanayoPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options = readBackward(splitBackward, gradientAfter);
    options.waves = givenOf(waves);
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};
} // namespace
