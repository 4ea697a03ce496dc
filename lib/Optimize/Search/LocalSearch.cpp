//===- LocalSearch.cpp - Moves and annealing ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simulated annealing. The largest objective with which a plan is accepted is
// drawn before the plan is evaluated, so that most evaluations end early.
//
//===----------------------------------------------------------------------===//

#include "LocalSearch.h"
#include <algorithm>
#include <cmath>

using namespace pipesched;
using namespace pipesched::optimize;

/// Number of evaluations between two calls of shouldStop; fewer if they would
/// time more than kStopCells cells.
static constexpr uint64_t kStopInterval = 256, kStopCells = uint64_t(1) << 22;
/// Number of accepted plans between two searches for the critical path.
static constexpr uint32_t kTraceInterval = 16;

template <typename Objective>
int64_t Annealing<Objective>::offer(const Plan &other) {
  int64_t value = objective.evaluate(other, kInfeasible - 1);
  objective.discard();
  if (value < bestObjective) {
    bestObjective = value;
    best = other;
  }
  return value;
}

/// Returns the position of a cell that ends at `time` and may delay the cell at
/// `pos`: an earlier compute cell or copy, an offload that frees memory, or
/// compute after a reload that is issued later than its place. kNone: there is
/// no such cell.
template <typename Objective>
uint32_t Annealing<Objective>::endingAt(uint32_t worker, uint32_t pos,
                                        int64_t time) const {
  uint32_t begin = encoding.rowBegins[worker];
  auto typeAt = [&](uint32_t at) {
    return encoding.kinds[plan.tokens[at].kind].type;
  };
  bool isCopy = typeAt(pos) >= CellType::Offload;
  for (uint32_t at = pos; at-- > begin;)
    if (timeOf(objective.endAt(at)) == time &&
        (isCopy || typeAt(at) != CellType::Reload))
      return at;
  if (typeAt(pos) != CellType::Reload)
    return kNone;
  for (uint32_t at = pos + 1; at < begin + plan.sizes[worker]; ++at)
    if (timeOf(objective.endAt(at)) == time && typeAt(at) != CellType::Reload)
      return at;
  return kNone;
}

/// Returns the position of the cell that determines the start of the cell at
/// `pos`: it sends its message, is its copy, precedes it in the row or in a
/// queue, or frees its memory. kNone at the start of a row.
template <typename Objective>
uint32_t Annealing<Objective>::waitOf(uint32_t worker, uint32_t pos) const {
  Token token = plan.tokens[pos];
  const KindFacts &kind = encoding.kinds[token.kind];
  int64_t start = timeOf(objective.endAt(pos)) - kind.duration;
  if (kind.waitsOn != kNone) {
    uint32_t source = plan.positions[token.cell + kind.waitsFor];
    if (timeOf(objective.endAt(source)) + kind.delay == start)
      return source;
  }
  if (encoding.offload) {
    bool isReload = kind.type == CellType::Reload;
    if (isReload || kind.type == CellType::InputGrad) {
      Token copy = encoding.sibling(token, isReload ? CellType::Offload
                                                    : CellType::Reload);
      if (plan.has(copy) &&
          timeOf(objective.endAt(plan.positions[copy.cell])) == start)
        return plan.positions[copy.cell];
    }
    if (uint32_t cause = endingAt(worker, pos, start); cause != kNone)
      return cause;
  }
  return pos == encoding.rowBegins[worker] ? kNone : pos - 1;
}

template <typename Objective>
void Annealing<Objective>::trace() {
  critical.clear();
  uint32_t worker = objective.lastRow();
  uint32_t pos = encoding.rowBegins[worker] + plan.sizes[worker] - 1;
  // Limit the length of the path, because ends decrease along it only if copies
  // take time.
  while (pos != kNone && critical.size() < plan.tokens.size()) {
    worker = encoding.kinds[plan.tokens[pos].kind].worker;
    critical.push_back({worker, pos});
    pos = waitOf(worker, pos);
  }
}

