//===- Sliced.cpp - Schedules of slices of microbatches -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules of families without slices, applied to units: a slice is scheduled like
// a microbatch, but backwards run from the last slice of a microbatch to its
// first.
//
//===----------------------------------------------------------------------===//

#include "InterleavedRow.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {
/// The warm-up of a worker's row, and the order after it.
struct RowShape {
  int64_t warmUp;    ///< forwards before all other cells
  bool forwardFirst; ///< alternating: a forward, then a backward
  int64_t group;     ///< units that run on a chunk before the next chunk
};
} // namespace

///   F .. F  | F B F B .. or B F B F .. | B .. B
///   warm-up   in turn                    the rest
static void writeInTurn(InterleavedRow &row, RowShape shape, int64_t total) {
  int64_t warmUp = std::min(shape.warmUp, total);
  for (int64_t i = 0; i < warmUp; ++i)
    row.forward();
  for (int64_t i = warmUp; i < total; ++i) {
    if (shape.forwardFirst)
      row.forward();
    row.backward();
    if (!shape.forwardFirst)
      row.forward();
  }
  for (int64_t i = 0; i < warmUp; ++i)
    row.backward();
}

/// `shapeOf(placement, r, chunks)` returns the shape of the row of the r-th
/// worker on the path.
template <typename ShapeOf>
static Expected<Table> generateInTurn(const Placement &given,
                                      const LoopOptions &options,
                                      StringRef family, ShapeOf &&shapeOf) {
  Expected<Placement> placement = placeChunks(given, options.chunks, family);
  if (!placement)
    return placement.takeError();
  if (Error error =
          checkTableSize(*placement, family, options.splitBackward ? 3 : 2))
    return std::move(error);
  int64_t chunks = placement->getMaxStages() / placement->getNumWorkers();
  Table table = makeWholeTable(*placement);
  writeRows(table, [&](int64_t r, RowWriter &writer) {
    RowShape shape = shapeOf(*placement, r, chunks);
    InterleavedRow row(writer, r, *placement, shape.group);
    writeInTurn(row, shape, chunks * placement->getNumUnits());
  });
  return splitIfAsked(std::move(table), options);
}

/// The number of units that run on a chunk before the next chunk. It is at
/// least the number of workers, and a multiple of the slices, because the last
/// chunk runs the backward of the last slice first. Error: a last group, after
/// others, with fewer units than workers: its forwards would wait for backwards
/// of the previous group.
static Expected<int64_t> groupOfSeq1F1B(const Placement &placement) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t slices = placement.getNumSlices();
  int64_t group = llvm::alignTo(numWorkers, slices);
  auto isValid = [&](int64_t microbatches) {
    int64_t rest = microbatches * slices % group;
    return microbatches * slices <= group || rest == 0 || rest >= numWorkers;
  };
  int64_t numMicrobatches = placement.getNumMicrobatches();
  if (isValid(numMicrobatches))
    return group;
  return formatError(
      "seq1f1b with chunks on {0} workers takes {1} microbatches of {2} slices "
      "in groups of {3} slices, which leaves {4} to the last group, expected "
      "none or at least {0}; of the microbatches {5}",
      numWorkers, numMicrobatches, slices, group,
      numMicrobatches * slices % group,
      nearestOf(numMicrobatches, numMicrobatches + group, isValid));
}

Expected<Table> pipesched::generateSeq1F1B(const Placement &given,
                                           const LoopOptions &options) {
  Expected<Placement> placement = placeChunks(given, options.chunks, "seq1f1b");
  if (!placement)
    return placement.takeError();
  int64_t group = placement->getNumUnits();
  if (placement->getMaxStages() > placement->getNumWorkers()) {
    Expected<int64_t> found = groupOfSeq1F1B(*placement);
    if (!found)
      return found.takeError();
    group = *found;
  }
  return generateInTurn(
      *placement, options, "seq1f1b",
      [&](const Placement &placed, int64_t r, int64_t chunks) {
        int64_t slices = placed.getNumSlices();
        int64_t left = placed.getNumWorkers() - 1 - r;
        if (chunks == 1)
          return RowShape{left + slices, /*forwardFirst=*/false, group};
        return RowShape{(chunks - 1) * group + 2 * left + slices - 1,
                        /*forwardFirst=*/true, group};
      });
}

/// The smallest divisor of the number of slices that is at least the number of
/// workers. Error: fewer slices than workers, if there are several chunks.
static Expected<int64_t> groupOfSlimPipe(const Placement &placement,
                                         int64_t chunks) {
  int64_t slices = placement.getNumSlices();
  int64_t numWorkers = placement.getNumWorkers();
  if (chunks == 1)
    return placement.getNumUnits();
  if (slices < numWorkers)
    return formatError("slimpipe with {0} chunks on {1} workers takes at least "
                       "{1} slices of each microbatch, found {2}",
                       chunks, numWorkers, slices);
  int64_t group = numWorkers;
  while (slices % group != 0)
    ++group;
  return group;
}

Expected<Table> pipesched::generateSlimPipe(const Placement &given,
                                            const LoopOptions &options) {
  Expected<Placement> placement =
      placeChunks(given, options.chunks, "slimpipe");
  if (!placement)
    return placement.takeError();
  Expected<int64_t> group = groupOfSlimPipe(
      *placement, placement->getMaxStages() / placement->getNumWorkers());
  if (!group)
    return group.takeError();
  return generateInTurn(
      *placement, options, "slimpipe",
      [&](const Placement &placed, int64_t r, int64_t chunks) {
        return RowShape{placed.getNumSlices() * chunks +
                            2 * (placed.getNumWorkers() - 1 - r),
                        /*forwardFirst=*/false, *group};
      });
}

Expected<Table> pipesched::generateTeraPipe(const Placement &placement,
                                            const GeneratorOptions &options) {
  if (Error error = checkOneStagePerWorker(placement, "terapipe"))
    return std::move(error);
  LoopOptions loop;
  static_cast<GeneratorOptions &>(loop) = options;
  return generateInTurn(placement, loop, "terapipe",
                        [](const Placement &placed, int64_t, int64_t) {
                          return RowShape{placed.getNumUnits(),
                                          /*forwardFirst=*/false,
                                          placed.getNumUnits()};
                        });
}
