//===- Solver.cpp - Finds schedules ---------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Searches on threads, each with random numbers of its own; one of them looks
// for proofs now and then. The caller's thread waits, reports and merges.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Solver.h"
#include "PipeSched/Optimize/Bounds.h"
#include "Search/Search.h"
#include "Search/StaticSeeds.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::Expected;

/// More threads than that find nothing more.
static constexpr unsigned kMaxThreads = 256;
static constexpr std::chrono::milliseconds kPollInterval(20);
static constexpr double kReportInterval = 0.25;

namespace {
/// A solution and what it came from.
struct Found {
  Solution solution;
  std::string origin;
};

/// The best solution so far. None but those that stand the check are taken.
class Best {
public:
  explicit Best(const Problem &problem) : problem(problem) {}

  explicit operator bool() const { return found.has_value(); }
  /// kInfeasible: there is none.
  int64_t getObjective() const {
    return found ? objectiveOf(problem, found->solution) : kInfeasible;
  }
  const std::string &getOrigin() const { return found->origin; }
  Found take() { return std::move(*found); }

  /// Times the rows and takes them if they are better.
  void offer(ArrayRef<Row> rows, llvm::StringRef origin);
  void offer(Solution solution, llvm::StringRef origin);

private:
  const Problem &problem;
  std::optional<Found> found;
};
} // namespace

void Best::offer(Solution solution, llvm::StringRef origin) {
  if (objectiveOf(problem, solution) >= getObjective())
    return;
  if (llvm::Error error = verifySolution(problem, solution))
    return llvm::consumeError(std::move(error));
  found = {std::move(solution), origin.str()};
}

void Best::offer(ArrayRef<Row> rows, llvm::StringRef origin) {
  std::vector<ArrayRef<Cell>> views(rows.begin(), rows.end());
  Expected<Solution> solution = timeRows(problem, views);
  if (!solution)
    return llvm::consumeError(solution.takeError());
  offer(std::move(*solution), origin);
}

//===----------------------------------------------------------------------===//
// What threads share
//===----------------------------------------------------------------------===//

namespace {
using SteadyClock = std::chrono::steady_clock;

/// Limits, what has been reached, and who has to stop.
class Race {
public:
  Race(const SolverOptions &options, unsigned numThreads)
      : options(options), numThreads(numThreads) {}

  double seconds() const {
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
  }
  bool hasTime() const {
    return options.timeLimitSeconds <= 0 ||
           seconds() < options.timeLimitSeconds;
  }
  bool isRepeatable() const { return options.maxEvaluations > 0; }
  uint64_t budgetOf(unsigned thread) const {
    uint64_t all = options.maxEvaluations;
    return all / numThreads + (thread < all % numThreads);
  }
  bool isReached(int64_t objective) const {
    double target = double(bound.load()) * (1 + std::max(0.0, options.gap));
    return objective <= bound.load() || double(objective) <= target;
  }
  /// A thread has a solution of that objective.
  void tell(unsigned thread, int64_t objective);
  /// Nothing is below this. `better`: the bound's name.
  void raiseBound(int64_t value, std::string name);
  /// Where results have to be repeatable, the first thread that has reached
  /// the bound and those behind it stop, those before it go on: they win if
  /// they reach it, too.
  bool mustStop(unsigned thread) const {
    return isStopped || thread >= firstThere ||
           (firstThere != kNone && !isRepeatable());
  }

  const SolverOptions &options;
  const unsigned numThreads;
  const SteadyClock::time_point start = SteadyClock::now();
  std::atomic<bool> isStopped = false;
  std::atomic<int64_t> best = kInfeasible, bound = 0;
  std::atomic<uint64_t> evaluations = 0;
  std::atomic<uint32_t> firstThere = kNone;
  // Under the lock.
  std::mutex lock;
  std::condition_variable hasEnded;
  unsigned numRunning = 0;
  double secondsToBest = 0;
  std::string boundName;
};

/// Stops one thread.
class ThreadStopper : public Stopper {
public:
  ThreadStopper(Race &race, unsigned thread) : race(race), thread(thread) {}

