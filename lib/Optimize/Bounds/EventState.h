//===- EventState.h - A partial schedule up to some time --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tasks that have started up to some time, including copies and
// recomputation, and the tasks that may start then (docs/Optimize.md,
// "Events").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTSTATE_H
#define PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTSTATE_H

#include "BoundsGraph.h"

namespace pipesched::optimize {

/// The place of the activation of a stage and microbatch.
enum class ActivationState : uint8_t {
  Nowhere, ///< F has not started
  Kept,    ///< on the worker; it may still be offloaded or dropped
  Dropped, ///< only its checkpoint is left
  Host,    ///< D has started
  Back,    ///< U or R has started
  Used,    ///< I has started
  Done,    ///< W has started; only if gradients follow W
};

/// The queues of a worker. D and U may share one.
enum EventQueue : uint8_t { ComputeQueue, OffloadQueue, ReloadQueue };
inline constexpr unsigned kNumEventQueues = 3;

/// One stage and microbatch.
struct PairState {
  ActivationState activation = ActivationState::Nowhere;
  /// Kept: earliest start of D; Host and Back: end of the copy or R.
  int64_t ready = 0;
  /// Arrival of the message for its F or, later, for its I.
  int64_t arrival = 0;
};

struct WorkerState {
  int64_t queueEnds[kNumEventQueues] = {0, 0, 0};
  int64_t frees[2] = {0, 0}; ///< at the ends of the compute queue and of the D
  int64_t held = 0;
  int64_t heldBefore = 0; ///< until `now`
  int64_t startBy = 0;    ///< the next compute cell must start before this time
  bool hasEvent = true;   ///< whether there is an event at `now`
  bool hasCopyEnd = false; ///< whether a copy ends at `now`
};

/// A partial schedule up to `now`. `next` is the queue to decide at that time.
struct EventState {
  int64_t now = 0;
  uint32_t nextWorker = 0, nextQueue = 0;
  llvm::SmallVector<PairState, 16> pairs; ///< by path, microbatch and stage
  llvm::SmallVector<WorkerState, 4> workers;
  /// By cell of the graph: the k-th start of a stage and phase.
  llvm::SmallVector<int64_t, 64> starts;
  llvm::SmallVector<uint32_t, 16>
      counts;              ///< number of started cells, by stage and phase
  uint32_t numStarted = 0; ///< number of started F, I and W
};

/// A possible start: a cell, and the activations that are dropped to make room.
struct EventChoice {
  Phase phase = Phase::Forward;
  uint32_t pair = 0;
  llvm::SmallVector<uint32_t, 2> dropped;
};

/// A cell that has started.
struct EventStart {
  Phase phase;
  uint32_t pair;
  int64_t start, end;
};

/// The rules by which a state changes.
class EventRules {
public:
  explicit EventRules(const BoundsGraph &graph);

  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

  EventState first() const;
  /// The cells that may start at `now` on the queue that is next.
  void listChoices(const EventState &state,
                   llvm::SmallVectorImpl<EventChoice> &choices) const;
  EventStart start(EventState &state, const EventChoice &choice) const;
  /// Starts nothing, although `choices` could start.
  void wait(EventState &state, llvm::ArrayRef<EventChoice> choices) const;
  /// Moves to the next queue.
  void goOn(EventState &state) const;
  /// Advances to the next time of an end or arrival. Returns false if there is
  /// none, or if a rule is violated.
  bool advance(EventState &state) const;
  bool isOver(const EventState &state) const {
    return state.numStarted == uint32_t(graph.getNumCells());
  }

  uint32_t getNumPairs() const { return pairStages.size(); }
  int32_t stageOf(uint32_t pair) const { return pairStages[pair]; }
  uint32_t microbatchOf(uint32_t pair) const { return pairMicrobatches[pair]; }
  uint32_t workerOf(uint32_t pair) const {
    return problem.placement.workerOf(pairStages[pair]);
  }
  llvm::ArrayRef<uint32_t> pairsOf(int32_t stage) const {
    return stagePairs[stage];
  }
  /// First pair of each microbatch of a path, and the path's number of stages.
  struct Line {
    uint32_t first, numStages, count;
  };
  llvm::ArrayRef<Line> getLines() const { return lines; }
  int64_t durationOf(uint32_t pair, Phase phase) const;
  unsigned reloadQueue() const {
    return problem.sharedCopyQueue ? OffloadQueue : ReloadQueue;
  }
  /// The column of F, I or W in tables by stage and phase.
  static unsigned columnOf(Phase phase) {
    return phase == Phase::Forward ? 0 : phase == Phase::WeightGrad ? 2 : 1;
  }
  /// The memory that a cell takes at its start; for an R, the memory that
  /// dropping freed.
  int64_t allocatedBy(uint32_t pair, Phase phase) const;
  /// The memory that a cell frees at its end.
  int64_t freedBy(uint32_t pair, Phase phase) const;
  bool isWeightGradOwn() const { return gradientAfterWeight; }
  const BoundsGraph &getGraph() const { return graph; }

private:
  struct Query;

  void listOffloads(Query &query) const;
  void listReloads(Query &query) const;
  void listCompute(Query &query) const;
  void listWeightGrads(Query &query) const;
  void offer(Query &query, Phase phase, uint32_t pair, int64_t ready) const;
  void drop(Query &query, EventChoice &choice, uint32_t from, int64_t missing,
            int64_t ready, int64_t allocates) const;
  bool isSame(const EventState &state, uint32_t pair, uint32_t other) const;
  void move(EventState &state, uint32_t pair, Phase phase, int64_t end) const;
  void send(EventState &state, uint32_t pair, Phase phase, int64_t end) const;
  int64_t nextEvent(const EventState &state) const;
  bool canAlwaysMoveUp(uint32_t pair, Phase phase) const;

  const BoundsGraph &graph;
  const Problem &problem;
  bool gradientAfterWeight;
  std::vector<int32_t> pairStages;
  std::vector<uint32_t> pairMicrobatches; ///< rank on its path
  std::vector<std::vector<uint32_t>> workerPairs, stagePairs;
  std::vector<Line> lines;
};

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_BOUNDS_EVENTSTATE_H
