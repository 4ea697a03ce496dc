//===- OneFOneB.cpp - 1F1B and eager 1F1B ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both families run a warm-up of forwards, then alternately one backward and
// one forward; they differ in the length of the warm-up.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

///   stage r:  F0 .. F(w-1) | B0 Fw  B1 F(w+1) .. | .. B(N-1)
///             warm-up of w   in turn               no forward left
static void writeOneFOneB(RowWriter &row, int64_t stage, int64_t warmUp,
                          int64_t numMicrobatches) {
  for (int64_t m = 0; m < warmUp; ++m)
    row.forward(stage, m);
  for (int64_t m = 0; m < numMicrobatches - warmUp; ++m) {
    row.backward(stage, m);
    row.forward(stage, m + warmUp);
  }
  for (int64_t m = numMicrobatches - warmUp; m < numMicrobatches; ++m)
    row.backward(stage, m);
}

/// The warm-up of a stage is `warmUpOf(number of stages from it to the last)`.
template <typename WarmUpOf>
static Expected<Table>
generateOneFOneB(const Placement &placement, const GeneratorOptions &options,
                 llvm::StringRef family, WarmUpOf &&warmUpOf) {
  int64_t cellsPerPair = options.splitBackward ? 3 : 2;
  if (Error error = checkOneStagePerWorker(placement, family))
    return std::move(error);
  if (Error error = checkTableSize(placement, family, cellsPerPair))
    return std::move(error);
  Table table = makeWholeTable(placement);
  int64_t numMicrobatches = placement.getNumMicrobatches();
  int64_t numStages = placement.getMaxStages();
  writeRows(table, [&](int64_t stage, RowWriter &row) {
    int64_t warmUp = std::min(numMicrobatches, warmUpOf(numStages - stage));
    writeOneFOneB(row, stage, warmUp, numMicrobatches);
  });
  return splitIfAsked(std::move(table), options);
}

Expected<Table> pipesched::generate1F1B(const Placement &placement,
                                        const GeneratorOptions &options) {
  return generateOneFOneB(placement, options, "1f1b",
                          [](int64_t stagesLeft) { return stagesLeft; });
}

Expected<Table> pipesched::generateEager1F1B(const Placement &placement,
                                             const GeneratorOptions &options) {
  return generateOneFOneB(
      placement, options, "eager-1f1b",
      [](int64_t stagesLeft) { return 2 * stagesLeft - 1; });
}
