//===- Search.cpp - One search of many ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps a pool of good plans; each annealing run starts with one of them.
//
//===----------------------------------------------------------------------===//

#include "Search.h"
#include "Heuristics.h"
#include "PipeSched/Optimize/Search/Solver.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;
using namespace pipesched::optimize;

namespace {
/// The number of plans with which the first runs start, the largest number of
/// these with one origin, and the number of plans kept for later runs.
constexpr size_t kNumStarts = 8, kMostAlike = 4, kPoolSize = 8;
/// The number of list schedules of a search, times its cells, times its
/// workers.
constexpr uint64_t kConstructionWork = 40'000'000;
/// The number of ways to repeat the middle of a plan, times its cells.
constexpr double kRepeatWork = 20e6;
/// Lengths of the first and of the last runs as shares of a generation, and the
/// number of runs after which the length has doubled. No run has fewer
/// evaluations than kLeastRun.
constexpr double kFirstShare = 0.01, kLastShare = 0.15, kDoubled = 4;
constexpr uint64_t kLeastRun = 4000;
/// Evaluations per cell in a generation, and the least share of the limits.
/// After the last generation, the best plans of all generations get the rest of
/// the limits.
constexpr double kGenerationWork = 1300;
constexpr double kLeastGeneration = 0.12, kAllGenerations = 0.75;
/// The number of plans of a generation that are kept for the end, and the run
/// from which they are annealed, for as long as the last plans of a generation.
constexpr size_t kNumElite = 3;
constexpr uint64_t kLateRun = 16;
/// The limit on cells of plans that are kept for later generations.
constexpr uint64_t kMostKept = 1'000'000;
/// Range of temperatures at the start of a run and at its end, in mean
/// durations of a cell; the least temperature at the end, in ticks.
constexpr double kCoolest = 0.03, kHottest = 0.3, kFrozen = 0.01;
constexpr double kLeastTicks = 0.3;
constexpr uint64_t kMinConstructions = 4, kMaxConstructions = 1500;
/// Large problems get fewer list schedules than this only if these would take
/// more than a share of the limits.
constexpr uint64_t kUsualConstructions = 64;
constexpr double kConstructionShare = 0.6;
/// The number of ways in which a plan is fitted to the memory, times its cells.
constexpr uint64_t kFitWork = 1'600'000;
constexpr uint64_t kMinFits = 1, kMaxFits = 12;

/// A smaller problem is solved first if it has at least this many fewer
/// microbatches and still enough to fill the pipeline. Its search gets this
/// share of the limits.
constexpr int64_t kLeastMore = 12;
constexpr double kSmallerShare = 0.15;

/// Gives a nested search a share of the limits of the outer one.
class NestedStopper : public Stopper {
public:
  NestedStopper(Stopper &outer, double share)
      : outer(outer), begin(outer.getProgress()), share(share) {}

  bool shouldStop(uint64_t evaluations, int64_t) override {
    return outer.shouldStop(evaluations, kInfeasible) || getProgress() >= 1;
  }
  double getProgress() const override {
    return begin < 1 ? (outer.getProgress() - begin) / share : 1;
  }

private:
  Stopper &outer;
  double begin, share;
};

template <typename Objective>
class SearchOf : public Search {
public:
  SearchOf(const Encoding &encoding, uint64_t seed)
      : encoding(encoding), annealing(encoding, seed), unbounded(encoding) {}

  void start() override {
    add(runOneByOne(encoding), "one microbatch after the other");
  }
  void offer(const Candidate &candidate, Stopper &stopper) override;
  void construct(Stopper &stopper) override;
  void anneal(Stopper &stopper) override;
  int64_t getBestObjective() const override {
    return annealing.getBestObjective();
  }
  std::vector<RankedPlan> getPlans() const override;
  std::vector<std::vector<Row>> rowsOf(const Plan &plan) override;

private:
  struct Entry {
    Plan plan;
    int64_t objective;
    std::string origin;
  };

  void add(const Plan &plan, std::string name);
  static void insert(std::vector<Entry> &entries, Entry entry, size_t most);
  void addFitted(const Plan &plan, const std::string &name, Stopper &stopper);
  void constructOne(Stopper &stopper);
  void constructFromSmaller(Stopper &stopper);
  void addRepeated(const Encoding &smaller, const Plan &plan, Stopper &stopper);
  std::vector<int64_t> drawCapacity();
  const Entry &drawEntry();
  bool runOnce(double until, Stopper &stopper);
  void readCandidate(const Candidate &candidate, Stopper &stopper);
  bool constructMany(Stopper &stopper);
  void setGeneration(double progress);
  void endGeneration(Stopper &stopper);
  double meanDuration() const;

