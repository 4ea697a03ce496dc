//===- MemoryFit.cpp - Copies and recompute for rows ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads each row once and counts its memory. Where memory does not suffice,
// decides which activations to offload or recompute, and where they come back.
// Then writes the row.
//
//   F0  F1  F2  I0  W0  F3  I1   ...         room for two
//   F0  D0? F1  F2: F0, F1 or what is used last goes out
//
//===----------------------------------------------------------------------===//

#include "Heuristics.h"
#include "llvm/ADT/BitVector.h"
#include <algorithm>
#include <queue>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

/// Most activations to look at ahead of time for reloads that are due.
static constexpr unsigned kReloadsAhead = 32;
/// How many ticks of freed memory outweigh one tick by which an offload is
/// late.
static constexpr double kLatePenalty = 4;

namespace {
/// An activation of a row. Positions are those of the row without copies.
struct Activation {
  Token forward;
  uint32_t from = 0, until = 0;      ///< positions of F and I
  CellType back = CellType::Forward; ///< Reload or Recompute if it is evicted
  uint32_t backAt = kNone;           ///< it comes back before this position
};

/// Activations that can be evicted, the most valuable first. An activation
/// whose offload would end too late has a penalty. All penalties fall at the
/// same rate with time, so the order of late activations does not change. An
/// activation changes heaps once it is no longer late. Of equal ones the first
/// added comes first.
class Victims {
public:
  /// Numbers come in ascending order.
  void add(uint32_t number, double value, double readyAt) {
    isLate.resize(number + 1, true);
    late.push({value - kLatePenalty * readyAt, number});
    ready.push({-readyAt, number, value});
  }

  /// Takes the best activation that `isUsable`, and drops those that are no
  /// longer `isThere`. `now` never decreases. Takes the logarithm of their
  /// number for each better activation that is not usable.
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
  // evicted and not back yet.
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

/// The memory that evicting an activation frees, and that bringing it back
/// takes.
int64_t RowFitter::gainOf(const Activation &activation) const {
  uint32_t stage = stageOf(activation);
  return activation.back == CellType::Recompute
             ? encoding.freedByDropping(stage)
             : encoding.stageFacts(stage).activation;
}

/// Evicts activations that are needed after position `until`, starting with the
/// one needed last. Stops if evicting would delay the cell at `pos` for longer
/// than it is worth.
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
    // A copy of a slice has to wait for the last F of its microbatch, and so
    // frees nothing for the slices between.
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

/// Issues the reloads that are due, in the order in which they are needed, and
/// recomputes as late as possible. False: there is no room for one that is
/// needed now.
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
    bool isOut = kind.type > CellType::WeightGrad; // D, U or R of the plan
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
