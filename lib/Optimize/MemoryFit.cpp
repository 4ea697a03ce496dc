//===- MemoryFit.cpp - Copies and recompute for rows ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks each row once with the memory that it takes, and puts activations out
// where there is not enough: first it is decided which and where they come
// back, then the row is written.
//
//   F0  F1  F2  I0  W0  F3  I1   ...         room for two
//   F0  D0? F1  F2: F0, F1 or what is used last goes out
//
//===----------------------------------------------------------------------===//

#include "Heuristics.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

namespace {
/// An activation of a row. Positions are those of the row without copies.
struct Activation {
  Token forward;
  uint32_t from = 0, until = 0; ///< positions of F and I
  Step back = Step::Forward;    ///< Reload or Recompute where it is put out
  uint32_t backAt = kNone;      ///< before which position it comes back
};

/// Fits one row.
class RowFitter {
public:
  RowFitter(const Encoding &encoding, const Plan &plan, ArrayRef<int64_t> ends,
            const FitRule &rule, Random &random, uint32_t worker)
      : encoding(encoding), plan(plan), ends(ends), rule(rule), random(random),
        worker(worker), begin(encoding.rowBegins[worker]),
        end(begin + plan.sizes[worker]) {}

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
  void retire(uint32_t pos);
  bool makeRoom(int64_t bytes, uint32_t pos, uint32_t until);
  bool bringBack(uint32_t pos);
  bool fetch(Activation &activation, uint32_t pos);
  Activation *findVictim(uint32_t pos, uint32_t until);
  int64_t gainOf(const Activation &activation) const;

  const Encoding &encoding;
  const Plan &plan;
  ArrayRef<int64_t> ends;
  const FitRule &rule;
  Random &random;
  uint32_t worker, begin, end;
  int64_t level = 0;
  std::vector<Activation> activations; ///< between F and I, in order of F
  std::vector<Activation> returned;    ///< that were put out before
};
} // namespace

/// The activation to put out: the one that is needed last, unless its offload
/// would hold up the cell at `pos` for longer than that is worth.
Activation *RowFitter::findVictim(uint32_t pos, uint32_t until) {
  Activation *victim = nullptr;
  double best = 0;
  for (Activation &activation : activations) {
    if (activation.until <= until || activation.back != Step::Forward ||
        activation.from >= pos)
      continue;
    const KindFacts &offload = encoding.facts(
        encoding.kinds[activation.forward.kind].stage, Step::Offload);
    int64_t late = ends[activation.from] + offload.duration - startAt(pos);
    double score = double(startAt(activation.until)) + 1;
    if (encoding.offload)
      score -= 4 * double(std::max<int64_t>(0, late));
    score += rule.noise * random.unit();
    if (!victim || score > best) {
      victim = &activation;
      best = score;
    }
  }
  return victim;
}

/// What putting it out frees, and bringing it back takes.
int64_t RowFitter::gainOf(const Activation &activation) const {
  uint32_t stage = encoding.kinds[activation.forward.kind].stage;
  return activation.back == Step::Recompute
             ? encoding.freedByDropping(stage)
             : encoding.stageFacts(stage).activation;
}

/// Puts out activations that are needed after position `until`.
bool RowFitter::makeRoom(int64_t bytes, uint32_t pos, uint32_t until) {
  while (level + bytes > encoding.capacity[worker]) {
    Activation *victim = findVictim(pos, until);
    if (!victim)
      return false;
    bool drop = encoding.recompute &&
                (!encoding.offload || random.chance(rule.recompute));
    victim->back = drop ? Step::Recompute : Step::Reload;
    level -= gainOf(*victim);
  }
  return true;
}

bool RowFitter::fetch(Activation &activation, uint32_t pos) {
  int64_t bytes = gainOf(activation);
  if (!makeRoom(bytes, pos, activation.until))
    return false;
  level += bytes;
  activation.backAt = pos;
  return true;
}

/// Reloads that are due, in the order in which they are needed; recompute at
/// the last moment. False: one that is needed now finds no room.
bool RowFitter::bringBack(uint32_t pos) {
  int64_t ahead = 0;
  for (Activation &activation : activations) {
    if (activation.back == Step::Forward || activation.backAt != kNone)
      continue;
    uint32_t stage = encoding.kinds[activation.forward.kind].stage;
    bool isNow = activation.until == pos;
    if (activation.back == Step::Reload) {
      ahead += int64_t(rule.lead *
                       double(encoding.facts(stage, Step::Reload).duration));
      isNow |= startAt(activation.until) - ahead <= startAt(pos);
    }
    if (isNow && !fetch(activation, pos) && activation.until == pos)
      return false;
  }
  return true;
}

/// The activation of the I at `pos` is used up.
void RowFitter::retire(uint32_t pos) {
  auto used = llvm::find_if(activations, [&](const Activation &activation) {
    return activation.until == pos;
  });
  if (used->back != Step::Forward)
    returned.push_back(*used);
  activations.erase(used);
}

bool RowFitter::decide() {
  for (uint32_t pos = begin; pos < end; ++pos) {
    if (!bringBack(pos))
      return false;
    const KindFacts &kind = factsAt(pos);
    if (!makeRoom(kind.allocates, pos, pos))
      return false;
    level += kind.allocates - kind.frees;
    if (kind.step == Step::Forward) {
      Token input = encoding.sibling(tokenAt(pos), Step::InputGrad);
      activations.push_back({tokenAt(pos), pos, plan.positions[input.cell]});
    } else if (kind.step == Step::InputGrad) {
      retire(pos);
    }
  }
  return true;
}

void RowFitter::write(Plan &out) const {
  std::vector<bool> isOut(end - begin);
  for (const Activation &activation : returned)
    isOut[activation.from - begin] = activation.back == Step::Reload;
  std::vector<Activation> returning = returned;
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
                 encoding.sibling(tokenAt(pos), Step::Offload));
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
