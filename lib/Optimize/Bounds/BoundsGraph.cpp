//===- BoundsGraph.cpp - Precedences that bounds use ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers the cells of a problem and lists their arcs.
//
//===----------------------------------------------------------------------===//

#include "BoundsGraph.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <tuple>

using namespace pipesched;
using namespace pipesched::optimize;

BoundsGraph::BoundsGraph(const Problem &problem)
    : problem(problem), lines(problem.stages.size()),
      workerCells(problem.placement.getNumWorkers()),
      workerStages(problem.placement.getNumWorkers()),
      work(problem.placement.getNumWorkers()) {
  numberCells();
  const Placement &placement = problem.placement;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t rank = 0; rank < placement.countOnPath(path); ++rank) {
      addDataArcs(path, rank);
      addSliceArcs(path, rank);
    }
  if (isMemoryFixed())
    addMemoryArcs();
  llvm::sort(arcs, [](const Arc &a, const Arc &b) {
    return std::tie(a.to, a.from, a.lag) < std::tie(b.to, b.from, b.lag);
  });
  computeTick();
}

void BoundsGraph::addCell(int64_t globalStage, Phase phase, int64_t rank) {
  const StageFacts &facts = problem.stages[globalStage];
  int64_t duration = phase == Phase::Forward     ? facts.forward
                     : phase == Phase::InputGrad ? facts.inputGrad
                                                 : facts.weightGrad;
  int32_t cell = durations.size();
  int64_t worker = problem.placement.workerOf(globalStage);
  if (rank == 0)
    lines[globalStage].first[columnOf(phase)] = cell;
  names.push_back({static_cast<int32_t>(globalStage), phase, rank});
  durations.push_back(duration);
  workers.push_back(worker);
  workerCells[worker].push_back(cell);
  work[worker] = addTimes(work[worker], duration);
}

void BoundsGraph::numberCells() {
  const Placement &placement = problem.placement;
  bool split = problem.techniques.splitBackward;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t offset = placement.stageOffset(path);
    int64_t numStages = placement.getNumStages(path);
    for (int64_t stage = offset; stage < offset + numStages; ++stage) {
      lines[stage].stride = numStages * problem.numSlices * (split ? 3 : 2);
      lines[stage].path = path;
      lines[stage].count = placement.countOnPath(path);
      workerStages[placement.workerOf(stage)].push_back(stage);
    }
  }
  for (int64_t path = 0; path < placement.getNumPaths();
       path += problem.numSlices)
    for (int64_t rank = 0; rank < placement.countOnPath(path); ++rank)
      numberMicrobatch(path, rank);
}

/// Numbers the cells of all slices of a microbatch. `path` is the path of its
/// first slice.
void BoundsGraph::numberMicrobatch(int64_t path, int64_t rank) {
  const Placement &placement = problem.placement;
  int64_t numStages = placement.getNumStages(path);
  for (int64_t slice = 0; slice < problem.numSlices; ++slice)
    for (int64_t stage = 0; stage < numStages; ++stage)
      addCell(placement.stageOffset(path + slice) + stage, Phase::Forward,
              rank);
  for (int64_t slice = problem.numSlices; slice-- > 0;)
    for (int64_t stage = numStages; stage-- > 0;) {
      int64_t own = placement.stageOffset(path + slice) + stage;
      addCell(own, Phase::InputGrad, rank);
      if (problem.techniques.splitBackward)
        addCell(own, Phase::WeightGrad, rank);
    }
}

/// The slices of a microbatch run in order on each stage.
void BoundsGraph::addSliceArcs(int64_t path, int64_t rank) {
  if (path % problem.numSlices == 0)
    return;
  const Placement &placement = problem.placement;
  for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
    int64_t stage = placement.stageOffset(path) + s;
    int64_t before = placement.stageOffset(path - 1) + s;
    arcs.push_back({cellOf(before, Phase::Forward, rank),
                    cellOf(stage, Phase::Forward, rank), 0});
    for (Phase phase : {Phase::InputGrad, Phase::WeightGrad})
      if (problem.techniques.splitBackward || phase != Phase::WeightGrad)
        arcs.push_back(
            {cellOf(stage, phase, rank), cellOf(before, phase, rank), 0});
  }
}

