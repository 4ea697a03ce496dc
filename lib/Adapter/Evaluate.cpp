//===- Evaluate.cpp - From ops to results ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads ops, calls lib/Analysis, and turns its errors into diagnostics.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Emits the error of an evaluation. A deadlock refers to instructions of the
/// timed program. The evaluation does not keep that program, so the table is
/// lowered again.
static LogicalResult emitEvaluationError(pipe::ScheduleOp schedule,
                                         const TableView &table,
                                         const CostInputs &costs,
                                         const TimingOptions &options,
                                         llvm::Error error) {
  if (!error.isA<DeadlockError>())
    return pipe::emitTableError(schedule, std::move(error));
  llvm::Expected<Program> program = lowerTable(table, costs, options);
  if (!program)
    return pipe::emitTableError(
        schedule, llvm::joinErrors(std::move(error), program.takeError()));
  return emitProgramError(schedule, *program, std::move(error));
}

static LogicalResult verifySolution(pipe::ScheduleOp schedule,
                                    const TableView &table) {
  if (schedule.isProblem())
    return pipe::emitTableError(schedule)
           << "has no rows to evaluate; fill it with a pipe-schedule-* pass";
  if (std::optional<Violation> violation = verifyTable(table))
    return pipe::emitViolation(schedule, *violation);
  return success();
}

static NamedTable nameTable(pipe::ScheduleOp schedule,
                            const pipe::ScheduleTable &loaded) {
  NamedTable table;
  table.name = schedule.getSymName();
  table.family = schedule.getFamily().value_or("");
  table.placement = loaded.getPlacement();
  table.table = loaded.view();
  return table;
}

static FailureOr<NamedEvaluation>
evaluateSchedule(pipe::ScheduleOp schedule, const CostInputs &costs,
                 const TimingOptions &options) {
  pipe::ScheduleTable loaded(schedule);
  if (failed(verifySolution(schedule, loaded.view())))
    return failure();
  NamedEvaluation result;
  static_cast<NamedTable &>(result) = nameTable(schedule, loaded);
  result.timing = options;
  result.describe(costs);
  // The formula of a family does not hold for rows of another family.
  std::optional<Violation> otherRows =
      verifyFamily(schedule, result.tableView());
  llvm::Expected<Evaluation> evaluation =
      evaluateTable(result.tableView(), otherRows ? "" : result.family, costs,
                    options, loadFamilyOptions(schedule));
  if (!evaluation)
    return emitEvaluationError(schedule, result.tableView(), costs, options,
                               evaluation.takeError());
  result.evaluation = std::move(*evaluation);
  if (otherRows)
    result.evaluation.formulaReason = otherRows->message;
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static FailureOr<NamedEvaluation>
evaluateProgram(exec::ProgramOp program, const CostInputs &costs,
                const TimingOptions &options) {
  FailureOr<LoadedProgram> loaded = loadProgram(program, ListOps::No);
  if (failed(loaded))
    return failure();
  if (options.forwardSends == ForwardSends::Sync)
    synchronizeForwards(loaded->program);
  llvm::Expected<Execution> execution = executeProgram(
      loaded->program, loaded->placement, costs, options.transport,
      loaded->work, options.runtime, options.disturbance);
  if (!execution)
    return emitAnalysisError(program, *loaded, execution.takeError());
  NamedEvaluation result;
  result.name = program.getSymName();
  result.family = program.getFamily().value_or("");
  result.placement = std::move(loaded->placement);
  result.timing = options;
  result.work = std::move(loaded->work);
  result.describe(costs);
  result.countFlops(loaded->program, costs);
  result.evaluation.set(std::move(*execution));
  result.evaluation.formulaReason =
      "a program has no table that a formula would be about";
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// Schedules and programs
//===----------------------------------------------------------------------===//

SmallVector<Operation *> pipesched::findEvaluables(Operation *root) {
  SmallVector<Operation *> found;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isa<pipe::ScheduleOp, exec::ProgramOp>(op))
      return WalkResult::advance();
    found.push_back(op);
    return WalkResult::skip();
  });
  return found;
}

FailureOr<NamedTable> pipesched::loadTable(Operation *op) {
  if (auto program = dyn_cast<exec::ProgramOp>(op))
    return op->emitError()
           << "program '" << program.getSymName()
           << "' has no slots; draw its timeline, or keep the schedule when "
              "converting it";
  auto schedule = cast<pipe::ScheduleOp>(op);
  pipe::ScheduleTable loaded(schedule);
  if (failed(verifySolution(schedule, loaded.view())))
    return failure();
  return nameTable(schedule, loaded);
}

FailureOr<NamedEvaluation> pipesched::evaluate(Operation *op,
                                               const TimingOptions &options) {
  FailureOr<CostInputs> costs = loadCosts(op);
  if (failed(costs))
    return failure();
  return evaluate(op, *costs, options);
}

FailureOr<NamedEvaluation> pipesched::evaluate(Operation *op,
                                               const CostInputs &costs,
                                               const TimingOptions &options) {
  return llvm::TypeSwitch<Operation *, FailureOr<NamedEvaluation>>(op)
      .Case([&](pipe::ScheduleOp schedule) {
        return evaluateSchedule(schedule, costs, options);
      })
      .Case([&](exec::ProgramOp program) {
        return evaluateProgram(program, costs, options);
      });
}
