//===- Support.h - Common code of generators --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of the placement that a family needs, the empty table, and the writer
// that fills a row. `family` is the name of the family in error messages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_SUPPORT_H
#define PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_SUPPORT_H

#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipesched {

/// Whether the placement is a single path 0..D-1 without stage lengths. A
/// generator replaces it with the path that its family needs.
bool isPlainLinear(const Placement &placement);

/// Returns a placement of the same sizes on other paths.
llvm::Expected<Placement> replacePaths(const Placement &placement,
                                       std::vector<Path> paths);

/// Gives path p of P the microbatches p, p + P, .., unless the paths already
/// have microbatches.
llvm::Expected<Placement> assignInTurns(const Placement &placement);

/// Checks for one path that visits every worker once.
llvm::Error checkOneStagePerWorker(const Placement &placement,
                                   llvm::StringRef family);

/// Checks for one path of rounds over all workers in the same order: stage s on
/// the worker of stage s mod D. Returns the number of rounds.
llvm::Expected<int64_t> readChunks(const Placement &placement,
                                   llvm::StringRef family);

/// Checks for one path that goes down all workers and up again in reverse, and
/// returns the number of such waves.
llvm::Expected<int64_t> readWaves(const Placement &placement,
                                  llvm::StringRef family);

/// Checks for one path that goes down all workers and up again once: stage
/// 2D-1-s on the worker of stage s.
llvm::Error checkVPath(const Placement &placement, llvm::StringRef family);

/// Checks for pairs of a path that visits every worker once and its mirror:
/// path 2k is path 0 rotated by k D / pairs workers, path 2k + 1 is path 2k in
/// reverse. Returns the number of pairs.
llvm::Expected<int64_t> readPairs(const Placement &placement,
                                  llvm::StringRef family);

/// Returns the placement itself. If it is 0..D-1 and `chunks` has a value,
/// returns an interleaved placement with that many chunks instead.
llvm::Expected<Placement> placeChunks(const Placement &placement,
                                      std::optional<int64_t> chunks,
                                      llvm::StringRef family);

/// Returns the placement itself, which must be a V, or the V for 0..D-1.
llvm::Expected<Placement> placeVPath(const Placement &placement,
                                     llvm::StringRef family);

/// Refuses a table of more than kMaxTableCells cells.
llvm::Error checkTableSize(const Placement &placement, llvm::StringRef family,
                           int64_t cellsPerPair);

/// Returns an error if the options ask for gradients to be sent after W. For
/// families that delay W.
llvm::Error checkGradientAfterInput(const GeneratorOptions &options,
                                    llvm::StringRef family);

/// Returns the table itself, or with splitBackward the table in which each B is
/// split into an adjacent I and W (Backward.h).
Table splitIfAsked(Table table, const GeneratorOptions &options);

/// Returns a table whose rows have their final lengths.
Table makeEmptyTable(const Placement &placement, GradientAfter gradientAfter,
                     int64_t cellsPerPair);

/// The same, for F and B of each pair.
inline Table makeWholeTable(const Placement &placement) {
  return makeEmptyTable(placement, GradientAfter::InputGrad, 2);
}

/// Returns the nearest valid numbers below and above `value`, as text for a
/// diagnostic ("the nearest is 4", "the nearest are 4 and 8"). Looks from 1 to
/// `most`; there must be a valid number in this range.
std::string nearestOf(int64_t value, int64_t most,
                      llvm::function_ref<bool(int64_t)> isValid);

/// The unit of the backward at index `place` of a stage. Microbatches run in
/// order; within each, the last slice runs first.
inline int64_t backwardUnit(const Placement &placement, int64_t place) {
  int64_t last = placement.getNumSlices() - 1;
  return place + last - 2 * placement.sliceOf(place);
}

/// Writes cells into a row of the right length.
class RowWriter {
public:
  explicit RowWriter(Row &row) : next(row.data()) {}

  void forward(int64_t stage, int64_t unit) {
    *next++ = Cell(stage, Phase::Forward, unit);
  }
  void backward(int64_t stage, int64_t unit) {
    *next++ = Cell(stage, Phase::Backward, unit);
  }
  void inputGrad(int64_t stage, int64_t unit) {
    *next++ = Cell(stage, Phase::InputGrad, unit);
  }
  void weightGrad(int64_t stage, int64_t unit) {
    *next++ = Cell(stage, Phase::WeightGrad, unit);
  }
  void cell(int64_t stage, Phase phase, int64_t unit) {
    *next++ = Cell(stage, phase, unit);
  }
  /// Lets the last written cell overlap the next one.
  void overlapNext() { next[-1] = next[-1].withOverlap(true); }
  /// Whether the row is full.
  bool isAtEndOf(const Row &row) const {
    return next == row.data() + row.size();
  }

private:
  Cell *next;
};

/// Calls `writeRow(position, writer)` for each worker of the first path, in the
/// order of the path, to fill an empty table.
template <typename WriteRow>
void writeRows(Table &table, WriteRow &&writeRow) {
  const Placement &placement = table.placement;
  for (int64_t i = 0, e = placement.getNumWorkers(); i < e; ++i) {
    Row &row = table.rows[placement.workerOf(i)];
    RowWriter writer(row);
    writeRow(i, writer);
    assert(writer.isAtEndOf(row) && "a row is not complete");
  }
}

} // namespace pipesched

#endif // PIPESCHED_LIB_SCHEDULE_FAMILY_GENERATORS_SUPPORT_H
