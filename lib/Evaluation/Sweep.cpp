//===- Sweep.cpp - Many configurations at once ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads take the next configurations of one table from a list, so that a
// large table does not delay others.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Sweep.h"
#include "llvm/Support/ThreadPool.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

using namespace pipesched;

llvm::Expected<Table> pipesched::generate(const Problem &problem) {
  if (problem.paths.empty())
    return generate(*problem.family, problem.workers, problem.microbatches,
                    problem.options);
  llvm::Expected<Placement> placement =
      Placement::create(problem.workers, problem.microbatches, problem.paths);
  if (!placement)
    return placement.takeError();
  return generate(*problem.family, *placement, problem.options);
}

//===----------------------------------------------------------------------===//
// Configurations
//===----------------------------------------------------------------------===//

static ReducedStages reducedStages(const Configuration &configuration) {
  const CostSources *costs = configuration.costs;
  return costs && reducesEveryStage(costs->system, costs->profile)
             ? ReducedStages::All
             : ReducedStages::Replicated;
}

/// Makes the table of a configuration. If the configuration has an optimizer
/// step, adds it like pipe-add-optimizer.
static llvm::Expected<Table> makeTable(const Configuration &configuration) {
  llvm::Expected<Table> table = generate(configuration.problem);
  if (!table || !configuration.optimizerStep)
    return table;
  llvm::Expected<OptimizerChange> change =
      addOptimizerStep(table->view(), *configuration.optimizerStep,
                       reducedStages(configuration));
  if (!change)
    return change.takeError();
  table->rows = std::move(change->rows);
  return table;
}

static llvm::Expected<CostInputs> costsOf(const Configuration &configuration) {
  if (!configuration.costs)
    return CostInputs();
  llvm::Expected<CostInputs> costs =
      resolveCosts(*configuration.costs, configuration.problem.microbatches);
  if (costs && configuration.optimizerStep == ReductionPlace::Eager)
    costs->reduceByLayers();
  return costs;
}

/// Sets all parts of a result except the evaluation itself.
static EvaluatedTable describe(const Configuration &configuration,
                               const CostInputs &costs,
                               std::shared_ptr<const Table> table) {
  EvaluatedTable evaluated;
  evaluated.table = std::move(table);
  NamedEvaluation &result = evaluated.result;
  result.name = configuration.problem.family->name.str();
  if (!configuration.optimizerStep)
    result.family = result.name;
  result.placement = evaluated.table->placement;
  result.timing = configuration.timing;
  result.describe(costs);
  result.table = evaluated.table->view();
  return evaluated;
}

llvm::Expected<EvaluatedTable>
pipesched::evaluateConfiguration(const Configuration &configuration) {
  llvm::Expected<Table> table = makeTable(configuration);
  if (!table)
    return table.takeError();
  llvm::Expected<CostInputs> costs = costsOf(configuration);
  if (!costs)
    return costs.takeError();
  EvaluatedTable evaluated = describe(
      configuration, *costs, std::make_shared<const Table>(std::move(*table)));
  NamedEvaluation &result = evaluated.result;
  llvm::Expected<Evaluation> evaluation =
      evaluateTable(result.tableView(), result.family, *costs, result.timing,
                    configuration.problem.options);
  if (!evaluation)
    return evaluation.takeError();
  result.evaluation = std::move(*evaluation);
  return evaluated;
}

//===----------------------------------------------------------------------===//
// Configurations of one table
//===----------------------------------------------------------------------===//

/// A key that determines a table, as numbers. Absent for a configuration that
/// is evaluated separately.
using TableKey = std::optional<std::vector<int64_t>>;

static void append(std::vector<int64_t> &key, const FamilyOptions &options) {
  constexpr int64_t kNotGiven = std::numeric_limits<int64_t>::min();
  for (const FamilyOptionInfo &info : familyOptions())
    std::visit(
        [&](auto member) {
          const auto &value = options.*member;
          key.push_back(value ? static_cast<int64_t>(*value) : kNotGiven);
        },
        info.field);
}

static void append(std::vector<int64_t> &key, const Path &path) {
  auto appendAll = [&](const auto &numbers) {
    key.push_back(numbers.size());
    key.insert(key.end(), numbers.begin(), numbers.end());
  };
  appendAll(path.workers);
  appendAll(path.blocks);
  appendAll(path.weights);
  key.push_back(path.takes.size());
  for (const MicrobatchRange &range : path.takes)
    key.insert(key.end(), {range.begin, range.end, range.step});
}

static TableKey keyOf(const Configuration &configuration) {
  const Problem &problem = configuration.problem;
  if (!configuration.numbersAlone || !problem.options.slots.empty())
    return std::nullopt;
  std::optional<ReductionPlace> step = configuration.optimizerStep;
  std::vector<int64_t> key = {
      problem.family - families().begin(), problem.workers,
      problem.microbatches, step ? static_cast<int64_t>(*step) : -1,
      step ? static_cast<int64_t>(reducedStages(configuration)) : -1};
  append(key, problem.options);
  for (const Path &path : problem.paths)
    append(key, path);
  return key;
}