void BoundsGraph::addDataArcs(int64_t path, int64_t rank) {
  const Placement &placement = problem.placement;
  bool split = problem.techniques.splitBackward;
  bool late = split && problem.gradientAfter == GradientAfter::WeightGrad;
  Phase gradient = late ? Phase::WeightGrad : Phase::InputGrad;
  int64_t begin = placement.stageOffset(path);
  int64_t end = begin + placement.getNumStages(path);
  for (int64_t stage = begin; stage < end; ++stage) {
    int32_t forward = cellOf(stage, Phase::Forward, rank);
    int32_t input = cellOf(stage, Phase::InputGrad, rank);
    arcs.push_back({forward, input, 0});
    if (split)
      arcs.push_back({input, cellOf(stage, Phase::WeightGrad, rank), 0});
    if (rank > 0)
      for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::WeightGrad})
        if (split || phase != Phase::WeightGrad)
          arcs.push_back(
              {cellOf(stage, phase, rank - 1), cellOf(stage, phase, rank), 0});
    if (stage + 1 == end)
      continue;
    bool local = placement.workerOf(stage) == placement.workerOf(stage + 1);
    arcs.push_back({forward, cellOf(stage + 1, Phase::Forward, rank),
                    local ? 0 : problem.stages[stage].activationDelay});
    arcs.push_back({cellOf(stage + 1, gradient, rank), input,
                    local ? 0 : problem.stages[stage + 1].gradientDelay});
  }
}

/// The number of items of size `each` that fit; 0 if the capacity is unlimited.
static int64_t fits(int64_t capacity, int64_t each) {
  return each <= 0 ? 0 : capacity / each;
}

/// When F k of a stage starts, k + 1 activations were allocated there and on
/// each earlier stage of its path on this worker, whose I come after its own.
/// If M of them fit, I k - M has therefore ended. If the worker has one stage
/// and I frees nothing, the same holds for W, and memory implies nothing else
/// (docs/Optimize.md).
void BoundsGraph::addMemoryArcs() {
  const Placement &placement = problem.placement;
  bool split = problem.techniques.splitBackward;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t begin = placement.stageOffset(path);
    llvm::SmallVector<int64_t> held(getNumWorkers(), 0);
    for (int64_t stage = begin; stage < begin + placement.getNumStages(path);
         ++stage) {
      const StageFacts &facts = problem.stages[stage];
      int64_t worker = placement.workerOf(stage);
      int64_t kept = std::min(facts.activation,
                              facts.activation - freedByInputGrad(stage));
      held[worker] = addTimes(held[worker], facts.activation);
      int64_t inputs = fits(problem.capacity[worker], held[worker]);
      // In the best case, every I of the microbatches before k has ended when F
      // k starts.
      int64_t weights =
          fits(problem.capacity[worker] - facts.activation, kept) + 1;
      if (facts.activation > problem.capacity[worker] || kept <= 0)
        weights = 0;
      for (int64_t rank = 0; rank < countOf(stage); ++rank) {
        int32_t forward = cellOf(stage, Phase::Forward, rank);
        if (inputs > 0 && rank >= inputs)
          arcs.push_back(
              {cellOf(stage, Phase::InputGrad, rank - inputs), forward, 0});
        if (split && weights > 0 && rank >= weights)
          arcs.push_back(
              {cellOf(stage, Phase::WeightGrad, rank - weights), forward, 0});
      }
    }
  }
}

void BoundsGraph::computeTick() {
  int64_t divisor = 0;
  for (const StageFacts &facts : problem.stages) {
    for (int64_t time : {facts.forward, facts.inputGrad, facts.activationDelay,
                         facts.gradientDelay})
      divisor = std::gcd(divisor, time);
    if (problem.techniques.splitBackward)
      divisor = std::gcd(divisor, facts.weightGrad);
    if (problem.techniques.recompute)
      divisor = std::gcd(divisor, facts.recompute);
    if (problem.techniques.offload)
      divisor = std::gcd(std::gcd(divisor, facts.offload), facts.reload);
  }
  tick = std::max<int64_t>(divisor, 1);
}

void BoundsGraph::raiseStarts(llvm::MutableArrayRef<int64_t> starts) const {
  for (const Arc &arc : arcs)
    starts[arc.to] = std::max(
        starts[arc.to],
        addTimes(addTimes(starts[arc.from], durations[arc.from]), arc.lag));
}

void BoundsGraph::raiseTails(llvm::MutableArrayRef<int64_t> tails) const {
  for (const Arc &arc : llvm::reverse(arcs))
    tails[arc.from] =
        std::max(tails[arc.from],
                 addTimes(addTimes(tails[arc.to], durations[arc.to]), arc.lag));
}
