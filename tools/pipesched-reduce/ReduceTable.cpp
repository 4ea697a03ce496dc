//===- ReduceTable.cpp - Reduction of schedules ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's reducer erases whole ops, but a schedule needs all its rows, and cells
// of several rows belong together. So the pattern below removes microbatches,
// workers and other parts from all rows at once.
//
//===----------------------------------------------------------------------===//

#include "ReduceTable.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Edit/KeepParts.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Reducer/ReductionPatternInterface.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
/// Makes one schedule smaller as long as the judge finds its module
/// interesting.
class TableReducer {
public:
  TableReducer(ScheduleOp schedule, Tester &judge)
      : schedule(schedule), judge(judge) {
    ScheduleTable loaded(schedule);
    TableView view = loaded.view();
    current = {*view.placement,
               view.gradientAfter,
               view.aligned,
               std::move(view.slots),
               {}};
    if (!schedule.isProblem())
      current.rows.assign(view.rows.begin(), view.rows.end());
  }

  /// Returns whether the schedule became smaller.
  bool run();

private:
  bool isInteresting() const;
  bool dropAttributes();
  bool drop(llvm::BitVector TableParts::*kind);
  bool keep(const TableParts &parts);
  void store(const Table &table) const;

  ScheduleOp schedule;
  Tester &judge;
  Table current; ///< the smallest table so far
};
} // namespace

bool TableReducer::isInteresting() const {
  return succeeded(verify(schedule)) &&
         judge.isInteresting(schedule->getParentOfType<ModuleOp>()).first ==
             Tester::Interestingness::True;
}

/// Replaces the nodes and edges of a schedule.
static void storeAdded(ScheduleOp schedule, const AddedStages &added) {
  for (Operation &op : llvm::make_early_inc_range(*schedule.getBody()))
    if (isa<NodeOp, EdgeOp>(op))
      op.erase();
  auto builder = OpBuilder::atBlockBegin(schedule.getBody());
  for (const StageNode &node : added.nodes)
    NodeOp::create(builder, schedule.getLoc(), node);
  for (const AddedEdge &edge : added.edges)
    EdgeOp::create(builder, schedule.getLoc(), edge);
}

void TableReducer::store(const Table &table) const {
  ScheduleOp op = schedule;
  for (WorkerOp row : llvm::make_early_inc_range(op.getRows()))
    row.erase();
  op.setWorkers(table.placement.getNumWorkers());
  op.setMicrobatches(table.placement.getNumMicrobatches());
  op.setSlices(table.placement.getNumSlices());
  storeAdded(op, table.placement.getAdded());
  storePaths(op, table.placement.getPaths()); // before the nodes and edges
  storeSlots(op, table.placement, table.slots);
  storeRows(op, std::vector<Row>(table.rows));
}

/// Drops the attributes without which the module stays interesting.
bool TableReducer::dropAttributes() {
  bool isChanged = false;
  for (StringRef name : {"familyOptions", "family", "aligned", "recompute",
                         "slots", "profile", "model"}) {
    Attribute value = schedule->getAttr(name);
    if (!value)
      continue;
    schedule->removeAttr(name);
    if (isInteresting())
      isChanged = true;
    else
      schedule->setAttr(name, value);
  }
  current.aligned = schedule.getAligned();
  if (!schedule.getSlotsAttr())
    current.slots.clear();
  return isChanged;
}

static int64_t sizeOf(const Table &table) {
  return table.placement.getNumUnits() + table.placement.getNumWorkers() +
         table.placement.getNumGlobalStages() + table.view().getNumCells();
}

/// Keeps only these parts if that is smaller and stays interesting.
bool TableReducer::keep(const TableParts &parts) {
  llvm::Expected<Table> smaller = keepParts(current.view(), parts);
  if (!smaller) {
    llvm::consumeError(smaller.takeError());
    return false;
  }
  if (sizeOf(*smaller) >= sizeOf(current))
    return false;
  store(*smaller);
  if (isInteresting()) {
    current = std::move(*smaller);
    return true;
  }
  store(current);
  return false;
}

/// Drops runs of parts of one kind: first half of them at once, then fewer and
/// fewer.
bool TableReducer::drop(llvm::BitVector TableParts::*kind) {
  bool isChanged = false;
  auto count = [&] { return (TableParts(current.view()).*kind).size(); };
  for (unsigned size = count() / 2; size > 0; size /= 2)
    for (unsigned first = 0; first < count();) {
      TableParts parts(current.view());
      (parts.*kind).reset(first, std::min(first + size, count()));
      if (keep(parts))
        isChanged = true;
      else
        first += size;
    }
  return isChanged;
}

bool TableReducer::run() {
  // Parts of problems are numbered too, and too many would take long.
  if (current.placement.getNumUnits() > kMaxTableCells)
    return false;
  bool isChanged = dropAttributes();
  for (bool isSmaller = true; isSmaller;) {
    isSmaller = false;
    for (auto kind :
         {&TableParts::microbatches, &TableParts::workers, &TableParts::stages,
          &TableParts::slices, &TableParts::phases, &TableParts::cells})
      isSmaller |= drop(kind);
    isChanged |= isSmaller;
  }
  return isChanged;
}

namespace {
struct ReduceSchedule final : OpRewritePattern<ScheduleOp> {
  ReduceSchedule(MLIRContext *context, Tester &judge)
      : OpRewritePattern(context), judge(judge) {}

  LogicalResult matchAndRewrite(ScheduleOp schedule,
                                PatternRewriter &rewriter) const override {
    // The driver visits modified ops again, so report only changes.
    if (!TableReducer(schedule, judge).run())
      return failure();
    rewriter.modifyOpInPlace(schedule, [] {});
    return success();
  }

  Tester &judge;
};

struct TableReduction final : DialectReductionPatternInterface {
  explicit TableReduction(Dialect *dialect)
      : DialectReductionPatternInterface(dialect) {}

  void populateReductionPatterns(RewritePatternSet &) const override {}
  void populateReductionPatternsWithTester(RewritePatternSet &patterns,
                                           Tester &judge) const override {
    patterns.add<ReduceSchedule>(patterns.getContext(), judge);
  }
};
} // namespace

void pipesched::registerTableReduction(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *, PipeDialect *dialect) {
    dialect->addInterfaces<TableReduction>();
  });
}
