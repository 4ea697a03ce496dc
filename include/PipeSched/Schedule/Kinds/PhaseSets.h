//===- PhaseSets.h - Sets from the table of phases --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets of phases, lists of the dependences of their cells, letters and codes,
// all computed from the table while compiling. A new phase changes nothing
// here.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_PHASESETS_H
#define PIPESCHED_SCHEDULE_KINDS_PHASESETS_H

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "PipeSched/Schedule/Kinds/Phases.h"

namespace pipesched {

/// The phases whose traits satisfy a predicate.
template <typename Predicate>
constexpr PhaseSet phasesWith(Predicate &&isMember) {
  PhaseSet phases;
  for (unsigned i = 0; i < kNumPhases; ++i)
    if (isMember(kPhaseTraits[i]))
      phases |= static_cast<Phase>(i);
  return phases;
}

/// Whether the cells of a phase become one kind of instruction.
constexpr bool becomes(const PhaseTraits &traits, InstructionKind kind) {
  return traits.instruction && *traits.instruction == kind;
}

/// The phases whose cells become one kind of instruction.
constexpr PhaseSet phasesOfKind(InstructionKind kind) {
  return phasesWith(
      [&](const PhaseTraits &traits) { return becomes(traits, kind); });
}

inline constexpr PhaseSet kAllPhases =
    phasesWith([](const PhaseTraits &) { return true; });
/// Phases that have a cost: all but joins and idle entries.
inline constexpr PhaseSet kCostedPhases =
    phasesWith([](const PhaseTraits &traits) { return traits.isCosted; });
/// The longest cell in unit slots.
inline constexpr uint64_t kMaxUnitSlots = [] {
  uint64_t most = 0;
  for (const PhaseTraits &traits : kPhaseTraits)
    most = traits.unitSlots > most ? traits.unitSlots : most;
  return most;
}();
/// The phases whose cells become an instruction of a role.
constexpr PhaseSet phasesOfRole(InstructionRole role) {
  return phasesWith([&](const PhaseTraits &traits) {
    return traits.instruction && traitsOf(*traits.instruction).role == role;
  });
}
/// The phases whose cells form groups with cells of other workers (Groups.h):
/// G.
inline constexpr PhaseSet kCollectivePhases =
    phasesOfRole(InstructionRole::Collective);
/// Collectives that overlap with the compute of their rows and have no slots:
/// X, Y, Z, A and C.
inline constexpr PhaseSet kDetachedPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.instruction && traitsOf(*traits.instruction).isDetached;
    });
/// Collectives that hold their rows until all members have arrived: G.
inline constexpr PhaseSet kMeetingPhases = kCollectivePhases - kDetachedPhases;
/// Phases that run in their row: F, B, I, W, R, O, S, T, E and V. Collectives
/// that hold their rows have slots there, because a table has no second row for
/// the network.
inline constexpr PhaseSet kComputePhases =
    phasesOfRole(InstructionRole::Compute) | kMeetingPhases;
/// Compute phases of a unit: F, B, I, W, R, S, T, E and V.
inline constexpr PhaseSet kUnitComputePhases =
    phasesWith([](const PhaseTraits &traits) {
      return becomes(traits, InstructionKind::Compute) &&
             traits.number == CellNumber::Unit;
    });
static_assert(kCopyPhases == phasesOfRole(InstructionRole::Copy) &&
                  kJoinPhases == phasesOfRole(InstructionRole::Join) &&
                  kPerPathPhases == phasesWith([](const PhaseTraits &traits) {
                    return traits.number == CellNumber::Path;
                  }) &&
                  kBackwardStarts == phasesWith([](const PhaseTraits &traits) {
                    return traits.flows.takes &&
                           *traits.flows.takes == Flow::Gradient;
                  }),
              "the sets of Phase.h must equal the sets of the table");
/// Phases that occur at most once for a stage and unit, so that a CellIndex
/// finds their cells: F, B, I, W, R, D, U, S, T, X, Y, Z, E, A, C, V.
inline constexpr PhaseSet kIndexedPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.number == CellNumber::Unit &&
             traits.order.occurrence != Occurrence::AnyNumber;
    });
/// Phases whose work is sharded over the workers of a path: S, T, X, Y and Z,
/// and E, A, C and V.
inline constexpr PhaseSet kSpreadPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.order.occurrence == Occurrence::Spread;
    });
/// Phases that add to the gradients of parameters: B, W, T and V.
inline constexpr PhaseSet kGradientPhases =
    phasesWith([](const PhaseTraits &traits) { return traits.addsGradient; });
/// Phases after which no activations are left: B and W.
inline constexpr PhaseSet kReleasingPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.memory.atEnd == MemoryEffect::FreeAll ||
             traits.memory.atEnd == MemoryEffect::FreeRest;
    });
/// Phases of a sharded embedding: E, A, C and V.
inline constexpr PhaseSet kEmbeddingPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.order.occurrence == Occurrence::Spread &&
             traits.order.end == PathEnd::First;
    });
