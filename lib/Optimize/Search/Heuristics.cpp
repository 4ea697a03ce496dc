//===- Heuristics.cpp - Construction of plans -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// List scheduling, and schedules of one microbatch after the other.
//
//===----------------------------------------------------------------------===//

#include "Heuristics.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Memory of an activation, and of what its I leaves in addition.
static int64_t residence(const Encoding &encoding, uint32_t stage) {
  return encoding.facts(stage, CellType::Forward).allocates +
         encoding.facts(stage, CellType::InputGrad).allocates;
}

/// Draws how many microbatches each stage may have under way: the later the
/// stage on its path the fewer, linearly and with a random slope; or no limit.
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
/// A time for each worker. A change takes the logarithm of their number, and so
/// does finding the first.
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
  /// The worker with the least time; of equal ones that with the lowest number.
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

/// Whether the slice that comes before this one has its cell of a kind.
bool Dispatcher::isSliceDue(const KindFacts &kind, uint32_t rank) const {
  bool isForward = kind.type == CellType::Forward;
  uint32_t slice = encoding.sliceOf[kind.stage];
  if (slice == (isForward ? 0 : encoding.numSlices - 1))
    return true;
  uint32_t stage =
      encoding.withSlice(kind.stage, isForward ? slice - 1 : slice + 1);
  return next[encoding.kindOf(stage, kind.type)] > rank;
}

/// When the next cell of a kind can start. kNever: it cannot start yet.
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
  // What I leaves in addition is counted from F on.
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

/// An activation has to leave the device if its worker cannot keep one of each
/// of its stages and slices on the path, unless it is used next. Slices of a
/// stage leave together, since later ones need their keys and values; where
/// they do not fit beside each other, they are recomputed.
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
