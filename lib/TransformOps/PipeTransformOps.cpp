//===- PipeTransformOps.cpp - Transform scripts for schedules -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops run the same passes and functions as pipelines. An error of these
// becomes a silenceable failure, with a note at the op of the script.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/TransformOps/PipeTransformOps.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#define GET_OP_CLASSES
#include "PipeSched/TransformOps/PipeTransformOps.cpp.inc"

using namespace mlir;
using namespace mlir::transform;
using namespace pipesched;
using pipe::ScheduleOp;

/// Adds ops to the dialect. `TransformDialectExtension` would, in builds with
/// assertions, call functions that MLIR has only if it was built with
/// assertions too.
template <typename... Ops>
static void insertOps(TransformDialect &dialect) {
  auto insert = [&](auto *op) {
    using Op = std::remove_pointer_t<decltype(op)>;
    if (!RegisteredOperationName::lookup(TypeID::get<Op>(),
                                         dialect.getContext()))
      RegisteredOperationName::insert<Op>(dialect);
  };
  (insert(static_cast<Ops *>(nullptr)), ...);
}

void pipesched::registerPipeTransformOps(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TransformDialect *dialect) {
    context->loadDialect<pipe::PipeDialect>();
    insertOps<
#define GET_OP_LIST
#include "PipeSched/TransformOps/PipeTransformOps.cpp.inc"
        >(*dialect);
  });
}

//===----------------------------------------------------------------------===//
// Errors and passes
//===----------------------------------------------------------------------===//

/// Runs a function. Errors that it emits become the failure; other diagnostics
/// are emitted as usual.
static DiagnosedSilenceableFailure
attempt(Operation *script, llvm::function_ref<LogicalResult()> run) {
  SmallVector<Diagnostic> errors;
  ScopedDiagnosticHandler handler(
      script->getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        diagnostic.attachNote(script->getLoc())
            << "in this '" << script->getName() << "' op";
        errors.push_back(std::move(diagnostic));
        return success();
      });
  if (succeeded(run()))
    return DiagnosedSilenceableFailure::success();
  return DiagnosedSilenceableFailure::silenceableFailure(std::move(errors));
}

static DiagnosedSilenceableFailure runPass(Operation *script, Operation *root,
                                           StringRef name, StringRef options) {
  return attempt(script, [&]() -> LogicalResult {
    auto fail = [&](const Twine &message) {
      return emitError(script->getLoc())
             << name << ": " << StringRef(message.str()).trim();
    };
    const PassInfo *pass = PassInfo::lookup(name);
    if (!pass)
      return fail(
          "unknown pass; if it is in a plugin, give --load-pass-plugin");
    PassManager passes(root->getContext(), root->getName().getStringRef());
    return success(succeeded(pass->addToPipeline(passes, options, fail)) &&
                   succeeded(passes.run(root)));
  });
}

/// The same for an op of the script that changes a schedule.
static DiagnosedSilenceableFailure changeBy(Operation *script,
                                            ScheduleOp schedule, StringRef name,
                                            std::optional<StringRef> options,
                                            ApplyToEachResultList &results) {
  results.push_back(schedule);
  return runPass(script, schedule, name, options.value_or(""));
}

//===----------------------------------------------------------------------===//
// Ops that run a pass
//===----------------------------------------------------------------------===//

DiagnosedSilenceableFailure
PipeGenerateOp::applyToOne(TransformRewriter &, ScheduleOp target,
                           ApplyToEachResultList &results, TransformState &) {
  llvm::Expected<const Family *> family = lookUpFamily(getFamily());
  if (!family)
    return emitSilenceableError() << llvm::toString(family.takeError());
  return changeBy(*this, target, ("pipe-schedule-" + (*family)->name).str(),
                  getOptions(), results);
}

DiagnosedSilenceableFailure
PipePlaceOp::applyToOne(TransformRewriter &, ScheduleOp target,
                        ApplyToEachResultList &results, TransformState &) {
  return changeBy(*this, target, ("pipe-place-" + getPlacement()).str(),
                  getOptions(), results);
}

