//===- PhasePlaces.h - Where cells of a phase stand -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the rows of the table of phases (Phases.h) say of how many cells a phase
// has, and of what.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_PHASEPLACES_H
#define PIPESCHED_SCHEDULE_KINDS_PHASEPLACES_H

#include <cstdint>

namespace pipesched {

/// What the number behind the letter of a cell counts.
enum class CellNumber : uint8_t {
  Unit,  ///< microbatches, in a table with slices their slices
  Path,  ///< paths: the cell concerns a stage as a whole
  Slots, ///< slots that the cell takes
};

/// How often a stage, or a worker, runs a phase for a unit of its path.
enum class Occurrence : uint8_t {
  Once,        ///< exactly once
  Alternative, ///< once one phase of all that have this value
  Optional,    ///< at most once
  /// Nowhere, or once on each worker of the path, by any of its stages there.
  /// What the phase computes is spread over the workers, and each has a shard
  /// of it, as of a vocabulary (arXiv 2411.05288).
  Spread,
  AnyNumber
};

/// The order of the slices of a microbatch on a stage: a forward reads keys and
/// values of the slices before it, and a backward adds to their gradients
/// (Seq1F1B, arXiv 2406.03488).
enum class SliceOrder : uint8_t {
  Any,
  Ascending, ///< each slice after the one before it
  Descending ///< each slice after the one behind it
};

/// The stage of a path from which shards take, and to which they give.
enum class PathEnd : uint8_t { First, Last };

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_PHASEPLACES_H
