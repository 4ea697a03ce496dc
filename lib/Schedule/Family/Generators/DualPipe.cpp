//===- DualPipe.cpp - DualPipe and DualPipeV ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DualPipe (DeepSeek-AI 2025, arXiv 2412.19437, section 3.2.1) and DualPipeV,
// its "cut in half" on a V. A worker has two chunks, one of each direction or
// of each leg of the V, and overlaps the forward of one with the backward of
// the other.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include "TwoChunkRow.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// Writes the row of the worker at `position` of `length` workers, with n
/// microbatches per chunk. The steps and their repetitions, with F0+B1 for an
/// overlapped pair:
///
///   1  F0                   2(length - position - 1)
///   2  F0 F1                position + 1
///   3  I1 W F1              length - position - 1
///   4  F0+B1 F1+B0          n - 2 length + position + 1
///   5  B1 F1+B0             length - position - 1
///   6  B1 B0                position + 1, from half-way on I1 I0
///   7  W I0                 length - position - 1
///   8  W                    position + 1
///
/// The last worker runs its first pair of step 4 one after the other.
static void writeDualPipe(TwoChunkRow &row, int64_t position, int64_t length,
                          int64_t numMicrobatches) {
  int64_t before = position + 1, after = length - before;
  for (int64_t i = 0; i < 2 * after; ++i)
    row.forward(0);
  for (int64_t i = 0; i < before; ++i) {
    row.forward(0);
    row.forward(1);
  }
  for (int64_t i = 0; i < after; ++i) {
    row.inputGrad(1);
    row.oldestWeightGrad();
    row.forward(1);
  }
  for (int64_t i = 0; i < numMicrobatches - 2 * length + before; ++i) {
    if (i == 0 && after == 0) {
      row.forward(0);
      row.backward(1);
    } else {
      row.forwardAndBackward(0, 1);
    }
    row.forwardAndBackward(1, 0);
  }
  for (int64_t i = 0; i < after; ++i) {
    row.backward(1);
    row.forwardAndBackward(1, 0);
  }
  // The last position + 1 of the 2 (position + 1) backwards are split, and
  // their W run in steps 7 and 8.
  for (int64_t i = 0; i < 2 * before; ++i) {
    int chunk = i % 2 == 0 ? 1 : 0;
    if (i < before)
      row.backward(chunk);
    else
      row.inputGrad(chunk);
  }
  for (int64_t i = 0; i < after; ++i) {
    row.oldestWeightGrad();
    row.inputGrad(0);
  }
  for (int64_t i = 0; i < before; ++i)
    row.oldestWeightGrad();
}

/// Gives a row its final length: two cells per stage and microbatch, and one
/// more for each backward that is split (in steps 3, 6 and 7).
static void makeRow(Row &row, int64_t numPairs, int64_t position,
                    int64_t length) {
  int64_t splitPairs = 2 * (length - position - 1) + position + 1;
  row.resize(2 * numPairs + splitPairs);
}

static Error checkEnoughMicrobatches(int64_t numMicrobatches,
                                     int64_t numWorkers,
                                     llvm::StringRef family) {
  if (numMicrobatches >= 2 * numWorkers)
    return Error::success();
  return formatError("{0} takes at least two microbatches per worker, found "
                     "{1} on {2} workers; the nearest is {3}",
                     family, numMicrobatches, numWorkers, 2 * numWorkers);
}

Expected<Table> pipesched::generateDualPipeV(const Placement &given,
                                             const GeneratorOptions &options) {
  int64_t numWorkers = given.getNumWorkers();
  int64_t numMicrobatches = given.getNumMicrobatches();
  Expected<Placement> placement = placeVPath(given, "dualpipe-v");
  if (!placement)
    return placement.takeError();
  if (Error error =
          checkEnoughMicrobatches(numMicrobatches, numWorkers, "dualpipe-v"))
    return std::move(error);
  if (Error error = checkGradientAfterInput(options, "dualpipe-v"))
    return std::move(error);
  if (Error error = checkTableSize(*placement, "dualpipe-v", 3))
    return std::move(error);
  Table table = makeEmptyTable(*placement, GradientAfter::InputGrad, 0);
  for (int64_t r = 0; r < numWorkers; ++r) {
    Row &cells = table.rows[placement->workerOf(r)];
    makeRow(cells, 2 * numMicrobatches, r, numWorkers);
    TwoChunkRow row(cells, {r, 0, numMicrobatches},
                    {2 * numWorkers - 1 - r, 0, numMicrobatches});
    writeDualPipe(row, r, numWorkers, numMicrobatches);
    assert(row.isFull() && "a row is not complete");
  }
  return table;
}

