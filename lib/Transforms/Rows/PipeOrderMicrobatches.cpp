//===- PipeOrderMicrobatches.cpp - pipe-order-microbatches ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives the places of the rows to other microbatches.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Kinds/Phases.h"
#include "PipeSched/Transforms/Passes.h"
#include "llvm/Support/MathExtras.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEORDERMICROBATCHESPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// The time that the cells of each microbatch take together.
static FailureOr<std::vector<int64_t>> measureLengths(ScheduleOp schedule,
                                                      const TableView &table) {
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs))
    return failure();
  if (!costs->profile || !costs->profile->variesByMicrobatch())
    return emitTableError(schedule)
           << "has no times by microbatch; attach a profile with some, or give "
              "the order";
  const Placement &placement = *table.placement;
  llvm::Expected<StageCosts> stageCosts =
      computeStageCosts(placement, *costs, phasesInUse(table));
  if (!stageCosts)
    return emitTableError(schedule) << llvm::toString(stageCosts.takeError());
  std::vector<int64_t> lengths(placement.getNumMicrobatches());
  for (ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      if (cell.isIn(kUnitComputePhases) &&
          llvm::AddOverflow(lengths[placement.microbatchOf(cell.getUnit())],
                            stageCosts->alonePs(placement, cell),
                            lengths[placement.microbatchOf(cell.getUnit())]))
        return emitTableError(schedule)
               << "has a microbatch that takes more than 2^63 - 1 ps";
  return lengths;
}

static LogicalResult reorder(ScheduleOp schedule, LengthOrder rule,
                             ArrayRef<int64_t> given) {
  ScheduleTable table(schedule);
  std::vector<int64_t> order = given;
  if (given.empty()) {
    FailureOr<std::vector<int64_t>> lengths =
        measureLengths(schedule, table.view());
    if (failed(lengths))
      return failure();
    order = orderByLength(*lengths, rule);
  }
  llvm::Expected<std::vector<Row>> rows =
      orderMicrobatches(table.view(), order);
  if (!rows)
    return emitTableError(schedule) << llvm::toString(rows.takeError());
  bool isUnchanged =
      llvm::all_of(llvm::zip_equal(*rows, table.view().rows), [](auto pair) {
        auto &[after, before] = pair;
        return ArrayRef<Cell>(after) == before;
      });
  if (isUnchanged)
    return success();
  storeRows(schedule, std::move(*rows));
  schedule.dropFamily();
  return success();
}

namespace {
struct PipeOrderMicrobatchesPass final
    : SchedulePass<PipeOrderMicrobatchesPass,
                   pipe::impl::PipeOrderMicrobatchesPassBase> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return reorder(op, order, llvm::to_vector(given));
  }
};
} // namespace
