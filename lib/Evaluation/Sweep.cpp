//===- Sweep.cpp - Many configurations at once ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads take the next number from a counter, so that one large configuration
// delays no other.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Sweep.h"
#include "LongTables.h"
#include "llvm/Support/ThreadPool.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
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

/// Adds an optimizer step, as pipe-add-optimizer does.
static llvm::Error addStep(std::optional<ReductionPlace> place,
                           const CostInputs &costs, Table &table) {
  if (!place)
    return llvm::Error::success();
  ReducedStages reduced = costs.reducesEveryStage() ? ReducedStages::All
                                                    : ReducedStages::Replicated;
  llvm::Expected<OptimizerChange> change =
      addOptimizerStep(table.view(), *place, reduced);
  if (!change)
    return change.takeError();
  table.rows = std::move(change->rows);
  return llvm::Error::success();
}

llvm::Expected<EvaluatedTable>
pipesched::evaluateConfiguration(const Configuration &configuration) {
  const Problem &problem = configuration.problem;
  bool byPeriods = configuration.mayBeLong && isLongTable(problem) &&
                   !configuration.optimizerStep;
  std::optional<Table> table;
  if (!byPeriods) {
    llvm::Expected<Table> generated = generate(problem);
    if (!generated)
      return generated.takeError();
    table = std::move(*generated);
  }
  CostInputs costs;
  if (configuration.costs) {
    llvm::Expected<CostInputs> resolved =
        resolveCosts(*configuration.costs, problem.microbatches);
    if (!resolved)
      return resolved.takeError();
    costs = std::move(*resolved);
  }
  EvaluatedTable evaluated;
  if (byPeriods) {
    llvm::Expected<NamedEvaluation> result =
        evaluateLongTable(configuration, costs);
    if (!result)
      return result.takeError();
    evaluated.result = std::move(*result);
    return evaluated;
  }
  if (llvm::Error error = addStep(configuration.optimizerStep, costs, *table))
    return std::move(error);
  evaluated.table = std::move(*table);
  NamedEvaluation &result = evaluated.result;
  result.name = problem.family->name.str();
  if (!configuration.optimizerStep)
    result.family = result.name;
  result.placement = evaluated.table.placement;
  result.timing = configuration.timing;
  result.microbatchSize = costs.model ? costs.model->microbatchSize : 0;
  result.table = evaluated.table.view();
  llvm::Expected<Evaluation> evaluation = evaluateTable(
      result.tableView(), result.family, costs, result.timing, problem.options);
  if (!evaluation)
    return evaluation.takeError();
  result.evaluation = std::move(*evaluation);
  return evaluated;
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

namespace {

/// What the threads of one sweep share.
class Progress {
public:
  explicit Progress(size_t count, unsigned numThreads)
      : count(count), running(numThreads) {}

  /// The next number to evaluate, or `count` if there is none.
  size_t take() {
    return isStopped ? count : std::min(next.fetch_add(1), count);
  }
  void finishOne() { ++done; }
  void finishThread() {
    std::lock_guard<std::mutex> lock(mutex);
    --running;
    changed.notify_one();
  }
  void stop() { isStopped = true; }
  size_t getDone() const { return done; }

  /// Waits up to `time` for the last thread; returns true if it has finished.
  bool waitFor(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, time, [&] { return running == 0; });
  }

private:
  const size_t count;
  std::atomic<size_t> next = 0, done = 0;
  std::atomic<bool> isStopped = false;
  std::mutex mutex;
  std::condition_variable changed;
  unsigned running;
};

} // namespace

static void work(size_t count, const SweepCalls &calls, Progress &progress) {
  for (size_t i = progress.take(); i < count; i = progress.take()) {
    llvm::Expected<Configuration> configuration = calls.configurationOf(i);
    if (configuration)
      calls.consume(i, evaluateConfiguration(*configuration));
    else
      calls.consume(i, configuration.takeError());
    progress.finishOne();
  }
  progress.finishThread();
}

bool pipesched::sweep(size_t count, unsigned numThreads,
                      const SweepCalls &calls) {
  constexpr std::chrono::milliseconds kPollTime(50);
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(numThreads));
  unsigned threads = std::min<size_t>(pool.getMaxConcurrency(), count);
  Progress progress(count, threads);
  for (unsigned i = 0; i < threads; ++i)
    pool.async([&] { work(count, calls, progress); });
  while (!progress.waitFor(kPollTime))
    if (!calls.keepGoing(progress.getDone()))
      progress.stop();
  pool.wait();
  calls.keepGoing(progress.getDone());
  return progress.getDone() == count;
}
