//===- Solver.cpp - Search for schedules ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the seeds, then runs the searches and proofs of a portfolio. Values
// that its tasks read often are atomic; values that change rarely are protected
// by a lock.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Search/Solver.h"
#include "../Evaluator/Evaluator.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "Search.h"
#include "StaticSeeds.h"
#include "llvm/Support/ThreadPool.h"
#include <chrono>
#include <limits>
#include <mutex>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Shared state of the tasks of a search
//===----------------------------------------------------------------------===//

namespace {
/// The best solution so far and its origin. Among equally good solutions, the
/// first one offered is kept.
class BestSolution {
public:
  explicit BestSolution(const Problem &problem) : problem(problem) {}

  explicit operator bool() const { return solution.has_value(); }
  /// kInfeasible if there is no solution yet.
  int64_t getObjective() const {
    return solution ? objectiveOf(problem, *solution) : kInfeasible;
  }
  const std::string &getOrigin() const { return origin; }
  Solution take() { return std::move(*solution); }

  /// Computes the times of rows, and keeps the rows if they are better and
  /// satisfy all rules.
  void offer(llvm::ArrayRef<Row> rows, llvm::StringRef origin);
  void offer(Solution offered, llvm::StringRef origin);

private:
  const Problem &problem;
  std::optional<Solution> solution;
  std::string origin;
};

/// Tasks run in rounds. The tasks of a round have ranks: the proof has rank 0,
/// search i has rank i + 1.
///
/// With a limit on evaluations the result must not depend on which task is
/// faster. Therefore the bound with which tasks compare changes only between
/// rounds. A task that reaches its goal stops only tasks of higher ranks, and
/// the results of these in this round are ignored.
class SharedState {
public:
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

  explicit SharedState(const SolverOptions &options) : options(options) {}

  double seconds() const;
  bool hasTime() const {
    return options.timeLimitSeconds <= 0 ||
           seconds() < options.timeLimitSeconds;
  }
  bool isInterrupted() const {
    return options.interrupted && *options.interrupted;
  }
  /// Whether evaluations are limited.
  bool isRepeatable() const { return options.maxEvaluations > 0; }

  /// Whether the objective equals the bound or is within the requested gap.
  bool isGoal(int64_t objective) const;
  /// Starts a round. No task may run at the same time.
  void startRound();
  /// Records that a task has a solution with this objective.
  void tell(uint32_t rank, int64_t objective);
  /// Records that the proof has ended, with the objective of its best known
  /// solution.
  void endProof(int64_t known);
  /// Records that no schedule is below `value`. Running tasks see the new bound
  /// only if results need not be repeatable.
  void raiseBound(int64_t value, llvm::StringRef name);
  /// The best lower bound. Only a proof may ask for it while tasks run.
  int64_t getBound() {
    std::lock_guard<std::mutex> guard(lock);
    return bound;
  }
  /// Whether the task of that rank must end its round.
  bool mustStop(uint32_t rank) const;
  /// The least rank of this round that has reached the goal, or kNoRank.
  uint32_t getFirstDone() const { return firstDone; }

  void count(uint64_t more) { evaluations += more; }
  /// Reports progress if the last report is long enough ago.
  void report();

  /// Stores the bound, times and counts in the result.
  void fill(SolverResult &result);

  const SolverOptions &options;

private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point start = Clock::now();
  std::atomic<int64_t> best = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> goalBound = 0; ///< the bound with which tasks compare
  std::atomic<uint64_t> evaluations = 0;
  std::atomic<uint32_t> firstDone = kNoRank;
  // All members below are protected by the lock.
  std::mutex lock;
  int64_t bound = 0;
  std::string boundName;
  double secondsToBest = 0, lastReport = 0;
};
} // namespace

static constexpr double kReportInterval = 0.25; ///< seconds

double SharedState::seconds() const {
  return options.setupSeconds +
         std::chrono::duration<double>(Clock::now() - start).count();
}

static bool isNear(int64_t objective, int64_t bound, double gap) {
  return objective <= bound ||
         double(objective) <= double(bound) * (1 + std::max(0.0, gap));
}