/// Phases of a sharded head: S, T, X, Y and Z.
inline constexpr PhaseSet kHeadPhases = kSpreadPhases - kEmbeddingPhases;
/// Phases whose end frees all or a part of the activations: I, B and W.
inline constexpr PhaseSet kFreeingPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.memory.atEnd == MemoryEffect::FreeInputGrad ||
             traits.memory.atEnd == MemoryEffect::FreeAll ||
             traits.memory.atEnd == MemoryEffect::FreeRest;
    });
/// Phases that run on the activations that a U brings back: B, I and R.
inline constexpr PhaseSet kActivationUsers =
    phasesWith([](const PhaseTraits &traits) {
      return traits.order.uses.contains(Phase::Reload);
    });
/// F and R. The backward uses the activations of R if there is one, else of F.
inline constexpr PhaseSet kActivationMakers =
    phasesWith([](const PhaseTraits &traits) {
      return traits.memory.atStart == MemoryEffect::AllocateAll ||
             traits.memory.atStart == MemoryEffect::AllocateDropped;
    });
/// The join that holds cells until a copy has ended.
constexpr Phase joinOf(Phase copy) {
  return phasesWith([&](const PhaseTraits &traits) {
           return becomes(traits, InstructionKind::Wait) &&
                  traits.order.needs.contains(copy);
         })
      .first();
}

/// The cells of the same stage and unit that a cell waits for, as a short list:
/// first the cells that it needs, then the cells that it uses if the table has
/// them.
struct OwnEdges {
  static constexpr unsigned kMost = 6;
  uint8_t numNeeds = 0, count = 0;
  Phase phases[kMost] = {};

  constexpr void add(PhaseSet some) {
    some.forEach([&](Phase phase) { phases[count++] = phase; });
  }
  constexpr PhaseSet used() const {
    PhaseSet some;
    for (unsigned i = numNeeds; i != count; ++i)
      some |= phases[i];
    return some;
  }
};
inline constexpr PhaseMap<OwnEdges> kOwnEdges = [] {
  PhaseMap<OwnEdges> all = {};
  kAllPhases.forEach([&](Phase phase) {
    const PhaseOrder &order = traitsOf(phase).order;
    PhaseSet uses = order.uses;
    kAllPhases.forEach([&](Phase other) {
      if (traitsOf(other).order.usedBy.contains(phase))
        uses |= other;
    });
    OwnEdges &edges = all[phase];
    edges.add(order.needs);
    edges.numNeeds = edges.count;
    edges.add(uses - order.needs);
  });
  return all;
}();

/// By phase: phases that must not be before it in the row of its stage and
/// unit, namely its alternatives and the phases that use it.
inline constexpr PhaseMap<PhaseSet> kExcludedBefore = [] {
  PhaseMap<PhaseSet> excluded = {};
  kAllPhases.forEach([&](Phase phase) {
    excluded[phase] = traitsOf(phase).order.alternatives;
    kAllPhases.forEach([&](Phase other) {
      if (kOwnEdges[other].used().contains(phase))
        excluded[phase] |= other;
    });
  });
  return excluded;
}();

/// By phase: phases of the neighbouring slice, one of which must come before
/// it. An alternative that itself needs another alternative, as W needs I, does
/// not replace B; the alternative that it needs does.
inline constexpr PhaseMap<PhaseSet> kOfNeighbour = [] {
  PhaseMap<PhaseSet> all = {};
  kAllPhases.forEach([&](Phase phase) {
    PhaseSet alternatives = traitsOf(phase).order.alternatives;
    all[phase] = phase;
    alternatives.forEach([&](Phase other) {
      if (!traitsOf(other).order.needs.intersects(alternatives))
        all[phase] |= other;
    });
  });
  return all;
}();

/// By flow: the phases that take it. The phases that make it depend on the
/// gradient rule (Dependences.h).
inline constexpr std::array<PhaseSet, kNumFlows> kTakers = [] {
  std::array<PhaseSet, kNumFlows> takers = {};
  for (unsigned flow = 0; flow < kNumFlows; ++flow)
    takers[flow] = phasesWith([&](const PhaseTraits &traits) {
      return traits.flows.takes && *traits.flows.takes == Flow(flow);
    });
  return takers;
}();

/// Whether the output of a phase for other stages has the size of an
/// activation; all other outputs have the size of a gradient.
constexpr bool makesActivation(Phase phase) {
  return traitsOf(phase).flows.makes == Flow::Activation;
}

inline constexpr unsigned kMaxPhaseCode = [] {
  unsigned most = 0;
  for (const PhaseTraits &traits : kPhaseTraits)
    most = traits.code > most ? traits.code : most;
  return most;
}();

