//===- WorkerPrograms.cpp - Programs of workers for executors -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers messages such that both of their workers have the same number, then
// writes the columns row by row.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/WorkerPrograms.h"
#include "InstructionWaits.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace pipesched;

namespace {

/// The activations for which a program has an R or a D.
class ActivationSet {
public:
  ActivationSet(const Program &program, Phase phase) : phase(phase) {
    for (const Instruction &instruction : program.instructions)
      if (!instruction.is(InstructionRole::Message) &&
          instruction.cell.is(phase))
        keys.push_back(keyOf(instruction.cell));
    llvm::sort(keys);
  }

  bool contains(Cell cell) const {
    return !keys.empty() &&
           std::binary_search(keys.begin(), keys.end(), keyOf(cell));
  }

private:
  uint64_t keyOf(Cell cell) const {
    return cell.withPhase(phase).withOverlap(false).getRaw();
  }

  Phase phase;
  std::vector<uint64_t> keys;
};

class Lister {
public:
  Lister(const Program &program, const Placement &placement)
      : program(program), placement(placement),
        waits(program, Transport::Overlap),
        recomputed(program, Phase::Recompute),
        offloaded(program, Phase::Offload) {}

  llvm::Expected<WorkerPrograms> run();

private:
  void reserve();
  void numberMessages();
  llvm::Error listGroups();
  void listHolders(const Replicas &replicas, BlockSpan blocks);
  void listMembers();
  void listCells(int64_t group);
  void listRow(int64_t row);
  void numberRow(int64_t row);
  void add(uint32_t instruction);
  void addCell(InstructionCells &cells, Cell cell);
  void addNoCell(InstructionCells &cells);
  void addJoins(uint32_t instruction);
  void addWait(uint32_t instruction);
  void setHolds(uint32_t join, uint32_t held);
  bool isSecondHalf(uint32_t instruction) const {
    return number[instruction] < 0;
  }

  const Program &program;
  const Placement &placement;
  InstructionWaits waits;
  ActivationSet recomputed, offloaded;
  WorkerPrograms result;
  /// By instruction: its number in its row; ~number of the first half for the
  /// second half of a pair.
  std::vector<int32_t> number;
  std::vector<int32_t> messageOf, sequenceOf; ///< by instruction, or -1
  std::vector<Cell> memberCells;              ///< by member of a group
  /// Index of the first wait of the instruction that `add` processes.
  std::size_t waitsOfSelf = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Messages and groups
//===----------------------------------------------------------------------===//

void Lister::numberMessages() {
  messageOf.assign(program.instructions.size(), -1);
  sequenceOf.assign(program.instructions.size(), -1);
  // By destination: the number of sends so far, and the row that sent them.
  std::vector<int32_t> sent(program.getNumWorkers(), 0);
  std::vector<int64_t> sender(program.getNumWorkers(), -1);
  int32_t next = 0;
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i) {
      const Instruction &instruction = program.instructions[i];
      if (!instruction.is(InstructionKind::Send))
        continue;
      if (std::exchange(sender[instruction.peer], row) != row)
        sent[instruction.peer] = 0;
      uint32_t receive = program.partner[i];
      messageOf[i] = messageOf[receive] = next++;
      sequenceOf[i] = sequenceOf[receive] = sent[instruction.peer]++;
    }
}

/// Adds the stages of each path that hold some of the blocks.
void Lister::listHolders(const Replicas &replicas, BlockSpan blocks) {
  auto pieces = replicas.piecesIn(blocks);
  for (int64_t path = 0; !pieces.empty() && path < placement.getNumPaths();
       ++path) {
    int64_t first = replicas.holderOf(*pieces.begin(), path);
    int64_t last = replicas.holderOf(*std::prev(pieces.end()), path);
    for (int64_t stage = first; stage <= last; ++stage) {
      result.groupPaths.push_back(path);
      result.groupStages.push_back(stage - placement.stageOffset(path));
    }
  }
}

llvm::Error Lister::listGroups() {
  result.memberBegins.assign(result.getNumGroups() + 1, 0);
  result.groupStageBegins.push_back(0);
  if (result.getNumGroups() == 0)
    return llvm::Error::success();
  listMembers();
  std::optional<Replicas> replicas;
  for (auto [number, group] : llvm::enumerate(program.groups)) {
    bool holdsBlocks = group.grouping() == Grouping::Blocks;
    if (holdsBlocks && !replicas) {
      llvm::Expected<Replicas> found = Replicas::create(placement);
      if (!found)
        return found.takeError();
      replicas = std::move(*found);
    }
    if (holdsBlocks)
      listHolders(*replicas, group.blocks);
    else
      listCells(number);
    result.groupStageBegins.push_back(result.groupStages.size());
  }
  return llvm::Error::success();
}

/// Adds the stages of the cells of a group.
void Lister::listCells(int64_t group) {
  for (uint32_t i = result.memberBegins[group];
       i != result.memberBegins[group + 1]; ++i) {
    Cell cell = memberCells[i];
    result.groupPaths.push_back(placement.pathOf(cell));
    result.groupStages.push_back(cell.getStage());
  }
}

/// Counts the members of each group, then writes them row by row.
void Lister::listMembers() {
  for (int32_t group : result.group)
    if (group >= 0)
      ++result.memberBegins[group + 1];
  std::partial_sum(result.memberBegins.begin(), result.memberBegins.end(),
                   result.memberBegins.begin());
  result.members.resize(result.memberBegins.back());
  memberCells.resize(result.members.size());
  std::vector<uint32_t> next = result.memberBegins;
  for (int32_t row = 0; row < program.getNumWorkers(); ++row)
    for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];
         ++i)
      if (const Instruction &self = program.instructions[i];
          self.is(InstructionRole::Collective)) {
        uint32_t at = next[self.peer]++;
        result.members[at] = row;
        memberCells[at] = self.cell;
      }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static void reserveCells(InstructionCells &cells, std::size_t size) {
  for (auto *column : {&cells.path, &cells.stage, &cells.microbatch})
    column->reserve(size);
  for (auto *column : {&cells.phase, &cells.activation})
    column->reserve(size);
}

