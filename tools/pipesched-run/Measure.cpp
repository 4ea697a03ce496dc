//===- Measure.cpp - Measured beside predicted times ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A log says when an instruction began and ended in its worker. When a message
// arrived shows in the cell that waits for it:
//
//   worker 0   | 0F0 |send|
//                     :.......... message ..........
//   worker 1   | 1B0 | waits                        | 1F0 |
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Evaluation/MeasuredTimes.h"
#include "PipeSched/Evaluation/TimedCells.h"
#include "PipeSched/Facts/ProfileText.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace pipesched;
using namespace pipesched::run;

static constexpr int64_t kPsPerNs = 1000;

//===----------------------------------------------------------------------===//
// Instructions and their entries in the logs
//===----------------------------------------------------------------------===//

static bool isSecondHalf(const Program &program, uint32_t instruction) {
  return instruction > 0 &&
         program.instructions[instruction].is(InstructionKind::Compute) &&
         program.instructions[instruction - 1].is(InstructionKind::Compute) &&
         program.instructions[instruction - 1].cell.overlapsNext();
}

Measurement::Measurement(const PreparedProgram &program,
                         const RunResult &result)
    : program(program), result(result) {
  int64_t numSteps = result.getNumSteps();
  for (int64_t step = numSteps > 1 ? 1 : 0; step < numSteps; ++step)
    steps.push_back(step);
  std::vector<int64_t> sorted = steps;
  auto middle = sorted.begin() + (sorted.size() - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end(),
                   [&](int64_t a, int64_t b) { return stepMs(a) < stepMs(b); });
  median = *middle;
  findWaits();
}

double Measurement::stepMs(int64_t step) const {
  Span span = result.spanOf(step);
  return double(span.end - span.begin) / 1e6;
}

void Measurement::findWaits() {
  const Program &rows = program.loaded.program;
  logNumber.assign(rows.instructions.size(), -1);
  waiter.assign(rows.instructions.size(), -1);
  workerOf.resize(rows.instructions.size());
  for (int64_t worker = 0; worker < rows.getNumWorkers(); ++worker) {
    int64_t next = 0;
    std::vector<uint32_t> joined;
    for (uint32_t i = rows.rowBegins[worker]; i < rows.rowBegins[worker + 1];
         ++i) {
      const Instruction &instruction = rows.instructions[i];
      workerOf[i] = worker;
      if (instruction.is(InstructionKind::Wait)) {
        llvm::append_range(joined, rows.operandsOf(i));
        continue;
      }
      logNumber[i] = isSecondHalf(rows, i) ? next - 1 : next++;
      std::vector<uint32_t> awaited(rows.operandsOf(i).begin(),
                                    rows.operandsOf(i).end());
      if (instruction.is(InstructionKind::Compute) ||
          instruction.is(InstructionKind::Reload))
        llvm::append_range(awaited, std::exchange(joined, {}));
      for (uint32_t other : awaited)
        if (waiter[other] < 0)
          waiter[other] = i;
    }
  }
}

//===----------------------------------------------------------------------===//
// Times of one step
//===----------------------------------------------------------------------===//

/// What the logs say of the instructions of a step, in ns.
class Measurement::Collector {
public:
  Collector(const Measurement &measurement, int64_t step)
      : all(measurement), step(step) {}

  Span spanOf(uint32_t i) const {
    return all.result.logs[all.workerOf[i]].at(step, all.logNumber[i]);
  }
  /// When the worker went on that had to wait for instruction `i`; else when
  /// its step ended.
  int64_t seenEnd(uint32_t i) const {
    return all.waiter[i] < 0 ? all.result.logs[all.workerOf[i]].steps[step].end
                             : spanOf(all.waiter[i]).begin;
  }
  /// When the worker had nothing else to do but to wait for instruction `i`.
  int64_t waitBegin(uint32_t i) const {
    const WorkerLog &log = all.result.logs[all.workerOf[i]];
    if (all.waiter[i] < 0)
      return log.steps[step].end;
    int64_t number = all.logNumber[all.waiter[i]];
    return number == 0 ? log.steps[step].begin : log.at(step, number - 1).end;
  }

private:
  const Measurement &all;
  int64_t step;
};

