//===- Lowering.cpp - From a table to a program ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages are found row by row, so messages to one worker form one sorted run
// per source. The runs are merged by slot. One sweep then writes the rows.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Expected;

static constexpr uint32_t kNone = Program::kNone;

namespace {
/// A message: the last slot of its producer, the producer's flat index, and the
/// other worker: the source of a receive, the destination of a send. If times
/// order messages, slots are numbers of moments (numberMoments).
struct Message {
  int64_t slot;
  uint32_t producer;
  int32_t peer;
};

/// Messages by destination, in the order of the receives:
///
///   messages   | to worker 0 ... | to worker 1 ... |      sorted by slot,
///   starts     ^                 ^                 ^      then by source
struct Inboxes {
  std::vector<Message> messages;
  std::vector<uint32_t> begins;

  ArrayRef<Message> of(int64_t worker) const {
    return ArrayRef(messages).slice(begins[worker],
                                    begins[worker + 1] - begins[worker]);
  }
};

class Lowering {
public:
  Lowering(const TableView &table, const CellIndex &index,
           const SlotAssignment &slots, ReceivePlacement receives,
           ArrayRef<int64_t> ends = {})
      : table(table), index(index), slots(slots), ends(ends),
        dependences(table, index), receives(receives) {}

  Expected<Program> run();

private:
  void findDestinations();
  void collectMessages();
  void sortInbox(int64_t worker, std::vector<Message> &buffer);
  void reserve();

  void emitRow(int64_t row);
  void emitMessagesBefore(int64_t slot);
  void emitReceiveFor(Cell cell);
  void emitArrivals(int64_t slot);
  void emitSend(const Message &message);
  void emitReceive(const Message &message);
  void emitCell(Cell cell, uint32_t flat);
  void addOperands(Cell cell);
  void addIssuePoint(Cell cell);
  uint32_t sendOf(uint32_t producer, int64_t worker);
  void emitCollectives(Cell cell, uint32_t flat);
  void emitReductions(Cell cell);
  uint32_t beginCollective(Cell cell, int64_t group);
  int64_t freeSlotFor(CellRef at) const;
  int64_t meetingSlot(CellRef at);
  void addGradients(Cell cell);
  /// The last slot of the index-th entry of a row.
  int64_t lastSlot(uint32_t flat, ArrayRef<Cell> cells, int64_t index) const {
    return (ends.empty()
                ? slots.start[flat] + slotsOf(UnitSlots(), cells, index)
                : ends[flat]) -
           1;
  }
  /// The receive of a cell's message on a worker, or its send as long as there
  /// is no receive.
  uint32_t &messageTo(uint32_t producer, int64_t worker) {
    if (LLVM_LIKELY(!hasBroadcasts) ||
        destinationOf[producer] != Dependences::kSeveral)
      return messageOf[producer];
    return broadcasts.try_emplace({producer, worker}, kNone).first->second;
  }
  bool isReceived(uint32_t producer) {
    uint32_t instruction = messageTo(producer, row);
    return instruction != kNone &&
           program.instructions[instruction].kind == InstructionKind::Recv;
  }
  /// Calls `visit(worker)` for each worker to which a cell sends its output.
  template <typename Visit>
  void forEachDestination(uint32_t flat, Cell cell, Visit &&visit) const {
    int32_t destination = destinationOf[flat];
    if (destination >= 0)
      visit(destination);
    else if (LLVM_UNLIKELY(destination == Dependences::kSeveral))
      dependences.forEachDestination(cell, visit);
  }
  void clearOutbox() {
    outbox.clear();
    outboxNext = 0;
  }
  uint32_t begin(InstructionKind kind, Cell cell, int32_t peer = -1);
  void addOperand(uint32_t instruction);
  void addOperandOnce(uint32_t instruction);
  void pair(uint32_t instruction, uint32_t other);

