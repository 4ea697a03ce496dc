//===- Support.h - What generators share ------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of the placement a family needs, the empty table, and the writer that
// fills a row. `family` is the family's name in messages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_SCHEDULE_GENERATORS_SUPPORT_H
#define PIPESCHED_LIB_SCHEDULE_GENERATORS_SUPPORT_H

#include "PipeSched/Schedule/Generators.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pipesched {

/// The single path 0..D-1 without further wishes, which a generator replaces
/// with the one its family needs.
bool isPlainLinear(const Placement &placement);

/// A placement of the same sizes on other paths.
llvm::Expected<Placement> replacePaths(const Placement &placement,
                                       std::vector<Path> paths);

/// Paths that do not say what they take get every P-th microbatch.
llvm::Expected<Placement> assignInTurns(const Placement &placement);

/// One path that visits every worker once.
llvm::Error checkOneStagePerWorker(const Placement &placement,
                                   llvm::StringRef family);

/// One path that visits every worker once, again and again in the same order:
/// stage s on the worker of stage s mod D. Returns the number of rounds.
llvm::Expected<int64_t> readChunks(const Placement &placement,
                                   llvm::StringRef family);

/// One path that goes down all workers and up again in reverse; returns how
/// many times.
llvm::Expected<int64_t> readWaves(const Placement &placement,
                                  llvm::StringRef family);

/// One path that goes down all workers and up again once: stage 2D-1-s on the
/// worker of stage s.
llvm::Error checkVPath(const Placement &placement, llvm::StringRef family);

/// Pairs of paths, each a path that visits every worker once and its mirror:
/// path 2k begins k times D / pairs workers further on than path 0 and goes
/// round, path 2k + 1 is path 2k in reverse. Returns the number of pairs.
llvm::Expected<int64_t> readPairs(const Placement &placement,
                                  llvm::StringRef family);

/// The placement itself, or on 0..D-1 an interleaved one of that many chunks
/// where `chunks` asks for it.
llvm::Expected<Placement> placeChunks(const Placement &placement,
                                      std::optional<int64_t> chunks,
                                      llvm::StringRef family);

/// The placement itself, which must be a V, or on 0..D-1 the V.
llvm::Expected<Placement> placeVPath(const Placement &placement,
                                     llvm::StringRef family);

/// Refuses a table of more than kMaxTableCells cells.
llvm::Error checkTableSize(const Placement &placement, llvm::StringRef family,
                           int64_t cellsPerPair);

/// Refuses to send the gradient after W where W is put off.
llvm::Error checkGradientAfterInput(const GeneratorOptions &options,
                                    llvm::StringRef family);

/// The table itself, or where the options ask for it with every B split into an
/// adjacent pair (Backward.h).
Table splitIfAsked(Table table, const GeneratorOptions &options);

/// A table whose rows have their final lengths.
Table makeEmptyTable(const Placement &placement, GradientAfter gradientAfter,
                     int64_t cellsPerPair);

/// The same for whole backwards.
inline Table makeWholeTable(const Placement &placement) {
  return makeEmptyTable(placement, GradientAfter::InputGrad, 2);
}

/// The number below and above `value` that `isValid`, as text for a diagnostic
/// ("the nearest is 4", "the nearest are 4 and 8"). Looks from 1 to `most`;
/// there must be one.
std::string nearestOf(int64_t value, int64_t most,
                      llvm::function_ref<bool(int64_t)> isValid);

/// Writes cells into a row of the right length.
class RowWriter {
public:
  explicit RowWriter(Row &row) : next(row.data()) {}

  void forward(int64_t stage, int64_t microbatch) {
    *next++ = Cell(stage, Phase::Forward, microbatch);
  }
  void backward(int64_t stage, int64_t microbatch) {
    *next++ = Cell(stage, Phase::Backward, microbatch);
  }
  void inputGrad(int64_t stage, int64_t microbatch) {
    *next++ = Cell(stage, Phase::InputGrad, microbatch);
  }
  void weightGrad(int64_t stage, int64_t microbatch) {
    *next++ = Cell(stage, Phase::WeightGrad, microbatch);
  }
  /// The row is full.
  bool isAtEndOf(const Row &row) const {
    return next == row.data() + row.size();
  }

private:
  Cell *next;
};

/// Calls `writeRow(position, writer)` for each worker of the first path, in its
/// order, to fill an empty table.
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

#endif // PIPESCHED_LIB_SCHEDULE_GENERATORS_SUPPORT_H
