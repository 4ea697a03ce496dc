//===- Bounds.cpp - Lower bounds and proofs -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes quick bounds first, then proves better bounds within the limits.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "BranchAndBound.h"
#include "EventSearch.h"
#include "llvm/ADT/STLExtras.h"
#include <queue>
#include <tuple>

using namespace pipesched;
using namespace pipesched::optimize;

//===----------------------------------------------------------------------===//
// Bounds without search
//
// They bound the time for which a worker is busy or must wait. docs/Optimize.md
// describes and proves each bound.
//===----------------------------------------------------------------------===//

namespace {

/// By cell: the least time before its start (head) and after its end (tail).
/// The bounds are on the time from 0 to the end of all tails.
struct Heads {
  llvm::ArrayRef<int64_t> heads, tails;
};

/// Products of memory and time.
using Area = __int128;

/// `count` equal items with the given weight and value.
struct Item {
  Area weight, value;
  int64_t count;
};

} // namespace

/// An upper bound on the value that fits into the capacity. It is exact if all
/// items weigh the same; otherwise an item may be cut (Dantzig 1957).
static Area packAtMost(llvm::SmallVectorImpl<Item> &items, Area capacity) {
  llvm::erase_if(items, [](const Item &item) { return item.value <= 0; });
  llvm::sort(items, [](const Item &a, const Item &b) {
    return a.value * b.weight > b.value * a.weight;
  });
  bool alike = llvm::all_of(items, [&](const Item &item) {
    return item.weight == items.front().weight;
  });
  if (alike && !items.empty())
    llvm::sort(items,
               [](const Item &a, const Item &b) { return a.value > b.value; });
  Area packed = 0;
  for (const Item &item : items) {
    Area left = std::max<Area>(capacity, 0);
    if (item.weight * item.count <= left) {
      packed += item.value * item.count;
      capacity -= item.weight * item.count;
      continue;
    }
    if (alike)
      return packed + item.value * (left / item.weight);
    return packed + (item.value * left + item.weight - 1) / item.weight;
  }
  return packed;
}

static int64_t toTime(Area area) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return area > most ? most : int64_t(area);
}

static int64_t leastOf(llvm::ArrayRef<int32_t> cells,
                       llvm::ArrayRef<int64_t> times) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int32_t cell : cells)
    least = std::min(least, times[cell]);
  return least;
}

//===----------------------------------------------------------------------===//
// One worker
//===----------------------------------------------------------------------===//

/// Jackson's preemptive schedule of the worker's cells.
/// At any time the cell with the longest tail runs, among the cells whose heads
/// have passed. An interrupted cell continues later (Jackson 1955; Carlier
/// 1982).
static int64_t preemptiveBound(const BoundsGraph &graph, int64_t worker,
                               Heads times) {
  std::vector<int32_t> order(graph.cellsOf(worker).begin(),
                             graph.cellsOf(worker).end());
  llvm::sort(order, [&](int32_t a, int32_t b) {
    return std::tie(times.heads[a], a) < std::tie(times.heads[b], b);
  });
  struct Ready {
    int64_t tail, left;
    bool operator<(const Ready &other) const { return tail < other.tail; }
  };
  std::priority_queue<Ready> ready;
  int64_t now = 0, bound = 0;
  for (size_t next = 0; next < order.size() || !ready.empty();) {
    if (ready.empty())
      now = std::max(now, times.heads[order[next]]);
    for (; next < order.size() && times.heads[order[next]] <= now; ++next)
      ready.push({times.tails[order[next]], graph.durationOf(order[next])});
    Ready top = ready.top();
    ready.pop();
    int64_t until = addTimes(now, top.left);
    if (next < order.size() && times.heads[order[next]] < until) {
      until = times.heads[order[next]];
      ready.push({top.tail, top.left - (until - now)});
    } else {
      bound = std::max(bound, addTimes(until, top.tail));
    }
    now = until;
  }
  return bound;
}

/// Upper bound on the memory that offloads of a worker have freed by `time`.
/// The first F ends no earlier than `first`.
static Area offloadedBy(const BoundsGraph &graph, int64_t worker, int64_t time,
                        int64_t first) {
  const Problem &problem = graph.getProblem();
  if (!problem.techniques.offload || time <= first)
    return 0;
  Area freed = 0;
  int64_t copy = std::numeric_limits<int64_t>::max(), largest = 0, pairs = 0;
  for (int32_t stage : graph.stagesOf(worker)) {
    copy = std::min(copy, problem.stages[stage].offload);
    largest = std::max(largest, problem.stages[stage].activation);
    pairs += graph.countOf(stage);
  }
  Area copies = copy == 0 ? Area(pairs) : Area((time - first) / copy);
  freed = std::min<Area>(copies, pairs) * largest;
  return freed;
}

