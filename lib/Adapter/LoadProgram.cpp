//===- LoadProgram.cpp - An exec.program as flat arrays -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks each worker once and numbers its ops on the way; messages are paired by
// sorting.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

namespace {
class ProgramLoader {
public:
  explicit ProgramLoader(ProgramOp op) : op(op) {}

  FailureOr<LoadedProgram> run();

private:
  void loadWorker(WorkerOp worker);
  void loadOp(Operation &instruction, int64_t worker);
  void loadCompute(ComputeOp compute);
  void loadSend(SendOp send, int64_t worker);
  void loadRecv(RecvOp recv, int64_t worker);
  void loadWait(WaitOp wait);
  void loadAllReduce(AllReduceOp allReduce, int64_t worker);
  void append(Operation *instruction, InstructionKind kind, Cell cell,
              int64_t peer = -1);
  void addOperands(Operation *instruction);
  void addWork(WorkOpInterface instruction, uint32_t number);
  void pairMessages();
  void joinGroups();
  LogicalResult loadPlacement();
  FailureOr<Path> implyPath();

  ProgramOp op;
  LoadedProgram loaded;
  std::vector<MessageEnd> sends, receives;
  std::vector<AllReduceEnd> allReduces;
  /// Instructions of the worker being loaded; tokens do not leave it.
  llvm::DenseMap<Operation *, uint32_t> numbers;
};
} // namespace

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void ProgramLoader::append(Operation *instruction, InstructionKind kind,
                           Cell cell, int64_t peer) {
  loaded.program.instructions.push_back(
      {cell, static_cast<int32_t>(peer), kind});
  loaded.program.partner.push_back(Program::kNone);
  loaded.ops.push_back(instruction);
}

void ProgramLoader::addOperands(Operation *instruction) {
  for (Value token : instruction->getOperands())
    loaded.program.operands.push_back(numbers.lookup(token.getDefiningOp()));
  loaded.program.operandBegins.push_back(loaded.program.operands.size());
}

void ProgramLoader::addWork(WorkOpInterface instruction, uint32_t number) {
  StatedWork work;
  work.instruction = number;
  work.flops = instruction.getFlops();
  work.bytesMoved = instruction.getBytesMoved();
  work.messageBytes = instruction.getMessageBytes();
  work.memoryDelta = instruction.getMemoryDelta();
  if (work.hasTime() || work.memoryDelta)
    loaded.work.push_back(work);
}

/// The first half of a pair waits for all that the op waits for; the second
/// starts with it.
void ProgramLoader::loadCompute(ComputeOp compute) {
  std::optional<Cell> overlapped = compute.getOverlapped();
  append(compute, InstructionKind::Compute,
         compute.getCell().withOverlap(overlapped.has_value()));
  addOperands(compute);
  if (!overlapped)
    return;
  append(compute, InstructionKind::Compute, *overlapped);
  loaded.program.operandBegins.push_back(loaded.program.operands.size());
}

void ProgramLoader::loadSend(SendOp send, int64_t worker) {
  sends.emplace_back(send.getCell(), worker, send.getDestination(),
                     loaded.ops.size());
  append(send, InstructionKind::Send, send.getCell(), send.getDestination());
  addOperands(send);
}

void ProgramLoader::loadRecv(RecvOp recv, int64_t worker) {
  receives.emplace_back(recv.getCell(), recv.getSource(), worker,
                        loaded.ops.size());
  append(recv, InstructionKind::Recv, recv.getCell(), recv.getSource());
  addOperands(recv);
}

/// Named as a join in a table: by the copy that it waits for first.
void ProgramLoader::loadWait(WaitOp wait) {
  Cell cell =
      loaded.program
          .instructions[numbers.lookup(wait.getWaits().front().getDefiningOp())]
          .cell.withOverlap(false);
  if (cell.is(Phase::Offload))
    cell = cell.withPhase(Phase::OffloadJoin);
  else if (cell.is(Phase::Reload))
    cell = cell.withPhase(Phase::ReloadJoin);
  append(wait, InstructionKind::Wait, cell);
  addOperands(wait);
}

void ProgramLoader::loadAllReduce(AllReduceOp allReduce, int64_t worker) {
  BlockSpan blocks = {allReduce.getFirstBlock(), allReduce.getEndBlock()};
  allReduces.push_back(
      {blocks, worker, static_cast<uint32_t>(loaded.ops.size())});
  append(allReduce, InstructionKind::AllReduce, allReduce.getCell());
  addOperands(allReduce);
}

void ProgramLoader::loadOp(Operation &instruction, int64_t worker) {
  uint32_t number = loaded.ops.size();
  numbers[&instruction] = number;
  llvm::TypeSwitch<Operation *>(&instruction)
      .Case<ComputeOp>([&](ComputeOp compute) { loadCompute(compute); })
      .Case<SendOp>([&](SendOp send) { loadSend(send, worker); })
      .Case<RecvOp>([&](RecvOp recv) { loadRecv(recv, worker); })
      .Case<WaitOp>([&](WaitOp wait) { loadWait(wait); })
      .Case<AllReduceOp>(
          [&](AllReduceOp allReduce) { loadAllReduce(allReduce, worker); })
      .Case<OffloadOp>([&](OffloadOp offload) {
        append(offload, InstructionKind::Offload, offload.getCell());
        addOperands(offload);
      })
      .Case<ReloadOp>([&](ReloadOp reload) {
        append(reload, InstructionKind::Reload, reload.getCell());
        addOperands(reload);
      });
  if (auto work = dyn_cast<WorkOpInterface>(instruction))
    addWork(work, number);
}

