//===- TwoChunkRow.h - A row of a worker with two stages --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the cells of two chunks by count, because the rules of zb-v, dualpipe
// and dualpipe-v say "the next forward of chunk 1".
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_TWOCHUNKROW_H
#define PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_TWOCHUNKROW_H

#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/ADT/STLExtras.h"

namespace pipesched {

/// A chunk is a stage with the units [`begin`, `end`) that run on it. Each
/// phase of a chunk runs in the order of units, but backwards run the slices of
/// a microbatch in reverse. Cells past `end` are not written. The row must have
/// its final length.
class TwoChunkRow {
public:
  struct Chunk {
    int64_t stage, begin, end;
  };
  /// The next cell of that phase of chunk 0 or 1.
  struct Step {
    Phase phase;
    int chunk;
  };

  TwoChunkRow(Row &row, Chunk first, Chunk second, int64_t numSlices = 1)
      : next(row.data()), nextWeight(row.data()), rowEnd(next + row.size()),
        lastSlice(numSlices - 1), counts{Counts(first), Counts(second)} {}

  void forward(int chunk) { run({Phase::Forward, chunk}); }
  void backward(int chunk) { run({Phase::Backward, chunk}); }
  void inputGrad(int chunk) { run({Phase::InputGrad, chunk}); }
  void forwardAndBackward(int forwardChunk, int backwardChunk) {
    forward(forwardChunk);
    next[-1] = next[-1].withOverlap(true);
    backward(backwardChunk);
  }
  /// Writes the W of the first I in the row that has no W yet. Must not be
  /// mixed with steps that are W.
  void oldestWeightGrad() {
    while (!nextWeight->is(Phase::InputGrad))
      ++nextWeight;
    *next++ = (nextWeight++)->withPhase(Phase::WeightGrad);
  }
  /// Runs all steps `times` times. Linear in the cells written.
  void repeat(int64_t times, llvm::ArrayRef<Step> steps) {
    for (; times > 0 && llvm::any_of(steps,
                                     [&](Step step) {
                                       return counterOf(step) <
                                              counts[step.chunk].end;
                                     });
         --times)
      for (Step step : steps)
        run(step);
    for (Step step : steps)
      counterOf(step) += times;
  }
  bool isFull() const { return next == rowEnd; }

private:
  struct Counts : Chunk {
    explicit Counts(Chunk chunk)
        : Chunk(chunk), forwards(begin), gradients(begin), weights(begin) {}
    int64_t forwards, gradients, weights;
  };

  int64_t &counterOf(Step step) {
    Counts &chunk = counts[step.chunk];
    if (step.phase == Phase::Forward)
      return chunk.forwards;
    return step.phase == Phase::WeightGrad ? chunk.weights : chunk.gradients;
  }
  void run(Step step) {
    int64_t unit = counterOf(step)++;
    if (unit >= counts[step.chunk].end)
      return;
    if (step.phase != Phase::Forward && lastSlice != 0)
      unit += lastSlice - 2 * (unit % (lastSlice + 1));
    *next++ = Cell(counts[step.chunk].stage, step.phase, unit);
  }

  Cell *next, *nextWeight, *rowEnd;
  int64_t lastSlice;
  Counts counts[2]; // NOLINT(modernize-use-default-member-init): arguments
};

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_TWOCHUNKROW_H
