//===- ChangedTables.h - Tables with copies or recomputation ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables for property tests: with offloads and reloads at any place that they
// can have, with slices, and with every forward run again. A seed always gives
// the same.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_CHANGEDTABLES_H
#define PIPESCHED_UNITTESTS_SUPPORT_CHANGEDTABLES_H

#include "PipeSched/Schedule/Edit/Recompute.h"
#include "llvm/ADT/STLExtras.h"
#include <random>

namespace pipesched {

/// Offloads one of `every` activations between its F and the first cell that
/// needs it (R, B or I), and holds some steps for the copies.
class ScatteredCopies {
public:
  ScatteredCopies(uint32_t seed, int64_t every) : random(seed), every(every) {}

  void addTo(Row &row) {
    inserted.assign(row.size() + 1, {});
    for (size_t i = 0; i != row.size(); ++i)
      if (row[i].is(Phase::Forward) && draw(every) == 0)
        offload(row, i);
    Row result;
    for (size_t i = 0; i <= row.size(); ++i) {
      result.insert(result.end(), inserted[i].begin(), inserted[i].end());
      if (i != row.size())
        result.push_back(row[i]);
    }
    row = std::move(result);
  }

private:
  int64_t draw(int64_t count) { return random() / 7 % count; }

  void offload(const Row &row, size_t forward) {
    Cell made = row[forward].withOverlap(false);
    size_t begin = forward + 1 + row[forward].overlapsNext(), end = begin;
    auto needs = [&](Cell cell) {
      return cell.getUnit() == made.getUnit() &&
             cell.getStage() == made.getStage() &&
             (cell.is(Phase::Recompute) || cell.is(Phase::Backward) ||
              cell.is(Phase::InputGrad));
    };
    while (end < row.size() && !needs(row[end]))
      ++end;
    if (end >= row.size())
      return;
    size_t offloadAt = place(row, begin, end);
    size_t reloadAt = place(row, offloadAt, end);
    inserted[offloadAt].push_back(made.withPhase(Phase::Offload));
    if (draw(3) == 0)
      inserted[place(row, offloadAt, reloadAt)].push_back(
          made.withPhase(Phase::OffloadJoin));
    inserted[reloadAt].push_back(made.withPhase(Phase::Reload));
    if (draw(3) == 0)
      inserted[place(row, reloadAt, end)].push_back(
          made.withPhase(Phase::ReloadJoin));
  }

  /// A place from `begin` to `end` that is not inside a pair.
  size_t place(const Row &row, size_t begin, size_t end) {
    size_t at = begin + draw(end - begin + 1);
    while (at > begin && row[at - 1].overlapsNext())
      --at;
    return at;
  }

  std::minstd_rand random;
  int64_t every;
  std::vector<Row> inserted; ///< before each cell, and at the end
};

inline Table withCopies(Table table, uint32_t seed, int64_t every) {
  ScatteredCopies copies(seed, every);
  for (Row &row : table.rows)
    copies.addTo(row);
  return table;
}

/// The same rows with slices of microbatches in place of microbatches. Nothing
/// if their number is not a multiple, or if there are several paths or slices.
inline std::optional<Table> withSlices(Table table, int64_t numSlices) {
  const Placement &whole = table.placement;
  if (whole.getNumPaths() != 1 || whole.getNumSlices() != 1 ||
      whole.getNumMicrobatches() % numSlices != 0)
    return std::nullopt;
  Path path = whole.getPath(0);
  path.takes.clear();
  table.placement = llvm::cantFail(Placement::create(
      whole.getNumWorkers(), whole.getNumMicrobatches() / numSlices, {path},
      numSlices));
  return table;
}

/// Nothing if R cannot be added.
inline std::optional<Table> recomputed(Table table) {
  llvm::Expected<RecomputeChange> change = addRecompute(table.view());
  if (!change) {
    llvm::consumeError(change.takeError());
    return std::nullopt;
  }
  table.rows = std::move(change->rows);
  return table;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_CHANGEDTABLES_H