  bool shouldStop(uint64_t evaluations, int64_t best) override {
    used += evaluations;
    race.evaluations += evaluations;
    race.tell(thread, best);
    return race.mustStop(thread) || !race.hasTime() || isSpent();
  }
  double getProgress() const override {
    double timeUsed = race.options.timeLimitSeconds > 0
                          ? race.seconds() / race.options.timeLimitSeconds
                          : 1;
    if (!race.isRepeatable())
      return timeUsed;
    return double(used) / double(std::max<uint64_t>(1, race.budgetOf(thread)));
  }
  bool isSpent() const {
    return race.isRepeatable() && used >= race.budgetOf(thread);
  }

private:
  Race &race;
  unsigned thread;
  uint64_t used = 0;
};
} // namespace

void Race::tell(unsigned thread, int64_t objective) {
  if (objective == kInfeasible)
    return;
  if (isReached(objective)) {
    uint32_t first = firstThere;
    while (thread < first && !firstThere.compare_exchange_weak(first, thread))
      ;
  }
  if (objective >= best)
    return;
  std::lock_guard<std::mutex> guard(lock);
  if (objective < best) {
    best = objective;
    secondsToBest = seconds();
  }
}

void Race::raiseBound(int64_t value, std::string name) {
  std::lock_guard<std::mutex> guard(lock);
  if (value > bound) {
    bound = value;
    boundName = std::move(name);
  }
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

namespace {
/// When the last thread turns to proofs, and for how long, in parts of the time
/// limit.
struct ProofSlice {
  double from, length;
};
constexpr ProofSlice kProofSlices[] = {{0.05, 0.1}, {0.35, 0.25}};

/// Stops a thread, or lets it pause for a proof.
class PausingStopper : public ThreadStopper {
public:
  using ThreadStopper::ThreadStopper;

  bool shouldStop(uint64_t evaluations, int64_t best) override {
    return ThreadStopper::shouldStop(evaluations, best) ||
           getProgress() >= pauseAt;
  }

  double pauseAt = std::numeric_limits<double>::infinity();
};

/// What one thread does and has found.
struct Runner {
  Runner(const Encoding &encoding, Race &race, unsigned thread)
      : encoding(encoding), race(race), thread(thread), stopper(race, thread) {}

  void run(ArrayRef<Candidate> candidates);
  void searchAndProve();
  void proveFor(double seconds);

  const Encoding &encoding;
  Race &race;
  unsigned thread;
  PausingStopper stopper;
  std::unique_ptr<Search> search;
  std::optional<Solution> proven; ///< found by exact search
};
} // namespace

void Runner::proveFor(double seconds) {
  const Problem &problem = encoding.problem;
  ProofLimits limits;
  limits.seconds = seconds;
  limits.interrupted = &race.isStopped;
  int64_t upperBound = race.best;
  Proof proof = prove(problem, upperBound, limits);
  race.raiseBound(proof.lowerBound.value, proof.lowerBound.name);
  if (proof.better) {
    int64_t objective = objectiveOf(problem, *proof.better);
    if (!proven || objective < objectiveOf(problem, *proven))
      proven = std::move(proof.better);
    race.tell(thread, objective);
  }
  race.tell(thread, search->getBestObjective());
}

void Runner::searchAndProve() {
  double limit = race.options.timeLimitSeconds;
  bool proves = thread + 1 == race.numThreads && !race.isRepeatable() &&
                encoding.problem.objective == Objective::Makespan;
  if (proves)
    for (const ProofSlice &slice : kProofSlices) {
      stopper.pauseAt = slice.from;
      search->anneal(stopper);
      if (race.mustStop(thread) || !race.hasTime())
        return;
      proveFor(slice.length * limit);
    }
  stopper.pauseAt = std::numeric_limits<double>::infinity();
  if (!stopper.shouldStop(0, search->getBestObjective()))
    search->anneal(stopper);
}

void Runner::run(ArrayRef<Candidate> candidates) {
  search = makeSearch(encoding, race.options.seed * kMaxThreads + thread + 1);
  search->start();
  for (const Candidate &candidate : candidates) {
    if (stopper.shouldStop(0, search->getBestObjective()))
      break;
    search->offer(candidate, stopper);
  }
  if (!stopper.shouldStop(0, search->getBestObjective()))
    search->construct(stopper);
  if (race.options.timeLimitSeconds > 0 &&
      !stopper.shouldStop(0, search->getBestObjective()))
    searchAndProve();
  race.tell(thread, search->getBestObjective());
  std::lock_guard<std::mutex> guard(race.lock);
  --race.numRunning;
  race.hasEnded.notify_all();
}

/// Waits for the threads; passes interruptions on and reports.
static void supervise(Race &race) {
  const SolverOptions &options = race.options;
  double reported = 0;
  std::unique_lock<std::mutex> guard(race.lock);
  while (race.numRunning > 0) {
    race.hasEnded.wait_for(guard, kPollInterval);
    if ((options.interrupted && *options.interrupted) ||
        (race.firstThere != kNone && !race.isRepeatable()) || !race.hasTime())
      race.isStopped = true;
    double seconds = race.seconds();
    if (!options.report || seconds - reported < kReportInterval)
      continue;
    reported = seconds;
    Progress progress{seconds, race.best, race.bound, race.evaluations};
    guard.unlock();
    if (progress.best != kInfeasible)
      options.report(progress);
    guard.lock();
  }
}

//===----------------------------------------------------------------------===//
// Solve
//===----------------------------------------------------------------------===//

/// Whether somebody has asked for an end.
static bool isInterrupted(const SolverOptions &options) {
  return options.interrupted && *options.interrupted;
}

namespace {
/// Seeds as plans to start from, and the best of them that fits the memory.
class SeedReader {
public:
  SeedReader(const Encoding &encoding, Best &best)
      : encoding(encoding), best(best) {}

  void read(const Seed &seed);

  std::vector<Candidate> candidates;

private:
  bool hasExtras(const Plan &plan) const;
  template <typename Evaluation>
  void offerRows(const Plan &plan, llvm::StringRef name);

  const Encoding &encoding;
  Best &best;
};
} // namespace

/// Whether anything is offloaded or recomputed.
bool SeedReader::hasExtras(const Plan &plan) const {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    for (uint32_t i = 0; i < plan.sizes[worker]; ++i) {
      Token token = plan.tokens[encoding.rowBegins[worker] + i];
      if (encoding.kinds[token.kind].step > Step::WeightGrad)
        return true;
    }
  return false;
}

template <typename Evaluation>
void SeedReader::offerRows(const Plan &plan, llvm::StringRef name) {
  Evaluation evaluation(encoding);
  if (evaluation.evaluate(plan, best.getObjective() - 1) != kInfeasible)
    best.offer(evaluation.rowsOf(plan), name);
}

/// Backwards split and microbatches in order, a schedule without copies and
/// recompute is no worse than as it was; of others both are looked at.
void SeedReader::read(const Seed &seed) {
  std::optional<Plan> plan = planOf(encoding, seed.rows);
  bool isPeriod = encoding.problem.objective == Objective::Period;
  if (!plan || hasExtras(*plan))
    best.offer(seed.rows, seed.name);
  if (!plan)
    return;
  if (hasExtras(*plan) && isPeriod)
    offerRows<PeriodEvaluator<true>>(*plan, seed.name);
  else if (hasExtras(*plan))
    offerRows<MakespanEvaluator<true>>(*plan, seed.name);
  else if (plan->fitsMemory(encoding) && isPeriod)
    offerRows<PeriodEvaluator<false>>(*plan, seed.name);
  else if (plan->fitsMemory(encoding))
    offerRows<MakespanEvaluator<false>>(*plan, seed.name);
  candidates.push_back({std::move(*plan), seed.name});
}

/// What fixed rules make of the seeds, if that is better than they are.
static void readStaticSeed(const Problem &problem, ArrayRef<Seed> seeds,
                           const Race &race, const Best &best,
                           SeedReader &reader) {
  auto mustStop = [&] {
    return isInterrupted(race.options) || !race.hasTime();
  };
  if (std::optional<Seed> seed =
          bestStaticSeed(problem, seeds, best.getObjective(), mustStop))
    reader.read(*seed);
}

/// The best plan of a search that is better and stands the check.
static void takePlan(Search &search, Best &best) {
  for (const RankedPlan &plan : search.getPlans())
    if (plan.objective < best.getObjective())
      for (const std::vector<Row> &rows : search.rowsOf(*plan.plan))
        best.offer(rows, plan.origin);
}

/// The best of what threads found; the first thread of several wins.
static void merge(const Race &race, llvm::MutableArrayRef<Runner> runners,
                  Best &best) {
  for (Runner &runner : runners) {
    takePlan(*runner.search, best);
    if (runner.proven)
      best.offer(std::move(*runner.proven), "exact search");
    // How far threads behind it came is a matter of time.
    if (race.isRepeatable() && best && race.isReached(best.getObjective()))
      break;
  }
}

static Status statusOf(const Race &race, int64_t objective) {
  if (objective <= race.bound)
    return Status::Optimal;
  if (race.isReached(objective))
    return Status::GapReached;
  if (isInterrupted(race.options))
    return Status::Interrupted;
  return Status::TimeLimit;
}

static void runThreads(Race &race, llvm::MutableArrayRef<Runner> runners,
                       ArrayRef<Candidate> candidates) {
  race.numRunning = runners.size();
  std::vector<std::thread> threads;
  for (Runner &runner : runners)
    threads.emplace_back([&runner, candidates] { runner.run(candidates); });
  supervise(race);
  for (std::thread &thread : threads)
    thread.join();
}

Expected<SolverResult> optimize::solve(const Problem &problem,
                                       ArrayRef<Seed> seeds,
                                       const SolverOptions &options) {
  if (llvm::Error error = checkProblem(problem))
    return std::move(error);
  if (llvm::Error error = checkCapacity(problem))
    return std::move(error);
  unsigned numThreads =
      options.threads ? options.threads : std::thread::hardware_concurrency();
  numThreads = std::clamp(numThreads, 1u, kMaxThreads);
  Race race(options, numThreads);
  Bound bound = quickBound(problem);
  race.raiseBound(bound.value, bound.name);
  Encoding encoding(problem);
  Best best(problem);
  SeedReader reader(encoding, best);
  for (const Seed &seed : seeds)
    if (!isInterrupted(options))
      reader.read(seed);
  readStaticSeed(problem, seeds, race, best, reader);
  SolverResult result;
  if (best) {
    result.bestSeed = best.getObjective();
    result.bestSeedName = best.getOrigin();
    race.tell(0, result.bestSeed);
  }
  std::vector<Runner> runners;
  runners.reserve(numThreads);
  for (unsigned thread = 0; thread < numThreads; ++thread)
    runners.emplace_back(encoding, race, thread);
  runThreads(race, runners, reader.candidates);
  merge(race, runners, best);
  if (!best)
    return llvm::createStringError("no schedule found that fits the memory");
  result.lowerBound = race.bound;
  result.boundName = race.boundName;
  result.status = statusOf(race, best.getObjective());
  result.seconds = race.seconds();
  result.secondsToBest = race.secondsToBest;
  result.evaluations = race.evaluations;
  Found found = best.take();
  result.solution = std::move(found.solution);
  result.origin = std::move(found.origin);
  return result;
}