/// Upper bound on the work that a worker can do before its first I: F whose
/// activations or checkpoints fit its memory. If an F keeps only a checkpoint,
/// its R must run later and counts negatively.
static int64_t workBeforeFirstI(const BoundsGraph &graph, int64_t worker,
                                Area capacity) {
  const Problem &problem = graph.getProblem();
  llvm::SmallVector<Item> items;
  for (int32_t stage : graph.stagesOf(worker)) {
    const StageFacts &facts = problem.stages[stage];
    items.push_back({facts.activation, facts.forward, graph.countOf(stage)});
    if (problem.techniques.recompute)
      items.push_back({facts.checkpoint, facts.forward - facts.recompute,
                       graph.countOf(stage)});
  }
  Area all = 0;
  for (int32_t stage : graph.stagesOf(worker))
    all += Area(problem.stages[stage].forward) * graph.countOf(stage);
  return toTime(std::min(all, packAtMost(items, capacity)));
}
/// Before its first I a worker runs only the F that fit its memory.
static int64_t warmUpBound(const BoundsGraph &graph, int64_t worker,
                           Heads times) {
  int64_t firstInput = std::numeric_limits<int64_t>::max();
  int64_t firstForward = firstInput;
  for (int32_t stage : graph.stagesOf(worker)) {
    if (graph.countOf(stage) == 0)
      continue;
    int32_t forward = graph.cellOf(stage, Phase::Forward, 0);
    firstForward = std::min(firstForward,
                            times.heads[forward] + graph.durationOf(forward));
    firstInput = std::min(
        firstInput, times.heads[graph.cellOf(stage, Phase::InputGrad, 0)]);
  }
  Area capacity = graph.getProblem().capacity[worker] +
                  offloadedBy(graph, worker, firstInput, firstForward);
  int64_t before = workBeforeFirstI(graph, worker, capacity);
  return addTimes(addTimes(firstInput, graph.workOf(worker) - before),
                  leastOf(graph.cellsOf(worker), times.tails));
}
/// After its last F a worker runs only I and W of activations that its memory
/// held at that time.
static int64_t coolDownBound(const BoundsGraph &graph, int64_t worker,
                             Heads times) {
  const Problem &problem = graph.getProblem();
  if (problem.techniques.offload)
    return 0;
  bool split = problem.techniques.splitBackward;
  llvm::SmallVector<Item> items;
  int64_t tail = std::numeric_limits<int64_t>::max();
  for (int32_t stage : graph.stagesOf(worker)) {
    const StageFacts &facts = problem.stages[stage];
    int64_t count = graph.countOf(stage);
    if (count == 0)
      continue;
    int64_t weight = split ? facts.weightGrad : 0;
    items.push_back({facts.activation, facts.inputGrad + weight, count});
    if (problem.techniques.recompute)
      items.push_back({facts.checkpoint, facts.inputGrad + weight, count});
    if (split)
      items.push_back(
          {facts.activation - facts.freedByInputGrad, weight, count});
    tail = std::min(
        tail, times.tails[graph.cellOf(stage, Phase::Forward, count - 1)]);
  }
  int64_t work = graph.workOf(worker);
  int64_t after =
      std::min(work, toTime(packAtMost(items, problem.capacity[worker])));
  return addTimes(
      addTimes(leastOf(graph.cellsOf(worker), times.heads), work - after),
      tail);
}

namespace {

/// Memory times time of one activation of a stage, and the part of it that an
/// offload or a recomputation saves.
struct Residence {
  Area kept, savedByOffload = 0, savedByRecompute = 0;
};

} // namespace

