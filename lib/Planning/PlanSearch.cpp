//===- PlanSearch.cpp - Rounds of the search for a plan -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes bounds of candidates, evaluates candidates, and stores the memory of
// their rows.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/PlanSearch.h"
#include "PipeSched/Evaluation/Disturbance.h"
#include <cmath>
#include <numeric>
#include <set>

using namespace pipesched;

/// Sorts by a key. Elements with equal keys keep their order.
template <typename T, typename KeyOf>
static void sortBy(std::vector<T> &all, KeyOf keyOf) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::sort(order, [&](size_t one, size_t other) {
    auto key = keyOf(all[one]), otherKey = keyOf(all[other]);
    return key < otherKey || (key == otherKey && one < other);
  });
  std::vector<T> sorted;
  for (size_t number : order)
    sorted.push_back(all[number]);
  all = std::move(sorted);
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

Placed &PlanSearch::placed(int32_t candidate) {
  int32_t shape = candidates.get(candidate).shape;
  const PlanSchedule &schedule = candidates.scheduleOf(candidate);
  std::unique_ptr<Placed> &place =
      places[{shape, schedule.placement, candidates.get(candidate).counts,
              schedule.isSpread}];
  if (!place) {
    const ShapeLimits &limits = shapeLimits.at(shape);
    place = std::make_unique<Placed>(candidates.getShape(shape), schedule.paths,
                                     candidates.countsOf(candidate),
                                     schedule.isSpread, *limits.layers,
                                     *limits.bytes);
  }
  return *place;
}

PlanBounds PlanSearch::bounds(int32_t candidate, double limitPs) {
  const PlanSchedule &schedule = candidates.scheduleOf(candidate);
  const ShapeLimits &limits = shapeLimits.at(candidates.get(candidate).shape);
  Placed &place = placed(candidate);
  PlanBounds found;
  double visible = 1;
  if (schedule.hides && limits.savings) {
    found = pairedBounds(candidate, limitPs, visible);
  } else {
    found = place.bounds(schedule, limitPs);
    found.stepPs = std::max(found.stepPs, limits.wholePs);
  }
  if (!limits.factors.empty())
    found.stepPs = std::max(
        found.stepPs, settings.widening *
                          (visible * place.slowedPs(schedule, limits.factors)));
  found.peakBytes = std::max(found.peakBytes, heldBytes(candidate));
  return found;
}

/// Returns bounds for schedules with overlapped pairs, and the visible part of
/// the time of layers. Pairs of whole stages are timed only if simpler bounds
/// do not exceed the limit.
PlanBounds PlanSearch::pairedBounds(int32_t candidate, double limitPs,
                                    double &visible) {
  const PlanShape &shape = candidates.shapeOf(candidate);
  const PlanSchedule &schedule = candidates.scheduleOf(candidate);
  const ShapeLimits &limits = shapeLimits.at(candidates.get(candidate).shape);
  auto microbatches = double(shape.microbatches),
       workers = double(shape.pipeline);
  double paired = std::max(0.0, 1 - double(schedule.alone) / microbatches);
  visible = std::max(0.0, 1 - paired * limits.savings->mostPart());
  auto wholeWithout = [&](double savedPs) {
    return limits.wholePs - paired * savedPs * microbatches / workers;
  };
  Placed &place = placed(candidate);
  PlanBounds found = place.bounds(schedule, limitPs / visible);
  found.stepPs =
      std::max(visible * found.stepPs, wholeWithout(limits.savings->mostPs()));
  if (found.stepPs > limitPs)
    return found;
  std::vector<double> saved(shape.pipeline);
  double sum = 0;
  for (auto [path, stages] : llvm::zip_equal(
           schedule.paths,
           limits.savings->ofStages(candidates.countsOf(candidate))))
    for (auto [worker, ps] : llvm::zip_equal(path, stages)) {
      saved[worker] += paired * ps;
      sum += ps / double(schedule.paths.size());
    }
  found.stepPs =
      std::max({found.stepPs, place.pairedPs(saved), wholeWithout(sum)});
  return found;
}

