//===- StageCosts.h - Costs of cells and messages ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times, bytes and memory of each stage of a placement, as plain numbers. A
// cost model fills them in, and analyses read them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_STAGECOSTS_H
#define PIPESCHED_FACTS_STAGECOSTS_H

#include "PipeSched/Facts/CellCosts.h"
#include "PipeSched/Schedule/Kinds/MemoryEffect.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include <memory>
#include <vector>

namespace pipesched {

/// A message holds its queues for occupancyPs (V/BW) and arrives latencyPs
/// later.
struct MessageCost {
  int64_t occupancyPs = 0, latencyPs = 0, bytes = 0;
  /// The time by which it can start before the end of its predecessor. The
  /// pieces of an all-reduce become ready one after the other, and weight
  /// gradients of an overlapped pair may run after its messages. The message
  /// never arrives before that end; for an all-reduce the time is at most the
  /// occupancy.
  int64_t aheadPs = 0;

  /// Adds a tensor that the same message carries: occupancies and bytes add up,
  /// and the largest latency counts. Sums end at 2^63 - 1.
  void addTensor(const MessageCost &tensor);
  friend bool operator==(const MessageCost &a, const MessageCost &b) {
    return a.occupancyPs == b.occupancyPs && a.latencyPs == b.latencyPs &&
           a.bytes == b.bytes && a.aheadPs == b.aheadPs;
  }
};

/// The messages that a stage sends for one unit.
struct StageMessages {
  MessageCost activation; ///< F's message to the next stage
  MessageCost gradient;   ///< the message to the previous stage

  const MessageCost &messageOf(Flow flow) const {
    return flow == Flow::Activation ? activation : gradient;
  }
  friend bool operator==(const StageMessages &a, const StageMessages &b) {
    return a.activation == b.activation && a.gradient == b.gradient;
  }
};

/// Messages that may differ by unit.
struct UnitMessages : StageMessages {
  /// The messages by slice, if slices differ, and by unit, if microbatches do;
  /// empty: the inherited messages apply to every unit.
  std::vector<StageMessages> messagesOfSlices;

  const MessageCost &message(Flow flow, int64_t unit) const {
    return messagesOfSlices.empty()
               ? messageOf(flow)
               : messagesOfSlices[unit % messagesOfSlices.size()].messageOf(
                     flow);
  }
};

/// The part of messages that an edge between two global stages is: its tensor,
/// and the gradient that comes back.
struct EdgeCost : UnitMessages {
  int32_t from = 0, to = 0;
};

/// The costs of one global stage (path, stage).
struct StageCost : UnitMessages {
  /// O and G are about the blocks that the stage owns (ParameterSets.h).
  CellCosts cells;
  std::optional<int64_t> overlappedPs; ///< an overlapped pair whose first cell
                                       ///< is of this stage; absent: by
                                       ///< StageCosts::pairPs
};

/// How the segments of an overlapped pair share resources. Transfers of rows to
/// experts (Resource::Experts) are one lane, all other segments are the other
/// lane.
enum class PairRule : uint8_t {
  InTurn, ///< not at all: the second cell runs after the first
  /// Segments are divided as finely as needed, so that the pair takes the
  /// longest of: either lane for both cells, either cell by itself. Without
  /// rows of experts this is the sum of the cells.
  Fluid,
  /// Segments are whole, and each cell runs its own in order. A lane runs one
  /// segment at a time: the one that can start first, on ties that of the first
  /// cell.
  InOrder,
};

struct PairTime {
  int64_t ps = 0;
  /// The time of weight gradients at its end, while the output of the forward
  /// and the gradient of the backward's input are already being sent.
  int64_t behindPs = 0;
};

/// The times of overlapped pairs of a forward and a whole backward whose layers
/// run part by part, by the global stages of both.
class PairTimes {
public:
  virtual ~PairTimes();
  /// Returns a time of at least the time by PairRule::Fluid, and at most the
  /// sum of both cells. Several threads may call it.
  virtual PairTime timeOf(int64_t forwardStage,
                          int64_t backwardStage) const = 0;
};

/// The costs of a whole placement, by global stage (Placement::globalStage).
struct StageCosts {
  std::vector<StageCost> stages;
  /// By index of the all-reduce (Program::groups); each of its workers sends
  /// `bytes`. Empty: each all-reduce takes the G time of its cell.
  std::vector<MessageCost> reductions;
  /// All edges by source and target, if the messages of a stage differ; empty:
  /// each message is one of its stage.
  std::vector<EdgeCost> edges;
  PairRule pairRule = PairRule::Fluid;
  /// Replaces the rule for pairs of F and B; null: the rule applies to all
  /// pairs.
  std::shared_ptr<const PairTimes> pairTimes;

  /// Whether any cell has a segment on one of these resources.
  bool useAny(llvm::ArrayRef<Resource> resources) const;
  /// Error: a stage has costs neither of one slice, nor of a microbatch, nor of
  /// all units.
  llvm::Error checkSlices(const Placement &placement) const;
  /// Whether messages of slices or microbatches differ.
  bool messagesVary() const {
    return llvm::any_of(stages, [](const StageCost &stage) {
      return !stage.messagesOfSlices.empty();
    });
  }
  /// The edge between two stages; requires `edges`.
  const EdgeCost &edge(int64_t from, int64_t to) const;
  /// The tensor or gradient of an edge in the message that a cell sends.
  const MessageCost &tensorOf(Cell cell, int64_t from, int64_t to) const {
    return edge(from, to).message(flowOf(cell), cell.getUnit());
  }
  /// The message that a cell sends of its stage, without `edges`.
  const MessageCost &message(const Placement &placement, Cell cell) const {
    return stages[placement.globalStage(cell)].message(flowOf(cell),
                                                       cell.getUnit());
  }

