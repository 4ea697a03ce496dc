//===- Heuristics.cpp - Construction of plans -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// List scheduling, and schedules that run one microbatch after the other.
//
//===----------------------------------------------------------------------===//

#include "Heuristics.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <queue>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Memory of an activation, and of the tensors that its I leaves in addition.
static int64_t residence(const Encoding &encoding, uint32_t stage) {
  return encoding.facts(stage, CellType::Forward).allocates +
         encoding.facts(stage, CellType::InputGrad).allocates;
}

/// Draws the number of microbatches that each stage may have in flight. Either
/// it decreases linearly along the path with a random slope, or there is no
/// limit.
static void drawQuota(const Encoding &encoding, DispatchRule &rule,
                      Random &random) {
  double slope = 3 * std::exp2(-5 * random.unit());
  double base = 3 * random.unit();
  bool isOpen = random.chance(0.4);
  rule.quota.assign(encoding.numStages, kNone);
  if (isOpen)
    return;
  double behind = 0;
  for (uint32_t stage = encoding.numStages; stage-- > 0;) {
    bool isLast = encoding.nextStage[stage] == kNone;
    behind = isLast ? 1 + base : behind + slope;
    rule.quota[stage] = behind;
  }
}

DispatchRule optimize::drawRule(const Encoding &encoding,
                                ArrayRef<int64_t> capacity, Random &random) {
  DispatchRule rule;
  rule.capacity.assign(capacity.begin(), capacity.end());
  drawQuota(encoding, rule, random);
  // Penalties between phases, and between the stages of a worker.
  double first = random.chance(0.75) ? 0 : random.unit();
  double forward = random.chance(0.7) ? 1 : random.unit();
  double weight = random.chance(0.7) ? 2 : 1.5 * random.unit();
  double depth = random.chance(0.5) ? 0.9 * (2 * random.unit() - 1) : -0.1;
  rule.penalty.resize(encoding.kinds.size());
  for (uint32_t i = 0; i < rule.penalty.size(); ++i) {
    const KindFacts &kind = encoding.kinds[i];
    double place = double(encoding.firstSlice[kind.stage]) / encoding.numStages;
    rule.penalty[i] = kind.type == CellType::Forward ? forward + depth * place
                      : kind.type == CellType::InputGrad ? first
                                                         : weight;
  }
  rule.noise = random.chance(0.5) ? 0 : 0.7 * random.unit();
  int64_t longest = 0;
  for (const KindFacts &kind : encoding.kinds)
    longest = std::max(longest,
                       kind.type <= CellType::WeightGrad ? kind.duration : 0);
  rule.patience =
      random.chance(0.4) ? 0 : int64_t(double(longest) * random.unit());
  return rule;
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

namespace {
/// A time for each worker. Changing a time, and finding the first one, take
/// time logarithmic in the number of workers.
class Clocks {
public:
  explicit Clocks(uint32_t count)
      : numLeaves(llvm::PowerOf2Ceil(count)),
        least(2 * size_t(numLeaves), std::numeric_limits<int64_t>::max()) {}

  int64_t operator[](uint32_t worker) const {
    return least[numLeaves + worker];
  }
  void set(uint32_t worker, int64_t time) {
    uint32_t node = numLeaves + worker;
    for (least[node] = time; (node /= 2) > 0;)
      least[node] = std::min(least[2 * node], least[2 * node + 1]);
  }
  /// Returns the worker with the least time; on ties the lowest number.
  uint32_t first() const {
    uint32_t node = 1;
    while (node < numLeaves)
      node = 2 * node + (least[2 * node + 1] < least[2 * node]);
    return node - numLeaves;
  }

private:
  uint32_t numLeaves;
  std::vector<int64_t> least; ///< by node of a binary tree; the root is 1
};

/// List scheduling under one rule.
class Dispatcher {
public:
  Dispatcher(const Encoding &encoding, const DispatchRule &rule, Random &random)
      : encoding(encoding), rule(rule), random(random), plan(encoding),
        next(encoding.kinds.size()), clocks(encoding.numWorkers),
        levels(encoding.numWorkers), earliest(encoding.numWorkers),
        ends(encoding.numCells), reserve(encoding.numStages) {
    for (const std::vector<uint32_t> &stages : encoding.stagesOf)
      setReserve(stages);
  }

  std::optional<Plan> run();

private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  /// Sets the memory that one microbatch takes on each later stage of the
  /// worker.
  void setReserve(ArrayRef<uint32_t> stages) {
    int64_t later = 0;
    for (uint32_t stage : llvm::reverse(stages)) {
      reserve[stage] = later;
      later += residence(encoding, stage);
    }
  }
  bool isSliceDue(const KindFacts &kind, uint32_t rank) const;
  int64_t startOf(uint32_t worker, uint32_t kind) const;
  uint32_t choose(uint32_t worker);
  void look(uint32_t worker);
  void put(uint32_t worker, uint32_t kind);

  const Encoding &encoding;
  const DispatchRule &rule;
  Random &random;
  Plan plan;
  std::vector<uint32_t> next;   ///< by kind: rank of its next cell
  std::vector<int64_t> clocks;  ///< by worker
  std::vector<int64_t> levels;  ///< by worker
  Clocks earliest;              ///< by worker: first start of a cell
  std::vector<int64_t> ends;    ///< by cell
  std::vector<int64_t> reserve; ///< by stage
};
} // namespace

/// Whether the previous slice already has its cell of this kind.
bool Dispatcher::isSliceDue(const KindFacts &kind, uint32_t rank) const {
  bool isForward = kind.type == CellType::Forward;
  uint32_t slice = encoding.sliceOf[kind.stage];
  if (slice == (isForward ? 0 : encoding.numSlices - 1))
    return true;
  uint32_t stage =
      encoding.withSlice(kind.stage, isForward ? slice - 1 : slice + 1);
  return next[encoding.kindOf(stage, kind.type)] > rank;
}

/// Returns when the next cell of a kind can start. kNever: it cannot start yet.
int64_t Dispatcher::startOf(uint32_t worker, uint32_t index) const {
  const KindFacts &kind = encoding.kinds[index];
  uint32_t rank = next[index], first = kind.stage * kNumCellTypes;
  if (rank == kind.count || !isSliceDue(kind, rank))
    return kNever;
  if (kind.type == CellType::Forward) {
    int64_t room = rule.capacity[worker] - reserve[kind.stage] -
                   residence(encoding, kind.stage);
    if (levels[worker] > room ||
        rank - next[first + 1] >= rule.quota[kind.stage])
      return kNever;
  } else if (rank >= next[index - 1]) {
    return kNever;
  }
  if (kind.waitsOn == kNone)
    return clocks[worker];
  int64_t end = ends[kind.firstCell + rank + kind.waitsFor];
  return end == 0 ? kNever : std::max(clocks[worker], end + kind.delay);
}

void Dispatcher::look(uint32_t worker) {
  int64_t start = kNever;
  for (uint32_t stage : encoding.stagesOf[worker])
    for (uint32_t type = 0; type < 2u + encoding.splitBackward; ++type)
      start = std::min(start, startOf(worker, stage * kNumCellTypes + type));
  earliest.set(worker, start);
}

uint32_t Dispatcher::choose(uint32_t worker) {
  int64_t latest = earliest[worker] + rule.patience;
  double least = std::numeric_limits<double>::infinity();
  uint32_t best = kNone;
  for (uint32_t stage : encoding.stagesOf[worker])
    for (uint32_t type = 0; type < 2u + encoding.splitBackward; ++type) {
      uint32_t kind = stage * kNumCellTypes + type;
      int64_t start = startOf(worker, kind);
      if (start == kNever || start > latest)
        continue;
      double penalty = rule.penalty[kind];
      if (rule.noise > 0)
        penalty += rule.noise * random.unit();
      if (penalty < least) {
        least = penalty;
        best = kind;
      }
    }
  return best;
}

void Dispatcher::put(uint32_t worker, uint32_t index) {
  const KindFacts &kind = encoding.kinds[index];
  int64_t start = startOf(worker, index);
  Token token = {kind.firstCell + next[index]++, index};
  clocks[worker] = ends[token.cell] = start + kind.duration;
  // The memory that I leaves in addition is counted from F on.
  if (kind.type == CellType::Forward)
    levels[worker] += residence(encoding, kind.stage);
  levels[worker] -= kind.frees;
  plan.append(encoding, worker, token);
  look(worker);
  for (uint32_t stage :
       {encoding.nextStage[kind.stage], encoding.stageBefore[kind.stage]})
    if (stage != kNone)
      look(encoding.facts(stage, CellType::Forward).worker);
}

std::optional<Plan> Dispatcher::run() {
  uint32_t numLeft = 0;
  for (const KindFacts &kind : encoding.kinds)
    if (kind.type < CellType::WeightGrad ||
        (kind.type == CellType::WeightGrad && encoding.splitBackward))
      numLeft += kind.count;
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    look(worker);
  for (; numLeft > 0; --numLeft) {
    uint32_t worker = earliest.first();
    if (earliest[worker] == kNever)
      return std::nullopt;
    put(worker, choose(worker));
  }
  plan.refreshAll(encoding);
  return std::move(plan);
}

std::optional<Plan> optimize::dispatch(const Encoding &encoding,
                                       const DispatchRule &rule,
                                       Random &random) {
  return Dispatcher(encoding, rule, random).run();
}

//===----------------------------------------------------------------------===//
// One microbatch after the other
//===----------------------------------------------------------------------===//

namespace {
/// Runs the slices of a microbatch along a path and back, before the next
/// microbatch.
class LoneMicrobatch {
public:
  LoneMicrobatch(const Encoding &encoding, int64_t path)
      : encoding(encoding), begin(encoding.problem.placement.stageOffset(path)),
        end(begin + encoding.problem.placement.getNumStages(path)) {
    setLeaving();
  }

  void put(uint32_t rank, Plan &plan) const;

private:
  uint32_t workerOf(uint32_t stage) const {
    return encoding.facts(stage, CellType::Forward).worker;
  }
  uint32_t lastSlice() const { return encoding.numSlices - 1; }
  void setLeaving();
  bool leaves(uint32_t stage, uint32_t slice, CellType type) const {
    return leaving[slice * (end - begin) + stage - begin] == type;
  }
  void append(Plan &plan, uint32_t stage, uint32_t slice, CellType type,
              uint32_t rank) const {
    plan.append(encoding, workerOf(stage),
                encoding.token(encoding.withSlice(stage, slice), type, rank));
  }
  void putForwards(uint32_t stage, uint32_t rank, Plan &plan) const;
  void putBackwards(uint32_t stage, uint32_t rank, Plan &plan) const;

  const Encoding &encoding;
  uint32_t begin, end; ///< stages, of the first slice
  /// By slice and stage: how an activation leaves the device between F and I.
  /// Forward: it stays.
  std::vector<CellType> leaving;
};
} // namespace

/// An activation must leave the device if its worker cannot keep one for each
/// of its stages and slices on the path, unless it is used next. The slices of
/// a stage leave together, because later slices need their keys and values. If
/// they do not fit together, they are recomputed.
void LoneMicrobatch::setLeaving() {
  std::vector<int64_t> total(encoding.numWorkers);
  std::vector<uint32_t> last(encoding.numWorkers, kNone);
  std::vector<int64_t> ofStage(end - begin);
  for (uint32_t stage = begin; stage < end; ++stage) {
    for (uint32_t slice = 0; slice <= lastSlice(); ++slice)
      ofStage[stage - begin] +=
          residence(encoding, encoding.withSlice(stage, slice));
    total[workerOf(stage)] += ofStage[stage - begin];
    last[workerOf(stage)] = stage;
  }
  for (uint32_t slice = 0; slice <= lastSlice(); ++slice)
    for (uint32_t stage = begin; stage < end; ++stage) {
      int64_t capacity = encoding.capacity[workerOf(stage)];
      bool isLast = stage == last[workerOf(stage)];
      bool fits = ofStage[stage - begin] <= capacity;
      CellType &type = leaving.emplace_back(CellType::Forward);
      if (total[workerOf(stage)] <= capacity)
        continue;
      if (!isLast && encoding.offload && (fits || !encoding.recompute))
        type = CellType::Offload;
      else if (encoding.recompute && !(isLast && slice == lastSlice()) &&
               !(isLast && fits && encoding.offload))
        type = CellType::Recompute;
    }
}

void LoneMicrobatch::putForwards(uint32_t stage, uint32_t rank,
                                 Plan &plan) const {
  for (uint32_t slice = 0; slice <= lastSlice(); ++slice)
    append(plan, stage, slice, CellType::Forward, rank);
  for (uint32_t slice = 0; slice <= lastSlice(); ++slice)
    if (leaves(stage, slice, CellType::Offload))
      append(plan, stage, slice, CellType::Offload, rank);
}

void LoneMicrobatch::putBackwards(uint32_t stage, uint32_t rank,
                                  Plan &plan) const {
  for (uint32_t slice = 0; slice <= lastSlice(); ++slice)
    if (leaves(stage, slice, CellType::Offload))
      append(plan, stage, slice, CellType::Reload, rank);
  for (uint32_t slice = encoding.numSlices; slice-- > 0;) {
    if (leaves(stage, slice, CellType::Recompute))
      append(plan, stage, slice, CellType::Recompute, rank);
    append(plan, stage, slice, CellType::InputGrad, rank);
    if (encoding.splitBackward)
      append(plan, stage, slice, CellType::WeightGrad, rank);
  }
}

void LoneMicrobatch::put(uint32_t rank, Plan &plan) const {
  for (uint32_t stage = begin; stage < end; ++stage)
    putForwards(stage, rank, plan);
  for (uint32_t stage = end; stage-- > begin;)
    putBackwards(stage, rank, plan);
}

Plan optimize::runOneByOne(const Encoding &encoding) {
  const Placement &placement = encoding.problem.placement;
  Plan plan(encoding);
  std::vector<LoneMicrobatch> lone;
  lone.reserve(placement.getNumPaths() / encoding.numSlices);
  for (int64_t path = 0; path < placement.getNumPaths();
       path += encoding.numSlices)
    lone.emplace_back(encoding, path);
  for (int64_t m = 0; m < placement.getNumMicrobatches();
       m += encoding.numSlices)
    lone[placement.pathOf(m) / encoding.numSlices].put(placement.rankOnPath(m),
                                                       plan);
  plan.refreshAll(encoding);
  return plan;
}

//===----------------------------------------------------------------------===//
// Plans that fit the memory
//
// Reads each row once and counts its memory. If memory does not suffice,
// decides which activations to offload or recompute, and where they return.
// Then writes the row.
//
//   F0  F1  F2  I0  W0  F3  I1   ...         room for two
//   F0  D0? F1  F2: F0, F1 or the last to be used is evicted
//===----------------------------------------------------------------------===//

/// Limit on the activations that are examined in advance for due reloads.
static constexpr unsigned kReloadsAhead = 32;
/// One tick by which an offload is late counts as much as this many ticks of
/// freed memory.
static constexpr double kLatePenalty = 4;

namespace {
/// An activation of a row. Positions are in the row without copies.
struct Activation {
  Token forward;
  uint32_t from = 0, until = 0;      ///< positions of F and I
  CellType back = CellType::Forward; ///< Reload or Recompute if it is evicted
  uint32_t backAt = kNone;           ///< it returns before this position
};

/// Activations that can be evicted, the most valuable first; on ties the first
/// added. An activation whose offload would end too late has a penalty. All
/// penalties decrease at the same rate, so the order of late activations does
/// not change. An activation moves to the other heap when it is no longer late.
class Victims {
public:
  /// Numbers come in ascending order.
  void add(uint32_t number, double value, double readyAt) {
    isLate.resize(number + 1, true);
    late.push({value - kLatePenalty * readyAt, number});
    ready.push({-readyAt, number, value});
  }

  /// Removes and returns the best activation that `isUsable`, and drops
  /// activations that are no longer `isThere`. `now` never decreases. Takes
  /// logarithmic time for each better activation that is not usable.
  template <typename IsThere, typename IsUsable>
  std::optional<uint32_t> take(double now, IsThere &&isThere,
                               IsUsable &&isUsable);

private:
  struct Entry {
    double key = 0;
    uint32_t number = 0;
    double value = 0;

    bool operator<(const Entry &other) const {
      return key != other.key ? key < other.key : number > other.number;
    }
  };
  using Heap = std::priority_queue<Entry>;

  void settle(double now) {
    for (; !ready.empty() && -ready.top().key <= now; ready.pop()) {
      isLate[ready.top().number] = false;
      inTime.push({ready.top().value, ready.top().number});
    }
  }

  Heap inTime, late, ready;
  std::vector<bool> isLate; ///< by number
};

/// Fits one row.
class RowFitter {
public:
  RowFitter(const Encoding &encoding, const Plan &plan, ArrayRef<int64_t> ends,
            const FitRule &rule, Random &random, uint32_t worker)
      : encoding(encoding), plan(plan), ends(ends), rule(rule), random(random),
        worker(worker), begin(encoding.rowBegins[worker]),
        end(begin + plan.sizes[worker]), usedAt(end - begin, kNone),
        awaited(end - begin) {}

  bool decide();
  void write(Plan &out) const;

private:
  Token tokenAt(uint32_t pos) const { return plan.tokens[pos]; }
  const KindFacts &factsAt(uint32_t pos) const {
    return encoding.kinds[plan.tokens[pos].kind];
  }
  int64_t startAt(uint32_t pos) const {
    return ends[pos] - factsAt(pos).duration;
  }
  uint32_t stageOf(const Activation &activation) const {
    return encoding.kinds[activation.forward.kind].stage;
  }
  void hold(uint32_t pos);
  bool makeRoom(int64_t bytes, uint32_t pos, uint32_t until);
  bool bringBack(uint32_t pos);
  bool fetch(Activation &activation, uint32_t pos);
  int64_t gainOf(const Activation &activation) const;

  const Encoding &encoding;
  const Plan &plan;
  ArrayRef<int64_t> ends;
  const FitRule &rule;
  Random &random;
  uint32_t worker, begin, end;
  int64_t level = 0;
  std::vector<Activation> activations; ///< in order of F
  Victims victims;
  // By position from `begin`: the activation that an I uses, and whether it is
  // evicted and has not returned.
  std::vector<uint32_t> usedAt;
  llvm::BitVector awaited;
};
} // namespace

template <typename IsThere, typename IsUsable>
std::optional<uint32_t> Victims::take(double now, IsThere &&isThere,
                                      IsUsable &&isUsable) {
  settle(now);
  llvm::SmallVector<std::pair<Heap *, Entry>> skipped;
  std::optional<uint32_t> found;
  while (!found) {
    while (!inTime.empty() && !isThere(inTime.top().number))
      inTime.pop();
    while (!late.empty() &&
           (!isLate[late.top().number] || !isThere(late.top().number)))
      late.pop();
    if (inTime.empty() && late.empty())
      break;
    bool isFromLate = inTime.empty() ||
                      (!late.empty() &&
                       late.top().key + kLatePenalty * now > inTime.top().key);
    Heap &heap = isFromLate ? late : inTime;
    if (isUsable(heap.top().number))
      found = heap.top().number;
    else
      skipped.push_back({&heap, heap.top()});
    heap.pop();
  }
  for (auto &[heap, entry] : skipped)
    heap->push(entry);
  return found;
}

/// The memory that evicting an activation frees, which returning it takes.
int64_t RowFitter::gainOf(const Activation &activation) const {
  uint32_t stage = stageOf(activation);
  return activation.back == CellType::Recompute
             ? encoding.freedByDropping(stage)
             : encoding.stageFacts(stage).activation;
}

/// Evicts activations that are needed after position `until`, starting with the
/// one that is needed last. Stops if evicting would delay the cell at `pos`
/// more than it is worth.
bool RowFitter::makeRoom(int64_t bytes, uint32_t pos, uint32_t until) {
  auto isThere = [&](uint32_t number) {
    return activations[number].until >= pos &&
           activations[number].back == CellType::Forward;
  };
  auto isUsable = [&](uint32_t number) {
    return activations[number].until > until;
  };
  while (level + bytes > encoding.capacity[worker]) {
    std::optional<uint32_t> victim =
        victims.take(double(startAt(pos)), isThere, isUsable);
    if (!victim)
      return false;
    Activation &activation = activations[*victim];
    // A copy of a slice must wait for the last F of its microbatch, so it frees
    // nothing for the slices in between.
    bool isSliced = encoding.numSlices > 1;
    if (isSliced && !encoding.recompute)
      return false;
    bool drop = encoding.recompute && (!encoding.offload || isSliced ||
                                       random.chance(rule.recompute));
    activation.back = drop ? CellType::Recompute : CellType::Reload;
    awaited.set(activation.until - begin);
    level -= gainOf(activation);
  }
  return true;
}

bool RowFitter::fetch(Activation &activation, uint32_t pos) {
  int64_t bytes = gainOf(activation);
  if (!makeRoom(bytes, pos, activation.until))
    return false;
  level += bytes;
  activation.backAt = pos;
  awaited.reset(activation.until - begin);
  return true;
}

/// Issues the due reloads in the order in which they are needed, and recomputes
/// as late as possible. Returns false if there is no room for an activation
/// that is needed now.
bool RowFitter::bringBack(uint32_t pos) {
  int64_t ahead = 0;
  int next = awaited.find_first_in(pos - begin, end - begin);
  for (unsigned i = 0; next >= 0 && i < kReloadsAhead;
       next = awaited.find_next(next), ++i) {
    Activation &activation = activations[usedAt[next]];
    bool isNow = activation.until == pos;
    bool isDue = isNow;
    if (activation.back == CellType::Reload) {
      int64_t reload =
          encoding.facts(stageOf(activation), CellType::Reload).duration;
      ahead += int64_t(rule.lead * double(reload));
      isDue |= startAt(activation.until) - ahead <= startAt(pos);
    }
    if (isDue && !fetch(activation, pos) && isNow)
      return false;
  }
  return true;
}

/// Adds the activation of the F at `pos`.
void RowFitter::hold(uint32_t pos) {
  Token input = encoding.sibling(tokenAt(pos), CellType::InputGrad);
  uint32_t number = activations.size(), until = plan.positions[input.cell];
  activations.push_back({tokenAt(pos), pos, until});
  usedAt[until - begin] = number;
  double value = double(startAt(until)) + rule.noise * random.unit();
  int64_t offload =
      encoding.facts(factsAt(pos).stage, CellType::Offload).duration;
  victims.add(number, value,
              encoding.offload ? double(ends[pos]) + double(offload) : 0);
}

bool RowFitter::decide() {
  for (uint32_t pos = begin; pos < end; ++pos) {
    const KindFacts &kind = factsAt(pos);
    // D, U or R of the plan exists
    bool isOut = kind.type > CellType::WeightGrad;
    if (isOut || !bringBack(pos) || !makeRoom(kind.allocates, pos, pos))
      return false;
    level += kind.allocates - kind.frees;
    if (kind.type == CellType::Forward)
      hold(pos);
  }
  return true;
}

void RowFitter::write(Plan &out) const {
  std::vector<bool> isOut(end - begin);
  std::vector<Activation> returning;
  for (const Activation &activation : activations) {
    isOut[activation.from - begin] = activation.back == CellType::Reload;
    if (activation.back != CellType::Forward)
      returning.push_back(activation);
  }
  llvm::sort(returning, [](const Activation &a, const Activation &b) {
    return a.backAt != b.backAt ? a.backAt < b.backAt : a.until < b.until;
  });
  auto back = returning.begin();
  for (uint32_t pos = begin; pos < end; ++pos) {
    for (; back != returning.end() && back->backAt == pos; ++back)
      out.append(encoding, worker, encoding.sibling(back->forward, back->back));
    out.append(encoding, worker, tokenAt(pos));
    if (isOut[pos - begin])
      out.append(encoding, worker,
                 encoding.sibling(tokenAt(pos), CellType::Offload));
  }
}

std::optional<Plan> optimize::fitMemory(const Encoding &encoding,
                                        const Plan &plan,
                                        ArrayRef<int64_t> ends,
                                        const FitRule &rule, Random &random,
                                        llvm::function_ref<bool()> mustStop) {
  Plan fitted(encoding);
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    RowFitter fitter(encoding, plan, ends, rule, random, worker);
    if (mustStop() || !fitter.decide())
      return std::nullopt;
    fitter.write(fitted);
  }
  fitted.refreshAll(encoding);
  return fitted;
}

