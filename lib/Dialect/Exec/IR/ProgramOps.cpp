//===- ProgramOps.cpp - Programs and workers of exec ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builders and checks of whole programs: workers, cells, and both ends of every
// message.
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

StringRef ProgramOp::getDefaultDialect() { return "exec"; }
StringRef WorkerOp::getDefaultDialect() { return "exec"; }

void ProgramOp::build(OpBuilder &, OperationState &state, StringRef name) {
  state.getOrAddProperties<Properties>().sym_name =
      StringAttr::get(state.getContext(), name);
  state.addRegion()->emplaceBlock();
}

void WorkerOp::build(OpBuilder &, OperationState &state, int64_t worker) {
  state.getOrAddProperties<Properties>().worker = worker;
  state.addRegion()->emplaceBlock();
}

/// Calls `fn` with the cell of an instruction and with the second cell of an
/// overlapped pair.
template <typename Fn>
static void forEachCell(InstructionOpInterface instruction, Fn fn) {
  if (std::optional<Cell> cell = instruction.getInstructionCell())
    fn(*cell);
  if (std::optional<Cell> overlapped = instruction.getOverlappedCell())
    fn(*overlapped);
}

static auto instructionsOf(WorkerOp worker) {
  return worker.getBody()->getOps<InstructionOpInterface>();
}

int64_t ProgramOp::getNumWorkers() {
  if (std::optional<int64_t> declared = getWorkers())
    return *declared;
  return std::max<int64_t>(1, llvm::range_size(getWorkerOps()));
}

int64_t ProgramOp::getNumMicrobatches() {
  if (std::optional<int64_t> declared = getMicrobatches())
    return *declared;
  int64_t highest = 0;
  for (WorkerOp worker : getWorkerOps())
    for (InstructionOpInterface instruction : instructionsOf(worker))
      forEachCell(instruction, [&](Cell cell) {
        if (!cell.isPerPath())
          highest = std::max(highest, cell.getNumber());
      });
  return highest / getNumSlices() + 1;
}

int64_t ProgramOp::getNumSlices() { return getSlices(); }

//===----------------------------------------------------------------------===//
// Local checks
//===----------------------------------------------------------------------===//

LogicalResult WorkerOp::verify() {
  if (getWorker() < 0) // worker_c1
    return pipe::emitTableError(*this)
           << "has number " << getWorker() << ", wanted zero or more";
  return success();
}

LogicalResult ProgramOp::verify() {
  bool seenWorker = false;
  for (Operation &op : *getBody()) { // program_c1
    if (!pipe::isHeaderOp(op) && !isa<WorkerOp>(op))
      return pipe::emitTableError(&op)
             << "is in the body of 'exec.program', which holds 'pipe.path', "
                "'pipe.node', 'pipe.edge' and 'exec.worker' ops and clauses of "
                "functions only";
    if (seenWorker && pipe::isHeaderOp(op))
      return pipe::emitTableError(&op)
             << "comes after a worker; paths and functions come first";
    seenWorker |= isa<WorkerOp>(op);
  }
  if (failed(pipe::verifyClauses(*this)))
    return failure();
  if (getRecompute() == pipe::RecomputeKind::None) // program_c9
    return pipe::emitTableError(*this)
           << "has R cells that recompute 'none', expected selective or full";
  return pipe::verifyFamilyClause(*this, getFamilyAttr(), // program_c8
                                  getFamilyOptionsAttr());
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr model = getModelAttr();
  if (!model || symbols.lookupNearestSymbolFrom<pipe::ModelOp>(*this, model))
    return success();
  return pipe::emitTableError(*this) << "names model " << model // program_c7
                                     << ", but there is no such 'pipe.model'";
}

//===----------------------------------------------------------------------===//
// Checks across workers
//===----------------------------------------------------------------------===//

namespace {
/// Numbers the instructions of all workers and collects the entries that must
/// be unique or paired:
///
///   ops     | %f0 = compute 0F0 | %s0 = send 0F0 to 1 | %act0 = recv 0F0 .. |
///   number    0                   1                     2
///   runs      (0F0, 0)
///   sends                         (0F0, 0 -> 1, 1)
///   receives                                            (0F0, 0 -> 1, 2)
///
/// After sorting by name, no two neighbours in `runs` may be equal, and `sends`
/// and `receives` must be equal lists. Collectives.h checks collectives. For
/// offloads, the verifier finds the sends that they must wait for.
class ProgramVerifier {
public:
  explicit ProgramVerifier(ProgramOp program)
      : program(program), numWorkers(program.getNumWorkers()),
        numSlices(program.getNumSlices()) {}