template <typename Objective>
std::pair<uint32_t, uint32_t> Annealing<Objective>::drawPlace() {
  if (!critical.empty() && random.chance(0.6)) {
    std::pair<uint32_t, uint32_t> place =
        critical[random.below(critical.size())];
    uint32_t begin = encoding.rowBegins[place.first];
    if (place.second < begin + plan.sizes[place.first])
      return place;
  }
  uint32_t worker = random.below(encoding.numWorkers);
  while (plan.sizes[worker] == 0)
    worker = worker + 1 == encoding.numWorkers ? 0 : worker + 1;
  return {worker,
          encoding.rowBegins[worker] + random.below(plan.sizes[worker])};
}

/// The part of the way from `begin` to `end` that is after `now`, from 0 to 1.
static double shareOf(double now, double begin, double end) {
  return now < end ? (now - begin) / (end - begin) : 1;
}

template <typename Objective>
bool Annealing<Objective>::run(const Plan &from, const Cooling &cooling,
                               Stopper &stopper) {
  plan = from;
  value = objective.evaluate(plan, kInfeasible - 1);
  objective.keep();
  trace();
  uint64_t evaluations = 0, asked = 0, draws = 0;
  uint32_t taken = 0;
  const uint64_t interval =
      std::clamp<uint64_t>(kStopCells / encoding.numCells, 1, kStopInterval);
  const double begun = stopper.getProgress();
  double temperature = cooling.from;
  while (true) {
    // 4096 draws count as one evaluation, so that a run ends even if no draw
    // changes the plan.
    if (evaluations - asked >= interval || ++draws % 4096 == 0) {
      evaluations += draws % 4096 == 0;
      numEvaluations += evaluations - asked;
      if (stopper.shouldStop(evaluations - asked, bestObjective))
        return false;
      asked = evaluations;
      double done = shareOf(stopper.getProgress(), begun, cooling.until);
      if (done >= 1 && evaluations >= cooling.leastEvaluations)
        return true;
      temperature = cooling.from * std::pow(cooling.to / cooling.from, done);
    }
    auto [worker, position] = drawPlace();
    if (!mover.draw(plan, worker, position, random))
      continue;
    ++evaluations;
    double slack = -temperature * std::log(1 - random.unit());
    int64_t limit = value + int64_t(slack);
    int64_t changed =
        mover.isGlobal()
            ? objective.evaluate(plan, limit)
            : objective.evaluateFrom(plan, worker, mover.getBegin(),
                                     mover.getEnd(), limit);
    if (changed == kInfeasible) {
      objective.discard();
      mover.undo(plan);
      continue;
    }
    objective.keep();
    value = changed;
    if (value < bestObjective) {
      bestObjective = value;
      best = plan;
    }
    if (++taken % kTraceInterval == 0)
      trace();
  }
}

template class optimize::Annealing<MakespanEvaluator<false>>;
template class optimize::Annealing<MakespanEvaluator<true>>;
template class optimize::Annealing<PeriodEvaluator<false>>;
template class optimize::Annealing<PeriodEvaluator<true>>;

//===----------------------------------------------------------------------===//
// Moves of cells
//
// Draws a change, makes it, and undoes it.
//===----------------------------------------------------------------------===//

/// The furthest move of a cell, and the longest block, in cells.
static constexpr uint32_t kFarthest = 24, kLongestBlock = 4;

/// Whether two cells of a row may be exchanged: `later` does not depend on
/// `earlier`, neither directly nor through two cells of another worker's row.
bool Mover::areFree(const Plan &plan, Token earlier, Token later) const {
  const KindFacts &a = encoding.kinds[earlier.kind];
  const KindFacts &b = encoding.kinds[later.kind];
  const Sent &message = sent[earlier.kind];
  if (message.worker != kNone && earlier.cell + message.distance == later.cell)
    return false;
  if (a.stage == b.stage && (a.type == b.type || earlier.cell - a.firstCell ==
                                                     later.cell - b.firstCell))
    return false;
  if (encoding.isFixedBySlices(earlier, later))
    return false;
  return message.worker != b.waitsOn || b.waitsOn == kNone ||
         plan.positions[earlier.cell + message.distance] >
             plan.positions[later.cell + b.waitsFor];
}

void Mover::save(const Plan &plan, uint32_t from, uint32_t to) {
  begin = from;
  size = plan.sizes[worker];
  saved.assign(plan.tokens.begin() + from, plan.tokens.begin() + to);
}

