//===- GPipe.cpp - All forwards, then all backwards -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPipe: one stage per worker, forwards and backwards in microbatch order.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

Expected<Table> pipesched::generateGPipe(const Placement &placement,
                                         const GeneratorOptions &options) {
  int64_t cellsPerPair = options.splitBackward ? 3 : 2;
  if (Error error = checkOneStagePerWorker(placement, "gpipe"))
    return std::move(error);
  if (Error error = checkTableSize(placement, "gpipe", cellsPerPair))
    return std::move(error);
  Table table = makeWholeTable(placement);
  int64_t numMicrobatches = placement.getNumMicrobatches();
  writeRows(table, [&](int64_t stage, RowWriter &row) {
    for (int64_t m = 0; m < numMicrobatches; ++m)
      row.forward(stage, m);
    for (int64_t m = 0; m < numMicrobatches; ++m)
      row.backward(stage, m);
  });
  return splitIfAsked(std::move(table), options);
}