/// By global stage: least time from the end of F to the start of I if no row
/// delays it.
static std::vector<int64_t> leastTurnarounds(const Problem &problem) {
  const Placement &placement = problem.placement;
  bool late = problem.techniques.splitBackward &&
              problem.gradientAfter == GradientAfter::WeightGrad;
  std::vector<int64_t> gaps(problem.stages.size(), 0);
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t begin = placement.stageOffset(path);
    for (int64_t stage = begin + placement.getNumStages(path) - 1;
         stage-- > begin;) {
      const StageFacts &next = problem.stages[stage + 1];
      int64_t gap =
          addTimes(gaps[stage + 1], addTimes(next.forward, next.inputGrad));
      if (late)
        gap = addTimes(gap, next.weightGrad);
      if (placement.workerOf(stage) != placement.workerOf(stage + 1))
        gap = addTimes(gap, addTimes(problem.stages[stage].activationDelay,
                                     next.gradientDelay));
      gaps[stage] = gap;
    }
  }
  return gaps;
}

static Residence residenceOf(const BoundsGraph &graph, int64_t stage,
                             int64_t turnaround) {
  const Problem &problem = graph.getProblem();
  const StageFacts &facts = problem.stages[stage];
  Area ends = Area(facts.activation) * (Area(facts.forward) + facts.inputGrad);
  if (problem.techniques.splitBackward)
    ends += Area(facts.activation - facts.freedByInputGrad) * facts.weightGrad;
  Area between = Area(facts.activation) * turnaround;
  Residence residence{ends + between};
  if (problem.techniques.offload)
    residence.savedByOffload =
        between - Area(facts.activation) * (Area(facts.offload) + facts.reload);
  if (problem.techniques.recompute)
    residence.savedByRecompute =
        between - Area(facts.activation) * facts.recompute -
        Area(facts.checkpoint) *
            std::max<int64_t>(turnaround - facts.recompute, 0);
  return residence;
}

namespace {

/// Memory times time that a worker needs in a step if each of its stages has
/// its least turnaround.
class MemoryArea {
public:
  MemoryArea(const BoundsGraph &graph, int64_t worker)
      : graph(graph), worker(worker) {
    std::vector<int64_t> turnarounds = leastTurnarounds(graph.getProblem());
    for (int32_t stage : graph.stagesOf(worker)) {
      residences.push_back(residenceOf(graph, stage, turnarounds[stage]));
      needed += residences.back().kept * graph.countOf(stage);
    }
  }

  bool fits(int64_t span) const {
    return needed - saved(span) <=
           Area(graph.getProblem().capacity[worker]) * span;
  }

private:
  const StageFacts &factsOf(size_t local) const {
    return graph.getProblem().stages[graph.stagesOf(worker)[local]];
  }

  /// The most that can be saved within `time`, if each saving takes `timeOf`
  /// its stage.
  template <typename TimeOf>
  Area savedWithin(Area time, Area Residence::*saving, TimeOf &&timeOf) const {
    llvm::SmallVector<Item> items;
    for (auto [local, stage] : llvm::enumerate(graph.stagesOf(worker)))
      items.push_back({timeOf(factsOf(local)), residences[local].*saving,
                       graph.countOf(stage)});
    return packAtMost(items, time);
  }

  Area savedByOffload(int64_t span) const {
    auto within = [&](auto timeOf) {
      return savedWithin(span, &Residence::savedByOffload, timeOf);
    };
    if (graph.getProblem().sharedCopyQueue)
      return within(
          [](const StageFacts &facts) { return facts.offload + facts.reload; });
    return std::min(
        within([](const StageFacts &facts) { return facts.offload; }),
        within([](const StageFacts &facts) { return facts.reload; }));
  }

  Area saved(int64_t span) const {
    Area most = 0;
    for (auto [local, stage] : llvm::enumerate(graph.stagesOf(worker)))
      most += graph.countOf(stage) *
              std::max({Area(0), residences[local].savedByOffload,
                        residences[local].savedByRecompute});
    Area recompute = savedWithin(
        Area(span) - graph.workOf(worker), &Residence::savedByRecompute,
        [](const StageFacts &facts) { return facts.recompute; });
    return std::min(most, savedByOffload(span) + recompute);
  }