  const Encoding &encoding;
  Annealing<Objective> annealing;
  Evaluator<int64_t, false> unbounded; ///< ignores memory
  std::vector<Entry> starts, pool;     ///< the best first
  std::string origin;
  bool isNested = false, isOneGeneration = false;
  std::vector<Candidate> candidates; ///< all that were offered
  std::vector<Entry> elite;          ///< the best plans of earlier generations
  uint64_t number = 0;               ///< of the next run of this generation
  double generationBegin = 0, generationEnd = 1; ///< progress
  double annealedFrom = -1; ///< progress at the start of the first run
};
} // namespace

/// Inserts an entry unless it is already there. Keeps the best `most`, the best
/// first.
template <typename Objective>
void SearchOf<Objective>::insert(std::vector<Entry> &entries, Entry entry,
                                 size_t most) {
  auto at = llvm::find_if(entries, [&](const Entry &other) {
    return other.objective >= entry.objective;
  });
  if (at != entries.end() && at->objective == entry.objective &&
      at->plan.tokens == entry.plan.tokens)
    return;
  entries.insert(at, std::move(entry));
  if (entries.size() > most)
    entries.pop_back();
}

/// Adds a feasible plan to the start plans: the best of all, but at most
/// kMostAlike of one origin.
template <typename Objective>
void SearchOf<Objective>::add(const Plan &plan, std::string name) {
  int64_t before = annealing.getBestObjective();
  int64_t objective = annealing.offer(plan);
  if (objective == kInfeasible)
    return;
  if (objective < before)
    origin = name;
  auto isAlike = [&](const Entry &entry) { return entry.origin == name; };
  if (size_t(llvm::count_if(starts, isAlike)) == kMostAlike) {
    auto worst = std::find_if(starts.rbegin(), starts.rend(), isAlike);
    if (worst->objective <= objective)
      return;
    starts.erase(std::next(worst).base());
  }
  insert(starts, {plan, objective, std::move(name)}, kNumStarts);
}

template <typename Objective>
std::vector<RankedPlan> SearchOf<Objective>::getPlans() const {
  auto rank = [](const std::vector<Entry> &entries) {
    std::vector<RankedPlan> plans;
    plans.reserve(entries.size());
    for (const Entry &entry : entries)
      plans.push_back({&entry.plan, entry.objective, entry.origin});
    return plans;
  };
  std::vector<RankedPlan> first = rank(starts), later = rank(pool), plans;
  if (getBestObjective() != kInfeasible)
    plans.push_back({&annealing.getBest(), getBestObjective(), origin});
  std::merge(first.begin(), first.end(), later.begin(), later.end(),
             std::back_inserter(plans),
             [](const RankedPlan &a, const RankedPlan &b) {
               return a.objective < b.objective;
             });
  return plans;
}

template <typename Objective>
std::vector<std::vector<Row>> SearchOf<Objective>::rowsOf(const Plan &plan) {
  std::vector<std::vector<Row>> all = {annealing.getObjective().rowsOf(plan)};
  bool isPeriod =
      encoding.problem.objective == pipesched::optimize::Objective::Period;
  if (!isPeriod || !encoding.offload)
    return all;
  std::vector<Row> first = Evaluator<int64_t, true>(encoding).rowsOf(plan);
  if (first != all.front())
    all.push_back(std::move(first));
  return all;
}

/// Adds the plan with the copies and recompute that make it fit the memory.
template <typename Objective>
void SearchOf<Objective>::addFitted(const Plan &plan, const std::string &name,
                                    Stopper &stopper) {
  if (!encoding.offload && !encoding.recompute)
    return;
  if (unbounded.evaluate(plan, kInfeasible - 1) == kInfeasible)
    return;
  unbounded.keep();
  std::vector<int64_t> ends(plan.tokens.size());
  for (uint32_t pos = 0; pos < ends.size(); ++pos)
    ends[pos] = unbounded.endAt(pos);
  Random &random = annealing.getRandom();
  auto mustStop = [&] { // only after there is a plan
    int64_t best = annealing.getBestObjective();
    return best != kInfeasible && stopper.shouldStop(0, best);
  };
  uint64_t count =
      std::clamp<uint64_t>(kFitWork / encoding.numCells, kMinFits, kMaxFits);
  for (uint64_t i = 0; i < count && !mustStop(); ++i) {
    FitRule rule;
    rule.lead = 1 + 2 * random.unit();
    rule.recompute = random.chance(0.5) ? 0 : random.unit();
    rule.noise = random.chance(0.3) ? 0 : 4 * meanDuration() * random.unit();
    if (std::optional<Plan> fitted =
            fitMemory(encoding, plan, ends, rule, random, mustStop))
      add(*fitted, name);
  }
}

template <typename Objective>
void SearchOf<Objective>::offer(const Candidate &candidate, Stopper &stopper) {
  if ((candidates.size() + 1) * encoding.numCells <= kMostKept)
    candidates.push_back(candidate);
  readCandidate(candidate, stopper);
}

