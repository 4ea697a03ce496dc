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
#include "Search.h"
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

static int64_t objectiveOf(const Problem &problem, const Solution &solution) {
  return problem.objective == Objective::Makespan ? solution.makespan
                                                  : solution.period;
}

/// The rows with their times; nothing where they break a rule.
static std::optional<Solution> check(const Problem &problem,
                                     ArrayRef<Row> rows) {
  std::vector<ArrayRef<Cell>> views(rows.begin(), rows.end());
  Expected<Solution> solution = timeRows(problem, views);
  if (!solution) {
    llvm::consumeError(solution.takeError());
    return std::nullopt;
  }
  if (llvm::Error error = verifySolution(problem, *solution)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return std::move(*solution);
}

//===----------------------------------------------------------------------===//
// What threads share
//===----------------------------------------------------------------------===//

namespace {
using SteadyClock = std::chrono::steady_clock;

/// Limits, what has been reached, and who has to stop.
class Race {
public:
  Race(const SolverOptions &options, unsigned numThreads, int64_t lowerBound)
      : options(options), numThreads(numThreads), bound(lowerBound) {}

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
  std::atomic<int64_t> best = kInfeasible, bound;
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
  Runner(const Problem &problem, const Encoding &encoding, Race &race,
         unsigned thread)
      : problem(problem), race(race), thread(thread), stopper(race, thread),
        search(makeSearch(encoding,
                          race.options.seed * kMaxThreads + thread + 1)) {}

  void run(ArrayRef<Candidate> candidates);
  void searchAndProve();
  void proveFor(double seconds);

  const Problem &problem;
  Race &race;
  unsigned thread;
  PausingStopper stopper;
  std::unique_ptr<Search> search;
  std::optional<Solution> proven; ///< found by exact search
};
} // namespace

void Runner::proveFor(double seconds) {
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
                problem.objective == Objective::Makespan;
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
  for (const Candidate &candidate : candidates)
    search->offer(candidate, stopper);
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

namespace {
/// A solution and what it came from.
struct Found {
  Solution solution;
  std::string origin;
};

/// Seeds as they are, and as plans to start from.
struct StartingPoints {
  std::vector<Candidate> candidates;
  std::optional<Found> best; ///< that fits the memory
};
} // namespace

static StartingPoints readSeeds(const Problem &problem,
                                const Encoding &encoding,
                                ArrayRef<Seed> seeds) {
  StartingPoints points;
  auto offer = [&](std::optional<Solution> solution, const std::string &name) {
    if (solution &&
        (!points.best || objectiveOf(problem, *solution) <
                             objectiveOf(problem, points.best->solution)))
      points.best = {std::move(*solution), name};
  };
  for (const Seed &seed : seeds) {
    offer(check(problem, seed.rows), seed.name);
    std::optional<Plan> plan = planOf(encoding, seed.rows);
    if (!plan)
      continue;
    // The same with its backwards split and its microbatches in order.
    std::vector<Row> rows = Evaluator<int64_t, true>(encoding).rowsOf(*plan);
    if (!rows.empty())
      offer(check(problem, rows), seed.name);
    points.candidates.push_back({std::move(*plan), seed.name});
  }
  return points;
}

/// The best of what threads found that stands the check; the first thread of
/// several wins.
static std::optional<Found> merge(const Problem &problem, const Race &race,
                                  llvm::MutableArrayRef<Runner> runners,
                                  std::optional<Found> seed) {
  std::optional<Found> best = std::move(seed);
  auto isBetter = [&](int64_t objective) {
    return !best || objective < objectiveOf(problem, best->solution);
  };
  for (Runner &runner : runners) {
    if (isBetter(runner.search->getBestObjective()))
      if (std::optional<Solution> solution =
              check(problem, runner.search->bestRows()))
        if (isBetter(objectiveOf(problem, *solution)))
          best = {std::move(*solution), runner.search->getOrigin()};
    if (runner.proven && isBetter(objectiveOf(problem, *runner.proven)))
      best = {std::move(*runner.proven), "exact search"};
    // How far threads behind it came is a matter of time.
    if (race.isRepeatable() && best &&
        race.isReached(objectiveOf(problem, best->solution)))
      break;
  }
  return best;
}

static Status statusOf(const Race &race, int64_t objective) {
  if (objective <= race.bound)
    return Status::Optimal;
  if (race.isReached(objective))
    return Status::GapReached;
  if (race.options.interrupted && *race.options.interrupted)
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
  Bound bound = quickBound(problem);
  Race race(options, numThreads, bound.value);
  race.boundName = bound.name;
  Encoding encoding(problem);
  StartingPoints points = readSeeds(problem, encoding, seeds);
  SolverResult result;
  if (points.best) {
    result.bestSeed = objectiveOf(problem, points.best->solution);
    result.bestSeedName = points.best->origin;
    race.tell(0, result.bestSeed);
  }
  std::vector<Runner> runners;
  runners.reserve(numThreads);
  for (unsigned thread = 0; thread < numThreads; ++thread)
    runners.emplace_back(problem, encoding, race, thread);
  runThreads(race, runners, points.candidates);
  std::optional<Found> best =
      merge(problem, race, runners, std::move(points.best));
  if (!best)
    return llvm::createStringError("no schedule found that fits the memory");
  int64_t objective = objectiveOf(problem, best->solution);
  result.solution = std::move(best->solution);
  result.origin = std::move(best->origin);
  result.lowerBound = race.bound;
  result.boundName = race.boundName;
  result.status = statusOf(race, objective);
  result.seconds = race.seconds();
  result.secondsToBest = race.secondsToBest;
  result.evaluations = race.evaluations;
  return result;
}
