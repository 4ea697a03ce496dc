//===- SweepTest.cpp - Many configurations at once ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sweep gives the same as its configurations one by one, and can be stopped.
// Costs do not depend on when the microbatches are known.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Sweep.h"
#include "gtest/gtest.h"
#include <atomic>
#include <mutex>
#include <set>

using namespace pipesched;

/// All families with 4 workers and 0 to 11 microbatches.
static std::vector<Configuration> makeConfigurations(const CostSources &costs) {
  std::vector<Configuration> configurations;
  for (const Family &family : families())
    for (int64_t microbatches = 0; microbatches < 12; ++microbatches) {
      Configuration configuration;
      configuration.problem.family = &family;
      configuration.problem.workers = 4;
      configuration.problem.microbatches = microbatches;
      configuration.costs = microbatches % 2 ? &costs : nullptr;
      configurations.push_back(configuration);
    }
  return configurations;
}

/// The makespan or the error, as text.
static std::string describe(llvm::Expected<EvaluatedTable> evaluated) {
  if (!evaluated)
    return llvm::toString(evaluated.takeError());
  return std::to_string(evaluated->result.evaluation.totals.makespanPs);
}

static CostSources makeCosts() {
  CostSources costs;
  costs.profile.emplace();
  costs.profile->phasePs[Phase::Forward] = {1000};
  costs.profile->phasePs[Phase::InputGrad] = {1500};
  costs.profile->phasePs[Phase::WeightGrad] = {700};
  costs.profile->commPs = {90};
  return costs;
}

TEST(Sweep, GivesWhatSinglesGive) {
  CostSources costs = makeCosts();
  std::vector<Configuration> configurations = makeConfigurations(costs);
  std::vector<std::string> expected;
  for (const Configuration &configuration : configurations)
    expected.push_back(describe(evaluateConfiguration(configuration)));
  for (unsigned threads : {0u, 1u, 2u, 7u}) {
    std::vector<std::string> found(configurations.size());
    size_t lastDone = 0;
    bool isDone =
        sweep(configurations.size(), threads,
              {[&](size_t i) { return configurations[i]; },
               [&](size_t i, llvm::Expected<EvaluatedTable> evaluated) {
                 found[i] = describe(std::move(evaluated));
               },
               [&](size_t done) {
                 EXPECT_GE(done, lastDone);
                 lastDone = done;
                 return true;
               }});
    EXPECT_TRUE(isDone);
    EXPECT_EQ(lastDone, configurations.size());
    EXPECT_EQ(found, expected) << threads << " threads";
  }
}

TEST(Sweep, PassesErrorsOfConfigurations) {
  std::mutex mutex;
  std::vector<std::string> errors;
  bool isDone =
      sweep(3, 0,
            {[](size_t i) -> llvm::Expected<Configuration> {
               return llvm::createStringError("no configuration %d", int(i));
             },
             [&](size_t, llvm::Expected<EvaluatedTable> evaluated) {
               std::lock_guard<std::mutex> lock(mutex);
               errors.push_back(describe(std::move(evaluated)));
             },
             [](size_t) { return true; }});
  EXPECT_TRUE(isDone);
  llvm::sort(errors);
  EXPECT_EQ(errors, (std::vector<std::string>{"no configuration 0",
                                              "no configuration 1",
                                              "no configuration 2"}));
}

TEST(Sweep, BeginsNoMoreWhenStopped) {
  constexpr size_t kMany = 1000000; // takes hours
  Configuration configuration;
  configuration.problem.family = findFamily("1f1b");
  configuration.problem.workers = configuration.problem.microbatches = 64;
  std::atomic<size_t> consumed = 0;
  bool isDone = sweep(kMany, 0,
                      {[&](size_t) { return configuration; },
                       [&](size_t, llvm::Expected<EvaluatedTable> evaluated) {
                         EXPECT_TRUE(bool(evaluated));
                         ++consumed;
                       },
                       [](size_t) { return false; }});
  EXPECT_FALSE(isDone);
  EXPECT_LT(consumed, kMany);
}

//===----------------------------------------------------------------------===//
// Configurations of one table
//===----------------------------------------------------------------------===//