/// Adds a plan, or a change of it that fits the memory.
template <typename Objective>
void SearchOf<Objective>::readCandidate(const Candidate &candidate,
                                        Stopper &stopper) {
  Plan plan = candidate.plan;
  bool hasRoom = plan.fitsMemory(encoding);
  if (hasRoom || encoding.offload)
    add(plan, candidate.origin);
  if (!hasRoom)
    addFitted(plan, candidate.origin + ", fitted to the memory", stopper);
}

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

template <typename Objective>
double SearchOf<Objective>::meanDuration() const {
  double sum = 0, count = 0;
  for (const KindFacts &kind : encoding.kinds)
    if (kind.type <= CellType::WeightGrad && kind.duration > 0) {
      sum += double(kind.duration);
      ++count;
    }
  return sum / count;
}

/// List schedules may use more memory than the workers have if offload or
/// recompute can reduce it.
template <typename Objective>
std::vector<int64_t> SearchOf<Objective>::drawCapacity() {
  std::vector<int64_t> capacity = encoding.capacity;
  Random &random = annealing.getRandom();
  if ((!encoding.offload && !encoding.recompute) || random.chance(0.15))
    return capacity;
  double factor = 1 + 3 * random.unit();
  bool isOpen = random.chance(0.4);
  for (int64_t &bytes : capacity)
    bytes = isOpen ? kInfeasible / 4
                   : int64_t(std::min(double(bytes) * factor, 0x1p61));
  return capacity;
}

template <typename Objective>
void SearchOf<Objective>::constructOne(Stopper &stopper) {
  Random &random = annealing.getRandom();
  DispatchRule rule = drawRule(encoding, drawCapacity(), random);
  if (std::optional<Plan> plan = dispatch(encoding, rule, random))
    readCandidate({std::move(*plan), "list scheduling"}, stopper);
}

/// Adds the plan with its middle repeated, in all possible ways; if there are
/// too many ways, in an evenly spread selection.
template <typename Objective>
void SearchOf<Objective>::addRepeated(const Encoding &smaller, const Plan &plan,
                                      Stopper &stopper) {
  uint32_t numMicrobatches = smaller.kinds.front().count;
  double ways = 0.375 * double(numMicrobatches) * double(numMicrobatches);
  double most = std::max(1.0, kRepeatWork / double(encoding.numCells));
  auto stride = uint32_t(std::ceil(std::sqrt(std::max(1.0, ways / most))));
  for (uint32_t count = 1; count <= numMicrobatches / 2; count += stride)
    for (uint32_t first = 0; first + count < numMicrobatches; first += stride) {
      if (std::optional<Plan> longer =
              repeatMiddle(smaller, plan, encoding, first, count))
        if (longer->isComplete(encoding))
          add(*longer, "fewer microbatches, repeated");
      if (stopper.shouldStop(1, annealing.getBestObjective()))
        return;
    }
}

/// Solves a problem with fewer microbatches, then repeats the recurring part of
/// its rows.
template <typename Objective>
void SearchOf<Objective>::constructFromSmaller(Stopper &stopper) {
  const Placement &placement = encoding.problem.placement;
  int64_t most = placement.getNumMicrobatches();
  int64_t least = 2 * placement.getNumWorkers() + 4;
  int64_t more = (most - least) / kLeastMore * kLeastMore;
  if (more <= 0 || placement.getNumPaths() > 1)
    return;
  isOneGeneration = true; // finding its starts again takes too long
  Path path;
  path.workers = placement.getPath(0).workers;
  Problem problem = encoding.problem;
  problem.placement = llvm::cantFail(
      Placement::create(placement.getNumWorkers(), most - more, {path}));
  Encoding smaller(problem);
  SearchOf<Objective> search(smaller, annealing.getRandom().next());
  search.isNested = true;
  NestedStopper nested(stopper, kSmallerShare);
  search.start();
  auto mustStop = [&] { return nested.shouldStop(0, kInfeasible); };
  for (const Seed &seed : familySeeds(problem, mustStop))
    if (std::optional<Plan> plan = planOf(smaller, seed.rows))
      search.offer({std::move(*plan), seed.name}, nested);
  search.construct(nested);
  if (!mustStop())
    search.anneal(nested);
  for (const Entry &entry : search.starts)
    addRepeated(smaller, entry.plan, stopper);
  for (const Entry &entry : search.pool)
    addRepeated(smaller, entry.plan, stopper);
}

/// Adds random list schedules. Returns false if the search must stop.
template <typename Objective>
bool SearchOf<Objective>::constructMany(Stopper &stopper) {
  uint64_t work = uint64_t(encoding.numCells) * encoding.numWorkers;
  uint64_t count = std::clamp(kConstructionWork / std::max<uint64_t>(1, work),
                              kMinConstructions, kMaxConstructions);
  for (uint64_t i = 0;
       i < count ||
       (i < kUsualConstructions && stopper.getProgress() < kConstructionShare);
       ++i) {
    constructOne(stopper);
    if (stopper.shouldStop(1, annealing.getBestObjective()))
      return false;
  }
  return true;
}

