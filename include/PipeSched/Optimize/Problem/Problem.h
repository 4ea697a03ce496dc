//===- Problem.h - Problem of the optimizer ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The problem that the optimizer solves: paths, times, message delays, copies
// and memory (docs/Optimize.md, the problem).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_PROBLEM_PROBLEM_H
#define PIPESCHED_OPTIMIZE_PROBLEM_PROBLEM_H

#include "PipeSched/Analysis/Memory/AnyTimeMemory.h"
#include "PipeSched/Schedule/Kinds/MemoryEffect.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched::optimize {

/// Times and memory of one global stage for one microbatch. The caller chooses
/// ticks and units: ps and bytes for a model, any for an instance file.
struct StageFacts {
  int64_t forward = 0;
  int64_t inputGrad = 0;  ///< I, or the whole B if backwards are not split
  int64_t weightGrad = 0; ///< W; unused if backwards are not split
  int64_t recompute = 0, offload = 0, reload = 0;
  /// From the end of F to the start of the next stage's F; not counted between
  /// stages of one worker.
  int64_t activationDelay = 0;
  /// From the end of I (W under `gradientAfter`) to the start of the I of the
  /// stage before.
  int64_t gradientDelay = 0;

  int64_t activation = 0;       ///< from the start of F to the end of W
  int64_t freedByInputGrad = 0; ///< of `activation`, at the end of I; negative:
                                ///< I makes memory grow
  int64_t checkpoint = 0; ///< kept between the end of F and the start of R

  /// From the end of F to the start of its D: until F's output is sent.
  int64_t offloadDelay = 0;

  /// Memory that the I or B of a slice takes at its start for gradients of keys
  /// and values of earlier slices; negative: the part of it that this cell
  /// frees at its end.
  int64_t leftForSlices = 0;

  /// Ticks of a phase of the stage; 0 for phases that take no time here.
  int64_t durationOf(Phase phase) const;
  constexpr HeldAmounts amounts() const {
    return {activation, checkpoint, freedByInputGrad};
  }
  /// The memory that a cell of a phase takes at its start, and frees at its
  /// end, for gradients of keys and values.
  constexpr int64_t takenForSlices(Phase phase) const {
    return kBackwardStarts.contains(phase) && leftForSlices > 0 ? leftForSlices
                                                                : 0;
  }
  constexpr int64_t returnedBySlice(Phase phase) const {
    return kBackwardStarts.contains(phase) && leftForSlices < 0 ? -leftForSlices
                                                                : 0;
  }
};

/// The objective, both in ticks.
enum class Objective : uint8_t {
  Makespan, ///< of one step
  Period,   ///< of steps that follow each other without a barrier: the maximum
            ///< cycle ratio
};

} // namespace pipesched::optimize

namespace pipesched {
template <>
struct EnumNames<optimize::Objective> {
  static constexpr EnumName<optimize::Objective> values[] = {
      {optimize::Objective::Makespan, "makespan", "One step"},
      {optimize::Objective::Period, "period",
       "A step among many without a barrier"}};
};
} // namespace pipesched

namespace pipesched::optimize {

/// Changes that the optimizer may make besides choosing the order of each row.
struct Techniques {
  bool splitBackward = true; ///< separate I and W; else each backward is one
                             ///< cell
  bool offload = false;      ///< D and U
  bool recompute = false;    ///< R

  /// The phases that rows may have.
  PhaseSet phases() const {
    PhaseSet phases = {Phase::Forward, Phase::Idle};
    phases |= splitBackward ? kSplitBackward : Phase::Backward;
    if (offload)
      phases |= kCopyPhases | kJoinPhases;
    if (recompute)
      phases |= Phase::Recompute;
    return phases;
  }
};

/// A problem (docs/Optimize.md). Each worker runs one compute cell at a time,
/// and has one copy queue per direction or one for both. F follows the F of the
/// stage before, I its own F and the I of the next stage (W under
/// `gradientAfter`), W its own I. D follows F by `offloadDelay` and frees at
/// its end; U follows D, allocates at its start and ends before I. R runs
/// between F and I and allocates at its start; its F frees all but the
/// checkpoint at its end. No microbatch is both offloaded and recomputed on one
/// stage. Memory that is freed at t can be used at t.
///
/// Slices of microbatches are microbatches of `placement` that have separate
/// paths, which run through the same workers:
///
///   microbatch m of `placement` | slice m % k of microbatch m / k
///   path p of `placement`       | slices p % k of path p / k
///
/// On a stage the F of a microbatch run from its first slice to its last, its I
/// and W (or B) from the last to the first. Keys and values of slices move with
/// their activations: a D follows the last F, and a U ends before the first I.
struct Problem {
  std::string name;
  Placement placement;            ///< assigned: every microbatch has its path
  int64_t numSlices = 1;          ///< k
  std::vector<StageFacts> stages; ///< by global stage
  std::vector<int64_t> capacity;  ///< by worker, for activations
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  bool sharedCopyQueue = false; ///< D and U of a worker take turns
  /// When the capacity has to be kept.
  MemoryTimes memoryTimes = MemoryTimes::Given;
  Techniques techniques;
  Objective objective = Objective::Makespan;
};

/// Checks the number of pairs of stage and microbatch, which has slices, before
/// there is memory for them. Error: too many of them.
llvm::Error checkSize(int64_t numPairs, int64_t numSlices);

/// Checks the size of a problem against a limit of time (0: none), before any
/// work that is linear in its cells. Error: merely reading the cells takes more
/// than a second, and more than the limit.
llvm::Error checkTime(const Problem &problem, double limitSeconds);

/// The placement of a problem: microbatches with slices as `placement` of
/// Problem has them. Needs a placement that is assigned. Errors: as for
/// checkSize and Placement::create.
llvm::Expected<Placement> divideSlices(const Placement &placement);
/// The inverse: the placement of whole microbatches, and of their slices.
Placement joinSlices(const Problem &problem);

/// Checks a problem. Errors name the stage or worker, the found and the
/// expected value: lists of the wrong length; times that are negative, or zero
/// for F, I or W; memory that is negative; an I that frees more than F
/// allocates; a checkpoint that is larger than that; sums over int64; more
/// cells than a table may have; a placement that is not assigned; slices that
/// are not on paths as Problem says, or that give back more than they took.
llvm::Error checkProblem(const Problem &problem);

/// The least capacity of each worker that holds a schedule with the techniques
/// of the problem: one that runs one microbatch at a time. Needs a problem that
/// passes checkProblem.
std::vector<int64_t> leastCapacities(const Problem &problem);

/// Errors: a worker whose capacity holds no schedule with the techniques of the
/// problem, with the missing amount and the least capacity that suffices.
/// `unit` is the unit of capacities, such as "bytes"; empty: unknown.
llvm::Error checkCapacity(const Problem &problem, llvm::StringRef unit = "");

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_PROBLEM_PROBLEM_H
