//===- RandomTimes.h - Times of single tasks --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws a time for every task of a program by itself, and follows memory at
// these times.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_RANDOMTIMES_H
#define PIPESCHED_UNITTESTS_SUPPORT_RANDOMTIMES_H

#include "PipeSched/Evaluation/Evaluate.h"
#include <random>

namespace pipesched::test {

class RandomTimes {
public:
  RandomTimes(const TaskGraph &graph, uint32_t seed)
      : graph(graph), random(seed) {}

  /// Each task takes nothing, about as long as others, or far longer.
  TaskTimes draw() {
    TaskTimes times;
    for (uint32_t task = 0; task < graph.size(); ++task) {
      times.occupancyPs.push_back(drawOne());
      times.latencyPs.push_back(graph.isMessage(task) ? drawOne() : 0);
    }
    return times;
  }

private:
  int64_t drawOne() {
    constexpr int64_t scales[] = {1, 20, 20, 1000};
    return random() % scales[random() / 7 % 4];
  }

  const TaskGraph &graph;
  std::minstd_rand random;
};

/// The activation bytes that each worker holds at most at these times.
inline std::vector<int64_t> peaksAt(const TaskGraph &graph,
                                    const TaskTimes &times,
                                    const Placement &placement,
                                    const MemoryFacts &facts) {
  MemoryUsage usage = llvm::cantFail(computeMemory(
      graph, times, computeTimeline(graph, times), placement, facts));
  std::vector<int64_t> peaks;
  for (const WorkerMemory &worker : usage.workers)
    peaks.push_back(worker.peakActivationBytes);
  return peaks;
}

} // namespace pipesched::test

#endif // PIPESCHED_UNITTESTS_SUPPORT_RANDOMTIMES_H
