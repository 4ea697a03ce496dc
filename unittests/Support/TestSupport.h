//===- TestSupport.h - Small tables and programs for tests ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hand-written programs, and everything timed at once.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_ANALYSIS_TESTSUPPORT_H
#define PIPESCHED_UNITTESTS_ANALYSIS_TESTSUPPORT_H

#include "PipeSched/Evaluation/Evaluate.h"
#include "TestTables.h"

namespace pipesched::test {

/// A table on one path, stage s on paths[s].
inline Table makeTable(int64_t numMicrobatches, std::vector<int32_t> workers,
                       std::initializer_list<llvm::StringRef> rows) {
  Table table;
  Path path;
  path.workers = std::move(workers);
  table.placement =
      llvm::cantFail(Placement::create(rows.size(), numMicrobatches, {path}));
  for (llvm::StringRef row : rows)
    table.rows.push_back(parseRow(row));
  return table;
}

inline Program lower(const Table &table,
                     ReceivePlacement receives = ReceivePlacement::Arrival) {
  TableView view = table.view();
  CellIndex index = llvm::cantFail(CellIndex::create(view));
  SlotAssignment slots = llvm::cantFail(alignSlots(view, index));
  return llvm::cantFail(lowerTable(view, index, slots, receives));
}

/// A hand-written program, row after row. Messages find their partners by cell
/// and workers.
class ProgramBuilder {
public:
  ProgramBuilder() { program.operandBegins.push_back(0); }

  void beginRow() { program.rowBegins.push_back(program.instructions.size()); }
  uint32_t add(InstructionKind kind, llvm::StringRef cell,
               std::initializer_list<uint32_t> operands = {},
               int32_t peer = -1) {
    uint32_t number = program.instructions.size();
    program.instructions.push_back({parseCell(cell), peer, kind});
    program.operands.insert(program.operands.end(), operands);
    program.operandBegins.push_back(program.operands.size());
    return number;
  }
  uint32_t compute(llvm::StringRef cell,
                   std::initializer_list<uint32_t> operands = {}) {
    return add(InstructionKind::Compute, cell, operands);
  }
  uint32_t send(llvm::StringRef cell, int32_t to,
                std::initializer_list<uint32_t> operands = {}) {
    return add(InstructionKind::Send, cell, operands, to);
  }
  uint32_t recv(llvm::StringRef cell, int32_t from,
                std::initializer_list<uint32_t> operands = {}) {
    return add(InstructionKind::Recv, cell, operands, from);
  }
  void group(std::initializer_list<uint32_t> members) {
    groups.emplace_back(members);
  }

  Program build() {
    program.rowBegins.push_back(program.instructions.size());
    program.partner.assign(program.instructions.size(), Program::kNone);
    for (int64_t w = 0; w < program.getNumWorkers(); ++w)
      for (uint32_t i = program.rowBegins[w]; i < program.rowBegins[w + 1]; ++i)
        if (program.instructions[i].kind == InstructionKind::Send)
          findRecv(w, i);
    for (const std::vector<uint32_t> &members : groups) {
      int64_t number = program.groups.size();
      program.groups.emplace_back().blocks = {number, number + 1};
      for (std::size_t i = 0; i < members.size(); ++i) {
        program.partner[members[i]] = members[(i + 1) % members.size()];
        program.instructions[members[i]].peer = number;
      }
    }
    return program;
  }

private:
  void findRecv(int32_t source, uint32_t send) {
    const Instruction &sent = program.instructions[send];
    for (uint32_t i = program.rowBegins[sent.peer];
         i < program.rowBegins[sent.peer + 1]; ++i) {
      const Instruction &instruction = program.instructions[i];
      if (instruction.kind != InstructionKind::Recv ||
          instruction.peer != source || instruction.cell != sent.cell)
        continue;
      program.partner[send] = i;
      program.partner[i] = send;
    }
  }

  Program program;
  std::vector<std::vector<uint32_t>> groups;
};

/// Costs of equal stages.
struct UniformCosts {
  int64_t forward = 10, backward = 20, inputGrad = 10, weightGrad = 10,
          recompute = 10, offload = 0, reload = 0, allReduce = 0;
  int64_t occupancy = 0, latency = 0, bytes = 0;
  std::optional<int64_t> overlapped;

  StageCosts on(const Placement &placement) const {
    StageCost stage;
    auto set = [&](Phase phase, int64_t ps) { stage.cells.set(phase, ps); };
    set(Phase::Forward, forward);
    set(Phase::Backward, backward);
    set(Phase::InputGrad, inputGrad);
    set(Phase::WeightGrad, weightGrad);
    set(Phase::Recompute, recompute);
    set(Phase::Offload, offload);
    set(Phase::Reload, reload);
    set(Phase::AllReduce, allReduce);
    stage.overlappedPs = overlapped;
    stage.activation = stage.gradient = {occupancy, latency, bytes};
    StageCosts stageCosts;
    stageCosts.stages.assign(placement.getNumGlobalStages(), stage);
    return stageCosts;
  }
};

/// A program with its graph, times and timeline.
struct Timed {
  Timed(const Program &program, const Placement &placement,
        const StageCosts &stageCosts, Transport transport)
      : program(program),
        graph(llvm::cantFail(buildTaskGraph(program, transport))),
        times(llvm::cantFail(
            computeTaskTimes(graph, placement, stageCosts, transport))),
        timeline(computeTimeline(graph, times)) {}
  Timed(const Table &table, const StageCosts &stageCosts, Transport transport)
      : Timed(lower(table), table.placement, stageCosts, transport) {}

  /// The task of a cell, of the message it produced, and so on.
  uint32_t task(llvm::StringRef cell,
                InstructionKind kind = InstructionKind::Compute) const {
    for (uint32_t task = 0; task < graph.size(); ++task)
      if (graph.kind[task] == kind &&
          graph.cell[task].withOverlap(false) == parseCell(cell))
        return task;
    ADD_FAILURE() << "no task " << cell.str();
    return 0;
  }
  int64_t start(llvm::StringRef cell,
                InstructionKind kind = InstructionKind::Compute) const {
    return timeline.startPs[task(cell, kind)];
  }
  IdleTimes idle() const { return computeIdle(graph, times, timeline); }

  Program program;
  TaskGraph graph;
  TaskTimes times;
  Timeline timeline;
};

inline const Transport kTransports[] = {Transport::Overlap, Transport::Delay,
                                        Transport::Blocking};

} // namespace pipesched::test

#endif // PIPESCHED_UNITTESTS_ANALYSIS_TESTSUPPORT_H
