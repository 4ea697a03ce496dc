//===- MeasuredTimes.cpp - Executions with measured times -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the instructions of all rows, and adds the times of each to its task:
//
//   worker 0   compute 0F0 [start, end]     send 0F0 [start   -----.
//   worker 1                                recv 0F0       , end] <-'  one task
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/MeasuredTimes.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace pipesched;
using llvm::Twine;

namespace {

class TimesWriter {
public:
  TimesWriter(const Execution &predicted, const MeasuredTimes &measured)
      : graph(predicted.graph), measured(measured) {}

  llvm::Error run();
  void apply(Execution &execution) const;

private:
  llvm::Error add(int64_t worker, uint32_t task, size_t number);
  llvm::Error check(int64_t worker, uint32_t task, int64_t ps,
                    llvm::StringRef what) const;

  const TaskGraph &graph;
  const MeasuredTimes &measured;
  std::vector<int64_t> startPs, endPs; ///< by task; the end is the arrival
  std::vector<bool> hasEnd;            ///< by task, for all-reduces
};

} // namespace

llvm::Error TimesWriter::check(int64_t worker, uint32_t task, int64_t ps,
                               llvm::StringRef what) const {
  if (ps >= 0 && ps <= measured.makespanPs)
    return llvm::Error::success();
  return makeError("worker " + Twine(worker) + ": the " + what + " of " +
                   enumName(graph.kind[task]) + " " +
                   graph.nameOf(graph.cell[task]).str() + " is " + Twine(ps) +
                   " ps, outside of the step of " + Twine(measured.makespanPs) +
                   " ps");
}

llvm::Error TimesWriter::add(int64_t worker, uint32_t task, size_t number) {
  int64_t start = measured.startPs[number], end = measured.endPs[number];
  bool isMessage = graph.is(task, InstructionRole::Message);
  bool isSender = isMessage && graph.worker[task] == worker;
  if (!isMessage || isSender)
    if (llvm::Error error = check(worker, task, start, "start"))
      return error;
  if (!isSender)
    if (llvm::Error error = check(worker, task, end, "end"))
      return error;
  if (isSender) {
    startPs[task] = start;
  } else if (isMessage) {
    endPs[task] = end;
  } else if (graph.is(task, InstructionRole::Collective)) {
    startPs[task] = std::max(startPs[task], start);
    endPs[task] = hasEnd[task] ? std::min(endPs[task], end) : end;
    hasEnd[task] = true;
  } else {
    startPs[task] = start;
    endPs[task] = end;
  }
  return llvm::Error::success();
}

llvm::Error TimesWriter::run() {
  if (!areMessagesMerged(graph.transport))
    return makeError("measured times need a transport whose messages do not "
                     "hold rows, found '" +
                     Twine(enumName(graph.transport)) + "'");
  startPs.resize(graph.size());
  endPs.resize(graph.size());
  hasEnd.resize(graph.size());
  size_t number = 0, size = measured.startPs.size();
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
    uint32_t firstHalf = TaskGraph::kNone;
    for (uint32_t i = graph.instructionBegins[worker];
         i < graph.instructionBegins[worker + 1]; ++i) {
      uint32_t task = graph.taskOfInstruction[i];
      if (task != TaskGraph::kNone && task == firstHalf)
        continue; // The second half of a pair has no number.
      if (number < size && task != TaskGraph::kNone)
        if (llvm::Error error = add(worker, task, number))
          return error;
      if (task != TaskGraph::kNone && graph.cell[task].overlapsNext())
        firstHalf = task;
      ++number;
    }
  }
  if (number != size || size != measured.endPs.size())
    return makeError("measured times of " + Twine(size) + " starts and " +
                     Twine(measured.endPs.size()) +
                     " ends, but the programs have " + Twine(number) +
                     " instructions");
  return llvm::Error::success();
}

void TimesWriter::apply(Execution &execution) const {
  execution.timeline.makespanPs = measured.makespanPs;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    int64_t ps = std::max<int64_t>(endPs[task] - startPs[task], 0);
    bool isMessage = graph.is(task, InstructionRole::Message);
    execution.timeline.startPs[task] = startPs[task];
    execution.times.occupancyPs[task] = isMessage ? 0 : ps;
    execution.times.latencyPs[task] = isMessage ? ps : 0;
  }
}

llvm::Expected<Execution>
pipesched::withMeasuredTimes(const Execution &predicted,
                             const MeasuredTimes &measured) {
  TimesWriter writer(predicted, measured);
  if (llvm::Error error = writer.run())
    return std::move(error);
  Execution execution = predicted;
  writer.apply(execution);
  execution.criticalPath.clear();
  execution.criticalSteps.clear();
  execution.makespanPs = execution.timeline.makespanPs;
  execution.freeMakespanPs =
      freeMakespan(execution.graph, execution.times, execution.timeline);
  execution.idle =
      computeIdle(execution.graph, execution.times, execution.timeline);
  // The waits inside cells are not measured.
  attributeWaits(Traffic(execution.graph.getNumWorkers()), execution.idle);
  return execution;
}
