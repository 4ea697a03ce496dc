//===- Portfolio.cpp - Rounds of searches and proofs ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each task counts its own evaluations and time.
//
//===----------------------------------------------------------------------===//

#include "Portfolio.h"
#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "llvm/Support/ThreadPool.h"

using namespace pipesched;
using namespace pipesched::optimize;

/// More threads than this are not used.
static constexpr unsigned kMostThreads = 256;
/// With a limit on evaluations, time does not suffice if, after this share of
/// it, fewer than this part of the evaluations that should be done by then are
/// done.
static constexpr double kTimeToTell = 0.25, kTooFew = 0.5;
/// With a limit on evaluations: the largest number of searches, and how many
/// evaluations there must be for each further search.
static constexpr uint64_t kMostSearches = 16;
static constexpr uint64_t kEvaluationsPerSearch = 500'000;
/// Work of a proof, per evaluation and cell of the problem.
static constexpr double kProofWorkPerCell = 0.5;

namespace {
/// The share of its limits up to which each search runs in this round, and the
/// share of all limits that the proof beside them gets.
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
  /// Limit on its own time; 0: only the limit on the time of all.
  double mostSeconds = 0;
  double secondsBefore = 0;    ///< in earlier rounds
  double begun = 0;            ///< this round, in shared.seconds()
  double until = 1;            ///< share of the limits
  mutable double progress = 0; ///< of limited evaluations; never falls
};

/// The progress goes by evaluations if they are limited, so that results do not
/// depend on the machine. It goes by time only if time clearly does not suffice
/// for the evaluations. Without a time limit only seeds and heuristics run, for
/// which there is no progress.
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
    // Searches that take turns on a thread share its time.
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

/// Takes the best plan of a search that beats `best` and keeps all rules.
void Portfolio::takePlans(Search &search) {
  for (const RankedPlan &plan : search.getPlans())
    if (plan.objective < best.getObjective())
      for (const std::vector<Row> &rows : search.rowsOf(*plan.plan))
        best.offer(rows, plan.origin);
}

/// Merges the results of a round. If results have to be repeatable, it skips
/// the tasks behind the first that has reached the goal, since how far these
/// came depends on timing.
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

/// False: this was the last round.
bool Portfolio::runRound(double until, double proofShare) {
  shared.startRound();
  unsigned numProofs = isProofDue(proofShare) && best;
  runTasks(tasks.size() + numProofs, [&](unsigned number) {
    if (number < numProofs)
      return prove(proofShare);
    Task &task = *tasks[number - numProofs];
    task.until = until;
    // The first search always runs, however short the time is, so that there is
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
