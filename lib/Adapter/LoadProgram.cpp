//===- LoadProgram.cpp - An exec.program as flat arrays -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks each worker once and numbers its instructions. Facts that all ops of
// one name share are looked up once.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/LoadProgram.h"
#include "OpNumbers.h"
#include "PairMessages.h"
#include "PipeSched/Adapter/EmitDeadlock.h"
#include "PipeSched/Analysis/Proof/EarlyReads.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Dialect/Exec/IR/Messages.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <utility>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

namespace {
/// Whether the ops of one name implement an interface, and their
/// implementation.
template <typename InterfaceT>
struct NamedInterface {
  explicit NamedInterface(Operation *op)
      : isImplemented(isa<InterfaceT>(op)),
        concept(op->getName().getInterface<InterfaceT>()) {}

  InterfaceT of(Operation *op) const {
    return concept ? InterfaceT(op, concept) : cast<InterfaceT>(op);
  }

  bool isImplemented;
  const typename InterfaceT::Concept *concept; ///< null: ask the dialect
};

/// The common properties of ops of one name.
struct NamedOps {
  explicit NamedOps(Operation *op)
      : name(op->getName()), instruction(op), work(op) {
    if (instruction.isImplemented)
      kind = instruction.of(op).getInstructionKind();
  }

  OperationName name;
  NamedInterface<InstructionOpInterface> instruction;
  NamedInterface<WorkOpInterface> work;
  InstructionKind kind = InstructionKind::Compute;
};

class ProgramLoader {
public:
  ProgramLoader(ProgramOp op, ListOps listOps)
      : op(op), listsOps(listOps == ListOps::Yes) {}

  FailureOr<LoadedProgram> run();

private:
  const NamedOps &lookUp(Operation *op);
  LogicalResult loadWorker(WorkerOp worker);
  LogicalResult load(Operation *op, const NamedOps &named, int64_t worker);
  void append(Operation *instruction, InstructionKind kind, Cell cell,
              int64_t peer);
  LogicalResult addOperands(InstructionOpInterface op);
  Cell nameOfJoin() const;
  void addWork(WorkOpInterface instruction, uint32_t number);
  void reserve(int64_t numLoaded);
  void joinGroups();
  LogicalResult loadPlacement();
  FailureOr<Path> implyPath();
  LogicalResult checkReads();

  ProgramOp op;
  bool listsOps;
  LoadedProgram loaded;
  std::vector<CollectiveEnd> collectives;
  SmallVector<NamedOps> names;
  /// The instructions of the worker being loaded; no token leaves its worker.
  OpNumbers numbers;
};
} // namespace