static Error checkMirroredPair(const Placement &placement) {
  if (placement.getNumPaths() != 2 && !isPlainLinear(placement))
    return formatError("dualpipe takes two mirrored paths, found {0}",
                       placement.getNumPaths());
  int64_t numWorkers = placement.getNumWorkers();
  if (numWorkers % 2 != 0)
    return formatError(
        "dualpipe takes an even number of workers, found {0}; {1}", numWorkers,
        nearestOf(numWorkers, kMaxWorkers,
                  [](int64_t workers) { return workers % 2 == 0; }));
  if (isPlainLinear(placement))
    return Error::success();
  return readPairs(placement, "dualpipe").takeError();
}

static Error checkEvenMicrobatches(int64_t numMicrobatches) {
  if (numMicrobatches % 2 == 0)
    return Error::success();
  return formatError("dualpipe takes an even number of microbatches, half of "
                     "them for each direction, found {0}; the nearest are {1} "
                     "and {2}",
                     numMicrobatches, numMicrobatches - 1, numMicrobatches + 1);
}

/// The paths, or a mirrored pair in place of 0..D-1, with the first half of the
/// microbatches on the first path.
static Expected<Placement> placeHalves(const Placement &placement) {
  int64_t numMicrobatches = placement.getNumMicrobatches();
  if (!isPlainLinear(placement))
    return placement.withTakes({{{0, numMicrobatches / 2, 1}},
                                {{numMicrobatches / 2, numMicrobatches, 1}}});
  Expected<std::vector<Path>> paths =
      placeBidirectional(placement.getNumWorkers(), numMicrobatches,
                         /*pairs=*/1, Assign::Halves);
  if (!paths)
    return paths.takeError();
  return replacePaths(placement, std::move(*paths));
}

/// Worker r < D/2 has the downward path as chunk 0; its mirror D-1-r runs the
/// same row with the paths swapped.
Expected<Table> pipesched::generateDualPipe(const Placement &placement,
                                            const GeneratorOptions &options) {
  int64_t numWorkers = placement.getNumWorkers();
  if (Error error = checkMirroredPair(placement))
    return std::move(error);
  int64_t numMicrobatches = placement.getNumMicrobatches();
  if (Error error =
          checkEnoughMicrobatches(numMicrobatches, numWorkers, "dualpipe"))
    return std::move(error);
  if (Error error = checkEvenMicrobatches(numMicrobatches))
    return std::move(error);
  if (Error error = checkGradientAfterInput(options, "dualpipe"))
    return std::move(error);
  int64_t half = numMicrobatches / 2;
  Expected<Placement> halves = placeHalves(placement);
  if (!halves)
    return halves.takeError();
  if (Error error = checkTableSize(*halves, "dualpipe", 3))
    return std::move(error);
  Table table = makeEmptyTable(*halves, GradientAfter::InputGrad, 0);
  for (int64_t r = 0; r < numWorkers; ++r) {
    int64_t position = std::min(r, numWorkers - 1 - r);
    TwoChunkRow::Chunk down{r, 0, half};
    TwoChunkRow::Chunk up{numWorkers - 1 - r, half, 2 * half};
    Row &cells = table.rows[halves->workerOf(r)];
    makeRow(cells, 2 * half, position, numWorkers / 2);
    TwoChunkRow row(cells, position == r ? down : up,
                    position == r ? up : down);
    writeDualPipe(row, position, numWorkers / 2, half);
    assert(row.isFull() && "a row is not complete");
  }
  return table;
}