  const BoundsGraph &graph;
  int64_t worker;
  llvm::SmallVector<Residence> residences; ///< by local stage
  Area needed = 0;
};

} // namespace
/// Capacity times makespan is at least the sum of activations times the time
/// that each stays in memory.
static int64_t memoryBound(const BoundsGraph &graph, int64_t worker,
                           Heads times) {
  MemoryArea area(graph, worker);
  int64_t low = 0, high = 1;
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 4;
  while (high < most && !area.fits(high))
    high *= 2;
  if (high >= most)
    return 0;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (area.fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return addTimes(addTimes(leastOf(graph.cellsOf(worker), times.heads), low),
                  leastOf(graph.cellsOf(worker), times.tails));
}

//===----------------------------------------------------------------------===//
// All workers
//===----------------------------------------------------------------------===//

static void raise(Bound &bound, int64_t value, llvm::StringRef name) {
  if (value > bound.value)
    bound = {value, name.str()};
}

static void raiseByWorker(Bound &bound, const BoundsGraph &graph,
                          int64_t worker, Heads times) {
  if (graph.cellsOf(worker).empty())
    return;
  raise(bound, preemptiveBound(graph, worker, times), "one worker");
  raise(bound, warmUpBound(graph, worker, times), "warm-up");
  raise(bound, coolDownBound(graph, worker, times), "cool-down");
  raise(bound, memoryBound(graph, worker, times), "memory");
}

static Bound makespanBound(const BoundsGraph &graph) {
  std::vector<int64_t> heads(graph.getNumCells(), 0), tails(heads);
  graph.raiseStarts(heads);
  graph.raiseTails(tails);
  Bound bound;
  for (int32_t cell = 0; cell < graph.getNumCells(); ++cell)
    raise(bound,
          addTimes(addTimes(heads[cell], graph.durationOf(cell)), tails[cell]),
          "critical path");
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    raiseByWorker(bound, graph, worker, {heads, tails});
  // Every makespan is a sum of times of the problem, and these are multiples of
  // the tick.
  int64_t tick = graph.getTick();
  if (int64_t over = bound.value % tick)
    bound.value = addTimes(bound.value, tick - over);
  return bound;
}

/// Heads and tails along chains that start and end on the row of one worker.
/// The period is at least the length of that row, because the row of the next
/// step starts when this one has ended.
static void headsWithinRow(const BoundsGraph &graph, int64_t worker,
                           std::vector<int64_t> &heads,
                           std::vector<int64_t> &tails) {
  constexpr int64_t never = std::numeric_limits<int64_t>::min() / 2;
  heads.assign(graph.getNumCells(), never);
  tails.assign(graph.getNumCells(), never);
  for (int32_t cell : graph.cellsOf(worker))
    heads[cell] = tails[cell] = 0;
  graph.raiseStarts(heads);
  graph.raiseTails(tails);
}

static Bound periodBound(const BoundsGraph &graph) {
  // Each row takes a sweep over all arcs. If all sweeps together would visit
  // more arcs than this, heads and tails stay zero.
  constexpr int64_t mostVisits = int64_t(1) << 28;
  bool whole =
      graph.getNumWorkers() * int64_t(graph.getArcs().size()) <= mostVisits;
  std::vector<int64_t> heads(graph.getNumCells(), 0), tails(heads);
  Bound bound;
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker) {
    if (whole)
      headsWithinRow(graph, worker, heads, tails);
    raiseByWorker(bound, graph, worker, {heads, tails});
  }
  return bound;
}
/// The best bound over all workers and kinds, for the problem's objective.
static Bound boundWithoutSearch(const BoundsGraph &graph) {
  return graph.getProblem().objective == Objective::Makespan
             ? makespanBound(graph)
             : periodBound(graph);
}

Bound optimize::quickBound(const Problem &problem) {
  return boundWithoutSearch(BoundsGraph(problem));
}

//===----------------------------------------------------------------------===//
// Proofs
//===----------------------------------------------------------------------===//

namespace {

/// Raises the lower bound and lowers the upper bound until they meet or time is
/// over. Makespans are multiples of the tick, so there are finitely many.
class Prover {
public:
  Prover(const BoundsGraph &graph, int64_t upper, const ProofLimits &limits)
      : tick(graph.getTick()), upper(upper), deadline(limits, work),
        propagation(graph), search(graph, propagation), events(graph),
        isRelaxed(!graph.isMemoryFixed()) {}

  void run(Proof &proof, int64_t knownBound);

private:
  void propagate();
  void branch();
  Outcome attempt(int64_t makespan, const Deadline &limit);
  Outcome attemptShaved(const Windows &windows, int64_t makespan,
                        const Deadline &limit);
  Outcome take(Solution found, int64_t makespan);
  /// The largest candidate makespan below `makespan`: a whole number of ticks
  /// above the lower bound.
  int64_t below(int64_t makespan) const {
    return lower + (makespan - lower - 1) / tick * tick;
  }
  int64_t middle(int64_t high) const {
    return lower + (high - lower) / tick / 2 * tick;
  }
  void refute(int64_t makespan, llvm::StringRef by) {
    lower = addTimes(makespan, tick);
    name = by;
  }