static std::vector<WorkerOp> workersByNumber(ProgramOp program) {
  std::vector<WorkerOp> workers(program.getNumWorkers());
  for (WorkerOp worker : program.getWorkerOps())
    workers[worker.getWorker()] = worker;
  return workers;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

const NamedOps &ProgramLoader::lookUp(Operation *op) {
  for (const NamedOps &named : names)
    if (named.name == op->getName())
      return named;
  return names.emplace_back(op);
}

void ProgramLoader::append(Operation *instruction, InstructionKind kind,
                           Cell cell, int64_t peer) {
  Program &program = loaded.program;
  program.instructions.push_back({cell, static_cast<int32_t>(peer), kind});
  program.operandBegins.push_back(program.operands.size());
  if (listsOps)
    loaded.ops.push_back(instruction);
}

/// Rejects tokens made by ops that are not instructions, such as casts, because
/// the dependences of such a token are unknown.
LogicalResult ProgramLoader::addOperands(InstructionOpInterface op) {
  for (Value token : op.getWaits()) {
    uint32_t number = numbers.lookup(token.getDefiningOp());
    if (number == OpNumbers::kNone) {
      InFlightDiagnostic diagnostic =
          pipe::emitTableError(op)
          << "waits for a token that no instruction makes";
      diagnostic.attachNote(token.getLoc()) << "the token is made here";
      return diagnostic;
    }
    loaded.program.operands.push_back(number);
  }
  return success();
}

void ProgramLoader::addWork(WorkOpInterface instruction, uint32_t number) {
  if (!instruction.statesWork())
    return;
  StatedWork &work = loaded.work.emplace_back();
  work.instruction = number;
  work.flops = instruction.getFlops();
  work.bytesMoved = instruction.getBytesMoved();
  work.messageBytes = instruction.getMessageBytes();
  work.memoryDelta = instruction.getMemoryDelta();
}

/// Names a join like in tables: by the first copy that it waits for. Its
/// operands are the last ones read so far.
Cell ProgramLoader::nameOfJoin() const {
  const Program &program = loaded.program;
  uint32_t first = program.operands[program.operandBegins.back()];
  Cell cell = program.instructions[first].cell.withOverlap(false);
  return cell.isCopy() ? cell.withPhase(joinOf(cell.getPhase())) : cell;
}

/// Loads an instruction. The first half of a pair waits for all operands of the
/// op; the second half starts together with the first.
LogicalResult ProgramLoader::load(Operation *op, const NamedOps &named,
                                  int64_t worker) {
  InstructionOpInterface instruction = named.instruction.of(op);
  InstructionRole role = traitsOf(named.kind).role;
  uint32_t number = loaded.program.instructions.size();
  numbers.insert(op, number);
  if (failed(addOperands(instruction)))
    return failure();
  if (role == InstructionRole::Collective)
    collectives.push_back(
        {nameGroup(named.kind, *instruction.getInstructionCell(),
                   instruction.getGroupBlocks()),
         worker, number});
  append(op, named.kind,
         role == InstructionRole::Join ? nameOfJoin()
                                       : *instruction.getInstructionCell(),
         role == InstructionRole::Message ? instruction.getPeer() : -1);
  if (role == InstructionRole::Compute)
    if (std::optional<Cell> overlapped = instruction.getOverlappedCell()) {
      Cell &first = loaded.program.instructions.back().cell;
      first = first.withOverlap(true);
      append(op, named.kind, *overlapped, /*peer=*/-1);
    }
  if (named.work.isImplemented)
    addWork(named.work.of(op), number);
  return success();
}

/// Skips ops that are not instructions.
LogicalResult ProgramLoader::loadWorker(WorkerOp worker) {
  numbers.clear();
  for (Operation &op : *worker.getBody())
    if (const NamedOps &named = lookUp(&op);
        named.instruction.isImplemented &&
        failed(load(&op, named, worker.getWorker())))
      return failure();
  loaded.program.rowBegins.push_back(loaded.program.instructions.size());
  return success();
}

/// Reserves memory for all workers, assuming that the others have as many
/// instructions as the workers loaded so far, and a quarter more. The first
/// worker often has fewer messages than others.
void ProgramLoader::reserve(int64_t numLoaded) {
  int64_t numWorkers = op.getNumWorkers();
  if (numLoaded == 1 && numWorkers > 2)
    return;
  Program &program = loaded.program;
  auto grow = [&](auto &list) {
    size_t expected = list.size() * numWorkers / numLoaded;
    if (list.capacity() < expected)
      list.reserve(expected + expected / 4);
  };
  grow(program.instructions);
  grow(program.operandBegins);
  grow(program.operands);
  grow(loaded.ops);
}

/// Links collectives. The verifier guarantees that the collectives of one name
/// form one group. The `partner` of each points to the next in a ring.
void ProgramLoader::joinGroups() {
  sortByName(collectives);
  Program &program = loaded.program;
  forEachGroup(collectives, [&](ArrayRef<CollectiveEnd> group) {
    const CollectiveEnd *previous = &group.back();
    for (const CollectiveEnd &end : group) {
      program.partner[previous->instruction] = end.instruction;
      program.instructions[end.instruction].peer = program.groups.size();
      previous = &end;
    }
    program.groups.push_back(group.front().name);
  });
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

/// Places each stage on the worker that runs its cells.
FailureOr<Path> ProgramLoader::implyPath() {
  Path path;
  std::vector<uint32_t> first; // by stage: the instruction that placed it
  const Program &program = loaded.program;
  for (int32_t worker = 0, e = program.getNumWorkers(); worker != e; ++worker)
    for (uint32_t i = program.rowBegins[worker];
         i != program.rowBegins[worker + 1]; ++i) {
      const Instruction &instruction = program.instructions[i];
      // Messages and joins may name a cell of another worker.
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
        std::vector<Operation *> ops = listOps(op);
        InFlightDiagnostic diagnostic =
            pipe::emitTableError(ops[i])
            << "runs stage " << stage << " on worker " << worker
            << ", which worker " << path.workers[stage]
            << " runs too; say with 'pipe.path' which path a microbatch takes";
        diagnostic.attachNote(ops[first[stage]]->getLoc())
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
  llvm::Expected<Placement> placement = Placement::create(
      op.getNumWorkers(), op.getNumMicrobatches(), {*path}, op.getNumSlices());
  if (!placement)
    return pipe::emitTableError(op) << llvm::toString(placement.takeError());
  loaded.placement = std::move(*placement);
  return success();
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

/// Rejects an instruction that may start before its inputs have arrived.
LogicalResult ProgramLoader::checkReads() {
  const Program &program = loaded.program;
  std::optional<EarlyRead> early =
      findEarlyRead(program, loaded.placement, loaded.gradientAfter);
  if (!early)
    return success();
  std::vector<Operation *> ops = listOps(op);
  Operation *reader = ops[early->reader], *source = ops[early->source];
  const Instruction &read = program.instructions[early->source];
  std::string name = "'" + describeInstruction(program, read) + "'";
  name = read.is(InstructionRole::Message)
             ? "the message that it reads, " + name
             : name + ", whose result it reads";
  Cell cell = program.instructions[early->reader].cell;
  InFlightDiagnostic diagnostic = pipe::emitTableError(reader)
                                  << "of cell " << program.nameOf(cell).str();
  if (reader == source)
    return diagnostic << " overlaps " << name;
  if (reader->isBeforeInBlock(source))
    diagnostic << " comes before " << name;
  else
    diagnostic << " does not wait for " << name << "; add its token to 'after'";
  diagnostic.attachNote(source->getLoc()) << "which is here";
  return diagnostic;
}

FailureOr<LoadedProgram> ProgramLoader::run() {
  loaded.gradientAfter = op.getGradientAfter();
  loaded.program.numSlices = op.getNumSlices();
  loaded.program.rowBegins.push_back(0);
  loaded.program.operandBegins.push_back(0);
  for (auto [i, worker] : llvm::enumerate(workersByNumber(op))) {
    if (failed(loadWorker(worker)))
      return failure();
    if (loaded.program.instructions.size() >= Program::kNone)
      return pipe::emitTableError(op)
             << "has more than " << Program::kNone - 1 << " instructions";
    reserve(i + 1);
  }
  loaded.program.partner.assign(loaded.program.instructions.size(),
                                Program::kNone);
  pairMessages(loaded.program);
  joinGroups();
  if (failed(loadPlacement()) || failed(checkReads()))
    return failure();
  return std::move(loaded);
}

FailureOr<LoadedProgram> pipesched::loadProgram(ProgramOp program,
                                                ListOps listOps) {
  return ProgramLoader(program, listOps).run();
}

std::vector<Operation *> pipesched::listOps(ProgramOp program) {
  std::vector<Operation *> ops;
  for (WorkerOp worker : workersByNumber(program))
    for (auto op : worker.getBody()->getOps<InstructionOpInterface>())
      ops.insert(ops.end(), op.getOverlappedCell() ? 2 : 1, op);
  return ops;
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
        std::vector<Operation *> ops = listOps(program);
        (void)emitDeadlock(
            program, loaded.program, deadlock.getDeadlock(), condition,
            [&](uint32_t instruction) { return ops[instruction]->getLoc(); });
      },
      [&](const llvm::ErrorInfoBase &other) {
        pipe::emitTableError(program) << other.message();
      });
  return failure();
}

LogicalResult pipesched::verifyMessages(ProgramOp program,
                                        MessageSemantics semantics) {
  FailureOr<LoadedProgram> loaded = loadProgram(program, ListOps::No);
  if (failed(loaded))
    return failure();
  if (llvm::Error error = verifyMessages(loaded->program, semantics))
    return emitAnalysisError(program, *loaded, std::move(error),
                             ("messages=" + enumName(semantics)).str());
  return success();
}

/// The most granules of the table per op, and the number that it may always
/// have. An op with its operands takes two to four.
static constexpr uintptr_t kGranulesPerOp = 16, kMinGranules = 1024;

void OpNumbers::clear() {
  table.clear();
  numInTable = 0;
  far.clear();
}

/// Starts a new table at a granule, and moves the entries of the old one to the
/// map.
void OpNumbers::restart(uintptr_t granule) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != kNone)
      far[first + i] = table[i];
  first = granule;
  table.assign(1, kNone);
  numInTable = 0;
}

