//===- Measurement.cpp - Measured and predicted times ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A log states when an instruction began and ended in its worker. The arrival
// of a message follows from the cell that waits for it:
//
//   worker 0   | 0F0 |send|
//                     :.......... message ..........
//   worker 1   | 1B0 | waits                        | 1F0 |
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/Measurement.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Evaluation/MeasuredTimes.h"
#include "PipeSched/Evaluation/TimedCells.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace pipesched;
using namespace pipesched::run;

static constexpr int64_t kPsPerNs = 1000;

//===----------------------------------------------------------------------===//
// Instructions and their entries in the logs
//===----------------------------------------------------------------------===//

llvm::Expected<Measurement> Measurement::make(const PreparedProgram &program,
                                              const RunResult &result) {
  Measurement measurement(program, result);
  llvm::Expected<WorkerPrograms> rows =
      listWorkerPrograms(program.loaded.program, program.loaded.placement);
  if (!rows)
    return rows.takeError();
  measurement.rows = std::move(*rows);
  measurement.chooseSteps();
  measurement.findWaits();
  measurement.findAwaited();
  measurement.readLogs();
  return measurement;
}

void Measurement::chooseSteps() {
  int64_t numSteps = result->getNumSteps();
  for (int64_t step = numSteps > 1 ? 1 : 0; step < numSteps; ++step)
    steps.push_back(step);
  std::vector<int64_t> sorted = steps;
  auto middle = sorted.begin() + (sorted.size() - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end(),
                   [&](int64_t a, int64_t b) { return stepMs(a) < stepMs(b); });
  median = *middle;
}

double Measurement::stepMs(int64_t step) const {
  Span span = result->spanOf(step);
  return double(span.end - span.begin) / 1e6;
}

static InstructionKind kindOf(const WorkerPrograms &rows, uint32_t i) {
  return static_cast<InstructionKind>(rows.kind[i]);
}

/// Finds for each collective a member for which an instruction waits.
void Measurement::findAwaited() {
  awaited.assign(rows.groupKind.size(), {-1, 0});
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker)
    for (uint32_t i = rows.rowBegins[worker]; i < rows.rowBegins[worker + 1];
         ++i)
      if (rows.group[i] >= 0 && waiter[i] >= 0)
        awaited[rows.group[i]] = {worker, i};
}

