//===- Phases.h - The table of phases -----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The properties of each phase, in one table, as Instructions.h has them of
// instructions. Checks of rows, dependences, lowering, memory, costs, pictures,
// the C API and Python read it (docs/AddPhase.md). PhaseSets.h has what follows
// from it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_PHASES_H
#define PIPESCHED_SCHEDULE_KINDS_PHASES_H

#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Kinds/PhasePlaces.h"
#include <array>

namespace pipesched {

/// What a cell does. The numbers are dense and mean nothing outside of a
/// process: files have the stored code of PhaseTraits.
enum class Phase : uint8_t {
  Forward,
  Backward,
  InputGrad,
  WeightGrad,
  Recompute,
  Offload,
  Reload,
  Optimizer,
  AllReduce,
  OffloadJoin,
  ReloadJoin,
  Idle,
  Logits,     ///< the shard of the logits, of a vocabulary spread over workers
  LogitsGrad, ///< its softmax and gradients
  Broadcast,  ///< the last output reaches all shards
  Combine,    ///< shards agree on the softmax
  Reduce,     ///< the gradient of the last output, summed over shards
  Lookup,     ///< the rows that a shard of the embedding has
  LookupSum,  ///< of them, the input of the first layer
  GradientBroadcast, ///< the gradient of that input reaches all shards
  LookupGrad         ///< it is added to the gradients of the shard's rows
};

/// Letters are PyTorch's where it has them; the zero-bubble papers' "B" is I.
template <>
struct EnumNames<Phase> {
  static constexpr EnumName<Phase> values[] = {
      {Phase::Forward, "F", "forward"},
      {Phase::Backward, "B", "backward"},
      {Phase::InputGrad, "I", "input gradient"},
      {Phase::WeightGrad, "W", "weight gradient"},
      {Phase::Recompute, "R", "recompute"},
      {Phase::Offload, "D", "offload"},
      {Phase::Reload, "U", "reload"},
      {Phase::Optimizer, "O", "optimizer"},
      {Phase::AllReduce, "G", "all-reduce"},
      {Phase::OffloadJoin, "d", "wait for offload"},
      {Phase::ReloadJoin, "u", "wait for reload"},
      {Phase::Idle, "_", "idle"},
      {Phase::Logits, "S", "shard of logits"},
      {Phase::LogitsGrad, "T", "gradients of a shard"},
      {Phase::Broadcast, "X", "broadcast of the last output"},
      {Phase::Combine, "Y", "softmax over shards"},
      {Phase::Reduce, "Z", "sum of shards' gradients"},
      {Phase::Lookup, "E", "lookup in a shard"},
      {Phase::LookupSum, "A", "sum of the lookups"},
      {Phase::GradientBroadcast, "C", "broadcast of the embedding's gradient"},
      {Phase::LookupGrad, "V", "gradient of a shard's rows"}};
};
inline constexpr unsigned kNumPhases = kNumEnumValues<Phase>;

/// A value for each phase.
template <typename T>
struct PhaseMap : std::array<T, kNumPhases> {
  constexpr T &operator[](Phase phase) {
    return this->data()[static_cast<unsigned>(phase)];
  }
  constexpr const T &operator[](Phase phase) const {
    return this->data()[static_cast<unsigned>(phase)];
  }
};

class PhaseSet {
public:
  constexpr PhaseSet() = default;
  constexpr PhaseSet(Phase phase) : bits(1u << static_cast<unsigned>(phase)) {}
  constexpr PhaseSet(std::initializer_list<Phase> phases) {
    for (Phase phase : phases)
      bits |= PhaseSet(phase).bits;
  }

  constexpr bool isEmpty() const { return bits == 0; }
  constexpr bool contains(Phase phase) const {
    return bits >> static_cast<unsigned>(phase) & 1;
  }
  constexpr bool intersects(PhaseSet other) const { return bits & other.bits; }
  constexpr unsigned size() const { return __builtin_popcount(bits); }
  /// The first phase of a set that is not empty.
  constexpr Phase first() const {
    return static_cast<Phase>(__builtin_ctz(bits));
  }
  /// Calls `visit(phase)` for each phase, in the order of the enum.
  template <typename Visit>
  constexpr void forEach(Visit &&visit) const {
    for (uint32_t rest = bits; rest != 0; rest &= rest - 1)
      visit(static_cast<Phase>(__builtin_ctz(rest)));
  }