/// Extends the table to a granule outside of it, at least to twice its size.
/// Returns whether the table may be that long.
bool OpNumbers::makeRoom(uintptr_t granule) {
  if (table.empty())
    return false;
  uintptr_t limit = kMinGranules + kGranulesPerOp * numInTable;
  uintptr_t size = table.size();
  bool isBelow = granule < first;
  uintptr_t missing = isBelow ? first - granule : granule - first - size + 1;
  if (missing > limit || size + missing > limit)
    return false;
  uintptr_t added = std::min(std::max(missing, size), limit - size);
  if (!isBelow) {
    table.resize(size + added, kNone);
    return true;
  }
  added = std::min(added, first);
  table.insert(table.begin(), added, kNone);
  first -= added;
  return true;
}

void OpNumbers::insert(const Operation *op, uint32_t number) {
  assert(number != kNone && "no number");
  uintptr_t granule = granuleOf(op);
  if (granule - first >= table.size() && !makeRoom(granule)) {
    if (far.size() < numInTable) {
      far[granule] = number;
      return;
    }
    // Most ops are outside of the table, so start a new one.
    restart(granule);
  }
  table[granule - first] = number;
  ++numInTable;
}

namespace {
/// Divides sends and receives into groups of one stage and phase:
///
///   instructions  send 0F0 to 1 | recv 1B0 from 1 | send 0F1 to 1 | ...
///   groups        send 0F: 0 2 ..   recv 1B: 1 ..
///   unsorted      a bit for each group, whether its cells are out of order
///
/// The i-th send of a group belongs to the i-th receive.
class MessagePairer {
public:
  explicit MessagePairer(Program &program) : program(program) {}