/// Whether there is memory for the compute cells of [`begin`, `end`) if all
/// earlier offloads have ended. Reloads may wait for memory.
bool Mover::fits(const Plan &plan) const {
  for (uint32_t pos = begin; pos < end; ++pos) {
    const KindFacts &kind = encoding.kinds[plan.tokens[pos].kind];
    if (kind.allocates > 0 && !kind.isCopy() &&
        plan.levels[pos] + kind.allocates > encoding.capacity[worker])
      return false;
  }
  return true;
}

/// Updates the plan after tokens of [`begin`, `last`) were reordered. Returns
/// false if memory does not suffice; the change is then undone.
bool Mover::apply(Plan &plan, uint32_t last) {
  isWholeRow = false;
  end = last;
  if (plan.refresh(encoding, worker, begin, end) && fits(plan))
    return true;
  undo(plan);
  return false;
}

void Mover::undo(Plan &plan) const {
  if (isGlobal()) {
    for (const Patch &patch : llvm::reverse(patches))
      plan.tokens[patch.position] = patch.before;
    plan.refreshAll(encoding);
    return;
  }
  std::copy(saved.begin(), saved.end(), plan.tokens.begin() + begin);
  plan.sizes[worker] = size;
  if (isWholeRow)
    plan.refreshRow(encoding, worker);
  else
    plan.refresh(encoding, worker, begin, begin + saved.size());
}

//===----------------------------------------------------------------------===//
// Changes of order
//===----------------------------------------------------------------------===//

/// The number of places, at most `most`, by which a cell can move.
uint32_t Mover::reach(const Plan &plan, uint32_t position, uint32_t most,
                      bool isForward) const {
  uint32_t rowBegin = encoding.rowBegins[worker];
  uint32_t rowEnd = rowBegin + plan.sizes[worker];
  Token token = plan.tokens[position];
  most =
      std::min(most, isForward ? rowEnd - 1 - position : position - rowBegin);
  for (uint32_t steps = 0; steps < most; ++steps) {
    uint32_t other = isForward ? position + steps + 1 : position - steps - 1;
    if (!areFree(plan, isForward ? token : plan.tokens[other],
                 isForward ? plan.tokens[other] : token))
      return steps;
  }
  return most;
}

bool Mover::rotate(Plan &plan, uint32_t first, uint32_t middle, uint32_t last) {
  save(plan, first, last);
  auto tokens = plan.tokens.begin();
  std::rotate(tokens + first, tokens + middle, tokens + last);
  return apply(plan, last);
}

static uint32_t drawDistance(Random &random) {
  uint32_t distance = 1;
  double onward = random.chance(0.2) ? 0.9 : 0.5;
  while (distance < kFarthest && random.chance(onward))
    ++distance;
  return distance;
}

bool Mover::drawInsertion(Plan &plan, uint32_t position, Random &random) {
  bool isForward = random.chance(0.5);
  uint32_t steps = reach(plan, position, drawDistance(random), isForward);
  if (steps == 0)
    return false;
  return isForward ? rotate(plan, position, position + 1, position + steps + 1)
                   : rotate(plan, position - steps, position, position + 1);
}

/// Exchanges two neighbouring blocks.
bool Mover::drawBlock(Plan &plan, uint32_t position, Random &random) {
  uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  uint32_t middle = position + 1 + random.below(kLongestBlock);
  uint32_t last = middle + 1 + random.below(kLongestBlock);
  if (last > rowEnd)
    return false;
  for (uint32_t i = position; i < middle; ++i)
    for (uint32_t j = middle; j < last; ++j)
      if (!areFree(plan, plan.tokens[i], plan.tokens[j]))
        return false;
  return rotate(plan, position, middle, last);
}

/// Exchanges two cells.
bool Mover::drawExchange(Plan &plan, uint32_t position, Random &random) {
  uint32_t distance = 1 + drawDistance(random);
  uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  uint32_t other = position + distance;
  if (other >= rowEnd || reach(plan, position, distance, true) < distance ||
      reach(plan, other, distance, false) < distance)
    return false;
  save(plan, position, other + 1);
  std::swap(plan.tokens[position], plan.tokens[other]);
  return apply(plan, other + 1);
}

//===----------------------------------------------------------------------===//
// Changes of the order of backwards
//===----------------------------------------------------------------------===//

