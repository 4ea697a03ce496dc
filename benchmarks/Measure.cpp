//===- Measure.cpp - Time and memory of one operation ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The clock, the yardstick and the counters.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include <ctime>

using namespace pipesched;
using namespace pipesched::bench;

double bench::cpuTimeNs() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e9 * time.tv_sec + time.tv_nsec;
}

double bench::plainLongestPathNs(const PlainGraph &graph) {
  std::vector<int64_t> ends(graph.durationPs.size());
  benchmark::DoNotOptimize(graph.longestPath(ends));
  constexpr double kEnoughNs = 20e6;
  int64_t rounds = 0;
  double begin = cpuTimeNs(), passed = 0;
  for (; passed < kEnoughNs; passed = cpuTimeNs() - begin, ++rounds)
    benchmark::DoNotOptimize(graph.longestPath(ends));
  return passed / rounds;
}

void bench::setCounters(benchmark::State &state, const Cost &cost,
                        int64_t numCells, const PlainGraph *yardstick) {
  auto perCell = [&](double value) { return value / numCells; };
  state.counters["ns_per_cell"] = perCell(cost.ns);
  state.counters["bytes_per_cell"] = perCell(cost.liveBytes);
  state.counters["peak_bytes_per_cell"] = perCell(cost.peakBytes);
  if (yardstick)
    state.counters["x_plain"] = cost.ns / plainLongestPathNs(*yardstick);
}
