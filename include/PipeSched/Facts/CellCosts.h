//===- CellCosts.h - Costs of cells as lists of segments --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cell is a short list of segments, each with the resource that it needs and
// the time that it takes there. All times are picoseconds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_CELLCOSTS_H
#define PIPESCHED_FACTS_CELLCOSTS_H

#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// The resource of a segment: the kernels of a worker, or one of its transfers.
enum class Resource : uint8_t {
  Compute,
  Experts,
  Sharding,
  Context,
  Replicas,
  Copy
};

template <>
struct EnumNames<Resource> {
  static constexpr EnumName<Resource> values[] = {
      {Resource::Compute, "compute", "Kernels of the accelerators"},
      {Resource::Experts, "experts", "Rows on their way to experts and back"},
      {Resource::Sharding, "sharding",
       "Weights and gradients that peers divide among them"},
      {Resource::Context, "context",
       "Keys, values and their gradients, of ranks that divide a sequence"},
      {Resource::Replicas, "replicas",
       "Sums of gradients among workers that hold the same blocks"},
      {Resource::Copy, "copy", "Activations on their way to the host or back"}};
};

template <typename T>
struct ResourceMap : std::array<T, kNumEnumValues<Resource>> {
  T &operator[](Resource resource) {
    return this->data()[static_cast<unsigned>(resource)];
  }
  const T &operator[](Resource resource) const {
    return this->data()[static_cast<unsigned>(resource)];
  }
};

/// Returns the resource of a cell with one segment.
Resource resourceOf(Phase phase);

/// A part of a cell. No number is negative.
struct Segment {
  Resource resource = Resource::Compute;
  int64_t ps = 0; ///< the time that it adds to the cell
  /// Additional time in which the resource is busy, but overlaps with the rest
  /// of the cell.
  int64_t hiddenPs = 0;
  /// Bytes that all accelerators of the worker send; 0 if no cost model states
  /// them.
  int64_t bytes = 0;

  friend bool operator==(const Segment &a, const Segment &b) {
    return a.resource == b.resource && a.ps == b.ps &&
           a.hiddenPs == b.hiddenPs && a.bytes == b.bytes;
  }
};

/// The time for which a resource is busy, the part of it for which cells wait,
/// and the bytes that are sent.
struct Exchange {
  int64_t ps = 0, exposedPs = 0, bytes = 0;

  /// Adds another exchange `count` times. Returns false if a sum exceeds int64.
  [[nodiscard]] bool add(const Exchange &other, int64_t count);
  friend bool operator==(const Exchange &a, const Exchange &b) {
    return a.ps == b.ps && a.exposedPs == b.exposedPs && a.bytes == b.bytes;
  }
};

Exchange sumOn(Resource resource, llvm::ArrayRef<Segment> segments);

/// The costs of the cells of one stage, by slice and phase. If microbatches
/// differ, every unit is a slice here. The segments of a cell run one after the
/// other, so that by itself it takes the sum of their `ps`.
class CellCosts {
public:
  /// Creates costs of 0 for all cells. With one slice, all slices of a
  /// microbatch have equal costs.
  explicit CellCosts(int64_t numSlices = 1)
      : alone(numSlices), begins(numSlices * kNumPhases + 1) {}

  int64_t getNumSlices() const { return alone.size(); }
  /// The slice whose costs a cell has: 0 if all slices cost the same, and for
  /// cells that are not of a microbatch.
  int64_t sliceOf(Cell cell) const {
    return getNumSlices() == 1 || cell.isPerPath()
               ? 0
               : cell.getUnit() % getNumSlices();
  }

  /// Returns the time of a cell by itself.
  int64_t alonePs(Phase phase, int64_t slice = 0) const {
    return alone[slice][phase];
  }
  /// The segments of a cell, in order.
  llvm::ArrayRef<Segment> segmentsOf(Phase phase, int64_t slice = 0) const {
    size_t cell = numberOf(phase, slice);
    return llvm::ArrayRef(segments).slice(begins[cell],
                                          begins[cell + 1] - begins[cell]);
  }
  llvm::ArrayRef<Segment> all() const { return segments; }
  /// Returns the sum over the segments of a cell on one resource.
  Exchange on(Resource resource, Phase phase, int64_t slice = 0) const {
    return sumOn(resource, segmentsOf(phase, slice));
  }

  /// Sets a cell to one segment of `ps`.
  void set(Phase phase, int64_t ps, int64_t slice = 0);
  /// Sets the segments of a cell; empty ones are dropped. Errors: a number
  /// below 0; a sum of times or bytes over int64.
  llvm::Error setSegments(Phase phase, llvm::ArrayRef<Segment> list,
                          int64_t slice = 0);
  /// Turns a part of the compute of a cell into the segment `part`. The time of
  /// the cell does not change: at most all of the compute becomes the other
  /// segment. Errors: as for setSegments.
  llvm::Error splitOff(Phase phase, Segment part, int64_t slice = 0);
  /// Adds all slices of another stage after the own ones.
  void append(const CellCosts &other);

private:
  static size_t numberOf(Phase phase, int64_t slice) {
    return slice * kNumPhases + static_cast<size_t>(phase);
  }
  void replace(Phase phase, int64_t slice, llvm::ArrayRef<Segment> list,
               int64_t ps);

  llvm::SmallVector<PhaseMap<int64_t>, 1> alone; ///< by slice
  /// By index of the cell: its first segment; and the end.
  llvm::SmallVector<uint32_t, kNumPhases + 1> begins;
  llvm::SmallVector<Segment, kNumPhases> segments;
};

} // namespace pipesched

#endif // PIPESCHED_FACTS_CELLCOSTS_H