bool SharedState::isGoal(int64_t objective) const {
  return isNear(objective, goalBound, options.gap);
}

void SharedState::startRound() {
  firstDone = kNoRank;
  std::lock_guard<std::mutex> guard(lock);
  goalBound = bound;
}

void SharedState::tell(uint32_t rank, int64_t objective) {
  if (objective == kInfeasible)
    return;
  if (isGoal(objective)) {
    uint32_t first = firstDone;
    while (rank < first && !firstDone.compare_exchange_weak(first, rank))
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

void SharedState::endProof(int64_t known) {
  tell(0, known);
  std::lock_guard<std::mutex> guard(lock);
  if (isNear(known, bound, options.gap))
    firstDone = 0;
}

void SharedState::raiseBound(int64_t value, llvm::StringRef name) {
  std::lock_guard<std::mutex> guard(lock);
  if (value <= bound)
    return;
  bound = value;
  boundName = name.str();
  if (!isRepeatable())
    goalBound = bound;
}

bool SharedState::mustStop(uint32_t rank) const {
  if (isInterrupted() || !hasTime())
    return true;
  return isRepeatable() ? rank >= firstDone : firstDone != kNoRank;
}

void SharedState::report() {
  if (!options.report)
    return;
  std::unique_lock<std::mutex> guard(lock, std::try_to_lock);
  double now = seconds();
  if (!guard || now - lastReport < kReportInterval || best == kInfeasible)
    return;
  lastReport = now;
  options.report({now, best, bound, evaluations});
}

void SharedState::fill(SolverResult &result) {
  std::lock_guard<std::mutex> guard(lock);
  result.lowerBound = bound;
  result.boundName = boundName;
  result.seconds = seconds();
  result.secondsToBest = secondsToBest;
  result.evaluations = evaluations;
}

//===----------------------------------------------------------------------===//
// The best solution
//===----------------------------------------------------------------------===//

void BestSolution::offer(Solution offered, llvm::StringRef name) {
  if (objectiveOf(problem, offered) >= getObjective())
    return;
  if (llvm::Error error = verifySolution(problem, offered))
    return llvm::consumeError(std::move(error));
  solution = std::move(offered);
  origin = name.str();
}

void BestSolution::offer(llvm::ArrayRef<Row> rows, llvm::StringRef name) {
  std::vector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  llvm::Expected<Solution> timed = timeRows(problem, views);
  if (!timed)
    return llvm::consumeError(timed.takeError());
  offer(std::move(*timed), name);
}

//===----------------------------------------------------------------------===//
// Rounds of searches and proofs
//
// Tasks of a round may run in parallel. Each task counts its own evaluations
// and time.
//===----------------------------------------------------------------------===//

namespace {
/// Runs a portfolio of searches on the caller's pool.
///
///   round 1   search 0 .. search n-1                 until 5 % are used
///   round 2   proof, search 0 .. search n-1          until 35 %
///   round 3   proof, search 0 .. search n-1          until all is used
///
/// If evaluations are limited, only their number determines the number of
/// searches, and each search gets an equal share. So neither the number of
/// threads nor their speed changes the result. Otherwise there is one search
/// per thread.
class Portfolio {
public:
  Portfolio(const Encoding &encoding, SharedState &shared, BestSolution &best);
  ~Portfolio();

  /// Searches from these plans until a limit or the goal is reached. Solutions
  /// are offered to `best`.
  void run(llvm::ArrayRef<Candidate> candidates);

private:
  struct Task;

  bool isProofDue(double share) const;
  bool runRound(double until, double proofShare);
  void runTasks(unsigned count, llvm::function_ref<void(unsigned)> run);
  void prove(double share);
  void merge();
  void takePlans(Search &search);

  const Encoding &encoding;
  SharedState &shared;
  BestSolution &best;
  unsigned numThreads;
  std::vector<std::unique_ptr<Task>> tasks; ///< one for each search
  llvm::ArrayRef<Candidate> candidates;
  std::optional<Solution> proven; ///< found by the proof of this round
};
} // namespace

/// More threads than this are not used.
static constexpr unsigned kMostThreads = 256;
/// With a limit on evaluations, time is too short if, after the first share of
/// it, less than the second share of the evaluations planned until then is
/// done.
static constexpr double kTimeToTell = 0.25, kTooFew = 0.5;
/// With a limit on evaluations: the largest number of searches, and the number
/// of evaluations for each additional search.
static constexpr uint64_t kMostSearches = 16;
static constexpr uint64_t kEvaluationsPerSearch = 500'000;
/// Work of a proof, per evaluation and cell of the problem.
static constexpr double kProofWorkPerCell = 0.5;

namespace {
/// The share of its limits up to which each search runs in this round, and the
/// share of all limits for the proof that runs at the same time.
struct Round {
  double until, proofShare;
};
constexpr Round kRounds[] = {{0.05, 0}, {0.35, 0.1}, {1, 0.25}};
} // namespace

//===----------------------------------------------------------------------===//
// One search
//===----------------------------------------------------------------------===//

/// A search and its share of the limits.
struct Portfolio::Task final : Stopper {
  Task(SharedState &shared, uint32_t rank) : shared(shared), rank(rank) {}

  bool shouldStop(uint64_t more, int64_t best) override {
    evaluations += more;
    shared.count(more);
    shared.tell(rank, best);
    shared.report();
    return shared.mustStop(rank) || isSpent() ||
           (shared.options.timeLimitSeconds > 0 && getProgress() >= until);
  }
  bool isSpent() const {
    return shared.isRepeatable() && evaluations >= mostEvaluations;
  }
  double getProgress() const override;
  double getEnd() const override { return until; }
  void run(const Encoding &encoding, llvm::ArrayRef<Candidate> candidates);
  void begin(llvm::ArrayRef<Candidate> candidates);

  SharedState &shared;
  uint32_t rank;
  std::unique_ptr<Search> search;
  uint64_t evaluations = 0, mostEvaluations = 0;
  /// Limit on its own time; 0: only the common time limit.
  double mostSeconds = 0;
  double secondsBefore = 0; ///< in earlier rounds
  double begun = 0;         ///< start of this round, in shared.seconds()
  double until = 1;         ///< share of the limits
  /// Part of the limited evaluations; never decreases.
  mutable double progress = 0;
};

/// Returns the progress in evaluations if they are limited, so that results do
/// not depend on the machine. Returns the progress in time only if time is
/// clearly too short for the evaluations. Without a time limit only seeds and
/// heuristics run, which have no progress.
double Portfolio::Task::getProgress() const {
  double limit = shared.options.timeLimitSeconds;
  if (limit <= 0)
    return 1;
  double now = shared.seconds();
  double byTime = mostSeconds > 0 ? (secondsBefore + now - begun) / mostSeconds
                                  : now / limit;
  if (!shared.isRepeatable())
    return byTime;
  double byEvaluations =
      mostEvaluations > 0 ? double(evaluations) / double(mostEvaluations) : 1.0;
  bool isTimeShort =
      byTime >= 1 || (byTime > kTimeToTell && byEvaluations < byTime * kTooFew);
  progress = std::max(progress, isTimeShort ? byTime : byEvaluations);
  return progress;
}

/// Runs seeds and list schedules.
void Portfolio::Task::begin(llvm::ArrayRef<Candidate> candidates) {
  search->start();
  for (const Candidate &candidate : candidates) {
    if (shouldStop(0, search->getBestObjective()))
      return;
    search->offer(candidate, *this);
  }
  if (!shouldStop(0, search->getBestObjective()))
    search->construct(*this);
}

void Portfolio::Task::run(const Encoding &encoding,
                          llvm::ArrayRef<Candidate> candidates) {
  begun = shared.seconds();
  if (!search) {
    search = makeSearch(encoding, shared.options.seed * kMostThreads + rank);
    double pause = std::exchange(until, 1);
    begin(candidates);
    until = pause;
  }
  if (shared.options.timeLimitSeconds > 0 &&
      !shouldStop(0, search->getBestObjective()))
    search->anneal(*this);
  shared.tell(rank, search->getBestObjective());
  secondsBefore += shared.seconds() - begun;
}

//===----------------------------------------------------------------------===//
// All searches
//===----------------------------------------------------------------------===//

static unsigned threadsOf(const SolverOptions &options) {
  if (!options.pool)
    return 1;
  unsigned threads = options.pool->getMaxConcurrency();
  if (options.threads > 0)
    threads = std::min(threads, options.threads);
  return std::clamp(threads, 1u, kMostThreads);
}

Portfolio::Portfolio(const Encoding &encoding, SharedState &shared,
                     BestSolution &best)
    : encoding(encoding), shared(shared), best(best),
      numThreads(threadsOf(shared.options)) {
  uint64_t all = shared.options.maxEvaluations;
  uint64_t count = numThreads;
  if (shared.isRepeatable())
    count = shared.options.timeLimitSeconds > 0
                ? std::clamp<uint64_t>(all / kEvaluationsPerSearch, 1,
                                       kMostSearches)
                : 1;
  double proofShare = 0;
  for (const Round &round : kRounds)
    proofShare += isProofDue(round.proofShare) ? round.proofShare : 0;
  for (uint32_t number = 0; number < count; ++number) {
    tasks.push_back(std::make_unique<Task>(shared, number + 1));
    tasks.back()->mostEvaluations = all / count + (number < all % count);
    // Searches that alternate on a thread share its time.
    if (numThreads < count)
      tasks.back()->mostSeconds = shared.options.timeLimitSeconds *
                                  (numThreads - proofShare) / double(count);
  }
}

Portfolio::~Portfolio() = default;

bool Portfolio::isProofDue(double share) const {
  return share > 0 && shared.options.timeLimitSeconds > 0 &&
         encoding.problem.objective == Objective::Makespan;
}

/// Runs tasks on the threads. They start in the order of their numbers.
void Portfolio::runTasks(unsigned count,
                         llvm::function_ref<void(unsigned)> run) {
  std::atomic<unsigned> next = 0;
  auto work = [&] {
    for (unsigned task = next++; task < count; task = next++)
      run(task);
  };
  unsigned parallel = std::min(numThreads, count);
  if (parallel <= 1)
    return work();
  llvm::ThreadPoolTaskGroup group(*shared.options.pool);
  for (unsigned i = 0; i < parallel; ++i)
    group.async(work);
  group.wait();
}

void Portfolio::prove(double share) {
  auto mustStop = [&] {
    shared.report();
    return shared.mustStop(0);
  };
  ProofLimits limits;
  limits.seconds = share * shared.options.timeLimitSeconds;
  limits.mustStop = mustStop;
  if (shared.isRepeatable())
    limits.work = uint64_t(share * kProofWorkPerCell * encoding.numCells *
                           double(shared.options.maxEvaluations));
  int64_t known = best.getObjective();
  Proof proof =
      optimize::prove(encoding.problem, known, limits, shared.getBound());
  shared.raiseBound(proof.lowerBound.value, proof.lowerBound.name);
  if (proof.better) {
    proven = std::move(proof.better);
    known = objectiveOf(encoding.problem, *proven);
  }
  shared.endProof(known);
}

/// Takes the best plan of a search that beats `best` and satisfies all rules.
void Portfolio::takePlans(Search &search) {
  for (const RankedPlan &plan : search.getPlans())
    if (plan.objective < best.getObjective())
      for (const std::vector<Row> &rows : search.rowsOf(*plan.plan))
        best.offer(rows, plan.origin);
}

/// Merges the results of a round. If results must be repeatable, it skips the
/// tasks after the first one that reached the goal, because their progress
/// depends on timing.
void Portfolio::merge() {
  if (proven)
    best.offer(std::move(*proven), "exact search");
  proven.reset();
  for (std::unique_ptr<Task> &task : tasks) {
    if (shared.isRepeatable() && task->rank > shared.getFirstDone())
      return;
    if (task->search)
      takePlans(*task->search);
  }
}

/// Returns false if this was the last round.
bool Portfolio::runRound(double until, double proofShare) {
  shared.startRound();
  unsigned numProofs = isProofDue(proofShare) && best;
  runTasks(tasks.size() + numProofs, [&](unsigned number) {
    if (number < numProofs)
      return prove(proofShare);
    Task &task = *tasks[number - numProofs];
    task.until = until;
    // The first search always runs, even in a very short time, so that there is
    // a schedule.
    if (task.rank == 1 || !shared.mustStop(task.rank))
      task.run(encoding, candidates);
  });
  merge();
  shared.startRound();
  return !(best && shared.isGoal(best.getObjective())) &&
         !shared.isInterrupted() && shared.hasTime() &&
         shared.options.timeLimitSeconds > 0;
}

void Portfolio::run(llvm::ArrayRef<Candidate> plans) {
  candidates = plans;
  for (const Round &round : kRounds)
    if (!runRound(round.until, round.proofShare))
      return;
}

//===----------------------------------------------------------------------===//
// Seeds
//===----------------------------------------------------------------------===//

namespace {
/// Turns seeds into starting plans, and keeps the best one that fits the
/// memory.
class SeedReader {
public:
  SeedReader(const Encoding &encoding, BestSolution &best)
      : encoding(encoding), best(best) {}

  void read(const Seed &seed);

  std::vector<Candidate> candidates;

private:
  bool hasExtras(const Plan &plan) const;
  template <typename Evaluation>
  void offerRows(const Plan &plan, llvm::StringRef name);

  const Encoding &encoding;
  BestSolution &best;
};
} // namespace

/// Whether rows offload or recompute.
bool SeedReader::hasExtras(const Plan &plan) const {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    for (uint32_t i = 0; i < plan.sizes[worker]; ++i) {
      Token token = plan.tokens[encoding.rowBegins[worker] + i];
      if (encoding.kinds[token.kind].type > CellType::WeightGrad)
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

/// Without copies and recompute, split backwards and ordered microbatches never
/// make a schedule worse. For other schedules the original rows are offered as
/// well.
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

/// Reads the seeds, and the best rows that fixed rules make of them if these
/// are better. After the time is over, one plan that fits the memory is enough.
static void readSeeds(const Problem &problem, ArrayRef<Seed> seeds,
                      const SharedState &shared, const BestSolution &best,
                      SeedReader &reader) {
  for (const Seed &seed : seeds)
    if (!shared.isInterrupted() && (!best || shared.hasTime()))
      reader.read(seed);
  auto mustStop = [&] { return shared.isInterrupted() || !shared.hasTime(); };
  if (std::optional<Seed> seed =
          bestStaticSeed(problem, seeds, best.getObjective(), mustStop))
    reader.read(*seed);
}

//===----------------------------------------------------------------------===//
// Solve
//===----------------------------------------------------------------------===//

static Status statusOf(const SharedState &shared, const SolverResult &result,
                       int64_t objective) {
  if (objective <= result.lowerBound)
    return Status::Optimal;
  if (shared.isGoal(objective))
    return Status::GapReached;
  return shared.isInterrupted() ? Status::Interrupted : Status::TimeLimit;
}

Expected<SolverResult> optimize::solve(const Problem &problem,
                                       ArrayRef<Seed> seeds,
                                       const SolverOptions &options) {
  if (llvm::Error error = checkProblem(problem))
    return std::move(error);
  if (llvm::Error error = checkCapacity(problem))
    return std::move(error);
  if (llvm::Error error = checkTime(problem, options.timeLimitSeconds))
    return std::move(error);
  SharedState shared(options);
  Bound bound = quickBound(problem);
  shared.raiseBound(bound.value, bound.name);
  shared.startRound();
  Encoding encoding(problem);
  BestSolution best(problem);
  SeedReader reader(encoding, best);
  readSeeds(problem, seeds, shared, best, reader);
  SolverResult result;
  if (best) {
    result.bestSeed = best.getObjective();
    result.bestSeedName = best.getOrigin();
    shared.tell(SharedState::kNoRank, result.bestSeed);
  }
  if (!best || !shared.isGoal(result.bestSeed))
    Portfolio(encoding, shared, best).run(reader.candidates);
  if (!best)
    return llvm::createStringError("no schedule found that fits the memory");
  shared.fill(result);
  result.status = statusOf(shared, result, best.getObjective());
  result.origin = best.getOrigin();
  result.solution = best.take();
  return result;
}