/// Replaces the cell of one microbatch by the cell of the other.
void Mover::replace(Plan &plan, Token from, Token to) {
  uint32_t position = plan.positions[from.cell];
  if (position == kNone)
    return;
  patches.push_back({position, from});
  plan.tokens[position] = to;
}

/// Exchanges the backwards of two microbatches on one stage. The first then
/// runs later and the second earlier, so the copies or R that restored the
/// second now serve the first. Returns false if one is offloaded and the other
/// recomputed.
bool Mover::relabel(Plan &plan, Token first, Token second) {
  auto of = [&](Token token, CellType type) {
    return encoding.sibling(token, type);
  };
  bool isFirstOut = plan.has(of(first, CellType::Offload));
  bool isSecondOut = plan.has(of(second, CellType::Offload));
  bool isFirstAgain = plan.has(of(first, CellType::Recompute));
  bool isSecondAgain = plan.has(of(second, CellType::Recompute));
  if ((isFirstOut && isSecondAgain) || (isFirstAgain && isSecondOut))
    return false;
  auto exchange = [&](CellType type) {
    replace(plan, of(first, type), of(second, type));
    replace(plan, of(second, type), of(first, type));
  };
  exchange(CellType::InputGrad);
  exchange(CellType::WeightGrad);
  if (isSecondOut)
    exchange(CellType::Reload);
  if (isSecondOut && !isFirstOut)
    exchange(CellType::Offload);
  if (isSecondAgain)
    exchange(CellType::Recompute);
  return true;
}

bool Mover::drawRelabel(Plan &plan, uint32_t position, Random &random) {
  Token input = encoding.sibling(plan.tokens[position], CellType::InputGrad);
  const KindFacts &kind = encoding.kinds[input.kind];
  uint32_t rank = encoding.rankOf(input), distance = 1;
  while (distance < kind.count && random.chance(0.3))
    ++distance;
  if (rank + distance >= kind.count)
    return false;
  Token other = {input.cell + distance, input.kind};
  if (plan.positions[input.cell] > plan.positions[other.cell])
    std::swap(input, other);
  uint32_t stage = kind.stage;
  while (encoding.stageBefore[stage] != kNone)
    stage = encoding.stageBefore[stage];
  bool isValid = true;
  rank = encoding.rankOf(input);
  for (; stage != kNone; stage = encoding.nextStage[stage])
    for (uint32_t slice = 0; slice < encoding.numSlices; ++slice) {
      uint32_t own = encoding.withSlice(stage, slice);
      isValid =
          isValid && relabel(plan, encoding.token(own, CellType::Forward, rank),
                             encoding.token(own, CellType::Forward,
                                            encoding.rankOf(other)));
    }
  if (patches.empty())
    return false;
  isValid = isValid && plan.refreshAll(encoding) && areOrdered(plan);
  if (!isValid)
    undo(plan);
  return isValid;
}

/// Whether every replaced cell is in order relative to the other cells of its
/// microbatch.
bool Mover::areOrdered(const Plan &plan) const {
  return llvm::all_of(patches, [&](const Patch &patch) {
    return plan.isOrdered(encoding, plan.tokens[patch.position]);
  });
}

bool Mover::draw(Plan &plan, uint32_t row, uint32_t position, Random &random) {
  worker = row;
  patches.clear();
  uint32_t choice = random.below(100);
  if (encoding.offload || encoding.recompute) {
    if (choice >= 88)
      return drawEviction(plan, position, random);
    if (choice >= 85)
      return drawRelabel(plan, position, random);
  }
  if (choice < 60)
    return drawInsertion(plan, position, random);
  return choice < 75 ? drawExchange(plan, position, random)
                     : drawBlock(plan, position, random);
}

//===----------------------------------------------------------------------===//
// Moves of evictions
//
// Moves that decide which activations are offloaded or recomputed. Most such
// changes are useless by themselves: a kept activation takes memory from
// forwards, and an evicted one frees memory that no forward uses yet. Therefore
// a move may also change the order of the row around it.
//===----------------------------------------------------------------------===//

