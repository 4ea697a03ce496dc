//===- CellNumbers.cpp - Cells as numbers of other languages --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks each number before it is stored in the bits of a cell.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/CellNumbers.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;
using llvm::formatv;

/// The number of slices of a microbatch if the cell's number is a unit, else 1.
static int64_t countSlices(Phase phase, int64_t numSlices) {
  return traitsOf(phase).number == CellNumber::Unit ? numSlices : 1;
}

CellNumbers pipesched::numbersOf(Cell cell, int64_t numSlices) {
  int64_t number = cell.getNumber();
  int64_t slices = countSlices(cell.getPhase(), numSlices);
  return {traitsOf(cell.getPhase()).code, cell.getStage(), number / slices,
          number % slices, cell.overlapsNext()};
}

static std::string rangeText(const char *what, int64_t last, int64_t found) {
  return formatv("expected {0} from 0 to {1}, found {2}", what, last, found);
}

/// Returns the reason why numbers are not a cell; empty if they are a cell.
static std::string whyNoCell(const CellNumbers &given, int64_t numSlices) {
  std::optional<Phase> phase = phaseFromCode(given.phase);
  if (!phase)
    return formatv("expected the number of a phase ({0}), found {1}",
                   describePhases(kAllPhases, " or "), given.phase);
  bool isIdle = *phase == Phase::Idle;
  int64_t lastStage = isIdle ? 0 : Cell::kMaxStages - 1;
  if (given.stage < 0 || given.stage > lastStage)
    return rangeText("a stage", lastStage, given.stage);
  if (given.number < 0 || given.number > Cell::kMaxMicrobatches)
    return rangeText(isIdle ? "a number of slots" : "a number",
                     Cell::kMaxMicrobatches, given.number);
  int64_t slices = countSlices(*phase, numSlices);
  if (given.slice < 0 || given.slice >= slices)
    return rangeText("a slice", slices - 1, given.slice);
  int64_t lastNumber = (Cell::kMaxMicrobatches - (slices - 1)) / slices;
  if (given.number > lastNumber)
    return rangeText("a microbatch", lastNumber, given.number);
  return "";
}

/// Makes a cell from valid numbers, for a table with this many slices.
static Cell toCell(const CellNumbers &given, int64_t numSlices) {
  Phase phase = *phaseFromCode(given.phase);
  int64_t slices = countSlices(phase, numSlices);
  return Cell(given.stage, phase, given.number * slices + given.slice,
              given.overlapsNext);
}

llvm::Expected<std::vector<Row>>
pipesched::makeRows(llvm::ArrayRef<std::vector<CellNumbers>> rows,
                    int64_t numSlices) {
  std::vector<Row> made(rows.size());
  for (auto [worker, row] : llvm::enumerate(rows)) {
    made[worker].reserve(row.size());
    for (auto [index, cell] : llvm::enumerate(row)) {
      if (std::string why = whyNoCell(cell, numSlices); !why.empty())
        return formatError("worker {0}, cell {1}: {2}", worker, index, why);
      made[worker].push_back(toCell(cell, numSlices));
    }
  }
  return made;
}
