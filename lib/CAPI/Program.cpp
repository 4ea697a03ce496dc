//===- Program.cpp - C API for programs as data ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists of lib/Analysis behind handles; the arrays of C point into them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Program.h"
#include "Enums.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Analysis/Graph/WorkerPrograms.h"
#include "PipeSched/Conversion/PipeToExec.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Evaluation/MeasuredProfile.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Support/MakeError.h"
#include "Wrap.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Wrap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pipesched;

namespace pipesched {
/// A placement and the stages of its workers.
struct ListedPlacement {
  Placement placement;
  WorkerStages stages;
};
} // namespace pipesched

DEFINE_C_API_PTR_METHODS(PipeschedPlacement, pipesched::ListedPlacement)
DEFINE_C_API_PTR_METHODS(PipeschedProgram, pipesched::WorkerPrograms)

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

static FailureOr<Placement> loadPlacementOf(Operation *op) {
  if (auto schedule = dyn_cast<pipe::ScheduleOp>(op))
    return pipe::loadPlacement(schedule);
  FailureOr<LoadedProgram> loaded =
      loadProgram(cast<exec::ProgramOp>(op), ListOps::No);
  if (failed(loaded))
    return failure();
  return std::move(loaded->placement);
}

PipeschedPlacement pipeschedPlacementCreate(MlirOperation scheduleOrProgram) {
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return {nullptr};
  FailureOr<Placement> placement = loadPlacementOf(op);
  if (failed(placement))
    return {nullptr};
  llvm::Expected<WorkerStages> stages = listWorkerStages(*placement);
  if (!stages) {
    pipe::emitTableError(op) << llvm::toString(stages.takeError());
    return {nullptr};
  }
  return wrap(new ListedPlacement{std::move(*placement), std::move(*stages)});
}

void pipeschedPlacementDestroy(PipeschedPlacement placement) {
  delete unwrap(placement);
}

int64_t pipeschedPlacementGetNumBlocks(PipeschedPlacement placement) {
  return placement.ptr ? unwrap(placement)->stages.numBlocks : 0;
}

int64_t pipeschedPlacementGetPathOf(PipeschedPlacement placement,
                                    int64_t microbatch) {
  if (!placement.ptr)
    return -1;
  const Placement &paths = unwrap(placement)->placement;
  bool isKnown = paths.isAssigned() && microbatch >= 0 &&
                 microbatch < paths.getNumMicrobatches();
  return isKnown ? paths.pathOf(paths.unitOf(microbatch, 0)) : -1;
}

PipeschedStages pipeschedPlacementGetStages(PipeschedPlacement placement,
                                            intptr_t worker) {
  if (!placement.ptr)
    return {};
  const auto &[paths, stages] = *unwrap(placement);
  if (worker < 0 || worker >= paths.getNumWorkers())
    return {};
  uint32_t begin = stages.begins[worker];
  return {intptr_t(stages.begins[worker + 1] - begin),
          stages.path.data() + begin,
          stages.stage.data() + begin,
          stages.firstBlock.data() + begin,
          stages.endBlock.data() + begin,
          stages.firstSet.data() + begin,
          stages.endOwnedSet.data() + begin,
          stages.endSet.data() + begin};
}

PipeschedParameterSets
pipeschedPlacementGetParameterSets(PipeschedPlacement placement,
                                   intptr_t worker) {
  if (!placement.ptr)
    return {};
  const auto &[paths, stages] = *unwrap(placement);
  if (worker < 0 || worker >= paths.getNumWorkers())
    return {};
  const WorkerParameterSets &sets = stages.sets;
  uint32_t begin = sets.begins[worker];
  return {intptr_t(sets.begins[worker + 1] - begin),
          sets.firstBlock.data() + begin,
          sets.endBlock.data() + begin,
          sets.owner.data() + begin,
          sets.stageBegins.data() + begin + worker,
          sets.stages.data() + sets.rowStages[worker]};
}

PipeschedGradientAfter
pipeschedScheduleGetGradientAfter(MlirOperation scheduleOrProgram) {
  static_assert(
      isSame(PipeschedGradientAfterInputGrad, GradientAfter::InputGrad) &&
      isSame(PipeschedGradientAfterWeightGrad, GradientAfter::WeightGrad));
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return PipeschedGradientAfterInputGrad;
  GradientAfter cell = llvm::TypeSwitch<Operation *, GradientAfter>(op)
                           .Case<pipe::ScheduleOp, exec::ProgramOp>(
                               [](auto op) { return op.getGradientAfter(); });
  return static_cast<PipeschedGradientAfter>(cell);
}

