//===- BoundsGraph.h - Precedences that bounds use --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph on which bounds are computed: F, I and W of a problem with their
// precedences. Some optimal schedule satisfies them, also with offload and
// recompute.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_BOUNDSGRAPH_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_BOUNDSGRAPH_H

#include "PipeSched/Optimize/Problem/Problem.h"

namespace pipesched::optimize {

/// Adds two times. A sum that overflows becomes the largest int64.
inline int64_t addTimes(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum)
             ? std::numeric_limits<int64_t>::max()
             : sum;
}

/// The precedence graph. Microbatches of a path are equal, so each stage and
/// phase may run them in order (docs/Optimize.md, "First in, first out"). A
/// cell has a higher number than every cell that it waits for:
///
///   path | microbatch of the path | F of stage 0, 1, ..., S-1
///                                 | I W of stage S-1, ..., 1, 0
///
/// Without split backwards I is the whole B and there is no W. With slices, the
/// F of a microbatch are ordered by slice and stage, then I and W by slice,
/// from the last slice to the first.
class BoundsGraph {
public:
  /// `to` starts at least `lag` after the end of `from`.
  struct Arc {
    int32_t from, to;
    int64_t lag;
  };

  /// A cell by stage, phase and rank: the number of earlier microbatches of its
  /// path.
  struct CellName {
    int32_t globalStage;
    Phase phase;
    int64_t rank;
  };

  explicit BoundsGraph(const Problem &problem);

  const Problem &getProblem() const { return problem; }
  int32_t getNumCells() const { return durations.size(); }
  int64_t getNumWorkers() const { return problem.placement.getNumWorkers(); }

  int32_t cellOf(int64_t globalStage, Phase phase, int64_t rank) const {
    const Line &line = lines[globalStage];
    return line.first[columnOf(phase)] + rank * line.stride;
  }
  CellName nameOf(int32_t cell) const { return names[cell]; }
  /// Number of microbatches that pass a stage.
  int64_t countOf(int64_t globalStage) const {
    return lines[globalStage].count;
  }
  int64_t pathOf(int64_t globalStage) const { return lines[globalStage].path; }
  /// Whether `stage` and `before` are the same stage of adjacent slices, and
  /// `stage` has the later slice.
  bool isSliceBefore(int64_t before, int64_t stage) const {
    const Placement &placement = problem.placement;
    int64_t path = pathOf(stage);
    return path % problem.numSlices != 0 && pathOf(before) == path - 1 &&
           before - placement.stageOffset(path - 1) ==
               stage - placement.stageOffset(path);
  }
  int64_t durationOf(int32_t cell) const { return durations[cell]; }
  int32_t workerOf(int32_t cell) const { return workers[cell]; }
  llvm::ArrayRef<int32_t> cellsOf(int64_t worker) const {
    return workerCells[worker];
  }
  /// The global stages of a worker, in ascending order.
  llvm::ArrayRef<int32_t> stagesOf(int64_t worker) const {
    return workerStages[worker];
  }
  /// Total time of the cells of a worker, without recomputation.
  int64_t workOf(int64_t worker) const { return work[worker]; }

  /// Sorted by `to`, ascending.
  llvm::ArrayRef<Arc> getArcs() const { return arcs; }

  /// Whether the memory of a row depends only on F, I and W, because there are
  /// neither copies nor recomputation.
  bool isMemoryFixed() const {
    return !problem.techniques.offload && !problem.techniques.recompute;
  }
  /// The bytes that the end of I frees: the whole activation if there is no W.
  int64_t freedByInputGrad(int64_t globalStage) const {
    const StageFacts &facts = problem.stages[globalStage];
    return problem.techniques.splitBackward ? facts.freedByInputGrad
                                            : facts.activation;
  }

  /// Raises the starts of cells to the earliest times that the arcs allow.
  void raiseStarts(llvm::MutableArrayRef<int64_t> starts) const;
  /// Raises the tails of cells in the same way. A tail is the least time from
  /// the end of a cell to the end of the step.
  void raiseTails(llvm::MutableArrayRef<int64_t> tails) const;

  /// The largest number that divides every time of the problem.
  int64_t getTick() const { return tick; }

private:
  /// The cells of a stage: microbatch k has first[phase] + k * stride.
  struct Line {
    int32_t first[3];
    int32_t stride = 0, path = 0;
    int64_t count = 0;
  };
  static unsigned columnOf(Phase phase) {
    return phase == Phase::Forward ? 0 : phase == Phase::WeightGrad ? 2 : 1;
  }
  void numberCells();
  void numberMicrobatch(int64_t path, int64_t rank);
  void addSliceArcs(int64_t path, int64_t rank);
  void addCell(int64_t globalStage, Phase phase, int64_t rank);
  void addDataArcs(int64_t path, int64_t rank);
  void addMemoryArcs();
  void computeTick();

  const Problem &problem;
  std::vector<Line> lines; ///< by global stage
  std::vector<CellName> names;
  std::vector<int64_t> durations;
  std::vector<int32_t> workers;
  std::vector<std::vector<int32_t>> workerCells, workerStages;
  std::vector<int64_t> work;
  std::vector<Arc> arcs;
  int64_t tick = 1;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_BOUNDSGRAPH_H
