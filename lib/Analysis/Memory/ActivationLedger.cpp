//===- ActivationLedger.cpp - Bytes of each activation --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries are dense over (path, stage, microbatch on the path).
//
//===----------------------------------------------------------------------===//

#include "ActivationLedger.h"

using namespace pipesched;

llvm::Error ActivationLedger::read(llvm::ArrayRef<Cell> cells) {
  auto isMoved = [](Cell cell) {
    return cell.is(Phase::Recompute) || cell.isCopy();
  };
  if (llvm::none_of(cells, isMoved))
    return llvm::Error::success();
  // A complete table has a cell for each entry. A sparse program may have up to
  // 2^20 entries, or 64 per task; this limits the array to a multiple of the
  // program's size.
  constexpr std::size_t minLimit = std::size_t(1) << 20;
  std::size_t numPairs = placement.getNumPairs();
  if (numPairs > std::max(minLimit, cells.size() * 64))
    return llvm::createStringError(
        "memory of recomputed or offloaded activations needs microbatches that "
        "are in use: there are %zu tasks for %zu pairs of stage and microbatch",
        cells.size(), numPairs);
  entries.assign(numPairs, HeldActivation());
  for (Cell cell : cells)
    if (cell.is(Phase::Recompute))
      at(cell).isRecomputed = true;
  return llvm::Error::success();
}

void ActivationLedger::readRows(llvm::ArrayRef<Cell> cells) {
  if (entries.empty() || placement.getNumSlices() == 1)
    return;
  LeavingKeys keys;
  keys.init(placement);
  for (Cell cell : cells)
    keys.visit(cell);
  for (Cell cell : cells)
    if (cell.is(Phase::Offload))
      at(cell).leavesKeys = keys.leaves(placement.pairOf(cell));
}