  constexpr PhaseSet &operator|=(PhaseSet other) {
    bits |= other.bits;
    return *this;
  }
  friend constexpr PhaseSet operator|(PhaseSet a, PhaseSet b) { return a |= b; }
  friend constexpr PhaseSet operator&(PhaseSet a, PhaseSet b) {
    a.bits &= b.bits;
    return a;
  }
  /// The phases of `a` that are not in `b`.
  friend constexpr PhaseSet operator-(PhaseSet a, PhaseSet b) {
    a.bits &= ~b.bits;
    return a;
  }
  friend constexpr bool operator==(PhaseSet a, PhaseSet b) {
    return a.bits == b.bits;
  }
  friend constexpr bool operator!=(PhaseSet a, PhaseSet b) {
    return a.bits != b.bits;
  }

private:
  uint32_t bits = 0;
};
static_assert(kNumPhases <= 32, "a PhaseSet has 32 bits");

/// What stages of a path pass to each other.
enum class Flow : uint8_t {
  Activation, ///< from F to F
  Gradient    ///< from a backward to a backward
};

template <>
struct EnumNames<Flow> {
  static constexpr EnumName<Flow> values[] = {
      {Flow::Activation, "activation", "The output of a forward"},
      {Flow::Gradient, "gradient", "The gradient of a stage's input"}};
};
inline constexpr unsigned kNumFlows = kNumEnumValues<Flow>;

/// Which stages of a path a flow connects.
enum class Reach : uint8_t {
  Next,     ///< stage s passes to s + 1
  Previous, ///< stage s passes to s - 1
  FromLast, ///< the last stage passes to all, itself included: a broadcast
  ToLast,   ///< all stages pass to the last, itself included: a reduction
};

struct FlowTraits {
  Reach reach;
  /// Whether its messages have the size of a gradient, not of an activation.
  bool isGradient;
};

/// The table, in the order of the enum. A phase that takes or makes a new flow
/// says so in its row.
inline constexpr FlowTraits kFlowTraits[] = {
    {Reach::Next, /*isGradient=*/false},
    {Reach::Previous, /*isGradient=*/true},
};
static_assert(std::size(kFlowTraits) == kNumFlows, "a row per flow");

constexpr const FlowTraits &traitsOf(Flow flow) {
  return kFlowTraits[static_cast<unsigned>(flow)];
}
/// Whether a flow connects more than neighbours, so that one cell may need
/// several others or be needed by several.
constexpr bool isWide(Flow flow) {
  return traitsOf(flow).reach == Reach::FromLast ||
         traitsOf(flow).reach == Reach::ToLast;
}

/// What a cell does to the memory that its worker holds for the stage and unit
/// (docs/CostModel.md, "Memory"); changeOf turns a value into an amount.
enum class MemoryEffect : uint8_t {
  Same,
  AllocateAll,        ///< the activations of the stage
  AllocateDropped,    ///< what a recomputed F has not kept
  FreeInputGrad,      ///< the part that only the input gradient needs
  FreeRest,           ///< all but that part
  FreeAll,            ///< the activations of the stage
  CopyOut,            ///< frees what a copy to the host has moved
  CopyIn,             ///< allocates what a copy from the host brings back
  AllocateShard,      ///< what a shard of the vocabulary keeps from S to T
  FreeShard,          ///< that
  AllocateLookup,     ///< what E looks up
  FreePart,           ///< that, on workers that only give it to the sum
  FreeSum,            ///< that, on the worker whose F takes the sum
  AllocateLookupGrad, ///< the gradient of the embedding's output
  FreeLookupGrad,     ///< that
};

/// What a stage holds for a unit, in bytes or in any other unit.
struct HeldAmounts {
  int64_t activation; ///< between F and the end of its backward
  int64_t kept;       ///< of it, what a recomputed F keeps until R
  int64_t inputGrad;  ///< of it, what I frees
  int64_t shard = 0;  ///< beside it, what a shard keeps between S and T
  /// Beside it, the output of an embedding in shards: where it is the input of
  /// F, and where only the sum of the lookups takes it. One of both is 0.
  int64_t lookupSum = 0, lookupPart = 0;
  int64_t lookupGrad = 0; ///< beside it, the gradient of that output
};

/// How much more is held after a change than before.
constexpr int64_t changeOf(MemoryEffect change, const HeldAmounts &held) {
  switch (change) {
  case MemoryEffect::Same:
    return 0;
  case MemoryEffect::AllocateAll:
  case MemoryEffect::CopyIn:
    return held.activation;
  case MemoryEffect::AllocateDropped:
    return held.activation - held.kept;
  case MemoryEffect::FreeInputGrad:
    return -held.inputGrad;
  case MemoryEffect::FreeRest:
    return held.inputGrad - held.activation;
  case MemoryEffect::FreeAll:
  case MemoryEffect::CopyOut:
    return -held.activation;
  case MemoryEffect::AllocateShard:
    return held.shard;
  case MemoryEffect::FreeShard:
    return -held.shard;
  case MemoryEffect::AllocateLookup:
    return held.lookupSum + held.lookupPart;
  case MemoryEffect::FreePart:
    return -held.lookupPart;
  case MemoryEffect::FreeSum:
    return -held.lookupSum;
  case MemoryEffect::AllocateLookupGrad:
    return held.lookupGrad;
  case MemoryEffect::FreeLookupGrad:
    return -held.lookupGrad;
  }
  return 0;
}

/// The order of the cells of one stage and unit.
struct PhaseOrder {
  Occurrence occurrence = Occurrence::Optional;
  /// Phases that have to stand before it in the row.
  PhaseSet needs = {};
  /// Phases that it waits for where the table has them, so that none of them
  /// may come after it.
  PhaseSet uses = {};
  /// Phases that must not occur beside it.
  PhaseSet alternatives = {};
  /// The phase that has to follow it.
  std::optional<Phase> followedBy = {};
  /// Phases that use it, for which their own rows need not be changed.
  PhaseSet usedBy = {};
  /// Of a slice, after the same phase of its neighbour or one that stands for
  /// it (kOfNeighbour).
  SliceOrder slices = SliceOrder::Any;
  /// Of a phase that takes from an end of the path, or gives to it: on the
  /// worker of that stage it is a cell of that stage.
  std::optional<PathEnd> end = {};
};

/// What a cell waits for from another stage of the path, and what it makes for
/// one. Of a split backward only one half makes the gradient (flowMadeBy).
struct PhaseFlows {
  std::optional<Flow> takes = {}, makes = {};
};

/// What the start and the end of a cell do to memory.
struct PhaseMemory {
  MemoryEffect atStart = MemoryEffect::Same, atEnd = MemoryEffect::Same;
};

struct Rgb {
  uint8_t red, green, blue;
};

/// Full hue and lightest tint of pictures. Full hues carry white text, tints
/// black text. In both columns CIE lightness rises in the order F, I, B, W, so
/// that a grey print keeps phases apart; the hues are those that PyTorch and
/// the zero-bubble papers made customary.
struct PhaseColours {
  Rgb hue, tint;
};

struct PhaseTraits {
  /// The number of the phase in bytecode and in generic attributes. A code is
  /// never given to another phase.
  uint8_t code;
  CellNumber number;
  /// Slots where a table has unit slots. Idle entries count their own.
  uint8_t unitSlots;
  /// The instruction that the cell becomes; idle entries become none.
  std::optional<InstructionKind> instruction;
  PhaseOrder order;
  PhaseFlows flows;
  PhaseMemory memory;
  PhaseColours colours;
  /// Whether profiles, systems and measurements give it a time.
  bool isCosted = true;
  /// Whether it adds to the gradients of the parameters of its stage.
  bool addsGradient = false;
};

/// The table, in the order of the enum. A new phase needs a name above and a
/// row here.
inline constexpr PhaseTraits kPhaseTraits[] = {
    // F
    {0,
     CellNumber::Unit,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {Occurrence::Once, {}, {}, {}, {}, {}, SliceOrder::Ascending},
     {/*takes=*/Flow::Activation, /*makes=*/Flow::Activation},
     {MemoryEffect::AllocateAll, MemoryEffect::FreeSum},
     {{0x24, 0x4f, 0xa3}, {0x9a, 0xb9, 0xec}}},
    // B
    {1,
     CellNumber::Unit,
     /*unitSlots=*/2,
     InstructionKind::Compute,
     {Occurrence::Alternative,
      /*needs=*/Phase::Forward,
      /*uses=*/{Phase::Recompute, Phase::Reload},
      /*alternatives=*/{Phase::InputGrad, Phase::WeightGrad},
      /*followedBy=*/{}, /*usedBy=*/{}, SliceOrder::Descending},
     {/*takes=*/Flow::Gradient, /*makes=*/Flow::Gradient},
     {MemoryEffect::Same, MemoryEffect::FreeAll},
     {{0xcf, 0x6a, 0x12}, {0xfc, 0xcb, 0x94}},
     /*isCosted=*/true,
     /*addsGradient=*/true},
    // I
    {2,
     CellNumber::Unit,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {Occurrence::Alternative,
      /*needs=*/Phase::Forward,
      /*uses=*/{Phase::Recompute, Phase::Reload},
      /*alternatives=*/Phase::Backward,
      /*followedBy=*/Phase::WeightGrad, /*usedBy=*/{}, SliceOrder::Descending},
     {/*takes=*/Flow::Gradient, /*makes=*/Flow::Gradient},
     {MemoryEffect::Same, MemoryEffect::FreeInputGrad},
     {{0x12, 0x7a, 0x86}, {0x96, 0xd8, 0xdc}}},
    // W
    {3,
     CellNumber::Unit,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {Occurrence::Optional,
      /*needs=*/Phase::InputGrad,
      /*uses=*/{},
      /*alternatives=*/Phase::Backward,
      /*followedBy=*/{}, /*usedBy=*/{}, SliceOrder::Descending},
     {/*takes=*/std::nullopt, /*makes=*/Flow::Gradient},
     {MemoryEffect::Same, MemoryEffect::FreeRest},
     {{0x4f, 0x9e, 0x3d}, {0xc6, 0xec, 0xb2}},
     /*isCosted=*/true,
     /*addsGradient=*/true},
    // R
    {4,
     CellNumber::Unit,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {Occurrence::Optional,
      /*needs=*/Phase::Forward,
      /*uses=*/Phase::Reload},
     {},
     {MemoryEffect::AllocateDropped, MemoryEffect::Same},
     {{0x74, 0x54, 0xa6}, {0xcd, 0xbb, 0xe8}}},
    // D
    {5,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Offload,
     {Occurrence::Optional,
      /*needs=*/Phase::Forward,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/Phase::Reload},
     {},
     {MemoryEffect::Same, MemoryEffect::CopyOut},
     {{0x6b, 0x5b, 0x4d}, {0xb5, 0xa8, 0x9b}}},
    // U
    {6,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Reload,
     {Occurrence::Optional, /*needs=*/Phase::Offload},
     {},
     {MemoryEffect::CopyIn, MemoryEffect::Same},
     {{0x9a, 0x86, 0x70}, {0xd2, 0xc7, 0xba}}},
    // O
    {7,
     CellNumber::Path,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {},
     {},
     {},
     {{0xf3, 0xe3, 0x9a}, {0xfa, 0xf3, 0xd0}}},
    // G
    {8,
     CellNumber::Path,
     /*unitSlots=*/1,
     InstructionKind::AllReduce,
     {},
     {},
     {},
     {{0xb2, 0x48, 0x7f}, {0xee, 0xbf, 0xd8}}},
    // d
    {9,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Wait,
     {Occurrence::AnyNumber, /*needs=*/Phase::Offload},
     {},
     {},
     {{0x6b, 0x5b, 0x4d}, {0xb5, 0xa8, 0x9b}},
     /*isCosted=*/false},
    // u
    {10,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Wait,
     {Occurrence::AnyNumber, /*needs=*/Phase::Reload},
     {},
     {},
     {{0x9a, 0x86, 0x70}, {0xd2, 0xc7, 0xba}},
     /*isCosted=*/false},
    // _
    {11,
     CellNumber::Slots,
     /*unitSlots=*/0,
     std::nullopt,
     {Occurrence::AnyNumber},
     {},
     {},
     {{0xee, 0xf0, 0xf2}, {0xee, 0xf0, 0xf2}},
     /*isCosted=*/false},
    // S, which the paper calls so too (arXiv 2411.05288)
    {12,
     CellNumber::Unit,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {Occurrence::Spread,
      /*needs=*/Phase::Broadcast,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/Phase::LogitsGrad, /*usedBy=*/{}, SliceOrder::Any,
      PathEnd::Last},
     {},
     {MemoryEffect::AllocateShard, MemoryEffect::Same},
     {{0x93, 0x2f, 0x2f}, {0xf0, 0xb9, 0xb9}}},
    // T
    {13,
     CellNumber::Unit,
     /*unitSlots=*/1,
     InstructionKind::Compute,
     {Occurrence::Spread,
      /*needs=*/Phase::Combine,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/{}, /*usedBy=*/{}, SliceOrder::Any, PathEnd::Last},
     {},
     {MemoryEffect::Same, MemoryEffect::FreeShard},
     {{0xb0, 0x4c, 0x68}, {0xf7, 0xcd, 0xd9}},
     /*isCosted=*/true,
     /*addsGradient=*/true},
    // X: C0 of the paper
    {14,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Broadcast,
     {Occurrence::Spread,
      /*needs=*/Phase::Forward,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/Phase::Logits, /*usedBy=*/{}, SliceOrder::Any,
      PathEnd::Last},
     {},
     {},
     {{0x5a, 0x5f, 0x6b}, {0xc4, 0xc9, 0xd4}}},
    // Y: C1 of the paper
    {15,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Combine,
     {Occurrence::Spread,
      /*needs=*/Phase::Logits,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/Phase::LogitsGrad,
      /*usedBy=*/{Phase::Backward, Phase::InputGrad}, SliceOrder::Any,
      PathEnd::Last},
     {},
     {},
     {{0x4a, 0x6b, 0x5f}, {0xbd, 0xd6, 0xcb}}},
    // Z: C2 of the paper, which Vocab-1 has and Vocab-2 has not
    {16,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Reduce,
     {Occurrence::Spread,
      /*needs=*/Phase::LogitsGrad,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/{},
      /*usedBy=*/{Phase::Backward, Phase::InputGrad}, SliceOrder::Any,
      PathEnd::Last},
     {},
     {},
     {{0x6b, 0x4a, 0x62}, {0xd6, 0xbd, 0xcf}}},
    // E: lookups take no slot, since they compute nothing
    {17,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Compute,
     {Occurrence::Spread,
      /*needs=*/{},
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/Phase::LookupSum, /*usedBy=*/{}, SliceOrder::Any,
      PathEnd::First},
     {},
     {MemoryEffect::AllocateLookup, MemoryEffect::Same},
     {{0x1e, 0x5e, 0x5a}, {0xae, 0xdb, 0xd7}}},
    // A
    {18,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::ReduceLookups,
     {Occurrence::Spread,
      /*needs=*/Phase::Lookup,
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/Phase::GradientBroadcast, /*usedBy=*/Phase::Forward,
      SliceOrder::Any, PathEnd::First},
     {},
     {MemoryEffect::Same, MemoryEffect::FreePart},
     {{0x44, 0x5a, 0x6b}, {0xbf, 0xcf, 0xdb}}},
    // C: behind I, whatever the gradient rule, since I finds the gradient
    {19,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::BroadcastGradient,
     {Occurrence::Spread,
      /*needs=*/{},
      /*uses=*/{Phase::Backward, Phase::InputGrad},
      /*alternatives=*/{},
      /*followedBy=*/Phase::LookupGrad, /*usedBy=*/{}, SliceOrder::Any,
      PathEnd::First},
     {},
     {MemoryEffect::AllocateLookupGrad, MemoryEffect::Same},
     {{0x5e, 0x54, 0x74}, {0xcd, 0xc5, 0xde}}},
    // V
    {20,
     CellNumber::Unit,
     /*unitSlots=*/0,
     InstructionKind::Compute,
     {Occurrence::Spread,
      /*needs=*/{Phase::Lookup, Phase::GradientBroadcast},
      /*uses=*/{},
      /*alternatives=*/{},
      /*followedBy=*/{}, /*usedBy=*/{}, SliceOrder::Any, PathEnd::First},
     {},
     {MemoryEffect::Same, MemoryEffect::FreeLookupGrad},
     {{0x5b, 0x78, 0x1c}, {0xd5, 0xe4, 0xae}},
     /*isCosted=*/true,
     /*addsGradient=*/true},
};
static_assert(std::size(kPhaseTraits) == kNumPhases, "a row per phase");

constexpr const PhaseTraits &traitsOf(Phase phase) {
  return kPhaseTraits[static_cast<unsigned>(phase)];
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_PHASES_H
