//===- TimedCells.cpp - The cells of an execution with times --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks instructions instead of tasks, because a group is one task but has an
// instruction on every worker.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/TimedCells.h"

using namespace pipesched;

namespace {

/// Finds the member of a group for an instruction. Instructions and the members
/// of a group are both ordered by worker, so the members come one after the
/// other.
class GroupMembers {
public:
  explicit GroupMembers(const TaskGraph &graph)
      : next(graph.groupBegins.begin(), graph.groupBegins.end()) {}

  /// Returns the index into graph.groupWorkers of the next member of a group.
  uint32_t take(int32_t group) { return next[group]++; }

private:
  std::vector<uint32_t> next; ///< by group
};

/// Collects the cells of one worker at a time, because a collective may extend
/// a cell that is already listed:
///
///   instructions  0B0 | G of piece 0 | G of piece 1 | 0B0 ...  | next worker
///   row           0B0   0G0 [------------------]
class RowWriter {
public:
  RowWriter(const Execution &execution,
            llvm::function_ref<void(const TimedCell &)> handle)
      : graph(execution.graph), execution(execution), handle(handle),
        members(graph) {}

  void add(uint32_t task, int64_t row);
  void flush();

private:
  TimedCell time(int64_t worker, Cell cell, uint32_t task) const;
  void addMember(uint32_t task);
  void findMessages();

  const TaskGraph &graph;
  const Execution &execution;
  llvm::function_ref<void(const TimedCell &)> handle;
  GroupMembers members;
  std::vector<TimedCell> row;
  std::vector<size_t> met; ///< the entries of the row that are cells of groups
  /// The messages that the row sends: their cells and numbers.
  std::vector<std::pair<uint64_t, int64_t>> sent;
  int64_t numSent = 0;                   ///< by all rows so far
  uint32_t firstHalf = TaskGraph::kNone; ///< a pair whose second half follows
};

} // namespace

TimedCell RowWriter::time(int64_t worker, Cell cell, uint32_t task) const {
  int64_t startPs = execution.timeline.startPs[task];
  return {worker, cell, startPs, startPs + execution.times.occupancyPs[task]};
}

void RowWriter::addMember(uint32_t task) {
  uint32_t member = members.take(graph.peer[task]);
  TimedCell next =
      time(graph.groupWorkers[member], graph.groupCells[member], task);
  for (size_t index : met)
    if (row[index].cell == next.cell) {
      row[index].startPs = std::min(row[index].startPs, next.startPs);
      row[index].endPs = std::max(row[index].endPs, next.endPs);
      return;
    }
  row.push_back(next);
  met.push_back(row.size() - 1);
}

void RowWriter::add(uint32_t task, int64_t worker) {
  switch (traitsOf(graph.kind[task]).role) {
  case InstructionRole::Compute: {
    bool isSecondHalf = task == firstHalf;
    Cell cell = isSecondHalf ? graph.overlapped[task] : graph.cell[task];
    firstHalf = graph.cell[task].overlapsNext() && !isSecondHalf
                    ? task
                    : TaskGraph::kNone;
    return row.push_back(time(worker, cell, task));
  }
  case InstructionRole::Copy:
    return row.push_back(time(worker, graph.cell[task], task));
  case InstructionRole::Collective:
    return addMember(task);
  case InstructionRole::Message:
    // A Send and its Recv may be one task; only the sender's row counts it.
    if (graph.isMessage(task) && graph.worker[task] == worker)
      sent.emplace_back(graph.cell[task].getRaw(), numSent++);
    return;
  case InstructionRole::Join:
    return;
  }
  llvm_unreachable("covered switch");
}

void RowWriter::findMessages() {
  llvm::sort(sent);
  for (TimedCell &cell : row) {
    std::pair<uint64_t, int64_t> key(cell.cell.withOverlap(false).getRaw(), 0);
    auto found = llvm::lower_bound(sent, key);
    if (found != sent.end() && found->first == key.first)
      cell.message = found->second;
  }
  sent.clear();
}

/// Passes on the cells of a finished row.
void RowWriter::flush() {
  findMessages();
  for (const TimedCell &cell : row)
    handle(cell);
  row.clear();
  met.clear();
}

void pipesched::forEachTimedCell(
    const Execution &execution,
    llvm::function_ref<void(const TimedCell &)> handle) {
  RowWriter writer(execution, handle);
  const TaskGraph &graph = execution.graph;
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
    for (uint32_t i = graph.instructionBegins[worker];
         i < graph.instructionBegins[worker + 1]; ++i)
      if (uint32_t task = graph.taskOfInstruction[i]; task != TaskGraph::kNone)
        writer.add(task, worker);
    writer.flush();
  }
}

size_t pipesched::countTimedCells(const Execution &execution) {
  size_t count = 0;
  forEachTimedCell(execution, [&](const TimedCell &) { ++count; });
  return count;
}