  llvm::ArrayRef<Segment> segmentsOf(const Placement &placement,
                                     Cell cell) const {
    const CellCosts &cells = stages[placement.globalStage(cell)].cells;
    return cells.segmentsOf(cell.getPhase(), cells.sliceOf(cell));
  }
  int64_t alonePs(const Placement &placement, Cell cell) const {
    const CellCosts &cells = stages[placement.globalStage(cell)].cells;
    return cells.alonePs(cell.getPhase(), cells.sliceOf(cell));
  }

  /// Returns the time of an overlapped pair of cells with these segments, by
  /// the rule.
  uint64_t pairPs(llvm::ArrayRef<Segment> first,
                  llvm::ArrayRef<Segment> second) const;
  /// Returns the time of an overlapped pair: the measured time, else by
  /// `pairTimes`, else by the rule.
  uint64_t pairPs(const Placement &placement, Cell first, Cell second) const;
  /// Returns PairTime::behindPs of an overlapped pair; 0 if its time does not
  /// come from `pairTimes`.
  int64_t behindPs(const Placement &placement, Cell first, Cell second) const;
  /// Adds the time in which the rows of a cell, or of an overlapped pair, are
  /// sent to experts, and its exposed part, which no compute hides. A measured
  /// pair has no exposed part, because its time does not show which part waits.
  /// Returns false if a sum exceeds int64.
  [[nodiscard]] bool addDispatches(const Placement &placement, Cell cell,
                                   std::optional<Cell> overlapped,
                                   Exchange &sum) const;

private:
  static Flow flowOf(Cell cell) {
    return makesActivation(cell.getPhase()) ? Flow::Activation : Flow::Gradient;
  }
  std::optional<PairTime> scheduledPair(const Placement &placement, Cell first,
                                        Cell second) const;
};

/// Memory of one global stage in bytes. Activations are per unit.
struct StageMemory {
  int64_t activationBytes = 0; ///< from F to the last phase that needs it
  /// The bytes of activations that a split I frees; negative if the gradients
  /// that it keeps for W are larger.
  int64_t inputGradFreedBytes = 0;
  int64_t boundaryBytes = 0; ///< kept between F and R if there is an R
  /// Additional memory while B or I runs: the block that the backward itself
  /// recomputes.
  int64_t workingBytes = 0;
  /// The bytes that B or I at its end leaves for the backwards of earlier
  /// slices of its microbatch: their part of the gradients of keys and values.
  /// Negative if it frees its own part, which a later slice left.
  int64_t leftForSlicesBytes = 0;
  /// The bytes of the blocks that the stage owns. A worker holds a block once,
  /// even if several of its stages use it (ParameterSets.h).
  int64_t weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;
  /// The bytes that a shard of the vocabulary keeps between S and T: its
  /// logits, and the output of the last stage.
  int64_t shardBytes = 0;
  /// The output of a sharded embedding: between E and the end of F if it is the
  /// input of the stage, else between E and A. One of the two is 0.
  int64_t lookupSumBytes = 0, lookupPartBytes = 0;
  int64_t lookupGradBytes = 0; ///< its gradient, between C and V

  /// Returns the bytes of one unit.
  constexpr HeldAmounts amounts() const {
    return {activationBytes, boundaryBytes,   inputGradFreedBytes, shardBytes,
            lookupSumBytes,  lookupPartBytes, lookupGradBytes};
  }
};

/// The memory of an edge between two global stages, bytes of one unit.
struct EdgeMemory {
  int32_t from = 0, to = 0;
  /// The tensor, which its takers hold in addition to their activations; 0 on
  /// chains, where it is a part of them.
  int64_t tensorBytes = 0;
  int64_t gradientBytes = 0; ///< its gradient, while it waits for others
};

struct MemoryFacts {
  /// By global stage; the bytes per unit are for the first slice.
  std::vector<StageMemory> stages;
  /// By global stage and slice, if slices differ; else empty. Parameters are in
  /// `stages`.
  std::vector<StageMemory> slices;
  int64_t numSlices = 1; ///< of a microbatch, if they differ
  /// All edges by source and target, if there are nodes or added edges.
  std::vector<EdgeMemory> edges;

  const StageMemory &memoryOf(int64_t stage, int64_t slice) const {
    return slices.empty() ? stages[stage] : slices[stage * numSlices + slice];
  }
  const StageMemory &memoryOf(int64_t stage, Cell cell) const {
    return slices.empty() || cell.isPerPath()
               ? stages[stage]
               : slices[stage * numSlices + cell.getUnit() % numSlices];
  }
  const StageMemory &memoryOf(const Placement &placement, Cell cell) const {
    return memoryOf(placement.globalStage(cell), cell);
  }
  int64_t capacityBytes = 0; ///< of one worker; 0: unknown
};

} // namespace pipesched

#endif // PIPESCHED_FACTS_STAGECOSTS_H
