//===- Cell.h - One entry of a schedule table ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cell is a phase of a unit on a stage, written <stage><phase><unit> (2F0, in
// a table with slices 2F0.1).
// It packs into 8 bytes, so that a row is a flat array.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_CELL_H
#define PIPESCHED_SCHEDULE_KINDS_CELL_H

#include "PipeSched/Schedule/Kinds/Phase.h"
#include "llvm/Support/raw_ostream.h"

namespace pipesched {

/// One entry of a row:
///
///   bit 63..56  55..32   31             30..0
///       phase   stage    overlaps next  number: see CellNumber
///
/// This layout is only for memory; files have the bits of toStored. `a+b`, two
/// overlapped cells, are neighbours in the row, and the first has the overlap
/// bit.
class Cell {
public:
  static constexpr int64_t kMaxStages = int64_t(1) << 24;
  static constexpr int64_t kMaxMicrobatches = (int64_t(1) << 31) - 1;

  constexpr Cell() = default;
  constexpr Cell(int64_t stage, Phase phase, int64_t number,
                 bool overlapsNext = false)
      : bits(static_cast<uint64_t>(phase) << 56 |
             static_cast<uint64_t>(stage) << 32 |
             static_cast<uint64_t>(overlapsNext) << 31 |
             static_cast<uint64_t>(number)) {
    assert(stage >= 0 && stage < kMaxStages && "stage out of the cell's range");
    assert(number >= 0 && number <= kMaxMicrobatches &&
           "number out of the cell's range");
  }

  static constexpr Cell idle(int64_t slots) {
    return Cell(0, Phase::Idle, slots);
  }
  /// The inverse of getRaw().
  static constexpr Cell fromRaw(uint64_t raw) {
    Cell cell;
    cell.bits = raw;
    return cell;
  }

  constexpr uint64_t getRaw() const { return bits; }
  constexpr Phase getPhase() const { return static_cast<Phase>(bits >> 56); }
  constexpr int64_t getStage() const { return bits >> 32 & 0xffffff; }
  /// The CellNumber of the phase defines its meaning.
  constexpr int64_t getNumber() const { return bits & 0x7fffffff; }
  /// The number of a cell of a unit: microbatch x slices + slice.
  /// Placement::microbatchOf and sliceOf split it.
  constexpr int64_t getUnit() const { return getNumber(); }
  /// The number of O and G.
  constexpr int64_t getPath() const { return getNumber(); }
  constexpr int64_t getIdleSlots() const { return getNumber(); }
  constexpr bool overlapsNext() const { return bits >> 31 & 1; }
  constexpr Cell withOverlap(bool overlaps) const {
    return fromRaw((bits & ~(uint64_t(1) << 31)) | uint64_t(overlaps) << 31);
  }
  constexpr Cell withPhase(Phase phase) const {
    return fromRaw((bits & ~(uint64_t(0xff) << 56)) |
                   static_cast<uint64_t>(phase) << 56);
  }

  constexpr bool is(Phase phase) const { return getPhase() == phase; }
  constexpr bool isIn(PhaseSet phases) const {
    return phases.contains(getPhase());
  }
  constexpr bool isIdle() const { return is(Phase::Idle); }
  constexpr bool isCopy() const { return isIn(kCopyPhases); }
  constexpr bool isJoin() const { return isIn(kJoinPhases); }
  constexpr bool isPerPath() const { return isIn(kPerPathPhases); }
  /// Needs PhaseSets.h.
  constexpr bool isCompute() const;

  friend constexpr bool operator==(Cell a, Cell b) { return a.bits == b.bits; }
  friend constexpr bool operator!=(Cell a, Cell b) { return a.bits != b.bits; }

  /// Prints `2F0`, `_` or `_12`, without the overlap bit.
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

/// A cell of a table whose microbatches have this many slices, as text: `2F3.1`
/// is slice 1 of microbatch 3; without slices the cell is `2F3`.
struct CellName {
  Cell cell;
  int64_t numSlices = 1;

  bool hasSlice() const;
  std::string str() const;
};
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, CellName name);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_CELL_H