/// Passes the operands of a Wait to the instruction that it holds.
void Measurement::findWaits() {
  logNumber.assign(rows.kind.size(), -1);
  waiter.assign(rows.kind.size(), -1);
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker) {
    uint32_t begin = rows.rowBegins[worker];
    int64_t number = 0;
    for (uint32_t i = begin; i < rows.rowBegins[worker + 1]; ++i) {
      bool isWait = kindOf(rows, i) == InstructionKind::Wait;
      if (kindOf(rows, i) == InstructionKind::Send) {
        size_t message = rows.message[i];
        sendNumber.resize(std::max(sendNumber.size(), message + 1));
        sendNumber[message] = number;
      }
      if (!isWait)
        logNumber[i] = number++;
      int64_t last = isWait ? rows.holds[i] + int64_t(begin) : int64_t(i);
      if (isWait && rows.holds[i] < 0)
        continue;
      const uint32_t *waits = &rows.waitBegins[i + worker];
      for (uint32_t wait = waits[0]; wait < waits[1]; ++wait) {
        uint32_t other = begin + rows.waits[rows.rowWaits[worker] + wait];
        if (waiter[other] < 0 || last < waiter[other])
          waiter[other] = last;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Times of the steps
//===----------------------------------------------------------------------===//

/// Collects the times of instructions from the log of a worker.
class Measurement::Collector {
public:
  Collector(const Measurement &all, int64_t worker)
      : all(all), worker(worker), log(all.result->logs[worker]) {}

  Stamps collect() const {
    Stamps stamps;
    for (int64_t step : all.steps) {
      int64_t ready = log.steps[step].begin;
      for (uint32_t i = all.rows.rowBegins[worker];
           i < all.rows.rowBegins[worker + 1]; ++i) {
        bool isWait = all.logNumber[i] < 0;
        Span span =
            isWait ? Span{ready, ready} : log.at(step, all.logNumber[i]);
        stamps.ready.push_back(std::min(ready, span.begin));
        stamps.start.push_back(span.begin);
        stamps.end.push_back(span.end);
        stamps.done.push_back(isStarted(i) ? seenEnd(step, i) : kUnknownNs);
        stamps.arrived.push_back(arrival(step, i));
        ready = span.end;
      }
    }
    return stamps;
  }

private:
  /// Whether it ends elsewhere, while the worker does other work.
  bool isStarted(uint32_t i) const {
    InstructionKind kind = kindOf(all.rows, i);
    return kind != InstructionKind::Compute && kind != InstructionKind::Send &&
           kind != InstructionKind::Wait;
  }
  /// Returns the time at which the worker that waited for instruction `i`, or
  /// for another one of its group, continued; otherwise the end of its step.
  int64_t seenEnd(int64_t step, uint32_t i) const {
    if (all.waiter[i] >= 0)
      return log.at(step, all.logNumber[all.waiter[i]]).begin;
    if (all.rows.group[i] >= 0)
      if (auto [other, member] = all.awaited[all.rows.group[i]]; other >= 0)
        return std::max(log.at(step, all.logNumber[i]).begin,
                        all.result->logs[other]
                            .at(step, all.logNumber[all.waiter[member]])
                            .begin);
    return log.steps[step].end;
  }
  int64_t arrival(int64_t step, uint32_t i) const {
    if (traitsOf(kindOf(all.rows, i)).role == InstructionRole::Copy)
      return seenEnd(step, i);
    if (kindOf(all.rows, i) != InstructionKind::Recv || all.waiter[i] < 0)
      return kUnknownNs;
    int64_t number = all.logNumber[all.waiter[i]];
    int64_t waitBegin =
        number == 0 ? log.steps[step].begin : log.at(step, number - 1).end;
    const WorkerLog &sender = all.result->logs[all.rows.peer[i]];
    int64_t sent = sender.at(step, all.sendNumber[all.rows.message[i]]).begin;
    return waitBegin <= sent ? seenEnd(step, i) : kUnknownNs;
  }

  const Measurement &all;
  int64_t worker;
  const WorkerLog &log;
};

void Measurement::readLogs() {
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker)
    stamps.push_back(Collector(*this, worker).collect());
}

Measurement::Times Measurement::timesOf(int64_t step) const {
  Span whole = result->spanOf(step);
  Times times;
  times.makespanPs = (whole.end - whole.begin) * kPsPerNs;
  auto toPs = [&](int64_t ns) {
    return std::clamp<int64_t>((ns - whole.begin) * kPsPerNs, 0,
                               times.makespanPs);
  };
  for (auto [worker, all] : llvm::enumerate(stamps)) {
    size_t size = rows.rowBegins[worker + 1] - rows.rowBegins[worker];
    size_t begin = (step - steps.front()) * size;
    for (size_t k = begin; k < begin + size; ++k) {
      times.startPs.push_back(toPs(all.start[k]));
      times.endPs.push_back(
          toPs(all.done[k] == kUnknownNs ? all.end[k] : all.done[k]));
    }
  }
  startTogether(times);
  return times;
}

/// A collective during which rows continue starts when its last member has
/// arrived.
void Measurement::startTogether(Times &times) const {
  std::vector<int64_t> begins(rows.groupKind.size());
  auto forEach = [&](auto treat) {
    for (uint32_t i = 0; i < rows.kind.size(); ++i)
      if (traitsOf(kindOf(rows, i)).isDetached)
        treat(times.startPs[i], times.endPs[i], begins[rows.group[i]]);
  };
  forEach([](int64_t start, int64_t, int64_t &begin) {
    begin = std::max(begin, start);
  });
  forEach([](int64_t &start, int64_t end, int64_t begin) {
    start = std::max(start, std::min(begin, end));
  });
}

//===----------------------------------------------------------------------===//
// Profiles and files
//===----------------------------------------------------------------------===//

llvm::Expected<Profile> Measurement::profile() const {
  llvm::Expected<WorkerStages> stages =
      listWorkerStages(program->loaded.placement);
  if (!stages)
    return stages.takeError();
  auto views = llvm::map_to_vector(stamps, [](const Stamps &each) {
    return WorkerStamps{each.ready, each.start, each.end, each.done,
                        each.arrived};
  });
  return makeProfile(rows, *stages, {int64_t(steps.size()), views},
                     /*withIssue=*/false);
}

std::string Measurement::toJson() const {
  std::string text, schedule;
  llvm::raw_string_ostream(schedule) << *program->module;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os);
  auto zeros = [&] {
    for (size_t worker = 0; worker < stamps.size(); ++worker)
      json.value(0.0);
  };
  auto writeTimes = [&](llvm::ArrayRef<int64_t> times) {
    size_t size = times.size() / steps.size();
    for (; !times.empty(); times = times.drop_front(size))
      json.array([&] {
        for (int64_t ns : times.take_front(size))
          ns == kUnknownNs ? json.value(nullptr) : json.value(ns);
      });
  };
  auto writeWorker = [&](const Stamps &worker) {
    for (auto [name, times] : {std::pair("ready", &worker.ready),
                               {"start", &worker.start},
                               {"end", &worker.end},
                               {"done", &worker.done},
                               {"arrived", &worker.arrived}})
      json.attributeArray(name, [&, times = times] { writeTimes(*times); });
  };
  json.object([&] {
    json.attribute("format", "pipesched-measurement");
    json.attribute("version", 1);
    json.attribute("source", "pipesched-run");
    json.attribute("schedule", schedule);
    json.attribute("receives", nullptr);
    json.attributeObject("clock", [&] {
      json.attribute("error_s", nullptr);
      json.attributeArray("offsets_s", zeros);
      json.attributeArray("drifts_ppm", zeros);
    });
    json.attributeArray("steps", [&] {
      for (int64_t step : steps)
        json.value(step);
    });
    json.attributeArray("workers_ns", [&] {
      for (const Stamps &worker : stamps)
        json.object([&] { writeWorker(worker); });
    });
  });
  return text + "\n";
}

std::string run::profileToJson(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    for (llvm::StringRef name : profileNames())
      if (const std::vector<int64_t> &times = *findTimes(profile, name);
          !times.empty())
        json.attributeArray(name, [&] {
          for (int64_t time : times)
            json.value(printTime(time));
        });
  });
  return text + "\n";
}

