//===- Candidates.cpp - The candidates of a plan --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists the schedules of a shape, each with the divisions of its layers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/Candidates.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;

/// Returns the number of a key; a new key gets the next number.
template <typename Key>
static int32_t internIn(std::map<Key, int32_t> &numbers, Key key) {
  return numbers.try_emplace(std::move(key), int32_t(numbers.size()))
      .first->second;
}

void Candidates::addSchedule(int64_t pipeline, PlanSchedule schedule) {
  schedule.placement = internIn(placementNumbers, schedule.paths);
  schedules[pipeline].push_back(std::move(schedule));
}

int32_t Candidates::addShape(PlanShape shape, const CostSources *costs) {
  std::string rows =
      llvm::formatv("{0} {1} {2} {3} {4}", shape.tensor, shape.context,
                    shape.expert, shape.recompute, shape.microbatchSize)
          .str();
  int32_t base = internIn(baseNumbers, rows + ' ' + shape.exchange);
  if (base == int32_t(bases.size()))
    bases.emplace_back();
  shapes.push_back(
      {std::move(shape), costs, base, internIn(rowNumbers, std::move(rows))});
  return numShapes() - 1;
}

void Candidates::setBalanced(int32_t shape, std::vector<int32_t> workers,
                             std::vector<int64_t> given) {
  Base &base = bases[shapes[shape].base];
  base.balanced[{std::move(workers), {}}] = std::move(given);
  base.isGiven = true;
}

int32_t Candidates::numberOf(LayerCounts given) {
  auto [place, isNew] =
      countNumbers.try_emplace(std::move(given), int32_t(counts.size()));
  if (isNew)
    counts.push_back(&place->first);
  return place->second;
}

int32_t Candidates::add(int32_t shape, int32_t schedule, LayerCounts given,
                        ReceivePlacement receives) {
  PlanCandidate candidate = {shape, schedule, numberOf(std::move(given)),
                             receives};
  int32_t number =
      internIn(numbers, {shape, schedule, candidate.counts, int32_t(receives)});
  if (number == int32_t(all.size()))
    all.push_back(candidate);
  return number;
}

