//===- StageBackward.h - Which stages have a backward -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages train unless their path says otherwise. These functions decide which
// cells a stage then has in addition to its forward
// (docs/Dialects/RationalePipe.md, "Stages without a whole backward").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_STAGEBACKWARD_H
#define PIPESCHED_SCHEDULE_TABLE_STAGEBACKWARD_H

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/StageEdges.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace pipesched {

/// The stages of a path that do not train.
struct PathBackward {
  bool isNone = false;         ///< the path is forward only
  std::vector<int64_t> frozen; ///< stages without weight gradients, ascending

  /// Whether all stages train.
  bool isFull() const { return !isNone && frozen.empty(); }
  friend bool operator==(const PathBackward &a, const PathBackward &b) {
    return a.isNone == b.isNone && a.frozen == b.frozen;
  }
  friend bool operator!=(const PathBackward &a, const PathBackward &b) {
    return !(a == b);
  }
};

/// The kind that a schedule states for a stage.
enum class StageKind : uint8_t { Trained, Frozen, NoBackward };

/// The cells that a stage runs for each unit in addition to F. An output needs
/// a gradient if its stage trains or an input of the stage needs one. A stage
/// that passes no output to others computes a loss.
enum class StageBackward : uint8_t {
  Whole, ///< B, or I and W: the stage trains
  Input, ///< I: the stage is frozen, and an input needs a gradient
  None,  ///< nothing: no input needs a gradient, or no loss gives one
};

/// Returns the backward of each stage. On entry, `carriesGradient` of an edge
/// states whether it may carry a gradient; on return, whether it does. Errors:
/// edges that form a circle; a stage that trains after a stage without a
/// backward. `nameOf` returns the name of a stage.
llvm::Expected<std::vector<StageBackward>>
stageBackwards(llvm::ArrayRef<StageKind> kinds,
               llvm::MutableArrayRef<StageEdge> edges,
               llvm::function_ref<std::string(int64_t)> nameOf);

/// The phases that cells of a stage may have.
constexpr PhaseSet allowedPhases(StageBackward backward) {
  switch (backward) {
  case StageBackward::Whole:
    return kAllPhases;
  case StageBackward::Input:
    return kAllPhases - kGradientPhases - kPerPathPhases - kSpreadPhases;
  case StageBackward::None:
    return PhaseSet(Phase::Forward) | Phase::Idle;
  }
  return {};
}

/// The phases of which a stage needs one for each unit in addition to F; empty
/// if it has no backward.
constexpr PhaseSet backwardStarts(StageBackward backward) {
  return backward == StageBackward::None
             ? PhaseSet()
             : kBackwardStarts & allowedPhases(backward);
}

/// The phase that must follow a phase of a stage; none in the backward of a
/// frozen stage.
constexpr std::optional<Phase> followerOf(Phase phase, StageBackward backward) {
  std::optional<Phase> next = traitsOf(phase).order.followedBy;
  return next && allowedPhases(backward).contains(*next) ? next : std::nullopt;
}

/// The phases that free the last activations of a unit on a stage.
constexpr PhaseSet releasingPhases(StageBackward backward) {
  return backward == StageBackward::Whole   ? kReleasingPhases
         : backward == StageBackward::Input ? PhaseSet(Phase::InputGrad)
                                            : PhaseSet(Phase::Forward);
}

/// The effect of the end of a cell on the activations of its stage.
constexpr MemoryEffect effectAtEnd(Phase phase, StageBackward backward) {
  return backward != StageBackward::Whole &&
                 releasingPhases(backward).contains(phase)
             ? MemoryEffect::FreeAll
             : kMemoryOf[phase].atEnd;
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_STAGEBACKWARD_H
