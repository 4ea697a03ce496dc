//===- AnalysisOperations.cpp - Benchmarks of lib/Analysis ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations from a program to its times, for each transport if the transport
// changes the graph.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"

using namespace pipesched;
using namespace pipesched::bench;

template <Transport transport>
static void buildGraph(benchmark::State &state, Workload &workload) {
  const Program &program = workload.program();
  measure(state, workload, transport,
          [&] { return take(buildTaskGraph(program, transport)); });
}

template <Transport transport>
static void cost(benchmark::State &state, Workload &workload) {
  const Execution &execution = workload.execution(transport);
  measure(state, workload, transport, [&] {
    return take(computeTaskTimes(execution.graph, workload.getPlacement(),
                                 execution.stageCosts, transport));
  });
}

template <Transport transport>
static void timeline(benchmark::State &state, Workload &workload) {
  const Execution &execution = workload.execution(transport);
  measure(state, workload, transport,
          [&] { return computeTimeline(execution.graph, execution.times); });
}

static void plainLongestPath(benchmark::State &state, Workload &workload) {
  const PlainGraph &plain = workload.plain(Transport::Overlap);
  measure(state, workload, [&] {
    std::vector<int64_t> ends(plain.durationPs.size());
    return plain.longestPath(ends);
  });
}

static void findCriticalPath(benchmark::State &state, Workload &workload) {
  const Execution &execution = workload.execution(Transport::Overlap);
  measure(state, workload, [&] {
    return criticalPath(execution.graph, execution.times, execution.timeline);
  });
}

static void idle(benchmark::State &state, Workload &workload) {
  const Execution &execution = workload.execution(Transport::Overlap);
  measure(state, workload, [&] {
    return computeIdle(execution.graph, execution.times, execution.timeline);
  });
}

static void memory(benchmark::State &state, Workload &workload) {
  const Execution &execution = workload.execution(Transport::Overlap);
  measure(state, workload, [&] {
    return take(computeMemory(execution.graph, execution.times,
                              execution.timeline, workload.getPlacement(),
                              *execution.memoryFacts));
  });
}

static void evaluate(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  measure(state, workload, [&] {
    return take(evaluateTable(table, workload.getFamily(), workload.getCosts(),
                              TimingOptions()));
  });
}

llvm::ArrayRef<Operation> bench::analysisOperations() {
  static constexpr Operation kOperations[] = {
      {"graph-delay", buildGraph<Transport::Delay>},
      {"cost-delay", cost<Transport::Delay>},
      {"timeline-delay", timeline<Transport::Delay>},
      {"graph-blocking", buildGraph<Transport::Blocking>},
      {"cost-blocking", cost<Transport::Blocking>},
      {"timeline-blocking", timeline<Transport::Blocking>},
      {"graph-overlap", buildGraph<Transport::Overlap>},
      {"cost-overlap", cost<Transport::Overlap>},
      {"timeline-overlap", timeline<Transport::Overlap>},
      {"plain-longest-path", plainLongestPath},
      {"critical-path", findCriticalPath},
      {"idle", idle},
      {"memory", memory},
      {"evaluate", evaluate},
  };
  return kOperations;
}