  LogicalResult verify();

private:
  LogicalResult verifySizes();
  LogicalResult verifyNumbers();
  LogicalResult verifyPlacement();
  LogicalResult collect(WorkerOp worker);
  LogicalResult collectRun(InstructionOpInterface op, int64_t worker);
  LogicalResult collectMessageEnd(InstructionOpInterface op, int64_t worker);
  LogicalResult collectCollective(InstructionOpInterface op, int64_t worker);
  LogicalResult verifyCell(Operation &op, Cell cell, int64_t worker);
  LogicalResult verifyRange(Operation &op, Cell cell);
  LogicalResult verifyPeer(Operation *op, int64_t peer);
  LogicalResult verifyRunOnce();
  LogicalResult verifySliceOrder();
  std::string nameOf(Cell cell) const {
    return CellName{cell, numSlices}.str();
  }
  LogicalResult verifyOnce(ArrayRef<MessageEnd> ends);
  LogicalResult verifyPaired();
  LogicalResult verifyOffloads();
  LogicalResult verifyOffload(InstructionOpInterface offload,
                              const MessageEnd &send);
  LogicalResult verifyPerPath();
  SmallVector<int64_t> workersOf(int64_t path) const;
  LogicalResult verifyMeetings();
  LogicalResult emitRepeated(uint32_t first, uint32_t second,
                             const Twine &what);

  ProgramOp program;
  int64_t numWorkers, numMicrobatches = 0, numSlices, numPaths = 0;
  std::optional<Placement> placement; ///< absent if there are no paths
  std::vector<WorkerOp> byNumber;
  std::vector<Operation *> ops;
  std::vector<RunCell> runs, offloads;
  std::vector<MessageEnd> sends, receives;
  /// Collectives by their grouping.
  std::vector<CollectiveEnd> reductions, meetings;
};
} // namespace

/// program_c2, program_c3, program_c17: sizes are in range, even if they are
/// not declared.
LogicalResult ProgramVerifier::verifySizes() {
  if (numWorkers < 1 || numWorkers > kMaxWorkers)
    return pipe::emitTableError(program)
           << "has " << numWorkers << " workers, wanted 1 to " << kMaxWorkers;
  numMicrobatches = program.getNumMicrobatches();
  if (numMicrobatches < 1 || numMicrobatches > Cell::kMaxMicrobatches)
    return pipe::emitTableError(program)
           << "has " << numMicrobatches << " microbatches, wanted 1 to "
           << Cell::kMaxMicrobatches;
  if (numSlices < 1 || numSlices > Cell::kMaxMicrobatches / numMicrobatches)
    return pipe::emitTableError(program)
           << "has " << numSlices << " slices of each of " << numMicrobatches
           << " microbatches, wanted 1 to "
           << Cell::kMaxMicrobatches / numMicrobatches;
  return success();
}

/// program_c2: workers are 0..D-1, each once.
LogicalResult ProgramVerifier::verifyNumbers() {
  byNumber.resize(numWorkers);
  for (WorkerOp worker : program.getWorkerOps()) {
    int64_t number = worker.getWorker();
    if (number >= numWorkers)
      return pipe::emitTableError(worker)
             << "has number " << number << ", wanted 0 to " << numWorkers - 1;
    if (WorkerOp first = byNumber[number]) {
      InFlightDiagnostic diagnostic = pipe::emitTableError(worker)
                                      << "has number " << number
                                      << " a second time";
      diagnostic.attachNote(first.getLoc())
          << "worker " << number << " is here";
      return diagnostic;
    }
    byNumber[number] = worker;
  }
  for (auto [number, worker] : llvm::enumerate(byNumber))
    if (!worker)
      return pipe::emitTableError(program)
             << "has no worker " << number << "; workers are numbered 0 to "
             << numWorkers - 1 << ", each once";
  return success();
}