/// The largest distance between two microbatches of a stage that exchange an
/// eviction.
static constexpr uint32_t kFarthestTransfer = 4;
/// A new reload or R is inserted fewer than this many cells before its I.
static constexpr uint32_t kMostAhead = 4;
/// The largest distance by which a forward moves into memory that has become
/// free.
static constexpr uint32_t kFarthestPull = 12;
/// The largest number of cells that wait for memory at the same time.
static constexpr size_t kMostDelayed = 24;

/// How the activation returns: Reload, Recompute, or Forward if it stays.
CellType Mover::evictionOf(const Plan &plan, Token forward) const {
  for (CellType back : {CellType::Reload, CellType::Recompute})
    if (plan.has(encoding.sibling(forward, back)))
      return back;
  return CellType::Forward;
}

CellType Mover::drawKind(Random &random) const {
  bool isOffload =
      encoding.offload && (!encoding.recompute || random.chance(0.6));
  return isOffload ? CellType::Reload : CellType::Recompute;
}

/// Inserts a cell into the row without updating the positions of the plan.
void Mover::insert(Plan &plan, uint32_t position, Token token) {
  auto tokens = plan.tokens.begin();
  uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  std::copy_backward(tokens + position, tokens + rowEnd, tokens + rowEnd + 1);
  plan.tokens[position] = token;
  ++plan.sizes[worker];
}

/// Removes D and U or R of a microbatch.
void Mover::keepOnDevice(Plan &plan, Token forward) {
  auto isEviction = [&](Token token) {
    return encoding.kinds[token.kind].type >= CellType::Recompute &&
           encoding.sibling(token, CellType::Forward) == forward;
  };
  auto from = plan.tokens.begin() + encoding.rowBegins[worker];
  auto to = from + plan.sizes[worker];
  plan.sizes[worker] -= to - std::remove_if(from, to, isEviction);
  plan.refreshRow(encoding, worker);
}

/// Inserts R, or U, shortly before I, and D right after F. Keys and values of
/// slices are copied together with activations: between the last F and the
/// first I of the microbatch.
void Mover::evict(Plan &plan, Token forward, CellType back, Random &random) {
  Token last = forward;
  if (back == CellType::Reload)
    last = encoding.ofSlice(forward, CellType::Forward, encoding.numSlices - 1);
  uint32_t from = plan.positions[last.cell] + 1;
  Token input = encoding.sibling(last, CellType::InputGrad);
  Token lastReload = encoding.sibling(last, CellType::Reload);
  if (last != forward && plan.has(lastReload))
    input = lastReload;
  uint32_t until = plan.positions[input.cell];
  uint32_t ahead = std::min(until - from, random.below(kMostAhead));
  if (back == CellType::Recompute && random.chance(0.5))
    ahead = 0;
  insert(plan, until - ahead, encoding.sibling(forward, back));
  if (back == CellType::Reload)
    insert(plan, from, encoding.sibling(forward, CellType::Offload));
  plan.refreshRow(encoding, worker);
}

/// Moves a forward between F and I of this microbatch to an earlier place, into
/// the memory that the eviction frees.
void Mover::pullForward(Plan &plan, Token forward, Random &random) {
  uint32_t from = plan.positions[forward.cell] + 1;
  uint32_t until =
      plan.positions[encoding.sibling(forward, CellType::InputGrad).cell];
  uint32_t position = from + random.below(until - from + 1);
  while (position < until &&
         encoding.kinds[plan.tokens[position].kind].type != CellType::Forward)
    ++position;
  if (position >= until)
    return;
  uint32_t most = 1 + random.below(kFarthestPull);
  uint32_t steps = reach(plan, position, std::min(most, position - from),
                         /*isForward=*/false);
  auto tokens = plan.tokens.begin();
  std::rotate(tokens + position - steps, tokens + position,
              tokens + position + 1);
  plan.refreshRow(encoding, worker);
}