DiagnosedSilenceableFailure
PipeOptimizeOp::applyToOne(TransformRewriter &, ScheduleOp target,
                           ApplyToEachResultList &results, TransformState &) {
  results.push_back(target);
  // The pass looks for models in the module.
  auto module = dyn_cast<ModuleOp>(target->getParentOp());
  if (!module)
    return emitSilenceableError() << "the schedule is in no module";
  std::string options =
      ("schedule=" + target.getSymName() + " " + getOptions().value_or(""))
          .str();
  return runPass(*this, module, "pipe-optimize", options);
}

DiagnosedSilenceableFailure PipeVerifyOp::applyToOne(TransformRewriter &,
                                                     ScheduleOp target,
                                                     ApplyToEachResultList &,
                                                     TransformState &) {
  return runPass(*this, target, "pipe-verify", getOptions().value_or(""));
}

//===----------------------------------------------------------------------===//
// match_schedule
//===----------------------------------------------------------------------===//

DiagnosedSilenceableFailure
PipeMatchScheduleOp::apply(TransformRewriter &, TransformResults &results,
                           TransformState &state) {
  SmallVector<Operation *> found;
  for (Operation *root : state.getPayloadOps(getTarget())) {
    auto module = dyn_cast<ModuleOp>(root);
    if (!module)
      return emitSilenceableError()
             << "looks for schedules in a module, found '" << root->getName()
             << "'";
    DiagnosedSilenceableFailure result = attempt(*this, [&] {
      auto schedules = pipe::selectSchedules(module, getName().value_or(""));
      if (succeeded(schedules))
        found.append(schedules->begin(), schedules->end());
      return LogicalResult(schedules);
    });
    if (!result.succeeded())
      return result;
  }
  results.set(cast<OpResult>(getSchedules()), found);
  return DiagnosedSilenceableFailure::success();
}

//===----------------------------------------------------------------------===//
// Ops that change rows
//===----------------------------------------------------------------------===//

static std::vector<Row> copyRows(const TableView &table) {
  return std::vector<Row>(table.rows.begin(), table.rows.end());
}

static std::optional<CellRef> findCell(const TableView &table, StringRef name) {
  for (auto [row, cells] : llvm::enumerate(table.rows))
    for (auto [index, cell] : llvm::enumerate(cells))
      if (table.placement->nameOf(cell).str() == name)
        return CellRef{static_cast<int64_t>(row), static_cast<int64_t>(index)};
  return std::nullopt;
}

static bool isOverlapped(const Row &row, int64_t index) {
  return row[index].overlapsNext() ||
         (index > 0 && row[index - 1].overlapsNext());
}

/// Moves the cell at `from` before or after the cell at `to`; an overlapped
/// pair stays together.
static void moveCell(Row &row, int64_t from, int64_t to, bool isAfter) {
  if (!isAfter && to > 0 && row[to - 1].overlapsNext())
    --to;
  if (isAfter)
    to += row[to].overlapsNext() ? 2 : 1;
  auto begin = row.begin();
  if (from < to)
    std::rotate(begin + from, begin + from + 1, begin + to);
  else
    std::rotate(begin + to, begin + from, begin + from + 1);
}

LogicalResult PipeMoveCellOp::verify() {
  if (getBefore().has_value() == getAfter().has_value())
    return emitOpError("needs either the cell before or the cell after which "
                       "the cell is to be");
  return success();
}

