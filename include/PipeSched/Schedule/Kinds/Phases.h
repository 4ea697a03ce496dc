//===- Phases.h - The table of phases -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The properties of each phase, in one table, as Instructions.h has the
// properties of instructions. Checks of rows, dependences, lowering, memory,
// costs, pictures, the C API and Python read it (docs/AddPhase.md). PhaseSets.h
// derives sets of phases from it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_PHASES_H
#define PIPESCHED_SCHEDULE_KINDS_PHASES_H

#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Kinds/MemoryEffect.h"
#include "PipeSched/Schedule/Kinds/Phase.h"

namespace pipesched {

/// The meaning of the number in a cell's name.
enum class CellNumber : uint8_t {
  Unit,  ///< a microbatch; in a table with slices, a slice of one
  Path,  ///< a path: the cell concerns a stage as a whole
  Slots, ///< the number of slots that the cell takes
};

/// How often a stage, or a worker, runs a phase for a unit of its path.
enum class Occurrence : uint8_t {
  Once,        ///< exactly once
  Alternative, ///< exactly one of all phases that have this value
  Optional,    ///< at most once
  /// Never, or once on each worker of the path, by any of its stages there. The
  /// computation of the phase is sharded over these workers, as for a
  /// vocabulary (arXiv 2411.05288).
  Spread,
  AnyNumber
};

/// The order of the slices of a microbatch on a stage: a forward reads keys and
/// values of earlier slices, and a backward adds to their gradients (Seq1F1B,
/// arXiv 2406.03488).
enum class SliceOrder : uint8_t {
  Any,
  Ascending, ///< each slice after the previous one
  Descending ///< each slice after the next one
};

/// The stage of a path that sends data to shards and receives their results.
enum class PathEnd : uint8_t { First, Last };

/// The order of the cells of one stage and unit.
struct PhaseOrder {
  Occurrence occurrence = Occurrence::Optional;
  /// Phases that must come before it in the row.
  PhaseSet needs = {};
  /// Phases that it waits for if the table has them. None of them may come
  /// after it.
  PhaseSet uses = {};
  /// Phases of which only one may occur.
  PhaseSet alternatives = {};
  /// The phase that must follow it.
  std::optional<Phase> followedBy = {};
  /// Phases that use it. Their own entries in this table need not list it.
  PhaseSet usedBy = {};
  /// A slice comes after the same phase of its neighbour, or after a phase that
  /// replaces it (kOfNeighbour).
  SliceOrder slices = SliceOrder::Any;
  /// For a phase that takes data from an end of the path or sends data to it:
  /// on the worker of that stage, the cell belongs to that stage.
  std::optional<PathEnd> end = {};
};

/// The data that a cell takes from another stage of the path, and the data that
/// it makes for other stages. In a split backward only I or W makes the
/// gradient (flowMadeBy).
struct PhaseFlows {
  std::optional<Flow> takes = {}, makes = {};
};

struct PhaseMemory {
  MemoryEffect atStart = MemoryEffect::Same, atEnd = MemoryEffect::Same;
};

struct Rgb {
  uint8_t red, green, blue;
};

/// Full hue and lightest tint for pictures. Full hues carry white text, tints
/// black text. In both columns CIE lightness rises in the order F, I, B, W, so
/// that the phases differ in a grey print. The hues are customary since PyTorch
/// and the zero-bubble papers.
struct PhaseColours {
  Rgb hue, tint;
};

struct PhaseTraits {
  /// The number of the phase in bytecode and in generic attributes. A code is
  /// never reused for another phase.
  uint8_t code;
  CellNumber number;
  /// Slots in a table with unit slots. An idle entry states its number of
  /// slots.
  uint8_t unitSlots;
  /// The instruction that the cell becomes; none for idle entries.
  std::optional<InstructionKind> instruction;
  PhaseOrder order;
  PhaseFlows flows;
  PhaseMemory memory;
  PhaseColours colours;
  /// Whether profiles, systems and measurements have a time for it.
  bool isCosted = true;
  /// Whether it adds to the gradients of the parameters of its stage.
  bool addsGradient = false;
};

/// In the order of the enum. A new phase needs a name above and a row here.
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
    // S, as in the paper (arXiv 2411.05288)
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
    // Z: C2 of the paper; only Vocab-1 has it
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
    // C: after I under any gradient rule, because I computes the gradient
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