  int64_t tick, lower = 0, upper;
  llvm::StringRef name;
  uint64_t work = 0;
  Deadline deadline;
  Propagation propagation;
  BranchAndBound search;
  EventSearch events;
  bool isRelaxed; ///< `search` may return orders that are not schedules
  std::optional<Solution> better;
};

} // namespace

void Prover::run(Proof &proof, int64_t knownBound) {
  lower = std::max(proof.lowerBound.value, knownBound);
  propagate();
  if (lower < upper)
    branch();
  if (!name.empty())
    proof.lowerBound = {std::min(lower, upper), name.str()};
  proof.better = std::move(better);
}

/// Finds the least makespan that propagation does not refute (a destructive
/// bound, Klein and Scholl 1999). First it tries makespans at distances that
/// double, because short makespans are refuted fastest; then it bisects.
void Prover::propagate() {
  int64_t open = upper, distance = tick;
  Windows longer;
  while (lower < open && !deadline.isOver()) {
    int64_t makespan = std::min(addTimes(lower, distance - tick), middle(open));
    bool isFirst = open == upper;
    Windows windows = longer;
    bool holds = isFirst ? propagation.start(windows, makespan, deadline)
                         : propagation.shorten(windows, makespan, deadline);
    if (holds) {
      open = makespan;
      longer = std::move(windows);
    } else {
      refute(makespan, "propagation");
      distance *= 2;
    }
  }
}

/// Starts with a short search, which finds easy solutions. A long search
/// follows if shaving does not refute the makespan.
Outcome Prover::attempt(int64_t makespan, const Deadline &limit) {
  constexpr size_t fewNodes = 1000;
  Windows windows;
  if (!propagation.start(windows, makespan, limit))
    return Outcome::Refuted;
  Outcome outcome = search.search(windows, fewNodes, limit);
  if (outcome == Outcome::Found)
    return take(search.takeSolution(), makespan);
  if (outcome == Outcome::Refuted)
    return outcome;
  if (!propagation.shave(windows, limit))
    return Outcome::Refuted;
  return attemptShaved(windows, makespan, limit);
}

/// With copies or recomputation, only the search from event to event is exact,
/// but branch and bound may refute a makespan faster.
Outcome Prover::attemptShaved(const Windows &windows, int64_t makespan,
                              const Deadline &limit) {
  if (isRelaxed && events.isSmall()) {
    Outcome outcome = events.search(windows, makespan, limit.share(0.5));
    if (outcome == Outcome::Found)
      return take(events.takeSolution(), makespan);
    if (outcome == Outcome::Refuted)
      return outcome;
  }
  Outcome outcome =
      search.search(windows, std::numeric_limits<size_t>::max(), limit);
  return outcome == Outcome::Found ? take(search.takeSolution(), makespan)
                                   : outcome;
}

Outcome Prover::take(Solution found, int64_t makespan) {
  if (found.makespan > makespan)
    return Outcome::Stopped; // at the deadline the windows were still too wide
  upper = found.makespan;
  better = std::move(found);
  return Outcome::Found;
}

/// Tries the next better makespan first, because refuting it ends the proof. If
/// that takes too long, tries lower makespans, which are refuted faster.
void Prover::branch() {
  int64_t most = upper; // makespans from this one on are not tried
  while (lower < most && !deadline.isOver()) {
    int64_t makespan = most == upper ? below(upper) : middle(most);
    // The last makespan to try may use all remaining time and work.
    double share = makespan == lower ? 1 : 0.5;
    Outcome outcome = attempt(makespan, deadline.share(share));
    if (outcome == Outcome::Refuted)
      refute(makespan, "branch and bound");
    else
      most = outcome == Outcome::Found ? upper : makespan;
  }
}

Proof optimize::prove(const Problem &problem, int64_t upperBound,
                      const ProofLimits &limits, int64_t knownBound) {
  BoundsGraph graph(problem);
  Proof proof{boundWithoutSearch(graph), std::nullopt};
  if (problem.objective == Objective::Makespan &&
      std::max(proof.lowerBound.value, knownBound) < upperBound)
    Prover(graph, upperBound, limits).run(proof, knownBound);
  return proof;
}
