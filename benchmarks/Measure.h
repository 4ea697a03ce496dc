//===- Measure.h - Time and memory of one operation -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs an operation once for its heap growth, then in Google Benchmark's loop
// for its time, then the plain longest path for comparison.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_BENCHMARKS_MEASURE_H
#define PIPESCHED_BENCHMARKS_MEASURE_H

#include "Heap.h"
#include "Workload.h"
#include <benchmark/benchmark.h>

namespace pipesched::bench {

/// CPU time of this process, user and system, ns.
double cpuTimeNs();

/// The graph of a table with more cells has no place in memory alongside it:
/// rows of larger tables have no yardstick.
inline constexpr int64_t kMostCellsOfYardstick = 40'000'000;

/// CPU time of one longest path over plain arrays, ns.
double plainLongestPathNs(const PlainGraph &graph);

/// The cost of one operation.
struct Cost {
  double ns = 0;
  int64_t liveBytes = 0, peakBytes = 0;
};

/// Writes the counters of a row (see benchmarks/README.md); the last of them
/// only if there is a yardstick.
void setCounters(benchmark::State &state, const Cost &cost, int64_t numCells,
                 const PlainGraph *yardstick = nullptr);

/// Measures `operation()`. Its result counts as heap that remains after the
/// operation; destroying the result counts as part of its time.
template <typename Operation>
Cost measureCost(benchmark::State &state, Operation &&operation) {
  Cost cost;
  {
    HeapCounter heap;
    auto result = operation();
    benchmark::DoNotOptimize(result);
    cost.liveBytes = heap.liveBytes();
    cost.peakBytes = heap.peakBytes();
  }
  double begin = cpuTimeNs();
  for (auto _ : state) {
    auto result = operation();
    benchmark::DoNotOptimize(result);
  }
  cost.ns = (cpuTimeNs() - begin) / state.iterations();
  return cost;
}

/// Measures `operation()` on a workload. The yardstick is a longest path over
/// the graph of `transport`.
template <typename Operation>
void measure(benchmark::State &state, Workload &workload, Transport transport,
             Operation &&operation) {
  Cost cost = measureCost(state, operation);
  int64_t numCells = workload.getNumCells();
  setCounters(state, cost, numCells,
              numCells <= kMostCellsOfYardstick ? &workload.plain(transport)
                                                : nullptr);
}

/// The same against the graph of the default transport.
template <typename Operation>
void measure(benchmark::State &state, Workload &workload,
             Operation &&operation) {
  measure(state, workload, Transport::Overlap,
          std::forward<Operation>(operation));
}

/// One row of the output, for each family and size.
struct Operation {
  const char *name;
  void (*run)(benchmark::State &state, Workload &workload);
};

/// The operations, from the schedule's table to a whole report.
llvm::ArrayRef<Operation> tableOperations();
llvm::ArrayRef<Operation> analysisOperations();
llvm::ArrayRef<Operation> irOperations();
llvm::ArrayRef<Operation> wholeOperations();

/// Registers a row `generate-on-<workers>/<rule>/<cells>` for every family and
/// several numbers of workers.
void registerGenerators(int64_t numCells);

/// Registers rows `<operation>-on-64/<family>/<cells>` that walk tables.
void registerWalks(int64_t numCells);

/// Registers rows `optimize-<operation>/<problem>/<cells>`, which have other
/// sizes.
void registerOptimizer();

} // namespace pipesched::bench

#endif // PIPESCHED_BENCHMARKS_MEASURE_H
