//===- PipeToFunc.cpp - From a schedule to functions ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Does the work of three passes, from pipe to functions, on arrays. A step of
// thousands of microbatches has hundreds of thousands of instructions; as ops
// they would take longer than all other compilation.
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "PipeSched/Conversion/PipeToExec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace pipesched {
#define GEN_PASS_DEF_CONVERTPIPETOFUNCPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

/// Lists operands as on ops: the first half of an overlapped pair has the
/// operands of both halves, each once, and other instructions refer only to the
/// first half.
///
///   instructions   0F2+   0B1        compute 0F2+0B1 after %f1, %g1
///   operands       f1     f1 g1
///   becomes        f1 g1
static void joinPairs(Program &program) {
  auto isFirst = [&](uint32_t i) {
    return program.instructions[i].is(InstructionKind::Compute) &&
           program.instructions[i].cell.overlapsNext();
  };
  if (llvm::none_of(llvm::seq<uint32_t>(0, program.instructions.size()),
                    isFirst))
    return;
  auto leaderOf = [&](uint32_t i) {
    return i > 0 && isFirst(i - 1) ? i - 1 : i;
  };
  std::vector<uint32_t> operands, begins{0};
  operands.reserve(program.operands.size());
  begins.reserve(program.operandBegins.size());
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    size_t begin = operands.size();
    if (leaderOf(i) == i)
      for (uint32_t operand : program.operandsOf(i))
        operands.push_back(leaderOf(operand));
    if (isFirst(i))
      for (uint32_t operand : program.operandsOf(i + 1))
        if (uint32_t leader = leaderOf(operand);
            !llvm::is_contained(ArrayRef(operands).drop_front(begin), leader))
          operands.push_back(leader);
    begins.push_back(operands.size());
  }
  program.operands = std::move(operands);
  program.operandBegins = std::move(begins);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

namespace {
/// Plans the program of one schedule.
class SchedulePlanner {
public:
  SchedulePlanner(pipe::ScheduleOp schedule, const BufferOptions &options,
                  ProgramForm form)
      : schedule(schedule), options(options), form(form) {}

  /// `program` must be the program of the schedule.
  FailureOr<PlannedOwner> run(Program program);

private:
  FailureOr<BufferAssignment> place(const StageFunctions &functions,
                                    const LoadedProgram &loaded);
  LogicalResult explain(const Program &program);

  pipe::ScheduleOp schedule;
  const BufferOptions &options;
  ProgramForm form;
};
} // namespace

/// Assigns buffers; emits no errors.
FailureOr<BufferAssignment>
SchedulePlanner::place(const StageFunctions &functions,
                       const LoadedProgram &loaded) {
  ScopedDiagnosticHandler quiet(schedule.getContext(),
                                [](Diagnostic &) { return success(); });
  return findBuffers(
      schedule, loaded, StageKernels(functions), options,
      [](llvm::Error error) { llvm::consumeError(std::move(error)); });
}

/// Emits the reason why there are no places, at the ops that the instructions
/// would become.
LogicalResult SchedulePlanner::explain(const Program &program) {
  OwningOpRef<exec::ProgramOp> op = createProgram(schedule, program);
  schedule->getBlock()->getOperations().insert(Block::iterator(schedule),
                                               op.get());
  FailureOr<std::vector<ArenaUse>> uses = assignBuffers(*op, options);
  assert(failed(uses) && "arrays and ops have the same instructions");
  op->getOperation()->remove();
  return failure();
}

FailureOr<PlannedOwner> SchedulePlanner::run(Program program) {
  FailureOr<StageFunctions> functions = loadStageFunctions(schedule);
  if (failed(functions))
    return failure();
  PlacedProgram placed;
  LoadedProgram &loaded = placed.loaded;
  pipe::ScheduleTable table(schedule);
  loaded.placement = table.getPlacement();
  loaded.gradientAfter = schedule.getGradientAfter();
  loaded.ops.assign(program.instructions.size(), schedule);
  loaded.program = std::move(program);
  joinPairs(loaded.program);
  FailureOr<BufferAssignment> buffers = place(*functions, loaded);
  if (failed(buffers))
    return explain(loaded.program);
  placed.buffers = std::move(*buffers);
  FailureOr<std::unique_ptr<StepPlan>> plan =
      planSteps(schedule, std::move(*functions), std::move(placed), form);
  if (failed(plan))
    return failure();
  return PlannedOwner{schedule, std::move(*plan)};
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertPipeToFuncPass final
    : pipesched::impl::ConvertPipeToFuncPassBase<ConvertPipeToFuncPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<BufferOptions> options =
        BufferOptions::create(module.getLoc(), sends, inFlight, hostMemory);
    if (failed(options))
      return signalPassFailure();
    FailureOr<SmallVector<pipe::ScheduleOp>> schedules =
        pipe::selectSchedules(module, /*name=*/"");
    if (failed(schedules))
      return signalPassFailure();
    std::vector<Program> programs;
    for (pipe::ScheduleOp schedule : *schedules) {
      FailureOr<Program> program = lowerSchedule(schedule, receivePlacement);
      if (failed(program))
        return signalPassFailure();
      programs.push_back(std::move(*program));
    }
    std::vector<PlannedOwner> owners;
    for (auto [schedule, program] : llvm::zip_equal(*schedules, programs)) {
      FailureOr<PlannedOwner> owner =
          SchedulePlanner(schedule, *options, form).run(std::move(program));
      if (failed(owner))
        return signalPassFailure();
      owners.push_back(std::move(*owner));
    }
    for (auto program : module.getOps<exec::ProgramOp>()) {
      if (failed(assignBuffers(program, *options)))
        return signalPassFailure();
      FailureOr<std::unique_ptr<StepPlan>> plan = planSteps(program, form);
      if (failed(plan))
        return signalPassFailure();
      owners.push_back({program, std::move(*plan)});
    }
    if (failed(replaceByFunctions(module, std::move(owners), form)))
      signalPassFailure();
  }
};
} // namespace
