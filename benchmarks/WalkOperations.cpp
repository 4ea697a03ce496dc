//===- WalkOperations.cpp - Benchmarks of walks over tables ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families on 64 workers, some with offloads or the end of a step, from their
// table to all results, with leaps over periods that repeat and cell by cell.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"

using namespace pipesched;
using namespace pipesched::bench;

namespace {

/// A family, perhaps with cells added to its tables.
struct Subject {
  const char *name, *family;
  std::vector<Row> (*change)(const TableView &view) = nullptr;
};

/// A table with all that the walks read.
struct WalkCase {
  WalkCase(const Subject &subject, int64_t numCells);

  Table table;
  TableView view;
  Groups groups;
  CostInputs costs;
  PhaseCounts counts;
  StageCosts stageCosts;
  WalkInputs inputs;
};

} // namespace

/// About this many cells; microbatches in multiples of 2D suit all families.
static Table generateAbout(const Subject &subject, int64_t numCells) {
  constexpr int64_t kRound = 2 * kNumWorkers;
  const Family &family = *findFamily(subject.family);
  auto make = [&](int64_t microbatches) {
    Table table = take(generate(family, kNumWorkers, microbatches));
    if (subject.change)
      table.rows = subject.change(table.view());
    return table;
  };
  int64_t cellsPerRound = make(kRound).view().getNumCells();
  return make(std::max<int64_t>(1, numCells / cellsPerRound) * kRound);
}

/// Slices need a length of sequences to divide.
static CostInputs makeCostsFor(const Placement &placement) {
  CostInputs costs = makeCosts(4 * kNumWorkers);
  if (placement.getNumSlices() > 1)
    costs.model->sequence = 4096;
  return costs;
}

WalkCase::WalkCase(const Subject &subject, int64_t numCells)
    : table(generateAbout(subject, numCells)), view(table.view()),
      groups(take(Groups::create(view))), costs(makeCostsFor(table.placement)),
      counts(countPhases(view)),
      stageCosts(
          take(computeStageCosts(table.placement, costs, counts.phases))) {
  inputs.costs = &stageCosts;
  if (groups.size() != 0)
    inputs.groups = &groups;
}

static std::vector<Row> offloadAll(const TableView &view) {
  OffloadOptions options;
  options.ahead = 2;
  return take(addOffload(view, options)).rows;
}

static std::vector<Row> endStep(const TableView &view) {
  return take(addOptimizerStep(view, ReductionPlace::End, ReducedStages::All))
      .rows;
}

using Walk = void (*)(benchmark::State &state, const Subject &subject,
                      int64_t numCells);

/// Measures `operation(walkCase)` alongside the plain longest path.
template <typename Operation>
static void measureWalk(benchmark::State &state, const Subject &subject,
                        int64_t numCells, Operation &&operation) {
  WalkCase walkCase(subject, numCells);
  Cost cost = measureCost(state, [&] { return operation(walkCase); });
  int64_t tableCells = walkCase.view.getNumCells();
  if (tableCells > kMostCellsOfYardstick)
    return setCounters(state, cost, tableCells);
  PlainGraph plain = makePlain(
      take(executeTable(walkCase.view, walkCase.costs, TimingOptions())));
  setCounters(state, cost, tableCells, &plain);
}

template <bool mayLeap>
static void allResults(benchmark::State &state, const Subject &subject,
                       int64_t numCells) {
  measureWalk(state, subject, numCells, [](WalkCase &walkCase) {
    walkCase.inputs.mayLeap = mayLeap;
    return *walkTable(walkCase.view, walkCase.counts, walkCase.inputs);
  });
}

static void evaluate(benchmark::State &state, const Subject &subject,
                     int64_t numCells) {
  measureWalk(state, subject, numCells, [&](const WalkCase &walkCase) {
    return take(evaluateTable(walkCase.view, subject.family, walkCase.costs,
                              TimingOptions()));
  });
}

void bench::registerWalks(int64_t numCells) {
  static constexpr std::pair<const char *, Walk> kWalks[] = {
      {"evaluate-on-64", evaluate},
      {"walk-on-64", allResults</*mayLeap=*/true>},
      {"walk-each-on-64", allResults</*mayLeap=*/false>},
  };
  static constexpr Subject kSubjects[] = {
      {"1f1b", "1f1b"},
      {"seq1f1b", "seq1f1b"},
      {"interleaved-1f1b", "interleaved-1f1b"},
      {"zb-v", "zb-v"},
      {"chimera", "chimera"},
      {"dualpipe", "dualpipe"},
      {"1f1b-offload", "1f1b", offloadAll},
      {"zb-v-offload", "zb-v", offloadAll},
      {"chimera-step", "chimera", endStep},
  };
  for (const Subject &subject : kSubjects)
    for (auto [operation, run] : kWalks) {
      std::string row = (llvm::Twine(operation) + "/" + subject.name + "/" +
                         llvm::Twine(numCells))
                            .str();
      benchmark::RegisterBenchmark(row.c_str(), [&subject, run = run, numCells](
                                                    benchmark::State &state) {
        run(state, subject, numCells);
      });
    }
}
