//===- WalkOperations.cpp - Benchmarks of walks over tables ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families on 64 workers from their table to a makespan and to all results,
// with leaps over periods that repeat and cell by cell.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Analysis/WalkTable.h"

using namespace pipesched;
using namespace pipesched::bench;

namespace {

/// A family's table with all that the walks read.
struct WalkCase {
  WalkCase(const Family &family, int64_t numCells);

  Table table;
  TableView view;
  CostInputs costs = makeCosts(4 * kNumWorkers);
  PhaseCounts counts;
  StageCosts stageCosts;
  WalkInputs inputs;
};

} // namespace

/// About this many cells; microbatches in multiples of 2D suit all families.
static Table generateAbout(const Family &family, int64_t numCells) {
  constexpr int64_t kRound = 2 * kNumWorkers;
  auto make = [&](int64_t microbatches) {
    return take(generate(family, kNumWorkers, microbatches));
  };
  int64_t cellsPerRound = make(kRound).view().getNumCells();
  return make(std::max<int64_t>(1, numCells / cellsPerRound) * kRound);
}

WalkCase::WalkCase(const Family &family, int64_t numCells)
    : table(generateAbout(family, numCells)), view(table.view()),
      counts(countPhases(view)),
      stageCosts(
          take(computeStageCosts(table.placement, costs, counts.phases))) {
  inputs.costs = &stageCosts;
}

using Walk = void (*)(benchmark::State &state, const Family &family,
                      int64_t numCells);

/// Measures `operation(walkCase)` beside the plain longest path.
template <typename Operation>
static void measureWalk(benchmark::State &state, const Family &family,
                        int64_t numCells, Operation &&operation) {
  WalkCase walkCase(family, numCells);
  Cost cost = measureCost(state, [&] { return operation(walkCase); });
  PlainGraph plain = makePlain(
      take(executeTable(walkCase.view, walkCase.costs, TimingOptions())));
  setCounters(state, cost, walkCase.view.getNumCells(), &plain);
}

template <bool mayLeap>
static void makespan(benchmark::State &state, const Family &family,
                     int64_t numCells) {
  measureWalk(state, family, numCells, [](WalkCase &walkCase) {
    walkCase.inputs.mayLeap = mayLeap;
    return *walkMakespan(walkCase.view, walkCase.inputs);
  });
}

template <bool mayLeap>
static void allResults(benchmark::State &state, const Family &family,
                       int64_t numCells) {
  measureWalk(state, family, numCells, [](WalkCase &walkCase) {
    walkCase.inputs.mayLeap = mayLeap;
    return *walkTable(walkCase.view, walkCase.counts, walkCase.inputs);
  });
}

static void evaluate(benchmark::State &state, const Family &family,
                     int64_t numCells) {
  measureWalk(state, family, numCells, [&](const WalkCase &walkCase) {
    return take(evaluateTable(walkCase.view, family.name, walkCase.costs,
                              TimingOptions()));
  });
}

void bench::registerWalks(int64_t numCells) {
  static constexpr std::pair<const char *, Walk> kWalks[] = {
      {"evaluate-on-64", evaluate},
      {"walk-on-64", allResults</*mayLeap=*/true>},
      {"walk-each-on-64", allResults</*mayLeap=*/false>},
      {"makespan-on-64", makespan</*mayLeap=*/true>},
      {"makespan-each-on-64", makespan</*mayLeap=*/false>},
  };
  for (llvm::StringRef name :
       {"1f1b", "interleaved-1f1b", "zb-v", "chimera", "dualpipe"})
    for (auto [operation, run] : kWalks) {
      const Family &family = *findFamily(name);
      std::string row =
          (llvm::Twine(operation) + "/" + name + "/" + llvm::Twine(numCells))
              .str();
      benchmark::RegisterBenchmark(
          row.c_str(), [&family, run = run, numCells](benchmark::State &state) {
            run(state, family, numCells);
          });
    }
}