DiagnosedSilenceableFailure
PipeMoveCellOp::applyToOne(TransformRewriter &, ScheduleOp target,
                           ApplyToEachResultList &results, TransformState &) {
  results.push_back(target);
  pipe::ScheduleTable loaded(target);
  TableView table = loaded.view();
  StringRef anchor = getBefore() ? *getBefore() : *getAfter();
  std::optional<CellRef> from = findCell(table, getCell());
  std::optional<CellRef> to = findCell(table, anchor);
  if (!from || !to)
    return emitSilenceableError()
           << "@" << target.getSymName() << " has no cell "
           << (from ? anchor : getCell());
  if (from->row != to->row)
    return emitSilenceableError()
           << getCell() << " is in the row of worker " << from->row << ", but "
           << anchor << " is in the row of worker " << to->row;
  std::vector<Row> rows = copyRows(table);
  Row &row = rows[from->row];
  if (from->index == to->index || isOverlapped(row, from->index))
    return emitSilenceableError()
           << getCell()
           << (from->index == to->index ? " cannot be moved to itself"
                                        : " runs overlapped with another cell");
  moveCell(row, from->index, to->index, getAfter().has_value());
  return attempt(*this,
                 [&] { return pipe::replaceRows(target, std::move(rows)); });
}

LogicalResult PipeReplaceRowsOp::verifyRegions() {
  Block &body = getBodyRegion().front();
  auto schedules = body.getOps<ScheduleOp>();
  if (body.getOperations().size() != 1 || schedules.empty() ||
      (*schedules.begin()).isProblem())
    return emitOpError("needs one pipe.schedule with rows in its region");
  return success();
}

DiagnosedSilenceableFailure
PipeReplaceRowsOp::applyToOne(TransformRewriter &, ScheduleOp target,
                              ApplyToEachResultList &results,
                              TransformState &) {
  results.push_back(target);
  auto given = cast<ScheduleOp>(getBodyRegion().front().front());
  return attempt(*this, [&] {
    return pipe::replaceRows(target,
                             copyRows(pipe::ScheduleTable(given).view()));
  });
}

//===----------------------------------------------------------------------===//
// assert_makespan
//===----------------------------------------------------------------------===//

namespace {
/// A limit of a step, in slots or as a time.
struct Limit {
  bool isSlots = false;
  int64_t value = 0; ///< slots or picoseconds
};
} // namespace

static llvm::Expected<Limit> readLimit(StringRef text) {
  Limit limit;
  StringRef number = text;
  limit.isSlots = number.consume_back(" slots");
  if (limit.isSlots) {
    if (!number.getAsInteger(10, limit.value))
      return limit;
    return llvm::createStringError("expected a limit as '21 slots' or '1.5ms', "
                                   "found '" +
                                   text + "'");
  }
  if (llvm::Error error = parseTime(text).moveInto(limit.value))
    return std::move(error);
  return limit;
}

LogicalResult PipeAssertMakespanOp::verify() {
  if (llvm::Expected<Limit> limit = readLimit(getLimit()); !limit)
    return emitOpError() << llvm::toString(limit.takeError());
  if (getTransport() && !enumFromName<Transport>(*getTransport()))
    return emitOpError() << "unknown transport '" << *getTransport() << "'";
  return success();
}

DiagnosedSilenceableFailure
PipeAssertMakespanOp::applyToOne(TransformRewriter &, ScheduleOp target,
                                 ApplyToEachResultList &, TransformState &) {
  Limit limit = llvm::cantFail(readLimit(getLimit()));
  TimingOptions timing;
  if (getTransport())
    timing.transport = *enumFromName<Transport>(*getTransport());
  return attempt(*this, [&]() -> LogicalResult {
    FailureOr<CostInputs> costs = loadCosts(target);
    if (failed(costs))
      return failure();
    if (!limit.isSlots && !costs->model && !costs->profile)
      return pipe::emitTableError(target)
             << "has no times: it names no model and no profile";
    FailureOr<NamedEvaluation> found = evaluate(target, *costs, timing);
    if (failed(found))
      return failure();
    const Evaluation &evaluation = found->evaluation;
    int64_t value =
        limit.isSlots ? evaluation.table->slots : evaluation.totals.makespanPs;
    if (value <= limit.value)
      return success();
    return pipe::emitTableError(target)
           << "has a makespan of "
           << (limit.isSlots ? std::to_string(value) + " slots"
                             : printTime(value))
           << ", at most " << getLimit() << " is asserted";
  });
}