void Lister::reserve() {
  std::size_t size = program.instructions.size();
  reserveCells(result.first, size);
  reserveCells(result.second, size);
  result.kind.reserve(size);
  for (auto *column : {&result.peer, &result.message, &result.sequence,
                       &result.group, &result.holds})
    column->reserve(size);
  result.waitBegins.reserve(size + program.getNumWorkers());
  result.waits.reserve(program.operands.size());
  number.assign(size, 0);
}

/// Numbers the instructions of a row:
///
///   instructions   F0   F2+   B1   send F2       + overlaps the next
///   number         0    1     ~1   2
void Lister::numberRow(int64_t row) {
  int32_t next = 0;
  for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1];) {
    uint32_t second = program.instructions[i].is(InstructionRole::Compute)
                          ? waits.secondHalfOf(i)
                          : Program::kNone;
    number[i] = next;
    if (second != Program::kNone)
      number[second] = ~next;
    i += second == Program::kNone ? 1 : 2;
    ++next;
  }
}

void Lister::addCell(InstructionCells &cells, Cell cell) {
  cells.path.push_back(placement.pathOf(cell));
  cells.stage.push_back(cell.getStage());
  cells.microbatch.push_back(cell.getNumber());
  cells.phase.push_back(traitsOf(cell.getPhase()).code);
  int activation = 0;
  if (!cell.isPerPath() && recomputed.contains(cell))
    activation |= kActivationRecomputed;
  if (!cell.isPerPath() && offloaded.contains(cell))
    activation |= kActivationOffloaded;
  cells.activation.push_back(activation);
}

void Lister::addNoCell(InstructionCells &cells) {
  for (auto *column : {&cells.path, &cells.stage, &cells.microbatch})
    column->push_back(-1);
  cells.phase.push_back(-1);
  cells.activation.push_back(0);
}

/// Adds an instruction to the waits of the current instruction, unless it is
/// already there.
void Lister::addWait(uint32_t instruction) {
  int32_t awaited = number[instruction];
  if (awaited < 0)
    awaited = ~awaited;
  if (!llvm::is_contained(llvm::drop_begin(result.waits, waitsOfSelf), awaited))
    result.waits.push_back(awaited);
}

void Lister::setHolds(uint32_t join, uint32_t held) {
  int32_t &holds = result.holds[result.rowBegins.back() + number[join]];
  if (holds < 0)
    holds = number[held];
}

/// Adds the joins that hold an instruction, in program order.
void Lister::addJoins(uint32_t instruction) {
  if (program.instructions[instruction].is(InstructionRole::Join))
    return;
  std::size_t begin = result.waits.size();
  waits.forJoins(instruction, [&](uint32_t join) {
    addWait(join);
    setHolds(join, instruction);
  });
  std::reverse(result.waits.begin() + begin, result.waits.end());
}

void Lister::add(uint32_t instruction) {
  const Instruction &self = program.instructions[instruction];
  bool isMessage = self.is(InstructionRole::Message);
  bool isCollective = self.is(InstructionRole::Collective);
  bool isPair = self.is(InstructionRole::Compute) &&
                waits.secondHalfOf(instruction) != Program::kNone;
  result.kind.push_back(static_cast<int8_t>(self.kind));
  addCell(result.first, self.cell);
  if (isPair)
    addCell(result.second, program.instructions[instruction + 1].cell);
  else
    addNoCell(result.second);
  result.peer.push_back(isMessage ? self.peer : -1);
  result.message.push_back(messageOf[instruction]);
  result.sequence.push_back(sequenceOf[instruction]);
  result.group.push_back(isCollective ? self.peer : -1);
  result.holds.push_back(-1);
  waitsOfSelf = result.waits.size();
  for (uint32_t half = instruction; half <= instruction + isPair; ++half)
    for (uint32_t operand : program.operandsOf(half))
      addWait(operand);
  for (uint32_t half = instruction; half <= instruction + isPair; ++half)
    addJoins(half);
}