LogicalResult ProgramVerifier::verifyPlacement() {
  numPaths = llvm::range_size(program.getPaths());
  if (numPaths == 0) {
    for (Operation &op : *program.getBody()) // program_c19
      if (isa<pipe::NodeOp, pipe::EdgeOp>(op))
        return pipe::emitTableError(&op) << "is in a program without a path";
    return success();
  }
  FailureOr<Placement> loaded = pipe::loadPlacement(program);
  if (failed(loaded))
    return failure();
  placement = std::move(*loaded);
  if (placement->isAssigned())
    return success();
  return pipe::emitTableError(program)
         << "has several paths; say with 'takes' which microbatches take each";
}

LogicalResult ProgramVerifier::verifyRange(Operation &op, Cell cell) {
  int64_t number =
      cell.isPerPath() ? cell.getPath() : cell.getUnit() / numSlices;
  int64_t limit =
      cell.isPerPath() ? std::max<int64_t>(1, numPaths) : numMicrobatches;
  if (number < limit) // program_c3
    return success();
  return pipe::emitTableError(&op)
         << "cell " << nameOf(cell) << " is of "
         << (cell.isPerPath() ? "path " : "microbatch ") << number
         << ", the program has " << limit;
}

/// Checks that a cell is in range and on the worker of its stage.
LogicalResult ProgramVerifier::verifyCell(Operation &op, Cell cell,
                                          int64_t worker) {
  if (failed(verifyRange(op, cell)))
    return failure();
  if (!placement)
    return success();
  int64_t numStages = placement->getNumStages(placement->pathOf(cell));
  if (cell.getStage() >= numStages)
    return pipe::emitTableError(&op)
           << "cell " << nameOf(cell) << " is of stage " << cell.getStage()
           << ", its path has " << numStages << " stages";
  int64_t home = placement->workerOf(placement->globalStage(cell));
  if (home == worker) // program_c6
    return success();
  return pipe::emitTableError(&op)
         << "cell " << nameOf(cell) << " runs on worker " << worker
         << ", by its path stage " << cell.getStage() << " is on worker "
         << home;
}

LogicalResult ProgramVerifier::collectRun(InstructionOpInterface op,
                                          int64_t worker) {
  LogicalResult result = success();
  forEachCell(op, [&](Cell cell) {
    if (failed(result) || failed(result = verifyCell(*op, cell, worker)))
      return;
    runs.push_back({cell, static_cast<uint32_t>(ops.size())});
  });
  if (succeeded(result) && op.getInstructionKind() == InstructionKind::Offload)
    offloads.push_back(runs.back());
  return result;
}

LogicalResult ProgramVerifier::verifyPeer(Operation *op, int64_t peer) {
  if (peer >= 0 && peer < numWorkers)
    return success();
  return pipe::emitTableError(op)
         << "names worker " << peer << ", wanted 0 to " << numWorkers - 1;
}

LogicalResult ProgramVerifier::collectMessageEnd(InstructionOpInterface op,
                                                 int64_t worker) {
  if (failed(verifyPeer(op, op.getPeer())))
    return failure();
  Cell cell = *op.getInstructionCell();
  uint32_t number = ops.size();
  if (op.getInstructionKind() == InstructionKind::Send)
    sends.emplace_back(cell, worker, op.getPeer(), number);
  else
    receives.emplace_back(cell, op.getPeer(), worker, number);
  return success();
}

LogicalResult ProgramVerifier::collectCollective(InstructionOpInterface op,
                                                 int64_t worker) {
  if (failed(verifyCell(*op, *op.getInstructionCell(), worker)))
    return failure();
  GroupName name = nameGroup(op.getInstructionKind(), *op.getInstructionCell(),
                             op.getGroupBlocks());
  (name.grouping() == Grouping::Blocks ? reductions : meetings)
      .push_back({name, worker, static_cast<uint32_t>(ops.size())});
  return success();
}

/// Collects the instructions of a worker; ignores other ops.
LogicalResult ProgramVerifier::collect(WorkerOp worker) {
  int64_t number = worker.getWorker();
  for (InstructionOpInterface op : instructionsOf(worker)) {
    InstructionRole role = traitsOf(op.getInstructionKind()).role;
    LogicalResult result =
        role == InstructionRole::Message      ? collectMessageEnd(op, number)
        : role == InstructionRole::Collective ? collectCollective(op, number)
                                              : collectRun(op, number);
    if (failed(result))
      return failure();
    ops.push_back(op);
  }
  return success();
}

