//===- FillSchedule.cpp - The rows of a family ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates the table of a family and writes it into a schedule.
//
//===----------------------------------------------------------------------===//

#include "FillSchedule.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Schedule/Table/Slots.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static bool isSamePath(const Path &a, const Path &b) {
  return a.workers == b.workers && a.takes == b.takes && a.blocks == b.blocks &&
         a.weights == b.weights && a.backward == b.backward;
}

/// Writes the paths of the family. If the problem stated which microbatches
/// each path takes, a remark says that the family replaces this assignment.
static void replacePaths(ScheduleOp schedule, StringRef family,
                         const Placement &given, const Placement &placement) {
  if (llvm::equal(given.getPaths(), placement.getPaths(), isSamePath))
    return;
  if (given.getNumPaths() > 1 && given.isAssigned())
    emitRemark(schedule.getLoc())
        << family << " assigns microbatches to paths by a rule of its own, "
        << "which replaces what they took";
  storePaths(schedule, placement.getPaths());
}

static void storeTable(ScheduleOp problem, const Placement &given,
                       StringRef family, ArrayRef<NamedAttribute> options,
                       Table &&table) {
  replacePaths(problem, family, given, table.placement);
  problem.setSlices(table.placement.getNumSlices());
  storeRows(problem, std::move(table.rows));
  problem.setGradientAfter(table.gradientAfter);
  problem.setAligned(table.aligned);
  storeSlots(problem, table.placement, table.slots);
  problem.setFamily(family, options);
}

/// Emits the requested size before a long wait. Each stage has at least an F
/// and a B for each microbatch. The bytes and the time per cell come from
/// benchmarks/README.md (`generate`, `generate-to-report`; `graph-blocking` and
/// its successors). A table above kMaxTableCells is refused without this
/// remark.
static void announceSize(ScheduleOp problem, const Placement &placement) {
  constexpr int64_t kCellsWorthAWord = int64_t(1) << 24;
  constexpr double kRowBytes = 8, kReportBytes = 48, kReportSeconds = 1.5e-7;
  constexpr double kGraphBytes = 232, kGraphSeconds = 4e-7;
  int64_t numPairs = placement.getNumPairs();
  if (numPairs <= kCellsWorthAWord / 2 || numPairs > kMaxTableCells / 2)
    return;
  int64_t numCells = 2 * numPairs;
  auto cells = static_cast<double>(numCells);
  emitRemark(problem.getLoc())
      << llvm::formatv(
             "asks for {0} cells or more: {1:F1} GiB of rows, and up "
             "to {2:F1} GiB and about {3:F0} s for a report, or {4:F1} "
             "GiB and {5:F0} s where that needs a graph",
             numCells, cells * kRowBytes / (1 << 30),
             cells * kReportBytes / (1 << 30), cells * kReportSeconds,
             cells * kGraphBytes / (1 << 30), cells * kGraphSeconds)
             .str();
}

/// Returns the phases that a greedy table will have; needed before it is
/// generated.
static CellsInUse greedyCells(bool splitBackward) {
  PhaseSet backward = splitBackward ? kSplitBackward : Phase::Backward;
  return {backward | Phase::Forward};
}

static FailureOr<Table> generateFor(ScheduleOp problem, const Family &family,
                                    const Placement &placement,
                                    const FamilyOptions &options) {
  llvm::Expected<Table> table = generate(family, placement, options);
  if (!table)
    return emitTableError(problem) << llvm::toString(table.takeError());
  return std::move(*table);
}

/// Generates a table in which cells have their measured lengths and start at
/// the slots that the greedy rule chooses.
static FailureOr<Table> generateBySlots(ScheduleOp problem,
                                        const Family &family,
                                        const Placement &placement,
                                        FamilyOptions options,
                                        const SlotOptions &slotOptions) {
  bool isSplit =
      options.splitBackward.value_or(family.splitsBackward.value_or(false));
  FailureOr<std::vector<StageSlots>> slots =
      measureSlots(problem, placement, slotOptions, greedyCells(isSplit));
  if (failed(slots))
    return failure();
  options.slots = std::move(*slots);
  FailureOr<Table> table = generateFor(problem, family, placement, options);
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

LogicalResult pipe::fillSchedule(ScheduleOp problem, const Family &family,
                                 const FamilyOptions &options,
                                 const SlotOptions &slots) {
  Builder builder(problem.getContext());
  SmallVector<NamedAttribute> written =
      describeFamily(builder, family, options);
  Placement given = ScheduleTable(problem).getPlacement();
  announceSize(problem, given);
  bool isMeasured = slots.measure != SlotMeasure::Unit;
  if (isMeasured)
    written.push_back(builder.getNamedAttr(
        kSlotsOption, builder.getStringAttr(enumName(slots.measure))));
  FailureOr<Table> table =
      isMeasured ? generateBySlots(problem, family, given, options, slots)
                 : generateFor(problem, family, given, options);
  if (failed(table))
    return failure();
  storeTable(problem, given, family.name, written, std::move(*table));
  return success();
}