Measurement::Times Measurement::timesOf(int64_t step) const {
  const Program &rows = program.loaded.program;
  Collector collector(*this, step);
  Span whole = result.spanOf(step);
  Times times;
  times.makespanPs = (whole.end - whole.begin) * kPsPerNs;
  auto toPs = [&](int64_t ns) {
    return std::clamp<int64_t>((ns - whole.begin) * kPsPerNs, 0,
                               times.makespanPs);
  };
  for (uint32_t i = 0; i < rows.instructions.size(); ++i) {
    if (isSecondHalf(rows, i))
      continue;
    const Instruction &instruction = rows.instructions[i];
    Span span = {whole.begin, whole.begin};
    if (!instruction.is(InstructionKind::Wait))
      span = collector.spanOf(i);
    if (!instruction.is(InstructionKind::Compute) &&
        !instruction.is(InstructionKind::Send) &&
        !instruction.is(InstructionKind::Wait))
      span.end = collector.seenEnd(i);
    times.startPs.push_back(toPs(span.begin));
    times.endPs.push_back(toPs(span.end));
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Profile
//===----------------------------------------------------------------------===//

namespace {

/// Times in ns, by stage.
class Samples {
public:
  void add(int64_t stage, int64_t ns) {
    byStage[stage].push_back(std::max<int64_t>(ns, 0));
  }
  bool has(int64_t stage) const { return byStage.count(stage); }
  bool empty() const { return byStage.empty(); }
  double mean(int64_t stage) const { return meanOf(byStage.at(stage)); }

  /// One time in ps for each stage; those without a sample have the mean of
  /// all. Empty without samples.
  std::vector<int64_t> means(int64_t numStages) const {
    if (empty())
      return {};
    std::vector<int64_t> all, result;
    for (const auto &[stage, times] : byStage)
      llvm::append_range(all, times);
    for (int64_t stage = 0; stage < numStages; ++stage)
      result.push_back(llvm::divideNearest(
          uint64_t(kPsPerNs * 16 * (has(stage) ? mean(stage) : meanOf(all))),
          16));
    return result;
  }

private:
  static double meanOf(llvm::ArrayRef<int64_t> times) {
    double sum = 0;
    for (int64_t time : times)
      sum += double(time);
    return sum / double(times.size());
  }
  std::map<int64_t, std::vector<int64_t>> byStage;
};

class ProfileBuilder {
public:
  Samples phases[kNumPhases], pairs;
  std::vector<int64_t> messages;

  Samples &of(Phase phase) { return phases[static_cast<unsigned>(phase)]; }
  Profile build(int64_t numStages);

private:
  void fill(int64_t numStages);
};

} // namespace

/// Adds times that a run of pairs, or of split backwards, does not show apart:
/// a backward has about twice the work of a forward.
void ProfileBuilder::fill(int64_t numStages) {
  for (int64_t stage = 0; stage < numStages; ++stage) {
    Samples &whole = of(Phase::Backward);
    bool isSplit =
        of(Phase::InputGrad).has(stage) && of(Phase::WeightGrad).has(stage);
    if (isSplit && !whole.empty() && !whole.has(stage))
      whole.add(stage, int64_t(of(Phase::InputGrad).mean(stage) +
                               of(Phase::WeightGrad).mean(stage)));
    if (!pairs.has(stage))
      continue;
    if (!of(Phase::Forward).has(stage))
      of(Phase::Forward).add(stage, int64_t(pairs.mean(stage) / 3));
    if (!whole.has(stage) && !isSplit)
      whole.add(stage, int64_t(pairs.mean(stage) * 2 / 3));
  }
}

Profile ProfileBuilder::build(int64_t numStages) {
  fill(numStages);
  Profile profile;
  for (unsigned phase = 0; phase < kNumPhases; ++phase)
    profile.phasePs[phase] = phases[phase].means(numStages);
  profile.overlappedPs = pairs.means(numStages);
  if (messages.empty())
    return profile;
  auto middle = messages.begin() + messages.size() / 2;
  std::nth_element(messages.begin(), middle, messages.end());
  profile.commPs = {std::max<int64_t>(*middle, 0) * kPsPerNs};
  return profile;
}

/// Calls `handle` with each all-reduce once, as its instructions.
template <typename Handle>
static void forEachGroup(const Program &program, Handle handle) {
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (!program.instructions[i].is(InstructionKind::AllReduce))
      continue;
    llvm::SmallVector<uint32_t> members = {i};
    bool isFirst = true;
    for (uint32_t next = program.partner[i];
         next != i && next != Program::kNone; next = program.partner[next]) {
      isFirst &= next > i;
      members.push_back(next);
    }
    if (isFirst)
      handle(members);
  }
}

Profile Measurement::profile() const {
  const Program &rows = program.loaded.program;
  ProfileBuilder builder;
  for (int64_t step : steps) {
    Collector log(*this, step);
    for (uint32_t i = 0; i < rows.instructions.size(); ++i) {
      const Instruction &instruction = rows.instructions[i];
      if (instruction.is(InstructionKind::Wait) || isSecondHalf(rows, i))
        continue;
      int64_t stage = instruction.cell.getStage();
      Span span = log.spanOf(i);
      if (instruction.is(InstructionKind::Compute) &&
          instruction.cell.overlapsNext())
        builder.pairs.add(stage, span.end - span.begin);
      else if (instruction.is(InstructionKind::Compute))
        builder.of(instruction.cell.getPhase())
            .add(stage, span.end - span.begin);
      else if (instruction.is(InstructionRole::Copy))
        builder.of(instruction.cell.getPhase())
            .add(stage, log.seenEnd(i) - span.begin);
      else if (instruction.is(InstructionKind::Recv)) {
        int64_t sent = log.spanOf(rows.partner[i]).begin;
        if (waiter[i] >= 0 && log.waitBegin(i) <= sent)
          builder.messages.push_back(log.seenEnd(i) - sent);
      }
    }
    forEachGroup(rows, [&](llvm::ArrayRef<uint32_t> members) {
      int64_t begin = INT64_MIN, end = INT64_MAX;
      for (uint32_t member : members) {
        begin = std::max(begin, log.spanOf(member).begin);
        end = std::min(end, log.seenEnd(member));
      }
      for (uint32_t member : members)
        builder.of(Phase::AllReduce)
            .add(rows.instructions[member].cell.getStage(), end - begin);
    });
  }
  return builder.build(program.functions.stages.size());
}

std::string run::profileToJson(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os, /*IndentSize=*/2);
  Profile copy = profile;
  json.object([&] {
    for (llvm::StringRef name : profileNames())
      if (const std::vector<int64_t> &times = *findTimes(copy, name);
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

static llvm::StringRef letterOf(Phase phase) {
  return profileNames()[static_cast<unsigned>(phase)];
}

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
    else if (graph.is(task, InstructionRole::Collective))
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
  for (unsigned phase = 0; phase < kNumPhases; ++phase)
    writeMean(letterOf(static_cast<Phase>(phase)));
  writeMean(kMessages);
  writeRow(os, "step (median)", measured.size(),
           1e3 * measurement.stepMs(measurement.getStep()),
           double(predicted.evaluation.totals.makespanPs) / 1e6);
}