static std::vector<llvm::Expected<EvaluatedTable>>
evaluateAsOne(llvm::ArrayRef<const Configuration *> same) {
  std::vector<llvm::Expected<EvaluatedTable>> results;
  bool isWhole = !same[0]->numbersAlone; // with a critical path
  llvm::Expected<Table> table = isWhole ? Table() : makeTable(*same[0]);
  if (!table || isWhole) { // each configuration reports its own error
    llvm::consumeError(table.takeError());
    for (const Configuration *configuration : same)
      results.push_back(evaluateConfiguration(*configuration));
    return results;
  }
  auto shared = std::make_shared<const Table>(std::move(*table));
  std::vector<CostInputs> costs(same.size());
  std::vector<Scenario> scenarios;
  for (auto [configuration, inputs] : llvm::zip_equal(same, costs)) {
    llvm::Expected<CostInputs> found = costsOf(*configuration);
    if (!found) {
      results.push_back(found.takeError());
      continue;
    }
    inputs = std::move(*found);
    results.push_back(describe(*configuration, inputs, shared));
    scenarios.push_back({&inputs, &configuration->timing});
  }
  const Problem &problem = same[0]->problem;
  std::vector<llvm::Expected<Evaluation>> evaluations = evaluateTables(
      shared->view(), same[0]->optimizerStep ? "" : problem.family->name,
      scenarios, problem.options);
  auto next = evaluations.begin();
  for (llvm::Expected<EvaluatedTable> &result : results) {
    if (!result)
      continue; // its costs have an error
    llvm::Expected<Evaluation> &evaluation = *next++;
    if (evaluation)
      result->result.evaluation = std::move(*evaluation);
    else
      result = evaluation.takeError();
  }
  return results;
}

/// The numbers of configurations that are evaluated together.
using Together = std::vector<size_t>;

/// Groups the configurations of one table, at most 16 in a group. Groups are in
/// the order of their first configuration.
static std::vector<Together>
groupByTable(llvm::ArrayRef<Configuration> configurations) {
  constexpr size_t kMostTogether = 16;
  std::vector<Together> groups;
  std::map<std::vector<int64_t>, size_t> open; ///< groups with room for more
  for (auto [number, configuration] : llvm::enumerate(configurations)) {
    TableKey key = keyOf(configuration);
    size_t group = groups.size();
    if (key)
      group = open.try_emplace(std::move(*key), group).first->second;
    if (group != groups.size() && groups[group].size() == kMostTogether) {
      open[*keyOf(configuration)] = groups.size();
      group = groups.size();
    }
    if (group == groups.size())
      groups.emplace_back();
    groups[group].push_back(number);
  }
  return groups;
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

namespace {

/// A configuration with its number, or the error instead of it.
struct Numbered {
  size_t number;
  llvm::Expected<Configuration> configuration;
};

/// The shared state of the threads of one sweep.
class Progress {
public:
  explicit Progress(size_t count, unsigned numThreads, const SweepCalls &calls)
      : count(count), calls(calls), running(numThreads) {}

  /// Returns the next configurations to evaluate together; empty if there are
  /// none.
  std::vector<Numbered> take() {
    std::lock_guard<std::mutex> lock(reading);
    while (waiting.empty() && next != count && !isStopped)
      readMore();
    if (isStopped || waiting.empty())
      return {};
    std::vector<Numbered> first = std::move(waiting.front());
    waiting.pop_front();
    return first;
  }
  void finish(size_t numbers) { done += numbers; }
  void finishThread() {
    std::lock_guard<std::mutex> lock(mutex);
    --running;
    changed.notify_one();
  }
  void stop() { isStopped = true; }
  size_t getDone() const { return done; }

  /// Waits up to `time` for the last thread; returns whether it has finished.
  bool waitFor(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, time, [&] { return running == 0; });
  }

private:
  void readMore();

  const size_t count;
  const SweepCalls &calls;
  std::mutex reading; ///< guards the next two members
  size_t next = 0;
  std::deque<std::vector<Numbered>> waiting;
  std::atomic<size_t> done = 0;
  std::atomic<bool> isStopped = false;
  std::mutex mutex;
  std::condition_variable changed;
  unsigned running;
};

} // namespace

/// Reads some configurations and groups them by table.
void Progress::readMore() {
  constexpr size_t kWindow = 4096;
  std::vector<Configuration> configurations;
  std::vector<size_t> numbers;
  for (size_t end = next + std::min(kWindow, count - next); next != end;
       ++next) {
    llvm::Expected<Configuration> read = calls.configurationOf(next);
    if (!read) {
      waiting.emplace_back();
      waiting.back().push_back({next, read.takeError()});
      continue;
    }
    configurations.push_back(std::move(*read));
    numbers.push_back(next);
  }
  for (const Together &group : groupByTable(configurations)) {
    std::vector<Numbered> &together = waiting.emplace_back();
    for (size_t i : group)
      together.push_back({numbers[i], std::move(configurations[i])});
  }
}

static void evaluate(std::vector<Numbered> &together, const SweepCalls &calls) {
  std::vector<const Configuration *> same;
  for (Numbered &each : together) {
    if (!each.configuration)
      return calls.consume(each.number, each.configuration.takeError());
    same.push_back(&*each.configuration);
  }
  for (auto [each, result] : llvm::zip_equal(together, evaluateAsOne(same)))
    calls.consume(each.number, std::move(result));
}

static void work(const SweepCalls &calls, Progress &progress) {
  for (std::vector<Numbered> together = progress.take(); !together.empty();
       together = progress.take()) {
    evaluate(together, calls);
    progress.finish(together.size());
  }
  progress.finishThread();
}

bool pipesched::sweep(size_t count, unsigned numThreads,
                      const SweepCalls &calls) {
  constexpr std::chrono::milliseconds kPollTime(50);
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(numThreads));
  unsigned threads = std::min<size_t>(pool.getMaxConcurrency(), count);
  Progress progress(count, threads, calls);
  for (unsigned i = 0; i < threads; ++i)
    pool.async([&] { work(calls, progress); });
  while (!progress.waitFor(kPollTime))
    if (!calls.keepGoing(progress.getDone()))
      progress.stop();
  pool.wait();
  calls.keepGoing(progress.getDone());
  return progress.getDone() == count;
}