/// Delays each compute cell for which memory does not suffice, and the cells
/// that depend on it, until memory suffices. Returns false if it never does.
bool Mover::delayForMemory(Plan &plan) {
  ordered.clear();
  delayed.clear();
  int64_t level = plan.levels[begin];
  auto hasRoom = [&](Token token) {
    const KindFacts &kind = encoding.kinds[token.kind];
    return kind.isCopy() || kind.allocates == 0 ||
           level + kind.allocates <= encoding.capacity[worker];
  };
  auto put = [&](Token token) {
    const KindFacts &kind = encoding.kinds[token.kind];
    level += kind.allocates - kind.frees;
    if (kind.type == CellType::Forward &&
        plan.has(encoding.sibling(token, CellType::Recompute)))
      level -= encoding.freedByDropping(kind.stage);
    ordered.push_back(token);
  };
  const uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  for (uint32_t pos = begin; pos < rowEnd; ++pos) {
    Token token = plan.tokens[pos];
    bool isFree = llvm::all_of(
        delayed, [&](Token earlier) { return areFree(plan, earlier, token); });
    if (!isFree || !hasRoom(token)) {
      delayed.push_back(token);
      if (delayed.size() > kMostDelayed)
        return false;
      continue;
    }
    put(token);
    size_t number = 0;
    for (; number < delayed.size() && hasRoom(delayed[number]); ++number)
      put(delayed[number]);
    delayed.erase(delayed.begin(), delayed.begin() + number);
  }
  if (!delayed.empty())
    return false;
  std::copy(ordered.begin(), ordered.end(), plan.tokens.begin() + begin);
  return true;
}

/// Accepts the row, in which the eviction of two microbatches may have changed.
/// If it needs too much memory, cells may be delayed. Returns false if delays
/// do not help or slices are out of order; the change is then undone.
bool Mover::applyEviction(Plan &plan, Token first, Token second,
                          Random &random) {
  isWholeRow = true;
  end = encoding.rowBegins[worker] + plan.sizes[worker];
  bool hasRoom = plan.refreshRow(encoding, worker) && fits(plan);
  if (!plan.areSlicesOrdered(encoding, first) ||
      !plan.areSlicesOrdered(encoding, second)) {
    undo(plan);
    return false;
  }
  if (hasRoom)
    return true;
  if (random.chance(0.8) && delayForMemory(plan) &&
      plan.refreshRow(encoding, worker) && fits(plan))
    return true;
  undo(plan);
  return false;
}

/// Starts or stops evicting a microbatch.
bool Mover::drawToggle(Plan &plan, Token forward, Random &random) {
  save(plan, plan.positions[forward.cell],
       encoding.rowBegins[worker] + plan.sizes[worker]);
  if (evictionOf(plan, forward) != CellType::Forward) {
    keepOnDevice(plan, forward);
    return applyEviction(plan, forward, forward, random);
  }
  evict(plan, forward, drawKind(random), random);
  if (random.chance(0.5))
    pullForward(plan, forward, random);
  return applyEviction(plan, forward, forward, random);
}

/// Evicts a microbatch instead of another one near it on the same stage. If
/// both techniques are allowed, it may instead change the technique of one
/// microbatch. Returns false if neither of the two is evicted, or both are.
bool Mover::drawTransfer(Plan &plan, Token forward, Random &random) {
  const KindFacts &kind = encoding.kinds[forward.kind];
  uint32_t distance = 1 + random.below(kFarthestTransfer);
  if (encoding.offload && encoding.recompute && random.chance(0.25))
    distance = 0;
  if (encoding.rankOf(forward) + distance >= kind.count)
    return false;
  Token other = {forward.cell + distance, forward.kind};
  CellType own = evictionOf(plan, forward), its = evictionOf(plan, other);
  bool isOwnOut = own != CellType::Forward, isItsOut = its != CellType::Forward;
  if (distance == 0 ? !isOwnOut : isOwnOut == isItsOut)
    return false;
  uint32_t first =
      std::min(plan.positions[forward.cell], plan.positions[other.cell]);
  save(plan, first, encoding.rowBegins[worker] + plan.sizes[worker]);
  if (!isOwnOut)
    std::swap(forward, other);
  CellType back = isOwnOut ? own : its;
  keepOnDevice(plan, forward);
  if (distance == 0)
    back = back == CellType::Reload ? CellType::Recompute : CellType::Reload;
  evict(plan, other, back, random);
  return applyEviction(plan, forward, other, random);
}

bool Mover::drawEviction(Plan &plan, uint32_t position, Random &random) {
  Token forward = encoding.sibling(plan.tokens[position], CellType::Forward);
  return random.chance(0.5) ? drawToggle(plan, forward, random)
                            : drawTransfer(plan, forward, random);
}