/// All numbers of a report, or the error, as text.
static std::string numbersOf(const llvm::Expected<EvaluatedTable> &evaluated) {
  const Evaluation &evaluation = evaluated->result.evaluation;
  const ExecutionTotals &totals = evaluation.totals;
  std::string text;
  llvm::raw_string_ostream os(text);
  auto list = [&](llvm::ArrayRef<int64_t> numbers) {
    for (int64_t number : numbers)
      os << number << ' ';
    os << '\n';
  };
  os << evaluated->result.name << ' ' << evaluated->result.family << ' '
     << evaluated->result.microbatchSize << '\n';
  list({totals.makespanPs, totals.freeMakespanPs, totals.traffic.messages});
  for (const IdleCause &cause : kIdleCauses)
    list(totals.idle.*cause.ps);
  list(totals.idle.busyPs);
  list(totals.traffic.bytesSent);
  for (const Exchange &rows : totals.traffic.exchanges[Resource::Experts])
    list({rows.ps, rows.exposedPs});
  if (totals.memory)
    for (const WorkerMemory &worker : totals.memory->workers)
      list({worker.peakBytes(), worker.peakPs, worker.peakMicrobatches});
  os << evaluation.table->bubbleRatio << ' ' << evaluation.table->slots << ' '
     << (evaluation.formula ? evaluation.formula->bubbleRatio : -1) << ' '
     << evaluation.formulaReason;
  return text;
}

static std::string reportOf(llvm::Expected<EvaluatedTable> evaluated) {
  return evaluated ? numbersOf(evaluated)
                   : llvm::toString(evaluated.takeError());
}

namespace {

/// Sources of costs that give walks, graphs and errors.
struct Sources {
  Sources() : all(6) {
    for (auto [number, source] : llvm::enumerate(all)) {
      source = makeCosts();
      for (std::vector<int64_t> &times : source.profile->phasePs)
        for (int64_t &ps : times)
          ps += 37 * number;
      source.profile->commPs = {int64_t(100 * number)};
    }
    all[3].microbatchSize = 0;
    all[3].architecture.emplace(); // which has no layers
    all[4].profile->phasePs[Phase::AllReduce] = {50};
  }

  std::vector<CostSources> all;
};

} // namespace

/// Every table with every source and several options, in an order that
/// separates tables.
static std::vector<Configuration>
makeSharing(llvm::ArrayRef<CostSources> sources) {
  std::vector<Configuration> configurations;
  for (llvm::StringRef timing : {"", "jitter=5%,seed=1", "worker1=1.5",
                                 "stage0=1.3,jitter=10%,seed=2", "worker9=2"})
    for (const CostSources &costs : sources)
      for (auto transport :
           {Transport::Overlap, Transport::Delay, Transport::Blocking})
        for (llvm::StringRef name : {"1f1b", "zb-h1", "chimera", "dualpipe-v"})
          for (int64_t microbatches : {7, 8, 40}) {
            Configuration configuration;
            configuration.problem.family = findFamily(name);
            configuration.problem.workers = 4;
            configuration.problem.microbatches = microbatches;
            configuration.costs = &costs;
            configuration.timing.transport = transport;
            configuration.timing.disturbance =
                llvm::cantFail(parseDisturbance(timing));
            configuration.numbersAlone = true;
            if (microbatches == 8)
              configuration.optimizerStep = ReductionPlace::Eager;
            configurations.push_back(configuration);
          }
  return configurations;
}

static void sweepAll(
    llvm::ArrayRef<Configuration> configurations, unsigned numThreads,
    llvm::function_ref<void(size_t, llvm::Expected<EvaluatedTable>)> consume) {
  EXPECT_TRUE(sweep(configurations.size(), numThreads,
                    {[&](size_t i) { return configurations[i]; }, consume,
                     [](size_t) { return true; }}));
}

TEST(Sweep, ConfigurationsOfOneTableGiveWhatSinglesGive) {
  Sources sources;
  std::vector<Configuration> configurations = makeSharing(sources.all);
  std::vector<std::string> expected, found(configurations.size());
  for (const Configuration &configuration : configurations)
    expected.push_back(reportOf(evaluateConfiguration(configuration)));
  for (unsigned numThreads : {1, 3}) {
    found.assign(found.size(), "");
    sweepAll(configurations, numThreads,
             [&](size_t i, llvm::Expected<EvaluatedTable> evaluated) {
               found[i] = reportOf(std::move(evaluated));
             });
    EXPECT_EQ(found, expected);
  }
  EXPECT_GT(std::set<std::string>(expected.begin(), expected.end()).size(),
            configurations.size() / 3);
}

