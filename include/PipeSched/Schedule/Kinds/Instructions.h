//===- Instructions.h - The kinds of instructions -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The properties of each kind of instruction, in one table that proofs,
// timelines, costs, traces and pictures all read.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_INSTRUCTIONS_H
#define PIPESCHED_SCHEDULE_KINDS_INSTRUCTIONS_H

#include "PipeSched/Schedule/Kinds/Transport.h"
#include "llvm/ADT/bit.h"
#include <initializer_list>

namespace pipesched {

enum class InstructionKind : uint8_t {
  Compute,           ///< F, B, I, W, R, O, S, T, E, V
  Send,              ///< `cell` names the message: the cell that produced it
  Recv,              ///< as for Send
  Offload,           ///< D
  Reload,            ///< U
  Wait,              ///< join: the next Compute or Reload of the row waits for
                     ///< the operands
  AllReduce,         ///< part of a G, among the workers that hold the blocks
  Broadcast,         ///< X, among the workers of the path
  Combine,           ///< Y, likewise
  Reduce,            ///< Z, likewise
  ReduceLookups,     ///< A, likewise
  BroadcastGradient, ///< C, likewise
};

/// The names equal the names of exec's ops.
template <>
struct EnumNames<InstructionKind> {
  static constexpr EnumName<InstructionKind> values[] = {
      {InstructionKind::Compute, "compute",
       "Runs a cell, or an overlapped pair of cells"},
      {InstructionKind::Send, "send", "Sends the output of a cell"},
      {InstructionKind::Recv, "recv", "Receives the output of a cell"},
      {InstructionKind::Offload, "offload", "Copies an activation to the host"},
      {InstructionKind::Reload, "reload",
       "Copies an activation back from the host"},
      {InstructionKind::Wait, "wait",
       "A join: a later instruction waits for copies"},
      {InstructionKind::AllReduce, "all_reduce",
       "Sums gradients of blocks among the workers that hold them"},
      {InstructionKind::Broadcast, "broadcast",
       "Sends the output of the last stage to all workers of the path"},
      {InstructionKind::Combine, "combine",
       "Combines the maxima and sums of the shards of logits"},
      {InstructionKind::Reduce, "reduce",
       "Sums the shards' parts of the gradient of the last output"},
      {InstructionKind::ReduceLookups, "reduce_lookups",
       "Sums the lookups of the shards of an embedding for the first stage"},
      {InstructionKind::BroadcastGradient, "broadcast_gradient",
       "Sends the gradient of the embedding's output to all workers"},
  };
};

/// The role of an instruction, as other instructions see it.
enum class InstructionRole : uint8_t {
  Compute,    ///< runs one cell or an overlapped pair in the row
  Message,    ///< one end of a message between two workers
  Collective, ///< starts when all workers of its group have reached it
  Copy,       ///< moves activations between a worker and its host
  Join        ///< takes no time and is not a task
};

template <>
struct EnumNames<InstructionRole> {
  static constexpr EnumName<InstructionRole> values[] = {
      {InstructionRole::Compute, "compute", "Runs cells of the row"},
      {InstructionRole::Message, "message", "One end of a message"},
      {InstructionRole::Collective, "collective", "Meets other workers"},
      {InstructionRole::Copy, "copy", "Moves activations to or from the host"},
      {InstructionRole::Join, "join", "Delays the next instruction"}};
};

/// A queue of a worker. Its instructions run one after the other in program
/// order.
enum class Queue : uint8_t {
  Row,         ///< the compute queue
  Sends,       ///< outgoing messages
  Receives,    ///< incoming messages
  Offloads,    ///< copies to the host
  Reloads,     ///< copies from the host
  Pair,        ///< messages with one other worker; one queue per other worker
  Collectives, ///< collectives, alongside the messages
  Broadcasts,  ///< outputs of last stages, to the shards of a vocabulary
  Reductions,  ///< sums over shards of a vocabulary
  Lookups,     ///< sums of lookups, for first stages
  Gradients,   ///< gradients of first stages' inputs, to the shards
};

template <>
struct EnumNames<Queue> {
  static constexpr EnumName<Queue> values[] = {
      {Queue::Row, "compute queue", "Cells of the row"},
      {Queue::Sends, "send queue", "Outgoing messages"},
      {Queue::Receives, "receive queue", "Incoming messages"},
      {Queue::Offloads, "offload queue", "Copies to the host"},
      {Queue::Reloads, "reload queue", "Copies from the host"},
      {Queue::Pair, "queue of the pair", "Messages with one other worker"},
      {Queue::Collectives, "collective queue",
       "Collectives, separate from messages"},
      {Queue::Broadcasts, "broadcast queue",
       "Outputs of last stages, to all workers"},
      {Queue::Reductions, "reduction queue",
       "Sums over the shards of a vocabulary"},
      {Queue::Lookups, "lookup queue", "Sums of lookups, for first stages"},
      {Queue::Gradients, "gradient queue",
       "Gradients of first stages' inputs, to all workers"}};
};
inline constexpr unsigned kNumQueues = kNumEnumValues<Queue>;

/// The queues that an instruction occupies at the same time.
class QueueSet {
public:
  constexpr QueueSet() = default;
  constexpr QueueSet(std::initializer_list<Queue> queues) {
    for (Queue queue : queues)
      bits |= 1u << static_cast<unsigned>(queue);
  }
  constexpr bool contains(Queue queue) const {
    return bits >> static_cast<unsigned>(queue) & 1;
  }
  constexpr bool intersects(QueueSet other) const { return bits & other.bits; }
  /// Calls `visit(queue)` for each queue, in the order of the enum.
  template <typename Visit>
  void forEach(Visit &&visit) const {
    for (unsigned rest = bits; rest != 0; rest &= rest - 1)
      visit(static_cast<Queue>(llvm::countr_zero(rest)));
  }

private:
  uint16_t bits = 0;
};
static_assert(kNumQueues <= 16, "a QueueSet has 16 bits");

/// The rule for the time of an instruction (docs/CostModel.md).
enum class CostRule : uint8_t {
  None,      ///< no time: a Recv, whose Send has the cost, and a Wait
  Phase,     ///< the time of its cell's phase on its stage
  Message,   ///< V/BW + L of its message (Hockney)
  Collective ///< V/BW + L of its group's data
};

/// The line of a worker on which traces and pictures show an instruction, from
/// top to bottom.
enum class Lane : uint8_t {
  Compute,
  Send,
  Receive,
  Offload,
  Reload,
  AllReduce,
  Broadcast,
  Reduction,
  Lookup,
  Gradient
};

template <>
struct EnumNames<Lane> {
  static constexpr EnumName<Lane> values[] = {
      {Lane::Compute, "compute", "Cells of the row"},
      {Lane::Send, "send", "Outgoing messages"},
      {Lane::Receive, "receive", "Incoming messages"},
      {Lane::Offload, "offload", "Copies to the host"},
      {Lane::Reload, "reload", "Copies from the host"},
      {Lane::AllReduce, "all-reduce", "Collectives"},
      {Lane::Broadcast, "broadcast", "Outputs of last stages"},
      {Lane::Reduction, "reduction", "Sums over shards"},
      {Lane::Lookup, "lookup", "Sums of lookups"},
      {Lane::Gradient, "gradient", "Gradients of first stages' inputs"}};
};
inline constexpr unsigned kNumLanes = kNumEnumValues<Lane>;

/// Which workers take part in a collective together, and how often. Each value
/// has a provider of groups for tables (Table/Groups.h), and a check for
/// hand-written programs (Dialect/Exec/IR/Collectives.h).
enum class Grouping : uint8_t {
  None,   ///< no collective
  Blocks, ///< workers with the same blocks of the model, once a step
  Unit,   ///< workers of the path of a microbatch, once for each microbatch
};

struct InstructionTraits {
  InstructionRole role;
  CostRule cost;
  Lane lane;
  /// Whether instructions that need it wait until its data has arrived, L after
  /// it leaves its queues (L: CostRule).
  bool hasArrival;
  QueueSet queues[kNumEnumValues<Transport>]; ///< by Transport
  /// For a collective: the members of its group.
  Grouping grouping = Grouping::None;
  /// Prefix of the names of its results. If it is empty, the prefix is the
  /// letter of the cell.
  llvm::StringLiteral resultName = "";
  /// Whether compiled programs can run it; they refuse all other kinds.
  bool isCompiled = true;
  /// For a collective: whether the row continues before the group has met. Then
  /// only cells that use its result wait, and its cells have no slots.
  bool isDetached = false;
};

/// A new kind needs a name above, a row here, an op in exec, and code that
/// emits it (docs/AddInstruction.md). `queues` has the queues under overlap,
/// delay, blocking and pairs.
inline constexpr InstructionTraits kInstructionTraits[] = {
    {InstructionRole::Compute,
     CostRule::Phase,
     Lane::Compute,
     /*hasArrival=*/false,
     {{Queue::Row}, {Queue::Row}, {Queue::Row}, {Queue::Row}}},
    {InstructionRole::Message,
     CostRule::Message,
     Lane::Send,
     /*hasArrival=*/false,
     {{Queue::Sends}, {}, {Queue::Row}, {Queue::Pair}}},
    {InstructionRole::Message,
     CostRule::None,
     Lane::Receive,
     /*hasArrival=*/true,
     {{Queue::Receives}, {}, {Queue::Row}, {Queue::Pair}}},
    {InstructionRole::Copy,
     CostRule::Phase,
     Lane::Offload,
     /*hasArrival=*/false,
     {{Queue::Offloads},
      {Queue::Offloads},
      {Queue::Offloads},
      {Queue::Offloads}}},
    {InstructionRole::Copy,
     CostRule::Phase,
     Lane::Reload,
     /*hasArrival=*/false,
     {{Queue::Reloads}, {Queue::Reloads}, {Queue::Reloads}, {Queue::Reloads}}},
    {InstructionRole::Join,
     CostRule::None,
     Lane::Compute,
     /*hasArrival=*/false,
     {{}, {}, {}, {}}},
    {InstructionRole::Collective,
     CostRule::Collective,
     Lane::AllReduce,
     /*hasArrival=*/true,
     {{Queue::Collectives}, {}, {Queue::Row}, {Queue::Collectives}},
     Grouping::Blocks,
     /*resultName=*/"ar"},
    {InstructionRole::Collective,
     CostRule::Phase,
     Lane::Broadcast,
     /*hasArrival=*/true,
     {{Queue::Broadcasts},
      {Queue::Broadcasts},
      {Queue::Broadcasts},
      {Queue::Broadcasts}},
     Grouping::Unit,
     /*resultName=*/"x",
     /*isCompiled=*/true,
     /*isDetached=*/true},
    {InstructionRole::Collective,
     CostRule::Phase,
     Lane::Reduction,
     /*hasArrival=*/true,
     {{Queue::Reductions},
      {Queue::Reductions},
      {Queue::Reductions},
      {Queue::Reductions}},
     Grouping::Unit,
     /*resultName=*/"y",
     /*isCompiled=*/true,
     /*isDetached=*/true},
    {InstructionRole::Collective,
     CostRule::Phase,
     Lane::Reduction,
     /*hasArrival=*/true,
     {{Queue::Reductions},
      {Queue::Reductions},
      {Queue::Reductions},
      {Queue::Reductions}},
     Grouping::Unit,
     /*resultName=*/"z",
     /*isCompiled=*/true,
     /*isDetached=*/true},
    {InstructionRole::Collective,
     CostRule::Phase,
     Lane::Lookup,
     /*hasArrival=*/true,
     {{Queue::Lookups}, {Queue::Lookups}, {Queue::Lookups}, {Queue::Lookups}},
     Grouping::Unit,
     /*resultName=*/"a",
     /*isCompiled=*/false,
     /*isDetached=*/true},
    {InstructionRole::Collective,
     CostRule::Phase,
     Lane::Gradient,
     /*hasArrival=*/true,
     {{Queue::Gradients},
      {Queue::Gradients},
      {Queue::Gradients},
      {Queue::Gradients}},
     Grouping::Unit,
     /*resultName=*/"c",
     /*isCompiled=*/false,
     /*isDetached=*/true}, // C
};

inline constexpr unsigned kNumInstructionKinds = std::size(kInstructionTraits);

static_assert(kNumInstructionKinds == kNumEnumValues<InstructionKind>,
              "a row per kind");

static_assert(
    [] {
      for (const InstructionTraits &traits : kInstructionTraits)
        if ((traits.role == InstructionRole::Collective) !=
            (traits.grouping != Grouping::None))
          return false;
      return true;
    }(),
    "collectives, and no others, have groups");

static_assert(
    [] {
      for (const InstructionTraits &traits : kInstructionTraits)
        if (traits.isDetached && traits.grouping != Grouping::Unit)
          return false;
      return true;
    }(),
    "rows continue only during collectives of microbatches");

constexpr const InstructionTraits &traitsOf(InstructionKind kind) {
  return kInstructionTraits[static_cast<unsigned>(kind)];
}
constexpr QueueSet queuesOf(InstructionKind kind, Transport transport) {
  return traitsOf(kind).queues[static_cast<unsigned>(transport)];
}
/// Whether the instruction runs in the row of its worker, between the computes.
constexpr bool holdsRow(InstructionKind kind, Transport transport) {
  return queuesOf(kind, transport).contains(Queue::Row);
}
/// Whether a Send and its Recv are one task, on queues of both workers.
constexpr bool areMessagesMerged(Transport transport) {
  return !holdsRow(InstructionKind::Send, transport);
}
/// Whether instructions that need its data wait until the data arrives. A Send
/// is done when its message has left its queues; if messages have no queue, it
/// is done when they arrive.
constexpr bool endsWithArrival(InstructionKind kind, Transport transport) {
  return traitsOf(kind).hasArrival || (kind == InstructionKind::Send &&
                                       heldPart(transport) == HeldPart::None);
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_INSTRUCTIONS_H
