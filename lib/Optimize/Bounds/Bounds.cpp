//===- Bounds.cpp - Lower bounds and proofs -------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes quick bounds first, then proves better ones within the limits.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Bounds/Bounds.h"
#include "BranchAndBound.h"
#include "EventSearch.h"
#include "QuickBounds.h"

using namespace pipesched;
using namespace pipesched::optimize;

Bound optimize::quickBound(const Problem &problem) {
  return quickBound(BoundsGraph(problem));
}

namespace {

/// Raises a lower bound and lowers an upper one until they meet or time is out.
/// Makespans are multiples of the tick, so that there are finitely many.
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
  /// The largest makespan below this one that is a whole number of ticks above
  /// the lower bound.
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
  bool isRelaxed; ///< `search` may end with orders that are no schedules
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

/// The least makespan that propagation alone does not refute (a destructive
/// bound, Klein and Scholl 1999): First it tries makespans at distances that
/// double, since short makespans are refuted soonest; then it bisects.
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

/// Starts with a short search, which finds what is easy to find. A long search
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

/// With copies or recomputation, only the search from event to event is exact;
/// the other one is faster at refuting what it can refute.
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

/// Asks for the next better makespan first: refuting it ends the proof. If that
/// takes too long, asks for lower makespans, which are refuted sooner.
void Prover::branch() {
  int64_t most = upper; // this makespan and longer ones are not tried
  while (lower < most && !deadline.isOver()) {
    int64_t makespan = most == upper ? below(upper) : middle(most);
    // The last makespan to try may take all the time and work that is left.
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
  Proof proof{quickBound(graph), std::nullopt};
  if (problem.objective == Objective::Makespan &&
      std::max(proof.lowerBound.value, knownBound) < upperBound)
    Prover(graph, upperBound, limits).run(proof, knownBound);
  return proof;
}