//===----------------------------------------------------------------------===//
// Patterns that repeat
//
// Extends a plan by repeating the recurring part in its middle:
//
//   F0 F1 | I0 W0 F2 | I1 W1 F3 | I2 W2 I3 W3       from 0, count 1
//   F0 F1 | I0 W0 F2 | I1 W1 F3 | I2 W2 F4 | ...    one more microbatch
//===----------------------------------------------------------------------===//

/// Whether [`begin`, `end`) has exactly `count` F, I and W of each stage of the
/// worker, and `count` or none of every other kind.
static bool isPattern(const Encoding &encoding, const Plan &plan,
                      uint32_t worker, uint32_t begin, uint32_t end,
                      uint32_t count) {
  for (uint32_t stage : encoding.stagesOf[worker]) {
    uint32_t counts[kNumCellTypes] = {};
    for (uint32_t pos = begin; pos < end; ++pos)
      if (encoding.kinds[plan.tokens[pos].kind].stage == stage)
        ++counts[plan.tokens[pos].kind % kNumCellTypes];
    for (uint32_t type = 0; type < kNumCellTypes; ++type) {
      bool isNeeded = type < 2u + encoding.splitBackward;
      if (counts[type] != count && (isNeeded || counts[type] != 0))
        return false;
    }
  }
  return true;
}

