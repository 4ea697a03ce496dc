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
/// the units: ps and bytes for a model, any for an instance file.
struct StageFacts {
  int64_t forward = 0;
  /// Time of I, or of the whole B if backwards are not split.
  int64_t inputGrad = 0;
  int64_t weightGrad = 0; ///< time of W; unused if backwards are not split
  int64_t recompute = 0, offload = 0, reload = 0;
  /// From the end of F to the start of the next stage's F; ignored if both
  /// stages are on one worker.
  int64_t activationDelay = 0;
  /// From the end of I (W under `gradientAfter`) to the start of the previous
  /// stage's I.
  int64_t gradientDelay = 0;

  int64_t activation = 0;       ///< from the start of F to the end of W
  int64_t freedByInputGrad = 0; ///< part of `activation`, freed at the end of
                                ///< I; negative if I makes memory grow
  int64_t checkpoint = 0; ///< kept between the end of F and the start of R

  /// From the end of F to the start of its D: the time until F's output is
  /// sent.
  int64_t offloadDelay = 0;

  /// Memory that the I or B of a slice takes at its start for gradients of keys
  /// and values of earlier slices. If negative, its absolute value is the
  /// memory that this cell frees at its end.
  int64_t leftForSlices = 0;

  /// Ticks of a phase of the stage; 0 for phases that take no time in problems.
  int64_t durationOf(Phase phase) const;
  constexpr HeldAmounts amounts() const {
    return {activation, checkpoint, freedByInputGrad};
  }
  /// The memory that a cell of a phase takes at its start for gradients of keys
  /// and values; the next function, the memory that it frees at its end.
  constexpr int64_t takenForSlices(Phase phase) const {
    return kBackwardStarts.contains(phase) && leftForSlices > 0 ? leftForSlices
                                                                : 0;
  }
  constexpr int64_t returnedBySlice(Phase phase) const {
    return kBackwardStarts.contains(phase) && leftForSlices < 0 ? -leftForSlices
                                                                : 0;
  }
};

/// The objective, in ticks.
enum class Objective : uint8_t {
  Makespan, ///< of one step
  Period,   ///< of steps that follow each other without a barrier; it is the
            ///< maximum cycle ratio
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

/// Changes that the optimizer may make in addition to the order of each row.
struct Techniques {
  bool splitBackward =
      true; ///< separate I and W; otherwise each backward is one cell
  bool offload = false;   ///< D and U
  bool recompute = false; ///< R

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
/// previous stage, I follows its own F and the I of the next stage (W under
/// `gradientAfter`), W follows its own I. D starts at least `offloadDelay`
/// after F and frees memory at its end; U follows D, allocates at its start and
/// ends before I. R runs between F and I and allocates at its start; its F
/// frees all but the checkpoint at its end. On a stage, a microbatch is not
/// both offloaded and recomputed. Memory that is freed at t can be used at t.
///
/// Slices of microbatches are microbatches of `placement` that have separate
/// paths, which run through the same workers:
///
///   microbatch m of `placement` | slice m % k of microbatch m / k
///   path p of `placement`       | slices p % k of path p / k
///
/// On a stage, the F of a microbatch run from its first slice to its last, and
/// its I and W (or B) from the last to the first. Keys and values of slices
/// move with their activations: a D follows the last F, and a U ends before the
/// first I.
struct Problem {
  std::string name;
  Placement placement;            ///< assigned: every microbatch has a path
  int64_t numSlices = 1;          ///< k
  std::vector<StageFacts> stages; ///< by global stage
  std::vector<int64_t> capacity;  ///< by worker, for activations
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  bool sharedCopyQueue = false; ///< D and U of a worker share one queue
  /// The times for which the capacity must suffice.
  MemoryTimes memoryTimes = MemoryTimes::Given;
  Techniques techniques;
  Objective objective = Objective::Makespan;
};

/// Checks the number of pairs of stage and microbatch, including slices, before
/// memory for them is allocated. Error: too many pairs.
llvm::Error checkSize(int64_t numPairs, int64_t numSlices);

/// Checks the size of a problem against a time limit (0: none), before any work
/// that is linear in its cells. Error: just reading the cells takes more than a
/// second and more than the limit.
llvm::Error checkTime(const Problem &problem, double limitSeconds);

/// Returns the placement of a problem, in which slices are microbatches (see
/// Problem). Needs an assigned placement. Errors: as for checkSize and
/// Placement::create.
llvm::Expected<Placement> divideSlices(const Placement &placement);
/// The inverse: returns the placement with whole microbatches and their slices.
Placement joinSlices(const Problem &problem);

/// Checks a problem. Errors name the stage or worker, the found and the
/// expected value: lists of the wrong length; times that are negative, or zero
/// for F, I or W; memory that is negative; an I that frees more than F
/// allocates; a checkpoint that is larger than the memory of F; sums over
/// int64; more cells than a table may have; a placement that is not assigned;
/// slices on other paths than Problem defines, or that free more than they
/// took.
llvm::Error checkProblem(const Problem &problem);

/// Returns the least capacity of each worker with which there is a schedule
/// under the techniques of the problem: a schedule that runs one microbatch at
/// a time. Needs a problem that passes checkProblem.
std::vector<int64_t> leastCapacities(const Problem &problem);

/// Checks capacities. Errors: a worker whose capacity is too small for any
/// schedule under the techniques of the problem, with the missing amount and
/// the least sufficient capacity. `unit` is the unit of capacities, such as
/// "bytes"; empty: unknown.
llvm::Error checkCapacity(const Problem &problem, llvm::StringRef unit = "");

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_PROBLEM_PROBLEM_H
