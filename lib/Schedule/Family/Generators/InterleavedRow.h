//===- InterleavedRow.h - A row whose chunks alternate ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which groups of units run on the chunks of a worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_INTERLEAVEDROW_H
#define PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_INTERLEAVEDROW_H

#include "Support.h"
#include <algorithm>

namespace pipesched {

/// The pairs (chunk, unit) of one worker in the order of forwards;
/// backwards have the chunks reversed. With groups of 2 and N = 5:
///
///   chunk 0: 0 1, chunk 1: 0 1 | chunk 0: 2 3, chunk 1: 2 3 | 0: 4, 1: 4
class GroupWalk {
public:
  GroupWalk(int64_t chunks, int64_t group, int64_t numUnits)
      : chunks(chunks), group(group), numUnits(numUnits),
        groupEnd(std::min(group, numUnits)) {}

  int64_t chunk = 0, unit = 0;

  void advance() {
    if (++unit < groupEnd)
      return;
    if (++chunk < chunks) {
      unit = groupBegin;
      return;
    }
    chunk = 0;
    unit = groupBegin = groupEnd;
    groupEnd = std::min(groupEnd + group, numUnits);
  }

private:
  int64_t chunks, group, numUnits;
  int64_t groupBegin = 0, groupEnd;
};

/// Writes the row of the r-th worker of the path.
class InterleavedRow {
public:
  InterleavedRow(RowWriter &row, int64_t r, const Placement &placement,
                 int64_t group)
      : row(row), placement(placement), r(r),
        numWorkers(placement.getNumWorkers()),
        chunks(placement.getMaxStages() / numWorkers),
        forwards(chunks, group, placement.getNumUnits()), backwards(forwards),
        weights(forwards) {}

  void forward() {
    row.forward(forwards.chunk * numWorkers + r, forwards.unit);
    forwards.advance();
  }
  void backward() {
    row.backward(backwardStage(backwards),
                 backwardUnit(placement, backwards.unit));
    backwards.advance();
  }
  void forwardAndBackward() {
    forward();
    row.overlapNext();
    backward();
  }
  void inputGrad() {
    row.inputGrad(backwardStage(backwards),
                  backwardUnit(placement, backwards.unit));
    backwards.advance();
  }
  void weightGrad() {
    row.weightGrad(backwardStage(weights),
                   backwardUnit(placement, weights.unit));
    weights.advance();
  }

private:
  int64_t backwardStage(const GroupWalk &walk) const {
    return (chunks - 1 - walk.chunk) * numWorkers + r;
  }

  RowWriter &row;
  const Placement &placement;
  int64_t r, numWorkers, chunks;
  GroupWalk forwards, backwards, weights;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_INTERLEAVEDROW_H