  const TableView &table;
  const CellIndex &index;
  const SlotAssignment &slots;
  ArrayRef<int64_t> ends; ///< by flat index; empty: by unit slots
  Dependences dependences;
  ReceivePlacement receives;

  // By flat index: the worker that receives the cell's message, -1, or
  // kSeveral; the instruction of the cell; the receive of its message, or its
  // send as long as there is no receive.
  std::vector<int32_t> destinationOf;
  std::vector<uint32_t> instructionOf, messageOf;
  /// The receive or send by producer and destination, for cells with several
  /// destinations.
  llvm::DenseMap<std::pair<uint32_t, int64_t>, uint32_t> broadcasts;
  bool hasBroadcasts = false;
  Inboxes inboxes;
  Program program;
  // By global stage: the last weight gradient. Filled if the table has O or G.
  std::vector<uint32_t> lastGradient;
  // By group: its first instruction, its last instruction so far, and the slot
  // at which it meets.
  std::vector<uint32_t> firstOfGroup, lastOfGroup;
  std::vector<int64_t> meetingSlots; ///< -1: not computed yet

  // The row being written.
  int64_t row = 0;
  ArrayRef<Message> inbox;    ///< receives not yet written
  ArrayRef<Message> arrivals; ///< with receives at their consumers: messages to
                              ///< check before the next collective
  llvm::SmallVector<Message> outbox; ///< sends of the last cell, or of a pair
  unsigned outboxNext = 0;
  uint32_t lastCompute = kNone; ///< the issue point of copies
};
} // namespace