int64_t PlanSearch::heldBytes(int32_t candidate) {
  auto known = held.find(candidates.rowsOf(candidate));
  if (known == held.end())
    return 0;
  auto [worker, alive] = known->second;
  double least = placed(candidate).bytesOf(worker) + alive;
  return int64_t(kAlmostAll * least /
                 double(candidates.shapeOf(candidate).getWorker()));
}

/// Stores the memory of the worker with the most memory in a schedule.
void PlanSearch::note(int32_t candidate, const Sums *most, const PlanRow &row) {
  if (!row.error.empty() || !most)
    return;
  const PlanSchedule &schedule = candidates.scheduleOf(candidate);
  double always = sumOfWorker(
      schedule.paths, candidates.countsOf(candidate), schedule.isSpread,
      candidates.shapeOf(candidate).pipeline, *most, row.worker);
  held[candidates.rowsOf(candidate)] = {row.worker,
                                        double(row.peakBytes) - always};
}

/// Returns the bounds of candidates, sorted with the fastest first.
std::vector<PlanSearch::Bounded> PlanSearch::rank(llvm::ArrayRef<int32_t> given,
                                                  double limitPs) {
  std::vector<Bounded> ranked;
  for (int32_t candidate : given)
    ranked.push_back({candidate, bounds(candidate, limitPs)});
  counts.considered += ranked.size();
  sortBy(ranked, [&](const Bounded &each) {
    return std::make_tuple(each.bounds.stepPs,
                           candidates.scheduleOf(each.candidate).order,
                           candidates.shapeOf(each.candidate).key());
  });
  return ranked;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

llvm::Expected<Configuration>
PlanSearch::configurationOf(const PlanPoint &point) const {
  const PlanCandidate &candidate = candidates.get(point.candidate);
  const PlanSchedule &schedule = candidates.scheduleOf(point.candidate);
  const PlanShape &shape = candidates.shapeOf(point.candidate);
  Configuration made;
  made.problem = schedule.problem;
  made.problem.workers = shape.pipeline;
  made.problem.microbatches =
      point.isShort ? shape.getShort() : shape.microbatches;
  for (auto [workers, layers] :
       llvm::zip_equal(schedule.paths, candidates.countsOf(point.candidate))) {
    Path &path = made.problem.paths.emplace_back();
    path.workers = workers;
    path.blocks = layers;
  }
  made.costs =
      candidates.costsOf(point.isShort ? shapeRows.at(candidate.shape).unsharded
                                       : candidate.shape);
  made.timing.transport = settings.transport;
  made.timing.receivePlacement = candidate.receives;
  if (!point.isShort)
    made.optimizerStep = ReductionPlace::Eager;
  made.numbersAlone = true;
  if (point.disturbance.empty())
    return made;
  if (llvm::Error error =
          parseDisturbance(point.disturbance).moveInto(made.timing.disturbance))
    return std::move(error);
  return made;
}

/// Returns the steps under the disturbances, as the mean over all draws;
/// nothing if there are none. A candidate without the slow worker or stage gets
/// an error.
std::vector<int64_t> PlanSearch::disturb(llvm::ArrayRef<int32_t> given,
                                         std::vector<PlanRow> &rows,
                                         EvaluatePoints evaluatePoints) {
  auto drawsOf = [&](int32_t candidate) -> const auto & {
    return shapeRows.at(candidates.get(candidate).shape).draws;
  };
  std::vector<PlanPoint> points;
  for (auto [candidate, row] : llvm::zip_equal(given, rows))
    if (row.error.empty())
      for (const std::vector<std::string> &texts : drawsOf(candidate))
        for (const std::string &text : texts)
          points.push_back({candidate, false, text});
  std::vector<int64_t> steps;
  if (points.empty())
    return steps;
  std::vector<PlanRow> found = evaluatePoints(points);
  auto next = found.begin();
  for (auto [candidate, row] : llvm::zip_equal(given, rows)) {
    steps.push_back(0);
    if (!row.error.empty())
      continue;
    int64_t sum = 0;
    for (const std::vector<std::string> &texts : drawsOf(candidate)) {
      int64_t slowest = 0;
      for (size_t i = 0; i < texts.size(); ++i, ++next) {
        if (row.error.empty())
          row.error = next->error;
        slowest = std::max(slowest, next->makespanPs);
      }
      sum += slowest;
    }
    steps.back() = std::llrint(double(sum) / double(drawsOf(candidate).size()));
  }
  return steps;
}

void PlanSearch::addOutcome(int32_t candidate, const PlanRow &row,
                            int64_t stepPs) {
  int64_t accelerators = candidates.shapeOf(candidate).getWorker();
  int64_t peakBytes = (row.peakBytes + accelerators - 1) / accelerators;
  outcomeNumbers[candidate] = outcomes.size();
  outcomes.push_back({candidate, stepPs, peakBytes, row.makespanPs});
}

void PlanSearch::evaluate(llvm::ArrayRef<int32_t> given,
                          EvaluatePoints evaluatePoints) {
  std::vector<int32_t> fresh;
  std::set<int32_t> seen;
  std::vector<PlanPoint> points;
  for (int32_t candidate : given)
    if (!outcomeOf(candidate) && seen.insert(candidate).second) {
      fresh.push_back(candidate);
      points.push_back({candidate});
    }
  if (fresh.empty())
    return;
  std::vector<PlanRow> rows = evaluatePoints(points);
  std::vector<int64_t> disturbed = disturb(fresh, rows, evaluatePoints);
  for (auto [index, row] : llvm::enumerate(rows)) {
    int32_t candidate = fresh[index];
    const PlanShape &shape = candidates.shapeOf(candidate);
    if (!row.error.empty()) {
      ++counts.impossible;
      if (!llvm::is_contained(errors, row.error))
        errors.push_back(row.error);
      continue;
    }
    const ShapeRows &known = shapeRows.at(candidates.get(candidate).shape);
    if (shape.microbatches <= shape.getShort() && !known.waits)
      note(candidate, known.most, row);
    addOutcome(candidate, row,
               disturbed.empty() ? row.makespanPs : disturbed[index]);
  }
  counts.evaluated += fresh.size();
}

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

/// Runs a step of few microbatches for rows whose memory is unknown.
void PlanSearch::measureRows(llvm::ArrayRef<Bounded> given,
                             EvaluatePoints evaluatePoints) {
  std::vector<PlanPoint> points;
  std::set<Candidates::RowsKey> seen; // the first one counts
  for (const Bounded &each : given) {
    const PlanShape &shape = candidates.shapeOf(each.candidate);
    Candidates::RowsKey rows = candidates.rowsOf(each.candidate);
    if (seen.insert(rows).second && !held.count(rows) &&
        shape.microbatches > shape.getShort())
      points.push_back({each.candidate, /*isShort=*/true});
  }
  if (points.empty())
    return;
  for (auto [point, row] : llvm::zip_equal(points, evaluatePoints(points))) {
    int32_t shape = candidates.get(point.candidate).shape;
    note(point.candidate, shapeRows.at(shapeRows.at(shape).unsharded).most,
         row);
  }
}

/// Returns the candidates that may fit by their rows. The others become
/// `large`.
std::vector<int32_t> PlanSearch::keepSmall(llvm::ArrayRef<Bounded> given,
                                           EvaluatePoints evaluatePoints) {
  measureRows(given, evaluatePoints);
  std::vector<int32_t> kept;
  for (const Bounded &each : given) {
    int64_t peak = heldBytes(each.candidate);
    if (peak > settings.usableBytes)
      large.push_back({each.candidate, {each.bounds.stepPs, peak}});
    else
      kept.push_back(each.candidate);
  }
  return kept;
}

std::vector<int32_t>
PlanSearch::evaluateFitting(llvm::ArrayRef<int32_t> given,
                            EvaluatePoints evaluatePoints) {
  evaluate(given, evaluatePoints);
  std::vector<int32_t> fitting;
  for (int32_t candidate : given)
    if (const PlanOutcome *outcome = outcomeOf(candidate))
      if (outcome->peakBytes <= settings.usableBytes)
        fitting.push_back(candidate);
  return fitting;
}

/// Drops candidates over a limit, and candidates that may not be listed.
std::vector<PlanSearch::Bounded>
PlanSearch::keepListed(std::vector<Bounded> given, double otherPs,
                       AreListed areListed) {
  auto isAbove = [&](const Bounded &each) {
    return each.bounds.stepPs > otherPs;
  };
  std::vector<int32_t> asked;
  for (const Bounded &each : llvm::make_filter_range(given, isAbove))
    asked.push_back(each.candidate);
  if (asked.empty())
    return given;
  std::vector<bool> listed = areListed(asked);
  auto next = listed.begin();
  llvm::erase_if(
      given, [&](const Bounded &each) { return isAbove(each) && !*next++; });
  return given;
}

std::vector<int32_t> PlanSearch::round(llvm::ArrayRef<int32_t> given,
                                       StepLimits limits, AreListed areListed,
                                       EvaluatePoints evaluatePoints) {
  std::vector<Bounded> fast;
  size_t numSmall = 0;
  for (const Bounded &each : rank(given, limits.listedPs)) {
    if (each.bounds.peakBytes > settings.usableBytes) {
      large.push_back(each);
      continue;
    }
    ++numSmall;
    if (each.bounds.stepPs <= limits.listedPs)
      fast.push_back(each);
  }
  fast = keepListed(std::move(fast), limits.otherPs, areListed);
  counts.tooSlow += int64_t(numSmall - fast.size());
  return evaluateFitting(keepSmall(fast, evaluatePoints), evaluatePoints);
}

std::vector<int32_t> PlanSearch::evaluateSmall(llvm::ArrayRef<int32_t> given,
                                               EvaluatePoints evaluatePoints) {
  std::vector<Bounded> bounded;
  for (int32_t candidate : given)
    bounded.push_back({candidate, {}});
  return evaluateFitting(keepSmall(bounded, evaluatePoints), evaluatePoints);
}

std::vector<int32_t> PlanSearch::nearest(llvm::ArrayRef<int32_t> given,
                                         double fastestPs, size_t most) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  std::vector<Bounded> near = large;
  llvm::append_range(near, rank(given, kNoLimit));
  counts.tooLarge = near.size();
  sortBy(near, [&](const Bounded &each) {
    return std::make_tuple(each.bounds.stepPs > fastestPs,
                           each.bounds.peakBytes,
                           candidates.scheduleOf(each.candidate).order);
  });
  std::vector<int32_t> found;
  for (const Bounded &each : llvm::ArrayRef(near).take_front(most))
    found.push_back(each.candidate);
  return found;
}