/// Options and paths that tables follow from.
TEST(Sweep, TablesThatDifferAreNotShared) {
  CostSources costs = makeCosts();
  std::vector<Configuration> configurations;
  auto add = [&](llvm::StringRef family, auto &&change) {
    Configuration &configuration = configurations.emplace_back();
    configuration.problem.family = findFamily(family);
    configuration.problem.workers = 4;
    configuration.problem.microbatches = 8;
    configuration.costs = &costs;
    configuration.numbersAlone = true;
    change(configuration);
  };
  for (int64_t chunks : {1, 2, 4, 2})
    add("interleaved-1f1b", [&](Configuration &configuration) {
      configuration.problem.options.chunks = chunks;
    });
  for (bool isSplit : {false, true})
    add("1f1b", [&](Configuration &configuration) {
      configuration.problem.options.splitBackward = isSplit;
    });
  for (bool isReversed : {false, true})
    add("1f1b", [&](Configuration &configuration) {
      Path path = placeLinear(4);
      path.weights = {1, 2, 3, 4};
      if (isReversed)
        std::reverse(path.weights.begin(), path.weights.end());
      configuration.problem.paths = {path};
    });
  for (auto place : {ReductionPlace::Eager, ReductionPlace::End})
    add("chimera", [&](Configuration &configuration) {
      configuration.optimizerStep = place;
    });
  add("gpipe", [](Configuration &) {});
  add("gpipe", [](Configuration &configuration) {
    configuration.problem.options.slots = {StageSlots(2, 1, 1)};
  });
  sweepAll(configurations, /*numThreads=*/1,
           [&](size_t i, llvm::Expected<EvaluatedTable> evaluated) {
             EXPECT_EQ(reportOf(std::move(evaluated)),
                       reportOf(evaluateConfiguration(configurations[i])));
           });
}

TEST(Sweep, ConfigurationsOfOneTableShareIt) {
  CostSources costs = makeCosts();
  Configuration configuration;
  configuration.problem.family = findFamily("1f1b");
  configuration.problem.workers = configuration.problem.microbatches = 4;
  configuration.costs = &costs;
  configuration.numbersAlone = true;
  std::vector<Configuration> same(3, configuration);
  same[2].numbersAlone = false;
  std::vector<std::optional<EvaluatedTable>> found(same.size());
  sweepAll(same, /*numThreads=*/1,
           [&](size_t i, llvm::Expected<EvaluatedTable> evaluated) {
             found[i].emplace(llvm::cantFail(std::move(evaluated)));
           });
  EXPECT_EQ(found[0]->table, found[1]->table);
  EXPECT_TRUE(found[0]->result.evaluation.totals.leavesOutPath);
  EXPECT_NE(found[0]->table, found[2]->table);
  EXPECT_FALSE(found[2]->result.evaluation.totals.criticalSteps.empty());
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static Architecture makeArchitecture() {
  Architecture architecture;
  architecture.name = "small";
  architecture.hidden = 64;
  architecture.feedforward = 256;
  architecture.sequence = 32;
  architecture.layers = 8;
  architecture.attentionHeads = architecture.keyValueHeads = 4;
  architecture.attentionWidth = 64;
  architecture.globalBatch = 24;
  return architecture;
}

TEST(CostSources, DealTheGlobalBatch) {
  CostSources costs;
  costs.architecture = makeArchitecture();
  EXPECT_EQ(llvm::cantFail(resolveCosts(costs, 8)).model->microbatchSize, 3);
  costs.globalBatch = 32;
  EXPECT_EQ(llvm::cantFail(resolveCosts(costs, 8)).model->microbatchSize, 4);
  costs.microbatchSize = 5;
  EXPECT_EQ(llvm::cantFail(resolveCosts(costs, 7)).model->microbatchSize, 5);
}

TEST(CostSources, SayWhatDoesNotDivide) {
  CostSources costs;
  costs.architecture = makeArchitecture();
  EXPECT_EQ(llvm::toString(resolveCosts(costs, 7).takeError()),
            "the schedule has 7 microbatches, which do not divide the global "
            "batch of 24; numbers that do: 6 and 8");
  costs.architecture->globalBatch = 0;
  EXPECT_EQ(llvm::toString(resolveCosts(costs, 7).takeError()),
            "the schedule has a model without a global batch, 'small'; give "
            "microbatch-size or global-batch");
}