template <typename Objective>
void SearchOf<Objective>::construct(Stopper &stopper) {
  if (constructMany(stopper) && !isNested)
    constructFromSmaller(stopper);
}

//===----------------------------------------------------------------------===//
// Annealing
//===----------------------------------------------------------------------===//

/// Returns every start in turn first, then plans of the pool; better plans are
/// drawn more often.
template <typename Objective>
const typename SearchOf<Objective>::Entry &SearchOf<Objective>::drawEntry() {
  if (number < starts.size())
    return starts[number];
  double place = annealing.getRandom().unit();
  return pool[size_t(double(pool.size()) * place * place)];
}

template <typename Objective>
bool SearchOf<Objective>::runOnce(double until, Stopper &stopper) {
  const Entry &entry = drawEntry();
  std::string name = entry.origin;
  double unit = meanDuration();
  double heat =
      kCoolest * std::pow(kHottest / kCoolest, annealing.getRandom().unit());
  Cooling cooling = {heat * unit, std::max(kLeastTicks, kFrozen * unit), until,
                     kLeastRun};
  int64_t before = annealing.getBestObjective();
  bool goesOn = annealing.run(entry.plan, cooling, stopper);
  llvm::StringRef suffix = ", annealed";
  if (!llvm::StringRef(name).ends_with(suffix))
    name += suffix;
  if (annealing.getBestObjective() < before) {
    origin = name;
    insert(pool, {annealing.getBest(), annealing.getBestObjective(), name},
           kPoolSize);
  }
  insert(pool, {annealing.getLast(), annealing.getLastObjective(), name},
         kPoolSize);
  return goesOn;
}

/// Keeps the best plans of this generation and starts the next one. After the
/// last generation, continues with the best of all.
template <typename Objective>
void SearchOf<Objective>::endGeneration(Stopper &stopper) {
  double now = stopper.getProgress();
  double share = generationEnd - generationBegin;
  for (size_t i = 0; i < std::min(pool.size(), kNumElite); ++i)
    insert(elite, std::move(pool[i]), kPoolSize);
  pool.clear();
  starts.clear();
  number = 0;
  generationBegin = now;
  generationEnd = now + share <= kAllGenerations ? now + share : 1;
  if (generationEnd == 1) {
    pool = std::move(elite);
    number = kLateRun;
    return;
  }
  start(); // ensures that there is a plan
  for (const Candidate &candidate : candidates)
    if (!stopper.shouldStop(0, annealing.getBestObjective()))
      readCandidate(candidate, stopper);
  constructMany(stopper);
}

/// Sets the length of a generation by the evaluations so far. The first
/// generation starts with the search.
template <typename Objective>
void SearchOf<Objective>::setGeneration(double progress) {
  double all = double(annealing.getNumEvaluations()) /
               std::max(1e-4, progress - annealedFrom);
  double share =
      std::max(kGenerationWork * encoding.numCells / all, kLeastGeneration);
  if (2 * share <= kAllGenerations)
    generationEnd = std::max(share, progress);
}

template <typename Objective>
void SearchOf<Objective>::anneal(Stopper &stopper) {
  if (annealedFrom < 0)
    annealedFrom = stopper.getProgress();
  else if (!isOneGeneration && generationBegin == 0 && generationEnd == 1)
    setGeneration(stopper.getProgress());
  for (bool goesOn = true; goesOn; ++number) {
    double now = stopper.getProgress();
    if (generationEnd < 1 && now >= generationEnd)
      endGeneration(stopper);
    double end = std::min(stopper.getEnd(), generationEnd);
    double share = std::min(kFirstShare * std::exp2(double(number) / kDoubled),
                            kLastShare) *
                   (generationEnd - generationBegin);
    // Lengthen the run if only a short one would remain at the end.
    goesOn = runOnce(end - now < 1.5 * share ? end : now + share, stopper);
  }
}

std::unique_ptr<Search> optimize::makeSearch(const Encoding &encoding,
                                             uint64_t seed) {
  bool isPeriod = encoding.problem.objective == Objective::Period;
  if (isPeriod && encoding.offload)
    return std::make_unique<SearchOf<PeriodEvaluator<true>>>(encoding, seed);
  if (isPeriod)
    return std::make_unique<SearchOf<PeriodEvaluator<false>>>(encoding, seed);
  if (encoding.offload)
    return std::make_unique<SearchOf<MakespanEvaluator<true>>>(encoding, seed);
  return std::make_unique<SearchOf<MakespanEvaluator<false>>>(encoding, seed);
}