Candidates::RowsKey Candidates::rowsOf(int32_t candidate) const {
  const PlanCandidate &given = all[candidate];
  const PlanShape &shape = shapeOf(candidate);
  return {shapes[given.shape].rows,
          shape.pipeline,
          std::min(shape.microbatches, shape.getShort()),
          given.schedule,
          given.counts,
          int64_t(given.receives)};
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<int64_t>>
Candidates::balance(int32_t number, const std::vector<int32_t> &workers,
                    std::vector<int64_t> weights) {
  Base &base = bases[shapes[number].base];
  auto known = base.balanced.find({workers, weights});
  if (known != base.balanced.end())
    return known->second;
  if (!base.loads) {
    llvm::Expected<CostInputs> costs =
        resolveCosts(*shapes[number].costs, shapes[number].shape.microbatches);
    if (!costs)
      return costs.takeError();
    if (llvm::Error error =
            costLayers(*costs->model, *costs->system).moveInto(base.loads))
      return std::move(error);
  }
  llvm::Expected<std::vector<int64_t>> found =
      balanceLayers(workers, *base.loads, weights);
  if (found)
    base.balanced[{workers, std::move(weights)}] = *found;
  return found;
}

/// Returns the slowdown of workers, both given and by their groups. Returns
/// none if neither is present, or if groups cannot be costed.
llvm::Expected<std::vector<double>> Candidates::factorsOf(int32_t number) {
  const Shape &shape = shapes[number];
  std::vector<double> given = shape.slow.workers;
  const std::optional<SystemFacts> &system = shape.costs->system;
  if (!system || system->groups.empty())
    return given;
  auto key = std::pair(shape.shape.pipeline, shape.shape.data);
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> &known =
      bases[shape.base].factors;
  auto found = known.find(key);
  if (found == known.end()) {
    llvm::Expected<CostInputs> costs =
        resolveCosts(*shape.costs, shape.shape.microbatches);
    if (!costs)
      return costs.takeError();
    llvm::Expected<std::vector<double>> factors =
        factorsOfWorkers(*costs->model, *costs->system, shape.shape.pipeline);
    if (!factors) // evaluations report the error
      llvm::consumeError(factors.takeError());
    found = known.try_emplace(key, factors ? *factors : given).first;
  }
  std::vector<double> all = found->second;
  for (auto [worker, factor] : llvm::enumerate(given))
    if (worker < all.size())
      all[worker] *= factor;
  return all;
}

/// Adds the division by speed, if workers or stages differ in speed.
llvm::Error Candidates::addSlowed(int32_t number, const PlanSchedule &schedule,
                                  std::vector<LayerCounts> &divisions) {
  if (bases[shapes[number].base].isGiven)
    return llvm::Error::success();
  llvm::Expected<std::vector<double>> factors = factorsOf(number);
  if (!factors)
    return factors.takeError();
  if (factors->empty())
    return llvm::Error::success();
  const std::map<int64_t, double> &slowStages = shapes[number].slow.stages;
  LayerCounts slowed;
  bool differ = false;
  for (const std::vector<int32_t> &workers : schedule.paths) {
    std::vector<double> ofStages;
    for (auto [stage, worker] : llvm::enumerate(workers)) {
      auto own = slowStages.find(int64_t(stage));
      ofStages.push_back((*factors)[worker] *
                         (own == slowStages.end() ? 1 : own->second));
    }
    std::vector<int64_t> weights = weightsOf(ofStages);
    differ |= !llvm::all_equal(weights);
    llvm::Expected<std::vector<int64_t>> found =
        balance(number, workers, std::move(weights));
    if (!found)
      return found.takeError();
    slowed.push_back(std::move(*found));
  }
  if (differ && !llvm::is_contained(divisions, slowed))
    divisions.push_back(std::move(slowed));
  return llvm::Error::success();
}

llvm::Error Candidates::addDivisions(int32_t shape,
                                     const PlanSchedule &schedule,
                                     std::vector<LayerCounts> &divisions) {
  LayerLoads alike;
  alike.runs.push_back({numLayers, 1});
  int64_t stages = schedule.paths.front().size();
  if (!schedule.isSpread && numLayers % stages == 0)
    divisions.emplace_back(schedule.paths.size(),
                           std::vector<int64_t>(stages, numLayers / stages));
  LayerCounts balanced;
  for (const std::vector<int32_t> &workers : schedule.paths) {
    llvm::Expected<std::vector<int64_t>> found =
        schedule.isSpread ? balanceLayers(workers, alike)
                          : balance(shape, workers);
    if (!found)
      return found.takeError();
    balanced.push_back(std::move(*found));
  }
  if (divisions.empty() || divisions.front() != balanced)
    divisions.push_back(std::move(balanced));
  return schedule.isSpread ? llvm::Error::success()
                           : addSlowed(shape, schedule, divisions);
}

//===----------------------------------------------------------------------===//
// Candidates of shapes
//===----------------------------------------------------------------------===//

llvm::Error Candidates::expand(int32_t number, PlanKind kind, bool onlyPairs,
                               std::vector<int32_t> &found) {
  const PlanShape &shape = shapes[number].shape;
  auto isWanted = [&](const PlanSchedule &schedule) {
    return schedule.order < 0 ||
           ((kind == PlanKind::All ||
             (kind == PlanKind::Usual) == schedule.isUsual) &&
            (schedule.hasPairs || !onlyPairs) &&
            (shape.expert > 1 || !schedule.needsExperts));
  };
  auto leaveOut = [&](const std::string &reason) {
    if (!llvm::is_contained(reasons, reason))
      reasons.push_back(reason);
  };
  for (auto [index, schedule] : llvm::enumerate(schedules[shape.pipeline])) {
    if (!isWanted(schedule))
      continue;
    if (!schedule.reason.empty()) {
      leaveOut(schedule.reason);
      continue;
    }
    int64_t stages = schedule.paths.front().size();
    if (3 * stages * shape.microbatches * schedule.slices > mostCells) {
      leaveOut(llvm::formatv("more than {0:N} cells", mostCells).str());
      continue;
    }
    std::vector<LayerCounts> divisions;
    if (llvm::Error error = addDivisions(number, schedule, divisions))
      return error;
    for (LayerCounts &layers : divisions)
      for (ReceivePlacement receives : schedule.receives)
        found.push_back(add(number, int32_t(index), layers, receives));
  }
  return llvm::Error::success();
}
