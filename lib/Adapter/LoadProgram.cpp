//===- LoadProgram.cpp - An exec.program as flat arrays -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks each worker once and numbers its instructions; pairs messages by
// sorting them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

namespace {
class ProgramLoader {
public:
  explicit ProgramLoader(ProgramOp op) : op(op) {}

  FailureOr<LoadedProgram> run();

private:
  LogicalResult loadWorker(WorkerOp worker);
  void load(InstructionOpInterface op, int64_t worker);
  void loadMessageEnd(InstructionOpInterface op, int64_t worker);
  void loadSecondHalf(InstructionOpInterface op, Cell cell);
  Cell nameOfJoin(InstructionOpInterface wait) const;
  void append(Operation *instruction, InstructionKind kind, Cell cell,
              int64_t peer = -1);
  LogicalResult verifyTokens(InstructionOpInterface op) const;
  void addOperands(InstructionOpInterface op);
  void addWork(WorkOpInterface instruction, uint32_t number);
  void pairMessages();
  void joinGroups();
  LogicalResult loadPlacement();
  FailureOr<Path> implyPath();

  ProgramOp op;
  LoadedProgram loaded;
  std::vector<MessageEnd> sends, receives;
  std::vector<AllReduceEnd> allReduces;
  /// The instructions of the worker being loaded; no token leaves its worker.
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

/// Rejects tokens made by ops that are no instructions, such as casts: no
/// analysis can tell what such a token waits for.
LogicalResult ProgramLoader::verifyTokens(InstructionOpInterface op) const {
  for (Value token : op.getWaits())
    if (!token.getDefiningOp<InstructionOpInterface>()) {
      InFlightDiagnostic diagnostic =
          pipe::emitTableError(op)
          << "waits for a token that no instruction makes";
      diagnostic.attachNote(token.getLoc()) << "the token is made here";
      return diagnostic;
    }
  return success();
}

void ProgramLoader::addOperands(InstructionOpInterface op) {
  for (Value token : op.getWaits())
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

/// The first half of a pair waits for everything that the op waits for; the
/// second half starts together with the first.
void ProgramLoader::loadSecondHalf(InstructionOpInterface op, Cell cell) {
  loaded.program.instructions.back().cell =
      loaded.program.instructions.back().cell.withOverlap(true);
  append(op, InstructionKind::Compute, cell);
  loaded.program.operandBegins.push_back(loaded.program.operands.size());
}

void ProgramLoader::loadMessageEnd(InstructionOpInterface op, int64_t worker) {
  Cell cell = *op.getInstructionCell();
  uint32_t number = loaded.ops.size();
  if (op.getInstructionKind() == InstructionKind::Send)
    sends.emplace_back(cell, worker, op.getPeer(), number);
  else
    receives.emplace_back(cell, op.getPeer(), worker, number);
}

/// Names a join as tables do: by the first copy that it waits for.
Cell ProgramLoader::nameOfJoin(InstructionOpInterface wait) const {
  uint32_t first = numbers.lookup(wait.getWaits().front().getDefiningOp());
  Cell cell = loaded.program.instructions[first].cell.withOverlap(false);
  if (cell.is(Phase::Offload))
    return cell.withPhase(Phase::OffloadJoin);
  if (cell.is(Phase::Reload))
    return cell.withPhase(Phase::ReloadJoin);
  return cell;
}

void ProgramLoader::load(InstructionOpInterface op, int64_t worker) {
  uint32_t number = loaded.ops.size();
  numbers[op] = number;
  InstructionKind kind = op.getInstructionKind();
  InstructionRole role = traitsOf(kind).role;
  if (role == InstructionRole::Message)
    loadMessageEnd(op, worker);
  if (role == InstructionRole::Collective)
    allReduces.push_back({op.getGroupBlocks(), worker, number});
  append(op, kind,
         role == InstructionRole::Join ? nameOfJoin(op)
                                       : *op.getInstructionCell(),
         role == InstructionRole::Message ? op.getPeer() : -1);
  addOperands(op);
  if (std::optional<Cell> overlapped = op.getOverlappedCell())
    loadSecondHalf(op, *overlapped);
  if (auto work = dyn_cast<WorkOpInterface>(*op))
    addWork(work, number);
}

/// Skips ops that are no instructions.
LogicalResult ProgramLoader::loadWorker(WorkerOp worker) {
  numbers.clear();
  for (auto op : worker.getBody()->getOps<InstructionOpInterface>()) {
    if (failed(verifyTokens(op)))
      return failure();
    load(op, worker.getWorker());
  }
  loaded.program.rowBegins.push_back(loaded.ops.size());
  return success();
}

/// The verifier guarantees that both lists have the same names.
void ProgramLoader::pairMessages() {
  sortByName(sends);
  sortByName(receives);
  std::vector<uint32_t> &partner = loaded.program.partner;
  for (auto [send, recv] : llvm::zip_equal(sends, receives)) {
    partner[send.instruction] = recv.instruction;
    partner[recv.instruction] = send.instruction;
  }
}

/// The verifier guarantees that the all-reduces of one name form one group. The
/// `partner` of each points to the next in a ring.
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

/// Places each stage on the worker that runs its cells.
FailureOr<Path> ProgramLoader::implyPath() {
  Path path;
  std::vector<uint32_t> first; // by stage, the instruction that placed it
  const Program &program = loaded.program;
  for (int32_t worker = 0, e = program.getNumWorkers(); worker != e; ++worker)
    for (uint32_t i = program.rowBegins[worker];
         i != program.rowBegins[worker + 1]; ++i) {
      const Instruction &instruction = program.instructions[i];
      // Both may name a cell of another worker.
      if (instruction.is(InstructionRole::Message) ||
          instruction.is(InstructionRole::Join))
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
    if (failed(loadWorker(worker)))
      return failure();
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
