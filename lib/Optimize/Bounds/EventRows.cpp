//===- EventRows.cpp - Rows of cells that have started --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy is issued ahead of the compute cell that runs when it starts.
//
//===----------------------------------------------------------------------===//

#include "EventRows.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;
using namespace pipesched::optimize;

namespace {

/// Builds the row of one worker.
class RowBuilder {
public:
  RowBuilder(const EventRules &rules,
             const std::vector<std::vector<int64_t>> &microbatches)
      : rules(rules), problem(rules.getGraph().getProblem()),
        microbatches(microbatches), inputGrads(problem.stages.size()),
        weightGrads(problem.stages.size(), 0) {}

  Row build(llvm::ArrayRef<EventStart> starts);

private:
  Cell nameOf(const EventStart &started);
  void join(const EventStart &started);
  void place(const EventStart &started);

  const EventRules &rules;
  const Problem &problem;
  const std::vector<std::vector<int64_t>> &microbatches; ///< by path and rank
  /// By stage: microbatches in the order of their I; W that are placed.
  std::vector<std::vector<uint32_t>> inputGrads;
  std::vector<size_t> weightGrads;
  std::vector<std::pair<int64_t, Cell>> copies; ///< ends of copies so far
  Row row;
};

} // namespace

Cell RowBuilder::nameOf(const EventStart &started) {
  int32_t stage = rules.stageOf(started.pair);
  int64_t path = rules.getGraph().pathOf(stage);
  uint32_t rank = rules.microbatchOf(started.pair);
  if (started.phase == Phase::InputGrad)
    inputGrads[stage].push_back(rank);
  if (started.phase == Phase::WeightGrad && !rules.isWeightGradOwn())
    rank = inputGrads[stage][weightGrads[stage]++];
  Phase phase = started.phase;
  if (phase == Phase::InputGrad && !problem.techniques.splitBackward)
    phase = Phase::Backward;
  return Cell(stage - problem.placement.stageOffset(path), phase,
              microbatches[path][rank]);
}

/// Adds the joins of a cell. A cell that allocates waits for the last offload
/// that has ended when it starts, and an I that leaves more than it found waits
/// for the last such reload.
void RowBuilder::join(const EventStart &started) {
  bool isInput = started.phase == Phase::InputGrad;
  bool leavesMore = isInput && rules.freedBy(started.pair, started.phase) < 0;
  if (rules.allocatedBy(started.pair, started.phase) == 0 && !leavesMore)
    return;
  std::optional<Cell> offload, reload;
  for (auto [end, cell] : copies)
    if (end <= started.start)
      (cell.is(Phase::Offload) ? offload : reload) = cell;
  if (offload)
    row.push_back(offload->withPhase(Phase::OffloadJoin));
  if (reload && leavesMore)
    row.push_back(reload->withPhase(Phase::ReloadJoin));
}

void RowBuilder::place(const EventStart &started) {
  if (started.phase != Phase::Offload)
    join(started);
  row.push_back(nameOf(started));
  if (started.phase == Phase::Offload || started.phase == Phase::Reload)
    copies.emplace_back(started.end, row.back());
}

Row RowBuilder::build(llvm::ArrayRef<EventStart> starts) {
  auto isCopy = [](const EventStart &started) {
    return started.phase == Phase::Offload || started.phase == Phase::Reload;
  };
  size_t nextCopy = 0;
  for (const EventStart &compute : starts) {
    if (isCopy(compute))
      continue;
    for (; nextCopy < starts.size() && starts[nextCopy].start < compute.end;
         ++nextCopy)
      if (isCopy(starts[nextCopy]))
        place(starts[nextCopy]);
    place(compute);
  }
  for (; nextCopy < starts.size(); ++nextCopy)
    if (isCopy(starts[nextCopy]))
      place(starts[nextCopy]);
  return std::move(row);
}

std::optional<Solution>
optimize::solutionOf(const EventRules &rules,
                     llvm::ArrayRef<EventStart> starts) {
  const Problem &problem = rules.getGraph().getProblem();
  const Placement &placement = problem.placement;
  std::vector<std::vector<int64_t>> microbatches(placement.getNumPaths());
  for (int64_t i = 0; i < placement.getNumMicrobatches(); ++i)
    microbatches[placement.pathOf(i)].push_back(i);
  std::vector<std::vector<EventStart>> byWorker(placement.getNumWorkers());
  for (const EventStart &started : starts)
    byWorker[rules.workerOf(started.pair)].push_back(started);
  std::vector<Row> rows;
  for (const std::vector<EventStart> &own : byWorker)
    rows.push_back(RowBuilder(rules, microbatches).build(own));
  llvm::SmallVector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  llvm::Expected<Solution> solution = timeRows(problem, views);
  if (!solution) {
    llvm::consumeError(solution.takeError());
    return std::nullopt;
  }
  if (llvm::Error error = verifySolution(problem, *solution)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return std::move(*solution);
}
