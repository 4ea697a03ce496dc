//===- ZeroBubbleV.cpp - ZB-V in PyTorch's order --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The handcrafted V schedule of Qi et al. 2024b (arXiv 2405.15362, section
// 4.3), in the order of PyTorch's ScheduleZBVZeroBubble. Their "B" is I here.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include "TwoChunkRow.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// Writes the order for at least 2D-2+k units of microbatches with k slices;
/// cells of units that do not exist are left out. The first I waits for the
/// forwards of k slices, so both chunks run k-1 more forwards before it.
static void writeZBV(TwoChunkRow &row, int64_t position, int64_t numWorkers,
                     int64_t numUnits, int64_t numSlices) {
  using Step = TwoChunkRow::Step;
  constexpr Step f0{Phase::Forward, 0}, f1{Phase::Forward, 1};
  constexpr Step i0{Phase::InputGrad, 0}, i1{Phase::InputGrad, 1};
  constexpr Step w0{Phase::WeightGrad, 0}, w1{Phase::WeightGrad, 1};
  int64_t toTurn = numWorkers - position, more = numSlices - 1;
  // Before the steady state: 2D-1-r forwards of chunk 0 and D of chunk 1.
  row.repeat(2 * toTurn - 1, {f0});
  row.repeat(position + more, {f1, f0});
  row.repeat(toTurn, {f1, i1, w1});
  row.repeat(numUnits - 2 * numWorkers + 1 + position - more,
             {f0, i0, w0, f1, i1, w1});
  row.repeat(toTurn - 1, {i0, w0, f1, i1, w1});
  row.repeat(more, {i0, w0, i1, w1});
  row.repeat(position, {i0, i1});
  row.repeat(toTurn, {i0, w0});
  row.repeat(position, {w1});
  row.repeat(position, {w0});
}

Expected<Table> pipesched::generateZBV(const Placement &given,
                                       const GeneratorOptions &options) {
  Expected<Placement> placement = placeVPath(given, "zb-v");
  if (!placement)
    return placement.takeError();
  if (Error error = checkGradientAfterInput(options, "zb-v"))
    return std::move(error);
  if (Error error = checkTableSize(*placement, "zb-v", 3))
    return std::move(error);
  Table table = makeEmptyTable(*placement, GradientAfter::InputGrad, 3);
  int64_t numWorkers = placement->getNumWorkers();
  int64_t numUnits = placement->getNumUnits();
  int64_t numSlices = placement->getNumSlices();
  for (int64_t r = 0; r < numWorkers; ++r) {
    TwoChunkRow row(table.rows[placement->workerOf(r)], {r, 0, numUnits},
                    {2 * numWorkers - 1 - r, 0, numUnits}, numSlices);
    writeZBV(row, r, numWorkers,
             std::max(numUnits, 2 * numWorkers - 2 + numSlices), numSlices);
    assert(row.isFull() && "a row is not complete");
  }
  return table;
}