std::optional<Plan> optimize::repeatMiddle(const Encoding &from,
                                           const Plan &plan, const Encoding &to,
                                           uint32_t first, uint32_t count) {
  uint32_t more = to.kinds.front().count - from.kinds.front().count;
  if (more % count != 0)
    return std::nullopt;
  Plan longer(to);
  auto copy = [&](uint32_t worker, uint32_t begin, uint32_t end,
                  uint32_t shift) {
    for (uint32_t pos = begin; pos < end; ++pos) {
      Token token = plan.tokens[pos];
      const KindFacts &kind = from.kinds[token.kind];
      longer.append(
          to, worker,
          to.token(kind.stage, kind.type, from.rankOf(token) + shift));
    }
  };
  for (uint32_t worker = 0; worker < from.numWorkers; ++worker) {
    uint32_t row = from.rowBegins[worker], end = row + plan.sizes[worker];
    if (row == end)
      continue;
    uint32_t stage = from.stagesOf[worker].back();
    auto inputAt = [&](uint32_t rank) {
      return plan.positions[from.token(stage, CellType::InputGrad, rank).cell];
    };
    uint32_t begin = inputAt(first), next = inputAt(first + count);
    if (begin > next || !isPattern(from, plan, worker, begin, next, count))
      return std::nullopt;
    copy(worker, row, begin, 0);
    for (uint32_t shift = 0; shift <= more; shift += count)
      copy(worker, begin, next, shift);
    copy(worker, next, end, more);
  }
  longer.refreshAll(to);
  return longer;
}