Expected<Program> Lowering::run() {
  findDestinations();
  collectMessages();
  reserve();
  program.rowBegins.push_back(0);
  program.operandBegins.push_back(0);
  for (int64_t worker = 0, e = table.rows.size(); worker != e; ++worker) {
    emitRow(worker);
    program.rowBegins.push_back(program.instructions.size());
  }
  return std::move(program);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

void Lowering::findDestinations() {
  destinationOf.reserve(index.rowBegin(table.rows.size()));
  inboxes.begins.assign(table.rows.size() + 1, 0);
  for (ArrayRef<Cell> cells : table.rows)
    for (Cell cell : cells) {
      int64_t destination = dependences.messageDestination(cell);
      destinationOf.push_back(destination);
      if (destination >= 0) {
        ++inboxes.begins[destination + 1];
      } else if (LLVM_UNLIKELY(destination == Dependences::kSeveral)) {
        hasBroadcasts = true;
        dependences.forEachDestination(
            cell, [&](int64_t worker) { ++inboxes.begins[worker + 1]; });
      }
    }
  for (size_t worker = 0; worker < table.rows.size(); ++worker)
    inboxes.begins[worker + 1] += inboxes.begins[worker];
}

/// With receives at their consumers, sorted inboxes are needed only before
/// collectives.
void Lowering::collectMessages() {
  if (receives == ReceivePlacement::Consumer && !index.getGroups())
    return;
  inboxes.messages.resize(inboxes.begins.back());
  std::vector<uint32_t> next(inboxes.begins.begin(), inboxes.begins.end() - 1);
  uint32_t flat = 0;
  for (int32_t source = 0, e = table.rows.size(); source != e; ++source) {
    ArrayRef<Cell> cells = table.rows[source];
    for (int64_t i = 0, size = cells.size(); i != size; ++i, ++flat)
      forEachDestination(flat, cells[i], [&](int64_t destination) {
        inboxes.messages[next[destination]++] = {lastSlot(flat, cells, i), flat,
                                                 source};
      });
  }
  std::vector<Message> buffer;
  for (int64_t worker = 0, size = table.rows.size(); worker != size; ++worker)
    sortInbox(worker, buffer);
}

/// Merges neighbouring runs until one is left; equal slots stay in the order of
/// sources.
///
///   | from 0: 1 3 5 | from 2: 2 4 | from 3: 1 2 |   slots
///   |   1 2 3 4 5                 |   1 2       |
///   |   1 1 2 2 3 4 5                           |
void Lowering::sortInbox(int64_t worker, std::vector<Message> &buffer) {
  auto messages =
      llvm::MutableArrayRef(inboxes.messages)
          .slice(inboxes.begins[worker],
                 inboxes.begins[worker + 1] - inboxes.begins[worker]);
  llvm::SmallVector<size_t> runs = {0};
  for (size_t i = 1; i < messages.size(); ++i)
    if (messages[i].peer != messages[i - 1].peer)
      runs.push_back(i);
  runs.push_back(messages.size());
  auto isEarlier = [](const Message &a, const Message &b) {
    return a.slot < b.slot;
  };
  buffer.resize(std::max(buffer.size(), messages.size()));
  while (runs.size() > 2) {
    size_t numMerged = 0;
    for (size_t i = 0; i + 1 < runs.size(); i += 2) {
      size_t first = runs[i], middle = runs[i + 1];
      size_t last = i + 2 < runs.size() ? runs[i + 2] : middle;
      std::merge(messages.begin() + first, messages.begin() + middle,
                 messages.begin() + middle, messages.begin() + last,
                 buffer.begin() + first, isEarlier);
      runs[numMerged++] = first;
    }
    runs.resize(numMerged);
    runs.push_back(messages.size());
    std::copy_n(buffer.begin(), messages.size(), messages.begin());
  }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void Lowering::reserve() {
  size_t numCells = index.rowBegin(table.rows.size());
  size_t numMessages = inboxes.begins.back();
  size_t numInstructions = numCells + 2 * numMessages;
  instructionOf.assign(numCells, kNone);
  messageOf.assign(numCells, kNone);
  program.instructions.reserve(numInstructions);
  program.operandBegins.reserve(numInstructions + 1);
  program.partner.reserve(numInstructions);
  program.rowBegins.reserve(table.rows.size() + 1);
  program.numSlices = table.placement->getNumSlices();
  if (index.hasPerPath())
    lastGradient.assign(table.placement->getNumGlobalStages(), kNone);
  if (const Groups *groups = index.getGroups()) {
    firstOfGroup.assign(groups->size(), kNone);
    lastOfGroup = firstOfGroup;
    meetingSlots.assign(firstOfGroup.size(), -1);
    program.groups = groups->getNames();
  }
  // An estimate: one operand per cell, and per message one for the send and one
  // for the consumer.
  program.operands.reserve(numCells + 2 * numMessages);
}

uint32_t Lowering::begin(InstructionKind kind, Cell cell, int32_t peer) {
  uint32_t instruction = program.instructions.size();
  program.instructions.push_back({cell, peer, kind});
  program.partner.push_back(kNone);
  return instruction;
}

void Lowering::addOperand(uint32_t instruction) {
  if (instruction != kNone)
    program.operands.push_back(instruction);
}

/// Adds an operand unless the current instruction already waits for it or for
/// the other half of its pair.
void Lowering::addOperandOnce(uint32_t instruction) {
  if (instruction == kNone)
    return;
  auto isSamePair = [&](uint32_t first, uint32_t second) {
    return first + 1 == second &&
           program.instructions[first].cell.overlapsNext();
  };
  if (llvm::none_of(
          ArrayRef(program.operands).drop_front(program.operandBegins.back()),
          [&](uint32_t other) {
            return other == instruction || isSamePair(other, instruction) ||
                   isSamePair(instruction, other);
          }))
    addOperand(instruction);
}

/// Links a send with its receive. Whichever is written second finds the first
/// through their producer.
void Lowering::pair(uint32_t instruction, uint32_t other) {
  if (other == kNone)
    return;
  program.partner[instruction] = other;
  program.partner[other] = instruction;
}

void Lowering::emitSend(const Message &message) {
  uint32_t producer = instructionOf[message.producer];
  Cell cell = program.instructions[producer].cell.withOverlap(false);
  uint32_t send = begin(InstructionKind::Send, cell, message.peer);
  uint32_t &other = messageTo(message.producer, message.peer);
  pair(send, other);
  if (other == kNone)
    other = send;
  addOperand(producer);
  program.operandBegins.push_back(program.operands.size());
}

void Lowering::emitReceive(const Message &message) {
  Cell cell =
      table.rows[message.peer][message.producer - index.rowBegin(message.peer)];
  uint32_t receive =
      begin(InstructionKind::Recv, cell.withOverlap(false), message.peer);
  uint32_t &other = messageTo(message.producer, row);
  pair(receive, other);
  other = receive;
  program.operandBegins.push_back(program.operands.size());
}

/// Writes the sends of cells that ended and the receives that arrived before
/// `slot`. Within one slot sends come first.
void Lowering::emitMessagesBefore(int64_t slot) {
  while (true) {
    bool hasSend = outboxNext != outbox.size(), hasReceive = !inbox.empty();
    bool sendFirst = hasSend && (!hasReceive ||
                                 outbox[outboxNext].slot <= inbox.front().slot);
    if (sendFirst && outbox[outboxNext].slot < slot) {
      emitSend(outbox[outboxNext++]);
    } else if (!sendFirst && hasReceive && inbox.front().slot < slot) {
      emitReceive(inbox.front());
      inbox = inbox.drop_front();
    } else {
      return;
    }
  }
}

void Lowering::emitReceiveFor(Cell cell) {
  dependences.forEachProducer(cell, [&](Dependences::Producer producer) {
    if (producer.worker != row && !isReceived(producer.flat))
      emitReceive({0, producer.flat, static_cast<int32_t>(producer.worker)});
  });
}

/// Writes the receives whose message was sent before `slot`, so that they do
/// not wait for the collective that starts there.
void Lowering::emitArrivals(int64_t slot) {
  for (; !arrivals.empty() && arrivals.front().slot < slot;
       arrivals = arrivals.drop_front())
    if (!isReceived(arrivals.front().producer))
      emitReceive(arrivals.front());
}

/// An overlapped pair is one entry: its receives come before it, and its sends
/// follow it.
void Lowering::emitRow(int64_t worker) {
  row = worker;
  lastCompute = kNone;
  if (receives == ReceivePlacement::Arrival)
    inbox = inboxes.of(worker);
  else if (index.getGroups())
    arrivals = inboxes.of(worker);
  ArrayRef<Cell> cells = table.rows[worker];
  for (int64_t i = 0, e = cells.size(); i != e; ++i) {
    uint32_t flat = index.rowBegin(worker) + i;
    bool isSecondHalf = i > 0 && cells[i - 1].overlapsNext();
    if (cells[i].isIdle())
      continue;
    if (!isSecondHalf) {
      bool isMeeting = cells[i].isIn(kMeetingPhases);
      int64_t slot = isMeeting ? meetingSlot({row, i}) : slots.start[flat];
      emitMessagesBefore(slot);
      clearOutbox();
      if (isMeeting)
        emitArrivals(slot);
      if (receives == ReceivePlacement::Consumer) {
        emitReceiveFor(cells[i]);
        if (cells[i].overlapsNext())
          emitReceiveFor(cells[i + 1]);
      }
    }
    emitCell(cells[i], flat);
    forEachDestination(flat, cells[i], [&](int64_t destination) {
      outbox.push_back(
          {lastSlot(flat, cells, i), flat, static_cast<int32_t>(destination)});
    });
  }
  emitMessagesBefore(std::numeric_limits<int64_t>::max());
  clearOutbox();
}

void Lowering::emitCell(Cell cell, uint32_t flat) {
  if (cell.isIn(kCollectivePhases))
    return emitCollectives(cell, flat);
  uint32_t instruction = begin(*traitsOf(cell.getPhase()).instruction, cell);
  if (cell.isCopy())
    addIssuePoint(cell);
  else if (cell.is(Phase::Optimizer))
    addGradients(cell);
  else
    addOperands(cell);
  program.operandBegins.push_back(program.operands.size());
  instructionOf[flat] = instruction;
  if (!cell.isCompute())
    return;
  lastCompute = instruction;
  if (!lastGradient.empty() && cell.isIn(kGradientPhases))
    lastGradient[table.placement->globalStage(cell)] = instruction;
}

/// Adds the cells that a cell waits for. A receive replaces a cell of another
/// worker.
void Lowering::addOperands(Cell cell) {
  uint32_t begin = index.rowBegin(row), end = index.rowBegin(row + 1);
  dependences.forEachPredecessor(cell, [&](uint32_t before) {
    bool isRemote = before < begin || before >= end;
    addOperand(isRemote ? messageTo(before, row) : instructionOf[before]);
  });
}

/// Adds the operands of a copy: its dependences, and the compute cell before
/// it, which may be one of them. A D also waits for the send of the output that
/// it frees.
void Lowering::addIssuePoint(Cell cell) {
  addOperand(lastCompute);
  dependences.forEachPredecessor(cell, [&](uint32_t before) {
    if (instructionOf[before] != lastCompute)
      addOperand(instructionOf[before]);
    if (cell.is(Phase::Offload))
      forEachDestination(
          before, cell.withPhase(Phase::Forward),
          [&](int64_t worker) { addOperand(sendOf(before, worker)); });
  });
}

/// Returns the send of a cell's message to a worker if it has been written,
/// else kNone.
uint32_t Lowering::sendOf(uint32_t producer, int64_t worker) {
  uint32_t message = messageTo(producer, worker);
  if (message == kNone ||
      program.instructions[message].is(InstructionKind::Send))
    return message;
  return program.partner[message];
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// The slot from which a row is free for a cell: the slot after the last
/// compute cell.
int64_t Lowering::freeSlotFor(CellRef at) const {
  ArrayRef<Cell> cells = table.rows[at.row];
  while (at.index-- > 0)
    if (cells[at.index].isCompute())
      return lastSlot(index.rowBegin(at.row) + at.index, cells, at.index) + 1;
  return 0;
}

/// The first slot at which a group of a cell meets. It is the slot of the cell
/// unless the cell is in several groups. Then the slot of the cell is the slot
/// at which the last group meets, but the row must reach the cell before the
/// first group meets. Messages that arrive later come after the cell.
int64_t Lowering::meetingSlot(CellRef at) {
  const Groups &groups = *index.getGroups();
  int64_t first = slots.start[index.rowBegin(at.row) + at.index];
  for (int64_t group : groups.groupsOf(table.rows[at.row][at.index])) {
    int64_t &slot = meetingSlots[group];
    if (slot < 0)
      for (CellRef member : groups.membersOf(group))
        slot = std::max(slot, freeSlotFor(member));
    first = std::min(first, slot);
  }
  return first;
}

/// Writes one instruction for each group of the cell. Reductions of gradients
/// wait for gradients, other collectives for the inputs of their phase.
void Lowering::emitCollectives(Cell cell, uint32_t flat) {
  if (groupingOf(cell.getPhase()) == Grouping::Blocks)
    return emitReductions(cell);
  for (int64_t group : index.getGroups()->groupsOf(cell)) {
    instructionOf[flat] = beginCollective(cell, group);
    addIssuePoint(cell);
    program.operandBegins.push_back(program.operands.size());
  }
}

/// Writes one instruction for each piece that the worker reduces at this cell.
/// It waits for the gradients of all stages that hold the piece.
void Lowering::emitReductions(Cell cell) {
  const ParameterSets &sets = *index.getParameterSets();
  int64_t group = *index.getGroups()->groupsOf(cell).begin();
  for (int64_t set : sets.ownedSetsOf(table.placement->globalStage(cell)))
    for ([[maybe_unused]] int64_t piece : sets.piecesOf(set)) {
      beginCollective(cell, group++);
      addOperand(lastCompute);
      for (int64_t stage : sets.stagesOf(set))
        addOperandOnce(lastGradient[stage]);
      program.operandBegins.push_back(program.operands.size());
    }
}

/// Starts a collective and adds it to its group, a ring whose last instruction
/// points to the first.
uint32_t Lowering::beginCollective(Cell cell, int64_t group) {
  uint32_t instruction = begin(program.groups[group].kind, cell, group);
  uint32_t &first = firstOfGroup[group], &last = lastOfGroup[group];
  if (first == kNone)
    first = last = instruction;
  program.partner[last] = instruction;
  program.partner[instruction] = first;
  last = instruction;
  return instruction;
}

/// Adds the operands of O: the gradients of its blocks from all stages that
/// hold them, or the all-reduces of these gradients. Rows are written one by
/// one, so the last instruction of a group so far belongs to this row.
void Lowering::addGradients(Cell cell) {
  int64_t stage = table.placement->globalStage(cell);
  const Groups *groups = index.getGroups();
  if (!groups || groups->indexOf(Phase::AllReduce, stage) < 0)
    return index.getParameterSets()->forEachUser(
        stage, [&](int64_t user) { addOperandOnce(lastGradient[user]); });
  for (int64_t group : groups->groupsOf(cell.withPhase(Phase::AllReduce)))
    addOperand(lastOfGroup[group]);
}

Expected<Program> pipesched::lowerTable(const TableView &table,
                                        const CellIndex &index,
                                        const SlotAssignment &slots,
                                        ReceivePlacement placement) {
  return Lowering(table, index, slots, placement).run();
}

/// Numbers the starts and ends of cells by time, then by unit slot. A slot
/// grows along every dependence, so a cell that takes no time still ends after
/// its start. `slots` has unit slots before and numbers of starts after; `ends`
/// gets numbers of ends.
static void numberMoments(const TableView &table, const SlotAssignment &timed,
                          const TimedSlots &times, SlotAssignment &slots,
                          std::vector<int64_t> &ends) {
  using Moment = std::pair<int64_t, int64_t>;
  std::vector<Moment> startMoments, endMoments;
  uint32_t flat = 0;
  for (ArrayRef<Cell> cells : table.rows)
    for (int64_t i = 0, size = cells.size(); i != size; ++i, ++flat) {
      int64_t ps = timed.start[flat], slot = slots.start[flat];
      startMoments.emplace_back(ps, slot);
      endMoments.emplace_back(ps + slotsOf(times, cells, i),
                              slot + slotsOf(UnitSlots(), cells, i));
    }
  std::vector<Moment> all = startMoments;
  llvm::append_range(all, endMoments);
  llvm::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  auto numberOf = [&](const Moment &moment) -> int64_t {
    return llvm::lower_bound(all, moment) - all.begin();
  };
  llvm::transform(startMoments, slots.start.begin(), numberOf);
  ends.resize(flat);
  llvm::transform(endMoments, ends.begin(), numberOf);
}

Expected<Program> pipesched::lowerTable(const TableView &table,
                                        ReceivePlacement placement,
                                        const TimedSlots *times) {
  Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  Expected<SlotAssignment> slots = alignUnitSlots(table, *index);
  if (!slots)
    return slots.takeError();
  if (!times || placement == ReceivePlacement::Consumer)
    return lowerTable(table, *index, *slots, placement);
  Expected<SlotAssignment> timed = alignTimes(table, *index, *times);
  if (!timed)
    return timed.takeError();
  std::vector<int64_t> ends;
  numberMoments(table, *timed, *times, *slots, ends);
  return Lowering(table, *index, *slots, placement, ends).run();
}