//===----------------------------------------------------------------------===//
// Prediction
//===----------------------------------------------------------------------===//

mlir::FailureOr<NamedEvaluation> run::predict(const PreparedProgram &program,
                                              const CostInputs &costs) {
  TimingOptions timing;
  timing.transport = Transport::Delay;
  mlir::Operation *op = program.getOp();
  return evaluate(op, costs, timing);
}

llvm::Expected<NamedEvaluation> run::measured(const NamedEvaluation &predicted,
                                              const Measurement &measurement,
                                              int64_t step) {
  Measurement::Times times = measurement.timesOf(step);
  llvm::Expected<Execution> execution = withMeasuredTimes(
      predicted.getExecution(), {times.startPs, times.endPs, times.makespanPs});
  if (!execution)
    return execution.takeError();
  NamedEvaluation result = predicted;
  result.evaluation.set(std::move(*execution));
  return result;
}

static bool isSecondHalf(const Program &program, uint32_t instruction) {
  return instruction > 0 &&
         program.instructions[instruction].is(InstructionKind::Compute) &&
         program.instructions[instruction - 1].is(InstructionKind::Compute) &&
         program.instructions[instruction - 1].cell.overlapsNext();
}

std::vector<std::vector<int64_t>>
run::pacesOf(const PreparedProgram &program, const NamedEvaluation &predicted) {
  const Program &rows = program.loaded.program;
  const Execution &execution = predicted.getExecution();
  std::vector<std::vector<int64_t>> paces(rows.getNumWorkers());
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker)
    for (uint32_t i = rows.rowBegins[worker]; i < rows.rowBegins[worker + 1];
         ++i) {
      const Instruction &instruction = rows.instructions[i];
      if (instruction.is(InstructionKind::Wait) || isSecondHalf(rows, i))
        continue;
      uint32_t task = execution.graph.taskOfInstruction[i];
      int64_t ps =
          execution.times.occupancyPs[task] + execution.times.latencyPs[task];
      paces[worker].push_back(
          instruction.is(InstructionKind::Recv) ? 0 : ps / kPsPerNs);
    }
  return paces;
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

namespace {
struct Mean {
  int64_t count = 0;
  double sumPs = 0;

  void add(int64_t ps) {
    ++count;
    sumPs += double(ps);
  }
  double us() const { return count == 0 ? 0 : sumPs / double(count) / 1e6; }
};
} // namespace

static constexpr char kMessages[] = "messages";

static llvm::StringRef letterOf(Phase phase) { return enumName(phase); }

static void addTimes(const Execution &execution, llvm::StringMap<Mean> &means) {
  forEachTimedCell(execution, [&](const TimedCell &cell) {
    if (!cell.cell.is(Phase::AllReduce))
      means[letterOf(cell.cell.getPhase())].add(cell.endPs - cell.startPs);
  });
  const TaskGraph &graph = execution.graph;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    int64_t ps =
        execution.times.latencyPs[task] + execution.times.occupancyPs[task];
    if (graph.isMessage(task))
      means[kMessages].add(ps);
    else if (graph.kind[task] == InstructionKind::AllReduce)
      means[letterOf(Phase::AllReduce)].add(ps);
  }
}

static void writeRow(llvm::raw_ostream &os, llvm::StringRef name, int64_t count,
                     double measuredUs, double predictedUs) {
  os << llvm::left_justify(name, 18) << llvm::format("%7lld", (long long)count)
     << llvm::format("%13.1f us%13.1f us", measuredUs, predictedUs);
  if (predictedUs > 0)
    os << llvm::format("%+11.1f %%", 100 * (measuredUs / predictedUs - 1));
  os << "\n";
}

void run::writeTable(llvm::raw_ostream &os, const NamedEvaluation &predicted,
                     const Measurement &measurement,
                     llvm::ArrayRef<NamedEvaluation> measured) {
  llvm::StringMap<Mean> wanted, found;
  addTimes(predicted.getExecution(), wanted);
  for (const NamedEvaluation &step : measured)
    addTimes(step.getExecution(), found);
  os << "                    cells   measured mean  predicted mean   "
        "difference\n";
  auto writeMean = [&](llvm::StringRef name) {
    if (wanted[name].count > 0)
      writeRow(os, name, wanted[name].count, found[name].us(),
               wanted[name].us());
  };
  kCostedPhases.forEach([&](Phase phase) { writeMean(letterOf(phase)); });
  writeMean(kMessages);
  writeRow(os, "step (median)", measured.size(),
           1e3 * measurement.stepMs(measurement.getStep()),
           double(predicted.evaluation.totals.makespanPs) / 1e6);
}