void ProgramLoader::loadWorker(WorkerOp worker) {
  numbers.clear();
  for (Operation &instruction : *worker.getBody())
    loadOp(instruction, worker.getWorker());
  loaded.program.rowBegins.push_back(loaded.ops.size());
}

/// The verifier has seen that both lists have the same names.
void ProgramLoader::pairMessages() {
  sortByName(sends);
  sortByName(receives);
  std::vector<uint32_t> &partner = loaded.program.partner;
  for (auto [send, recv] : llvm::zip_equal(sends, receives)) {
    partner[send.instruction] = recv.instruction;
    partner[recv.instruction] = send.instruction;
  }
}

/// The verifier has seen that names are groups: a ring of the workers of each.
void ProgramLoader::joinGroups() {
  sortByName(allReduces);
  Program &program = loaded.program;
  forEachGroup(allReduces, [&](ArrayRef<AllReduceEnd> group) {
    const AllReduceEnd *previous = &group.back();
    for (const AllReduceEnd &end : group) {
      program.partner[previous->instruction] = end.instruction;
      program.instructions[end.instruction].peer = program.blocks.size();
      previous = &end;
    }
    program.blocks.push_back(group.front().blocks);
  });
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

/// Stage s is on the worker that runs its cells.
FailureOr<Path> ProgramLoader::implyPath() {
  Path path;
  std::vector<uint32_t> first; // by stage, the instruction that placed it
  const Program &program = loaded.program;
  for (int32_t worker = 0, e = program.getNumWorkers(); worker != e; ++worker)
    for (uint32_t i = program.rowBegins[worker];
         i != program.rowBegins[worker + 1]; ++i) {
      const Instruction &instruction = program.instructions[i];
      if (instruction.kind == InstructionKind::Send ||
          instruction.kind == InstructionKind::Recv)
        continue;
      size_t stage = instruction.cell.getStage();
      if (stage >= first.size()) {
        first.resize(stage + 1, Program::kNone);
        path.workers.resize(stage + 1, -1);
      }
      if (first[stage] == Program::kNone) {
        first[stage] = i;
        path.workers[stage] = worker;
      } else if (path.workers[stage] != worker) {
        InFlightDiagnostic diagnostic =
            pipe::emitTableError(loaded.ops[i])
            << "runs stage " << stage << " on worker " << worker
            << ", which worker " << path.workers[stage]
            << " runs too; say with 'pipe.path' which path a microbatch takes";
        diagnostic.attachNote(loaded.ops[first[stage]]->getLoc())
            << "worker " << path.workers[stage] << " runs it here";
        return diagnostic;
      }
    }
  auto missing = llvm::find(path.workers, -1);
  if (missing != path.workers.end())
    return pipe::emitTableError(op)
           << "runs no cell of stage " << missing - path.workers.begin()
           << "; say with 'pipe.path' where it is";
  return path;
}

LogicalResult ProgramLoader::loadPlacement() {
  if (!op.getPaths().empty()) {
    FailureOr<Placement> placement = pipe::loadPlacement(op);
    if (succeeded(placement))
      loaded.placement = std::move(*placement);
    return placement;
  }
  FailureOr<Path> path = implyPath();
  if (failed(path))
    return failure();
  if (path->workers.empty())
    return pipe::emitTableError(op) << "runs no cells";
  llvm::Expected<Placement> placement =
      Placement::create(op.getNumWorkers(), op.getNumMicrobatches(), {*path});
  if (!placement)
    return pipe::emitTableError(op) << llvm::toString(placement.takeError());
  loaded.placement = std::move(*placement);
  return success();
}

FailureOr<LoadedProgram> ProgramLoader::run() {
  loaded.gradientAfter = op.getGradientAfter();
  loaded.program.rowBegins.push_back(0);
  loaded.program.operandBegins.push_back(0);
  std::vector<WorkerOp> workers(op.getNumWorkers());
  for (WorkerOp worker : op.getWorkerOps())
    workers[worker.getWorker()] = worker;
  for (WorkerOp worker : workers) {
    loadWorker(worker);
    if (loaded.ops.size() >= Program::kNone)
      return pipe::emitTableError(op)
             << "has more than " << Program::kNone - 1 << " instructions";
  }
  pairMessages();
  joinGroups();
  if (failed(loadPlacement()))
    return failure();
  return std::move(loaded);
}

FailureOr<LoadedProgram> pipesched::loadProgram(ProgramOp program) {
  return ProgramLoader(program).run();
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

LogicalResult pipesched::emitAnalysisError(ProgramOp program,
                                           const LoadedProgram &loaded,
                                           llvm::Error error,
                                           StringRef condition) {
  llvm::handleAllErrors(
      std::move(error),
      [&](const DeadlockError &deadlock) {
        (void)emitDeadlock(program, loaded.program, deadlock.getDeadlock(),
                           condition, [&](uint32_t instruction) {
                             return loaded.ops[instruction]->getLoc();
                           });
      },
      [&](const llvm::ErrorInfoBase &other) {
        pipe::emitTableError(program) << other.message();
      });
  return failure();
}
