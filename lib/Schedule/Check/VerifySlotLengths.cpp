//===- VerifySlotLengths.cpp - Checks of slot lengths ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sweeps once over the cells. After this check code that counts slots cannot
// find a cell without a length, and cannot overflow.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Check/Verify.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::formatv;

static Violation describeUnknown(CellName cell, CellRef at) {
  bool isHalf = cell.cell.isIn(kSplitBackward);
  return {at,
          formatv("cell {0} ({1}) takes no number of slots: {2}", at.index,
                  cell,
                  isHalf ? "the schedule's slots give B; give I and W too"
                         : "the schedule's slots do not give its phase"),
          {}};
}

static Violation describeTooMany(CellName cell, CellRef at, int64_t slots) {
  return {at,
          formatv("the cells up to cell {0} ({1}) of worker {2}, which takes "
                  "{3} slots, take more than {4} in all",
                  at.index, cell, at.row, slots, kMaxSlots),
          {}};
}

std::optional<Violation> pipesched::verifySlotLengths(const TableView &table) {
  if (table.slots.empty())
    return std::nullopt; // at most two slots per cell
  GivenSlots lengths(*table.placement, table.slots);
  int64_t total = 0;
  for (auto [row, cells] : llvm::enumerate(table.rows))
    for (int64_t i = 0, e = cells.size(); i != e; ++i) {
      if (!cells[i].isCompute())
        continue;
      CellRef at = {static_cast<int64_t>(row), i};
      // The length of a pair is counted at its second half.
      bool isPair = cells[i].overlapsNext() && i + 1 != e;
      int64_t slots = isPair ? 0 : slotsOf(lengths, cells, i);
      if (lengths.of(cells[i]) < 0 || slots < 0)
        return describeUnknown(table.placement->nameOf(cells[i]), at);
      if (slots > kMaxSlots - total)
        return describeTooMany(table.placement->nameOf(cells[i]), at, slots);
      total += slots;
    }
  return std::nullopt;
}
