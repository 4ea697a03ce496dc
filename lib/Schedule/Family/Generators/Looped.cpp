//===- Looped.cpp - Looped BFS and Shardy's circular order ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both families run all forwards of an interleaved path before the first
// backward.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// Fills each row with `writeRow(position on the path, chunks, row)`.
template <typename WriteRow>
static Expected<Table>
generateLoop(const Placement &given, const LoopOptions &options,
             llvm::StringRef family, WriteRow &&writeRow) {
  int64_t cellsPerPair = options.splitBackward ? 3 : 2;
  Expected<Placement> placement = placeChunks(given, options.chunks, family);
  if (!placement)
    return placement.takeError();
  if (Error error = checkTableSize(*placement, family, cellsPerPair))
    return std::move(error);
  Table table = makeWholeTable(*placement);
  int64_t chunks = placement->getMaxStages() / placement->getNumWorkers();
  writeRows(table,
            [&](int64_t r, RowWriter &row) { writeRow(r, chunks, row); });
  return splitIfAsked(std::move(table), options);
}

Expected<Table> pipesched::generateLoopedBFS(const Placement &placement,
                                             const LoopOptions &options) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  return generateLoop(placement, options, "looped-bfs",
                      [&](int64_t r, int64_t chunks, RowWriter &row) {
                        for (int64_t chunk = 0; chunk < chunks; ++chunk)
                          for (int64_t m = 0; m < numMicrobatches; ++m)
                            row.forward(chunk * numWorkers + r, m);
                        for (int64_t chunk = chunks; chunk-- > 0;)
                          for (int64_t m = numMicrobatches; m-- > 0;)
                            row.backward(chunk * numWorkers + r, m);
                      });
}

///   phase 0: chunk 0 .. V-1, each with microbatches 0 .. D-1;  phase 1: ..
Expected<Table> pipesched::generateMpmdCircular(const Placement &placement,
                                                const LoopOptions &options) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  return generateLoop(
      placement, options, "mpmd-circular",
      [&](int64_t r, int64_t chunks, RowWriter &row) {
        for (int64_t begin = 0; begin < numMicrobatches; begin += numWorkers) {
          int64_t end = std::min(begin + numWorkers, numMicrobatches);
          for (int64_t chunk = 0; chunk < chunks; ++chunk)
            for (int64_t m = begin; m < end; ++m)
              row.forward(chunk * numWorkers + r, m);
        }
        for (int64_t begin = 0; begin < numMicrobatches; begin += numWorkers) {
          int64_t end = std::min(begin + numWorkers, numMicrobatches);
          for (int64_t chunk = chunks; chunk-- > 0;)
            for (int64_t m = begin; m < end; ++m)
              row.backward(chunk * numWorkers + r, m);
        }
      });
}