inline constexpr std::array<std::optional<Phase>, 256> kPhaseOfCode = [] {
  std::array<std::optional<Phase>, 256> phases = {};
  for (unsigned i = 0; i < kNumPhases; ++i)
    phases[kPhaseTraits[i].code] = static_cast<Phase>(i);
  return phases;
}();
/// The phase of a stored code, if it is one.
constexpr std::optional<Phase> phaseFromCode(uint64_t code) {
  return code < kPhaseOfCode.size() ? kPhaseOfCode[code] : std::nullopt;
}

/// Whether the numbers of the enum are the codes, so that cells have the same
/// bits in memory and in files.
inline constexpr bool kCodesAreNumbers = [] {
  for (unsigned i = 0; i < kNumPhases; ++i)
    if (kPhaseTraits[i].code != i)
      return false;
  return true;
}();

/// By phase: the memory effects of its cells, for loops over cells.
inline constexpr PhaseMap<PhaseMemory> kMemoryOf = [] {
  PhaseMap<PhaseMemory> memory = {};
  kAllPhases.forEach(
      [&](Phase phase) { memory[phase] = traitsOf(phase).memory; });
  return memory;
}();

/// Returns the letters of a set in the order of the enum, such as "B, I and W"
/// with " and " before the last.
std::string describePhases(PhaseSet phases, llvm::StringRef beforeLast);
/// Returns the name of a phase with its article: "an all-reduce".
std::string describePhase(Phase phase);

namespace detail {
constexpr bool haveOwnCodesAndLetters() {
  for (unsigned i = 0; i < kNumPhases; ++i)
    for (unsigned j = 0; j < i; ++j)
      if (kPhaseTraits[i].code == kPhaseTraits[j].code ||
          phaseLetter(static_cast<Phase>(i)) ==
              phaseLetter(static_cast<Phase>(j)))
        return false;
  for (const EnumName<Phase> &entry : EnumNames<Phase>::values)
    if (entry.name.size() != 1)
      return false;
  return true;
}
} // namespace detail
static_assert(
    [] {
      bool areFine = true;
      kDetachedPhases.forEach([&](Phase phase) {
        areFine &= traitsOf(phase).unitSlots == 0 &&
                   !(kOwnEdges[phase].used() | traitsOf(phase).order.needs)
                        .intersects(kDetachedPhases);
      });
      return areFine;
    }(),
    "a detached collective has no slots, and waits only for computes");
static_assert(detail::haveOwnCodesAndLetters(),
              "each phase has a separate code and letter");

/// The grouping of the cells of a phase; None for cells that are in no group.
constexpr Grouping groupingOf(Phase phase) {
  const PhaseTraits &traits = traitsOf(phase);
  return traits.instruction ? traitsOf(*traits.instruction).grouping
                            : Grouping::None;
}
/// The phases whose cells meet cells of workers that hold the same blocks: G.
inline constexpr PhaseSet kBlockPhases =
    phasesWith([](const PhaseTraits &traits) {
      return traits.instruction &&
             traitsOf(*traits.instruction).grouping == Grouping::Blocks;
    });
/// The number of a cell identifies its group: by its unit, or for blocks by its
/// path.
static_assert(
    [] {
      for (unsigned i = 0; i < kNumPhases; ++i) {
        Grouping grouping = groupingOf(static_cast<Phase>(i));
        CellNumber wanted =
            grouping == Grouping::Blocks ? CellNumber::Path : CellNumber::Unit;
        if (grouping != Grouping::None && kPhaseTraits[i].number != wanted)
          return false;
      }
      return true;
    }(),
    "the number is a microbatch for collectives of microbatches, else a path");
static_assert(
    [] {
      for (unsigned i = 0; i < kNumPhases; ++i)
        if (groupingOf(static_cast<Phase>(i)) != Grouping::None &&
            (kPhaseTraits[i].flows.takes || kPhaseTraits[i].flows.makes))
          return false;
      return true;
    }(),
    "a collective has a group, and no messages");

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

constexpr bool Cell::isCompute() const { return isIn(kComputePhases); }

/// The bits of a cell in bytecode and in generic attributes: the bits of
/// getRaw() with the code of the phase. Other processes read them.
constexpr uint64_t toStored(Cell cell) {
  if constexpr (kCodesAreNumbers)
    return cell.getRaw();
  constexpr uint64_t kBelowPhase = (uint64_t(1) << 56) - 1;
  return uint64_t(traitsOf(cell.getPhase()).code) << 56 |
         (cell.getRaw() & kBelowPhase);
}
/// The cell that has these bits, or nothing: an idle entry must have slots and
/// no stage.
inline std::optional<Cell> fromStored(uint64_t bits) {
  std::optional<Phase> phase = phaseFromCode(bits >> 56);
  if (!phase)
    return std::nullopt;
  Cell cell = Cell::fromRaw(bits).withPhase(*phase);
  if (cell.isIdle() && (cell.getIdleSlots() == 0 || cell.getStage() != 0))
    return std::nullopt;
  return cell;
}

inline int64_t unitSlots(Cell cell) {
  return cell.isIdle() ? cell.getIdleSlots()
                       : traitsOf(cell.getPhase()).unitSlots;
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_PHASESETS_H