static bool hasRecompute(pipe::ScheduleOp schedule) {
  return llvm::any_of(schedule.getRows(), [](pipe::WorkerOp row) {
    return llvm::any_of(row.getCells(),
                        [](Cell cell) { return cell.is(Phase::Recompute); });
  });
}

static bool hasRecompute(exec::ProgramOp program) {
  for (exec::WorkerOp worker : program.getWorkerOps())
    for (auto op : worker.getBody()->getOps<exec::InstructionOpInterface>()) {
      std::optional<Cell> cell = op.getInstructionCell();
      std::optional<Cell> second = op.getOverlappedCell();
      if ((cell && cell->is(Phase::Recompute)) ||
          (second && second->is(Phase::Recompute)))
        return true;
    }
  return false;
}

PipeschedRecompute
pipeschedScheduleGetRecompute(MlirOperation scheduleOrProgram) {
  auto read = [](auto evaluable) {
    if (!hasRecompute(evaluable))
      return PipeschedRecomputeNone;
    auto kind = evaluable.getRecompute().value_or(pipe::RecomputeKind::Full);
    return static_cast<PipeschedRecompute>(kind);
  };
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return PipeschedRecomputeNone;
  return llvm::TypeSwitch<Operation *, PipeschedRecompute>(op)
      .Case<pipe::ScheduleOp, exec::ProgramOp>(read);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

#define PIPESCHED_SAME(name, number)                                           \
  isSame(PipeschedInstruction##name, InstructionKind::name) &&
#define PIPESCHED_ONE(name, number) +1
static_assert(PIPESCHED_INSTRUCTIONS(PIPESCHED_SAME)
                      PIPESCHED_INSTRUCTIONS(PIPESCHED_ONE) ==
                  kNumInstructionKinds,
              "C has every kind by its number");
#undef PIPESCHED_SAME
#undef PIPESCHED_ONE
static_assert(isSame(PipeschedActivationRecomputed, kActivationRecomputed) &&
              isSame(PipeschedActivationOffloaded, kActivationOffloaded));

static PipeschedProgram createProgram(Operation *op, const Program &program,
                                      const Placement &placement) {
  llvm::Expected<WorkerPrograms> listed =
      listWorkerPrograms(program, placement);
  if (listed)
    return wrap(new WorkerPrograms(std::move(*listed)));
  pipe::emitTableError(op) << llvm::toString(listed.takeError());
  return {nullptr};
}

PipeschedProgram pipeschedProgramCreate(MlirOperation scheduleOrProgram,
                                        PipeschedReceivePlacement receives) {
  Operation *op = readEvaluable(scheduleOrProgram);
  if (!op ||
      failed(pipe::verifyUnsliced(cast<pipe::PlacementOwnerOpInterface>(op),
                                  "what a runtime reads")))
    return {nullptr};
  if (auto given = dyn_cast<exec::ProgramOp>(op)) {
    FailureOr<LoadedProgram> loaded = loadProgram(given, ListOps::No);
    if (failed(loaded))
      return {nullptr};
    return createProgram(op, loaded->program, loaded->placement);
  }
  auto schedule = cast<pipe::ScheduleOp>(op);
  llvm::Expected<ReceivePlacement> chosen =
      readEnum<ReceivePlacement>("receives", receives);
  if (!chosen) {
    pipe::emitTableError(op)
        << "cannot be lowered: " << llvm::toString(chosen.takeError());
    return {nullptr};
  }
  FailureOr<Program> program = lowerSchedule(schedule, *chosen);
  if (failed(program))
    return {nullptr};
  pipe::ScheduleTable table(schedule);
  return createProgram(op, *program, table.getPlacement());
}

void pipeschedProgramDestroy(PipeschedProgram program) {
  delete unwrap(program);
}

intptr_t pipeschedProgramGetNumWorkers(PipeschedProgram program) {
  return program.ptr ? unwrap(program)->getNumWorkers() : 0;
}

static PipeschedInstructionCells slice(const InstructionCells &cells,
                                       uint32_t begin) {
  return {cells.path.data() + begin, cells.stage.data() + begin,
          cells.microbatch.data() + begin, cells.phase.data() + begin,
          cells.activation.data() + begin};
}

PipeschedInstructions pipeschedProgramGetInstructions(PipeschedProgram program,
                                                      intptr_t worker) {
  if (!program.ptr)
    return {};
  const WorkerPrograms &listed = *unwrap(program);
  if (worker < 0 || worker >= listed.getNumWorkers())
    return {};
  uint32_t begin = listed.rowBegins[worker];
  PipeschedInstructions row = {};
  row.numInstructions = listed.rowBegins[worker + 1] - begin;
  row.kind = listed.kind.data() + begin;
  row.first = slice(listed.first, begin);
  row.second = slice(listed.second, begin);
  row.peer = listed.peer.data() + begin;
  row.message = listed.message.data() + begin;
  row.sequence = listed.sequence.data() + begin;
  row.group = listed.group.data() + begin;
  row.holds = listed.holds.data() + begin;
  row.waitBegins = listed.waitBegins.data() + begin + worker;
  row.numWaits = listed.rowWaits[worker + 1] - listed.rowWaits[worker];
  row.waits = listed.waits.data() + listed.rowWaits[worker];
  return row;
}

PipeschedGroups pipeschedProgramGetGroups(PipeschedProgram program) {
  if (!program.ptr)
    return {};
  const WorkerPrograms &listed = *unwrap(program);
  return {intptr_t(listed.getNumGroups()), listed.groupKind.data(),
          listed.firstBlock.data(),        listed.endBlock.data(),
          listed.groupMicrobatch.data(),   listed.memberBegins.data(),
          listed.members.data(),           listed.groupStageBegins.data(),
          listed.groupPaths.data(),        listed.groupStages.data()};
}

//===----------------------------------------------------------------------===//
// Measured programs
//===----------------------------------------------------------------------===//

/// Reads the times of all workers into `stamps`.
static llvm::Error readStamps(const WorkerPrograms &programs, intptr_t numSteps,
                              llvm::ArrayRef<PipeschedStamps> given,
                              std::vector<WorkerStamps> &stamps) {
  for (auto [worker, from] : llvm::enumerate(given)) {
    if (int64_t(worker) == programs.getNumWorkers())
      break; // makeProfile reports it
    intptr_t size = programs.rowBegins[worker + 1] - programs.rowBegins[worker];
    if (numSteps < 0 || llvm::MulOverflow(size, numSteps, size))
      return makeError("expected the number of steps to be at least 0 and that "
                       "of times below 2^63, found " +
                       Twine(numSteps) + " steps");
    WorkerStamps &to = stamps.emplace_back();
    for (auto [column, what, times] :
         {std::tuple(&to.ready, "times", from.ready),
          {&to.start, "starts", from.start},
          {&to.end, "ends", from.end},
          {&to.done, "times", from.done},
          {&to.arrived, "arrivals", from.arrived}}) {
      auto read = readArray(what, times, size);
      if (!read)
        return read.takeError();
      *column = *read;
    }
  }
  stamps.resize(given.size());
  return llvm::Error::success();
}

static llvm::Expected<Profile> makeProfileOf(
    PipeschedProgram program, PipeschedPlacement placement, intptr_t numSteps,
    llvm::Expected<llvm::ArrayRef<PipeschedStamps>> workers, bool issue) {
  llvm::Error error = llvm::joinErrors(workers.takeError(),
                                       checkGiven("a program", program.ptr));
  error = llvm::joinErrors(std::move(error),
                           checkGiven("a placement", placement.ptr));
  if (error)
    return std::move(error);
  std::vector<WorkerStamps> stamps;
  if (llvm::Error error =
          readStamps(*unwrap(program), numSteps, *workers, stamps))
    return std::move(error);
  return makeProfile(*unwrap(program), unwrap(placement)->stages,
                     {numSteps, stamps}, issue);
}

MlirLogicalResult pipeschedProgramWriteProfile(
    PipeschedProgram program, PipeschedPlacement placement, intptr_t numSteps,
    intptr_t numWorkers, const PipeschedStamps *workers, bool issue,
    MlirStringCallback callback, void *userData, MlirStringCallback onError,
    void *errorData) {
  llvm::Expected<Profile> profile =
      makeProfileOf(program, placement, numSteps,
                    readArray("workers", workers, numWorkers), issue);
  if (!profile) {
    passError(onError, errorData, profile.takeError());
    return mlirLogicalResultFailure();
  }
  passText(callback, userData, printProfile(*profile));
  return mlirLogicalResultSuccess();
}