std::vector<int32_t> PlanSearch::movable(double limitPs, int64_t mostLayers,
                                         AreListed areListed,
                                         EvaluatePoints evaluatePoints) {
  std::vector<Bounded> known, fast;
  for (const PlanOutcome &each : outcomes)
    known.push_back({each.candidate, {double(each.stepPs), each.peakBytes}});
  llvm::append_range(known, large);
  double wide = limitPs * settings.widening;
  auto mayFit = [&](const Bounded &each) {
    int64_t peak = std::max(each.bounds.peakBytes, heldBytes(each.candidate));
    // Each move takes an equal part of the memory of the worker's layers.
    double part =
        double(mostLayers) / std::max(1.0, placed(each.candidate).mostLayers());
    return double(peak) * (1 - part) <= double(settings.usableBytes);
  };
  for (const Bounded &each : known) {
    const WorkerPaths &paths = candidates.scheduleOf(each.candidate).paths;
    if (each.bounds.stepPs <= limitPs && paths.size() == 1 &&
        paths.front().size() >= 2 && mayFit(each) &&
        bounds(each.candidate, wide).stepPs <= wide)
      fast.push_back(each);
  }
  fast = keepListed(std::move(fast), /*otherPs=*/-1, areListed);
  measureRows(fast, evaluatePoints);
  std::vector<int32_t> found;
  for (const Bounded &each : fast)
    if (mayFit(each))
      found.push_back(each.candidate);
  return found;
}
