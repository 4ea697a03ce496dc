//===- Cell.h - One entry of a schedule table ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cell is a phase of a microbatch on a stage, written
// <stage><phase><microbatch> (2F0). It packs into 8 bytes, so that a row is a
// flat array.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_CELL_H
#define PIPESCHED_SCHEDULE_CELL_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <cassert>
#include <cstdint>
#include <optional>
#include <string>

namespace pipesched {

/// What a cell does. Letters are PyTorch's where it has them; the zero-bubble
/// papers' "B" is `InputGrad` here. The values are part of the bytecode format.
enum class Phase : uint8_t {
  Forward = 0,    ///< F
  Backward = 1,   ///< B, input and weight gradient in one
  InputGrad = 2,  ///< I
  WeightGrad = 3, ///< W
  Recompute = 4,  ///< R, runs the forward again for the activations
  Offload = 5,    ///< D, activations from device to host
  Reload = 6,     ///< U, activations from host to device
  Optimizer = 7,  ///< O, optimizer step; the number is the path
  AllReduce = 8, ///< G, gradient all-reduce of replicas; the number is the path
  OffloadJoin = 9, ///< d, the next compute cell or U waits for that D
  ReloadJoin = 10, ///< u, the next compute cell or U waits for that U
  Idle = 11,       ///< _, idle slots; the number counts them
};

/// Phases that have a cost: F, B, I, W, R, D, U, O, G.
inline constexpr unsigned kNumPhases = 9;
inline constexpr unsigned kNumPhaseCodes = 12;

/// The letter of a phase in cell syntax, `_` for idle.
inline char phaseLetter(Phase phase) {
  return "FBIWRDUOGdu_"[static_cast<unsigned>(phase)];
}

/// The phase of a letter, if the character is one.
inline std::optional<Phase> phaseFromLetter(char letter) {
  for (unsigned code = 0; code < kNumPhaseCodes; ++code)
    if (phaseLetter(static_cast<Phase>(code)) == letter)
      return static_cast<Phase>(code);
  return std::nullopt;
}

/// One entry of a row:
///
///   bit 63..56  55..32   31             30..0
///       phase   stage    overlaps next  microbatch, path (O, G) or slots (_)
///
/// `a+b`, two overlapped cells, are neighbours in the row, and the first has
/// the overlap bit.
class Cell {
public:
  static constexpr int64_t kMaxStages = int64_t(1) << 24;
  static constexpr int64_t kMaxMicrobatches = (int64_t(1) << 31) - 1;

  constexpr Cell() = default;
  constexpr Cell(int64_t stage, Phase phase, int64_t microbatch,
                 bool overlapsNext = false)
      : bits(static_cast<uint64_t>(phase) << 56 |
             static_cast<uint64_t>(stage) << 32 |
             static_cast<uint64_t>(overlapsNext) << 31 |
             static_cast<uint64_t>(microbatch)) {
    assert(stage >= 0 && stage < kMaxStages && "stage out of the cell's range");
    assert(microbatch >= 0 && microbatch <= kMaxMicrobatches &&
           "microbatch out of the cell's range");
  }

  static constexpr Cell idle(int64_t slots) {
    return Cell(0, Phase::Idle, slots);
  }
  /// The inverse of getRaw(); `raw` must hold a phase code (see isValidRaw).
  static constexpr Cell fromRaw(uint64_t raw) {
    Cell cell;
    cell.bits = raw;
    return cell;
  }
  static constexpr bool isValidRaw(uint64_t raw) {
    return (raw >> 56) < kNumPhaseCodes;
  }

  constexpr uint64_t getRaw() const { return bits; }
  constexpr Phase getPhase() const { return static_cast<Phase>(bits >> 56); }
  constexpr int64_t getStage() const { return bits >> 32 & 0xffffff; }
  constexpr int64_t getMicrobatch() const { return bits & 0x7fffffff; }
  constexpr int64_t getIdleSlots() const { return getMicrobatch(); }
  constexpr bool overlapsNext() const { return bits >> 31 & 1; }
  constexpr Cell withOverlap(bool overlaps) const {
    return fromRaw((bits & ~(uint64_t(1) << 31)) | uint64_t(overlaps) << 31);
  }
  constexpr Cell withPhase(Phase phase) const {
    return fromRaw((bits & ~(uint64_t(0xff) << 56)) |
                   static_cast<uint64_t>(phase) << 56);
  }

  constexpr bool is(Phase phase) const { return getPhase() == phase; }
  constexpr bool isIdle() const { return is(Phase::Idle); }
  /// D and U run on a copy queue, beside compute.
  constexpr bool isCopy() const {
    return is(Phase::Offload) || is(Phase::Reload);
  }
  /// d and u delay the next compute cell and take no time.
  constexpr bool isJoin() const {
    return is(Phase::OffloadJoin) || is(Phase::ReloadJoin);
  }
  /// The number of O and G is a path, not a microbatch.
  constexpr bool isPerPath() const {
    return is(Phase::Optimizer) || is(Phase::AllReduce);
  }
  /// Cells that occupy the compute queue: F, B, I, W, R, O (and G, for its
  /// slot).
  constexpr bool isCompute() const {
    return getPhase() <= Phase::Recompute || isPerPath();
  }

  friend constexpr bool operator==(Cell a, Cell b) { return a.bits == b.bits; }
  friend constexpr bool operator!=(Cell a, Cell b) { return a.bits != b.bits; }

  /// `2F0`, `_`, `_12`; the overlap bit is not part of the name.
  void print(llvm::raw_ostream &os) const;
  std::string str() const;

private:
  uint64_t bits = 0;
};

static_assert(sizeof(Cell) == 8, "rows are flat arrays of 8-byte cells");

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Cell cell) {
  cell.print(os);
  return os;
}

/// Unit slots of a phase: F, I, W, R, O, G one, B two, copies and joins none.
/// Idle entries count their own.
inline int64_t unitSlots(Cell cell) {
  if (cell.isIdle())
    return cell.getIdleSlots();
  constexpr uint8_t kSlots[kNumPhaseCodes] = {1, 2, 1, 1, 1, 0,
                                              0, 1, 1, 0, 0, 0};
  return kSlots[static_cast<unsigned>(cell.getPhase())];
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_CELL_H