  void run();

private:
  static bool isMessage(const Instruction &instruction) {
    return instruction.is(InstructionRole::Message);
  }
  size_t groupOf(const Instruction &instruction) const;
  bool isBefore(uint32_t first, uint32_t second) const;
  void chooseGroups();
  void fillGroups();
  void pairGroups();
  llvm::MutableArrayRef<uint32_t> membersOf(size_t group);

  /// Stages beyond this number share groups, so that a large stage number takes
  /// no memory.
  static constexpr int64_t kMaxStages = 4096;

  Program &program;
  /// Numbers of groups of sends; there are equally many of receives.
  size_t numStages = 0, numGroups = 0;
  std::vector<uint32_t> ends;    ///< by group: the index after its members
  std::vector<uint32_t> members; ///< instructions, group by group
  std::vector<bool> unsorted;
};
} // namespace

size_t MessagePairer::groupOf(const Instruction &instruction) const {
  size_t phase = static_cast<size_t>(instruction.cell.getPhase());
  size_t kind = instruction.is(InstructionKind::Recv);
  return (kind * kNumPhases + phase) * numStages +
         instruction.cell.getStage() % numStages;
}

/// A cell has one sender. Its receives are in the order of their workers, like
/// all instructions.
bool MessagePairer::isBefore(uint32_t first, uint32_t second) const {
  const Instruction &a = program.instructions[first];
  const Instruction &b = program.instructions[second];
  if (a.cell != b.cell)
    return a.cell.getRaw() < b.cell.getRaw();
  return a.is(InstructionKind::Send) ? a.peer < b.peer : first < second;
}

void MessagePairer::chooseGroups() {
  int64_t lastStage = 0;
  for (const Instruction &instruction : program.instructions)
    if (isMessage(instruction))
      lastStage = std::max(lastStage, instruction.cell.getStage());
  numStages = std::min(lastStage + 1, kMaxStages);
  numGroups = kNumPhases * numStages;
}

/// A counting sort. `ends` first has counts, then the starts of groups, which
/// advance to the ends of the groups as members are written.
void MessagePairer::fillGroups() {
  ends.assign(2 * numGroups, 0);
  for (const Instruction &instruction : program.instructions)
    if (isMessage(instruction))
      ++ends[groupOf(instruction)];
  uint32_t size = 0;
  for (uint32_t &end : ends)
    size += std::exchange(end, size);
  members.resize(size);
  unsorted.assign(2 * numGroups, false);
  std::vector<uint64_t> lastCells(2 * numGroups);
  for (auto [i, instruction] : llvm::enumerate(program.instructions)) {
    if (!isMessage(instruction))
      continue;
    size_t group = groupOf(instruction);
    uint64_t cell = instruction.cell.getRaw() + 1;
    if (cell <= std::exchange(lastCells[group], cell))
      unsorted[group] = true;
    members[ends[group]++] = i;
  }
}

llvm::MutableArrayRef<uint32_t> MessagePairer::membersOf(size_t group) {
  uint32_t begin = group ? ends[group - 1] : 0;
  llvm::MutableArrayRef<uint32_t> found(members.data() + begin,
                                        ends[group] - begin);
  if (unsorted[group])
    llvm::sort(found, [&](uint32_t first, uint32_t second) {
      return isBefore(first, second);
    });
  return found;
}

void MessagePairer::pairGroups() {
  for (size_t group = 0; group < numGroups; ++group)
    for (auto [send, recv] :
         llvm::zip_equal(membersOf(group), membersOf(numGroups + group))) {
      program.partner[send] = recv;
      program.partner[recv] = send;
    }
}

void MessagePairer::run() {
  chooseGroups();
  fillGroups();
  pairGroups();
}

void pipesched::pairMessages(Program &program) { MessagePairer(program).run(); }