LogicalResult ProgramVerifier::emitRepeated(uint32_t first, uint32_t second,
                                            const Twine &what) {
  InFlightDiagnostic diagnostic = pipe::emitTableError(ops[second]) << what;
  diagnostic.attachNote(ops[first]->getLoc()) << "the first is here";
  return diagnostic;
}

/// program_c4
LogicalResult ProgramVerifier::verifyRunOnce() {
  llvm::sort(runs, [](const RunCell &a, const RunCell &b) {
    return std::make_pair(a.cell.getRaw(), a.instruction) <
           std::make_pair(b.cell.getRaw(), b.instruction);
  });
  auto repeated = std::adjacent_find(
      runs.begin(), runs.end(),
      [](const RunCell &a, const RunCell &b) { return a.cell == b.cell; });
  if (repeated == runs.end())
    return success();
  return emitRepeated(repeated->instruction, std::next(repeated)->instruction,
                      "runs cell " + nameOf(repeated->cell) + " a second time");
}

/// program_c18. `runs` are sorted by phase, stage and unit, so that the slices
/// of a microbatch are neighbours:
///
///   runs          0F0.0  0F0.1  0F1.0  0F1.1  ..  0B0.0  0B0.1
///   instruction   0      2      4      6          9      7
LogicalResult ProgramVerifier::verifySliceOrder() {
  if (numSlices == 1)
    return success();
  for (auto [run, next] : llvm::zip(runs, ArrayRef(runs).drop_front())) {
    SliceOrder order = traitsOf(run.cell.getPhase()).order.slices;
    bool areOfOneMicrobatch =
        run.cell.getPhase() == next.cell.getPhase() &&
        run.cell.getStage() == next.cell.getStage() &&
        run.cell.getUnit() / numSlices == next.cell.getUnit() / numSlices;
    bool isAscending = run.instruction < next.instruction;
    if (order == SliceOrder::Any || !areOfOneMicrobatch ||
        isAscending == (order == SliceOrder::Ascending))
      continue;
    const RunCell &early = isAscending ? run : next;
    const RunCell &late = isAscending ? next : run;
    InFlightDiagnostic diagnostic =
        pipe::emitTableError(ops[late.instruction])
        << "runs " << nameOf(late.cell) << " behind " << nameOf(early.cell)
        << "; expected the slices of a microbatch in "
        << (isAscending ? "descending" : "ascending") << " order";
    diagnostic.attachNote(ops[early.instruction]->getLoc())
        << nameOf(early.cell) << " is here";
    return diagnostic;
  }
  return success();
}

/// program_c5: no message has two sends, or two receives.
LogicalResult ProgramVerifier::verifyOnce(ArrayRef<MessageEnd> ends) {
  auto repeated = std::adjacent_find(
      ends.begin(), ends.end(), [](const MessageEnd &a, const MessageEnd &b) {
        return a.getName() == b.getName();
      });
  if (repeated == ends.end())
    return success();
  return emitRepeated(repeated->instruction, std::next(repeated)->instruction,
                      "repeats the message " +
                          nameOf(Cell::fromRaw(repeated->cell)) +
                          " from worker " + Twine(repeated->source) +
                          " to worker " + Twine(repeated->destination));
}

/// program_c5: at the first difference of the two sorted lists, the smaller
/// name is a message without a partner.
LogicalResult ProgramVerifier::verifyPaired() {
  auto [send, recv] = std::mismatch(
      sends.begin(), sends.end(), receives.begin(), receives.end(),
      [](const MessageEnd &a, const MessageEnd &b) {
        return a.getName() == b.getName();
      });
  bool sendIsLeft = send != sends.end();
  bool recvIsLeft = recv != receives.end();
  if (!sendIsLeft && !recvIsLeft)
    return success();
  if (sendIsLeft && recvIsLeft)
    sendIsLeft = send->getName() < recv->getName();
  const MessageEnd &end = sendIsLeft ? *send : *recv;
  std::string cell = nameOf(Cell::fromRaw(end.cell));
  InFlightDiagnostic diagnostic = pipe::emitTableError(ops[end.instruction]);
  if (sendIsLeft)
    return diagnostic << "has no partner: worker " << end.destination
                      << " has no 'recv " << cell << " from " << end.source
                      << "'";
  return diagnostic << "has no partner: worker " << end.source
                    << " has no 'send " << cell << " to " << end.destination
                    << "'";
}

