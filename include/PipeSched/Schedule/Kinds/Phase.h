//===- Phase.h - Phases of cells --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The phases, and the sets of phases that do not need the table of phases
// (Phases.h), for headers that only name phases.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_PHASE_H
#define PIPESCHED_SCHEDULE_KINDS_PHASE_H

#include "PipeSched/Support/EnumNames.h"
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace pipesched {

/// The phase of a cell. The numbers are dense and mean nothing outside of a
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
  Logits,            ///< the logits of a shard, if workers share the vocabulary
  LogitsGrad,        ///< the softmax and gradients of these logits
  Broadcast,         ///< the last output goes to all shards
  Combine,           ///< shards agree on the softmax
  Reduce,            ///< the gradient of the last output, summed over shards
  Lookup,            ///< the lookups in a shard of the embedding
  LookupSum,         ///< the sum of the lookups, the input of the first layer
  GradientBroadcast, ///< the gradient of that input goes to all shards
  LookupGrad ///< adds that gradient to the gradients of the shard's rows
};

/// Letters are PyTorch's if it has them; the zero-bubble papers' "B" is I.
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

/// The data that stages of a path pass to each other.
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

/// The letter of a phase in cell syntax, `_` for idle.
constexpr char phaseLetter(Phase phase) {
  return EnumNames<Phase>::values[static_cast<unsigned>(phase)].name.data()[0];
}

/// The phase of a letter, if the character is one.
constexpr std::optional<Phase> phaseFromLetter(char letter) {
  for (const EnumName<Phase> &entry : EnumNames<Phase>::values)
    if (entry.name.data()[0] == letter)
      return entry.value;
  return std::nullopt;
}

// PhaseSets.h checks these sets against the table of phases.

/// F, and R which runs it again.
inline constexpr PhaseSet kForwardPhases = {Phase::Forward, Phase::Recompute};
/// The halves of a split backward.
inline constexpr PhaseSet kSplitBackward = {Phase::InputGrad,
                                            Phase::WeightGrad};
inline constexpr PhaseSet kBackwardPhases = kSplitBackward | Phase::Backward;
/// B and I, which need the gradient of the next stage and the activations.
inline constexpr PhaseSet kBackwardStarts = {Phase::Backward, Phase::InputGrad};
/// D and U, which run on a copy queue alongside compute.
inline constexpr PhaseSet kCopyPhases = {Phase::Offload, Phase::Reload};
/// d and u, which delay the next compute cell and take no time.
inline constexpr PhaseSet kJoinPhases = {Phase::OffloadJoin, Phase::ReloadJoin};
/// O and G, whose number is a path.
inline constexpr PhaseSet kPerPathPhases = {Phase::Optimizer, Phase::AllReduce};

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_PHASE_H