void Lister::listRow(int64_t row) {
  numberRow(row);
  std::size_t begin = result.waits.size();
  result.waitBegins.push_back(0);
  for (uint32_t i = program.rowBegins[row]; i < program.rowBegins[row + 1]; ++i)
    if (!isSecondHalf(i)) {
      add(i);
      result.waitBegins.push_back(result.waits.size() - begin);
    }
  result.rowBegins.push_back(result.kind.size());
  result.rowWaits.push_back(result.waits.size());
}

llvm::Expected<WorkerPrograms> Lister::run() {
  result.numSlices = program.numSlices;
  constexpr std::size_t limit = std::numeric_limits<int32_t>::max();
  if (program.instructions.size() > limit || program.operands.size() > limit)
    return llvm::createStringError(
        "the program has %zu instructions and %zu waits, more than 2^31-1",
        program.instructions.size(), program.operands.size());
  reserve();
  numberMessages();
  for (const GroupName &group : program.groups) {
    result.groupKind.push_back(static_cast<int8_t>(group.kind));
    result.firstBlock.push_back(group.blocks.begin);
    result.endBlock.push_back(group.blocks.end);
    result.groupMicrobatch.push_back(group.unit);
  }
  result.rowBegins.push_back(0);
  result.rowWaits.push_back(0);
  for (int64_t row = 0; row < program.getNumWorkers(); ++row)
    listRow(row);
  if (llvm::Error error = listGroups())
    return std::move(error);
  return std::move(result);
}

llvm::Expected<WorkerPrograms>
pipesched::listWorkerPrograms(const Program &program,
                              const Placement &placement) {
  return Lister(program, placement).run();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Lists the sets of all workers. ParameterSets numbers sets and stages over
/// all workers; this list numbers them from 0 for each worker.
static WorkerParameterSets listSets(const ParameterSets &sets,
                                    const Placement &placement) {
  WorkerParameterSets result;
  result.begins.assign(sets.getSetBegins().begin(), sets.getSetBegins().end());
  result.rowStages.push_back(0);
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    result.stageBegins.push_back(0);
    for (int64_t set : sets.setsOfWorker(worker)) {
      BlockSpan blocks = sets.blocksOf(set);
      result.firstBlock.push_back(blocks.begin);
      result.endBlock.push_back(blocks.end);
      result.owner.push_back(placement.localStage(sets.ownerOf(set)));
      for (int64_t stage : sets.stagesOf(set))
        result.stages.push_back(placement.localStage(stage));
      result.stageBegins.push_back(result.stages.size() -
                                   result.rowStages.back());
    }
    result.rowStages.push_back(result.stages.size());
  }
  return result;
}

static void resize(WorkerStages &stages, std::size_t size) {
  for (auto *column : {&stages.path, &stages.stage, &stages.firstSet,
                       &stages.endOwnedSet, &stages.endSet})
    column->resize(size);
  stages.firstBlock.resize(size);
  stages.endBlock.resize(size);
}

/// Writes the blocks and the sets of a global stage at an index of the columns.
static void listHeld(WorkerStages &result, std::size_t at,
                     const ParameterSets &sets, int64_t stage, int64_t worker) {
  BlockSpan blocks = sets.getReplicas().blocksOfStage(stage);
  result.firstBlock[at] = blocks.begin;
  result.endBlock[at] = blocks.end;
  if (sets.setsOf(stage).empty())
    return;
  int64_t firstOfWorker = *sets.setsOfWorker(worker).begin();
  result.firstSet[at] = *sets.setsOf(stage).begin() - firstOfWorker;
  result.endOwnedSet[at] = *sets.ownedSetsOf(stage).end() - firstOfWorker;
  result.endSet[at] = *sets.setsOf(stage).end() - firstOfWorker;
}

llvm::Expected<WorkerStages>
pipesched::listWorkerStages(const Placement &placement) {
  llvm::Expected<ParameterSets> sets = ParameterSets::create(placement);
  if (!sets)
    return sets.takeError();
  if (sets->getStages().size() > std::numeric_limits<int32_t>::max())
    return llvm::createStringError(
        "the parameter sets of all workers have %zu stages, more than 2^31-1",
        sets->getStages().size());
  WorkerStages result;
  result.numBlocks = sets->getReplicas().getNumBlocks();
  result.sets = listSets(*sets, placement);
  result.begins.push_back(0);
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    result.begins.push_back(result.begins.back() +
                            placement.getNumLocalStages(worker));
  resize(result, result.begins.back());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
      int64_t global = placement.stageOffset(path) + stage;
      int64_t worker = placement.workerOf(global);
      std::size_t at = result.begins[worker] + placement.localStage(global);
      result.path[at] = path;
      result.stage[at] = stage;
      listHeld(result, at, *sets, global, worker);
    }
  return result;
}