/// program_c15: an offload frees the output of its forward, so it waits for
/// the send of that output.
LogicalResult ProgramVerifier::verifyOffload(InstructionOpInterface offload,
                                             const MessageEnd &send) {
  auto sender = cast<InstructionOpInterface>(ops[send.instruction]);
  if (llvm::is_contained(offload.getWaits(), sender.getDone()))
    return success();
  InFlightDiagnostic diagnostic =
      pipe::emitTableError(offload)
      << "frees the output of " << nameOf(Cell::fromRaw(send.cell))
      << " and does not wait for its send to worker " << send.destination
      << "; add the token of that send to 'after'";
  diagnostic.attachNote(sender.getLoc()) << "the send is here";
  return diagnostic;
}

LogicalResult ProgramVerifier::verifyOffloads() {
  for (const RunCell &offload : offloads) {
    auto op = cast<InstructionOpInterface>(ops[offload.instruction]);
    int64_t worker = cast<WorkerOp>(op->getParentOp()).getWorker();
    MessageEnd first(offload.cell.withPhase(Phase::Forward), worker, 0, 0);
    for (auto send =
             llvm::lower_bound(sends, first,
                               [](const MessageEnd &a, const MessageEnd &b) {
                                 return a.getName() < b.getName();
                               });
         send != sends.end() && send->cell == first.cell &&
         send->source == first.source;
         ++send)
      if (failed(verifyOffload(op, *send)))
        return failure();
  }
  return success();
}

/// program_c10 to program_c14
LogicalResult ProgramVerifier::verifyPerPath() {
  auto isPerPath = [](const RunCell &run) { return run.cell.isPerPath(); };
  if (reductions.empty() && llvm::none_of(runs, isPerPath))
    return success();
  if (!placement && reductions.empty())
    return success(); // one path, whose stages share no blocks
  if (!placement)     // program_c10
    return pipe::emitTableError(ops[reductions.front().instruction])
           << "needs paths; say with 'pipe.path' which workers hold its blocks";
  llvm::Expected<ParameterSets> sets = ParameterSets::create(*placement);
  if (!sets)
    return pipe::emitTableError(program)
           << "has O or G cells, whose blocks cannot be matched: "
           << llvm::toString(sets.takeError());
  if (failed(verifySteps(runs, reductions, ops, *placement, *sets)))
    return failure();
  sortByName(reductions);
  return verifyBlockGroups(reductions, ops, *placement, *sets);
}

/// Returns the workers that must meet for a microbatch: the workers of its
/// path, or all workers with cells if there are no paths.
SmallVector<int64_t> ProgramVerifier::workersOf(int64_t path) const {
  SmallVector<int64_t> workers;
  if (placement) {
    llvm::append_range(workers, placement->getPath(path).workers);
  } else {
    for (auto [worker, op] : llvm::enumerate(byNumber))
      if (llvm::any_of(instructionsOf(op), [](InstructionOpInterface each) {
            return each.getInstructionKind() == InstructionKind::Compute;
          }))
        workers.push_back(worker);
  }
  llvm::sort(workers);
  workers.erase(llvm::unique(workers), workers.end());
  return workers;
}

/// program_c16
LogicalResult ProgramVerifier::verifyMeetings() {
  if (meetings.empty())
    return success();
  SmallVector<SmallVector<int64_t>> workers; // by path
  for (int64_t path = 0; path < std::max<int64_t>(1, numPaths); ++path)
    workers.push_back(workersOf(path));
  sortByName(meetings);
  return verifyUnitGroups(meetings, ops, [&](int64_t unit) {
    return ArrayRef(workers[placement ? placement->pathOf(unit) : 0]);
  });
}

LogicalResult ProgramVerifier::verify() {
  if (failed(verifySizes()) || failed(verifyNumbers()) ||
      failed(verifyPlacement()))
    return failure();
  for (WorkerOp worker : program.getWorkerOps())
    if (failed(collect(worker)))
      return failure();
  if (failed(verifyPerPath()) || failed(verifyMeetings()))
    return failure();
  sortByName(sends);
  sortByName(receives);
  return success(succeeded(verifyRunOnce()) && succeeded(verifySliceOrder()) &&
                 succeeded(verifyOnce(sends)) &&
                 succeeded(verifyOnce(receives)) && succeeded(verifyPaired()) &&
                 succeeded(verifyOffloads()));
}

LogicalResult ProgramOp::verifyRegions() {
  return ProgramVerifier(*this).verify();
}
