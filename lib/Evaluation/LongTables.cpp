//===- LongTables.cpp - Schedules that are not written out ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The walk proves that the times of the shorter table repeat. Whether the rows
// of the longer table repeat too is checked for one more period here, and for
// many periods in the tests.
//
//===----------------------------------------------------------------------===//

#include "LongTables.h"
#include "PipeSched/Schedule/Table/Period.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;

/// The same problem with another number of microbatches.
static Problem withMicrobatches(Problem problem, int64_t microbatches) {
  problem.microbatches = microbatches;
  return problem;
}

static llvm::Expected<Table> makeTableOf(Configuration configuration,
                                         int64_t microbatches) {
  configuration.problem.microbatches = microbatches;
  return makeTable(configuration);
}

static llvm::Expected<Placement> place(const Problem &problem) {
  if (problem.paths.empty())
    return placeFamily(*problem.family, problem.workers, problem.microbatches,
                       problem.options);
  return Placement::create(problem.workers, problem.microbatches,
                           problem.paths);
}

/// A multiple of every number of microbatches to which families round.
static int64_t roundingOf(const Problem &problem) {
  return 8 * problem.workers * problem.options.chunks.value_or(1);
}

bool pipesched::isLongTable(const Problem &problem) {
  constexpr int64_t kSurelyShort = 1 << 16, kMostPhases = 3;
  if (problem.microbatches <= kSurelyShort)
    return false;
  int64_t few = roundingOf(problem);
  llvm::Expected<Placement> placement = place(withMicrobatches(problem, few));
  if (!placement) {
    // Paths that say which microbatches they take allow for no other number.
    llvm::consumeError(placement.takeError());
    return false;
  }
  return problem.microbatches / few >
         kMaxTableCells / kMostPhases / placement->getNumPairs();
}

/// A cell by its rank on the path, which does not depend on how many
/// microbatches other paths take. O and G have none.
static std::array<int64_t, 3> rankedCell(const Placement &placement, Cell cell,
                                         int64_t ranksLess) {
  return {static_cast<int64_t>(cell.getPhase()) * 2 + cell.overlapsNext(),
          placement.globalStage(cell),
          cell.isPerPath() ? 0 : placement.rankOf(cell) - ranksLess};
}

bool pipesched::growsByPeriods(const Configuration &configuration,
                               int64_t microbatches, int64_t period) {
  llvm::Expected<Table> some = makeTableOf(configuration, microbatches);
  llvm::Expected<Table> more =
      makeTableOf(configuration, microbatches + period);
  if (!some || !more) {
    llvm::consumeError(some.takeError());
    llvm::consumeError(more.takeError());
    return false;
  }
  std::optional<TablePeriod> found = findPeriod(some->view());
  if (!found || period % found->getNumMicrobatches() != 0)
    return false;
  TablePeriod repeated = found->times(period / found->getNumMicrobatches());
  for (auto [row, longer, repeats] :
       llvm::zip_equal(some->rows, more->rows, repeated.rows)) {
    if (longer.size() != row.size() + repeats.length)
      return false;
    for (int64_t i = 0, size = longer.size(); i != size; ++i) {
      bool isBehind = i >= repeats.end;
      Cell cell = row[isBehind ? i - repeats.length : i];
      if (cell.isIdle() || longer[i].isIdle())
        return false;
      int64_t ranks =
          isBehind ? repeated.ranks[some->placement.pathOf(cell)] : 0;
      if (rankedCell(more->placement, longer[i], ranks) !=
          rankedCell(some->placement, cell, 0))
        return false;
    }
  }
  return true;
}

/// Tries tables of 64, 256, .. microbatches per worker. Each leaves out a
/// multiple of the number to which families round.
llvm::Expected<NamedEvaluation>
pipesched::evaluateLongTable(const Configuration &configuration,
                             const CostInputs &costs) {
  const Problem &problem = configuration.problem;
  constexpr int64_t kMostCells = int64_t(1) << 24;
  llvm::Expected<Placement> placement = place(problem);
  if (!placement)
    return placement.takeError();
  int64_t step = roundingOf(problem);
  for (int64_t few = 64 * step; few < problem.microbatches; few *= 4) {
    int64_t microbatches = few + (problem.microbatches - few) % step;
    llvm::Expected<Table> shortened = makeTableOf(configuration, microbatches);
    if (!shortened)
      return shortened.takeError();
    if (shortened->view().getNumCells() > kMostCells ||
        !growsByPeriods(configuration, microbatches, step))
      break;
    NamedEvaluation result;
    result.name = problem.family->name.str();
    if (!configuration.optimizerStep)
      result.family = result.name;
    result.timing = configuration.timing;
    llvm::Expected<std::optional<Evaluation>> evaluation =
        evaluateShortened(shortened->view(), *placement, result.family, costs,
                          result.timing, problem.options);
    if (!evaluation)
      return evaluation.takeError();
    if (!*evaluation)
      continue;
    result.placement = std::move(*placement);
    result.describe(costs);
    result.table.slots = std::move(shortened->slots);
    result.cellsOfLongTable = cellsInUse(shortened->view());
    result.evaluation = std::move(**evaluation);
    return result;
  }
  return formatError(
      "{0} of {1} microbatches on {2} workers has more cells than a table may "
      "have ({3}), and shorter tables of it do not repeat themselves: choose "
      "fewer microbatches",
      problem.family->name, problem.microbatches, problem.workers,
      kMaxTableCells);
}
