//===- BalanceLayers.cpp - The division of layers over stages -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Equal layers fill workers like water, and then the stages of each worker.
// Different layers are cut by a binary search for the longest stage, then a
// dynamic program.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Expected;
using llvm::Twine;

/// Limit of the dynamic program: stages times cuts.
static constexpr int64_t kMaxCuts = int64_t(1) << 24;

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

Expected<LayerLoads> pipesched::costLayers(const ModelFacts &model,
                                           const SystemFacts &system) {
  Expected<std::vector<int64_t>> times = costBlocks(model, system);
  if (!times)
    return times.takeError();
  LayerLoads loads;
  CheckedInt first, last;
  for (auto [block, ps] : llvm::zip_equal(model.blocks, *times)) {
    if (block.position == BlockPosition::Layer)
      loads.runs.push_back({block.count, ps});
    else if (block.position == BlockPosition::First)
      first += CheckedInt(block.count) * ps;
    else
      last += CheckedInt(block.count) * ps;
  }
  if (!first.isValid() || !last.isValid())
    return makeError(
        "the time of the blocks other than layers exceeds 2^63 - 1 ps");
  loads.first = first.get();
  loads.last = last.get();
  return loads;
}

/// No later sum exceeds this total.
static llvm::Error checkTotal(const LayerLoads &loads, int64_t weight) {
  CheckedInt total = CheckedInt(loads.first) + loads.last, layers;
  for (LayerLoads::Run run : loads.runs) {
    total += CheckedInt(run.count) * run.each;
    layers += run.count;
  }
  total = total * weight;
  if (!total.isValid() || !layers.isValid())
    return makeError("the layers add up to more than 2^63 - 1");
  if (layers.get() == 0)
    return makeError("there are no layers to divide");
  return llvm::Error::success();
}

static llvm::Error refuseLayers(int64_t numStages, int64_t layers,
                                int64_t ends) {
  if (ends == 0)
    return makeError(Twine(layers) + " layers cannot be divided evenly over " +
                     Twine(numStages) +
                     " stages; the nearest numbers that can: " +
                     nearestMultiples(layers, numStages));
  int64_t below = layers - (layers + ends) % numStages;
  std::string nearest = below > 0 ? std::to_string(below) + " and " : "";
  return makeError(
      Twine(layers) + " layers and " + Twine(ends) +
      " for the ends cannot be divided evenly over " + Twine(numStages) +
      " stages; the nearest numbers of layers that can: " + nearest +
      Twine(below + numStages));
}

//===----------------------------------------------------------------------===//
// Speed
//===----------------------------------------------------------------------===//

static double sumOf(const LayerLoads &loads) {
  auto sum = double(loads.first) + double(loads.last);
  for (LayerLoads::Run run : loads.runs)
    sum += double(run.count) * double(run.each);
  return sum;
}

Expected<std::vector<double>>
pipesched::factorsOfWorkers(const ModelFacts &model, const SystemFacts &system,
                            int64_t numWorkers) {
  std::vector<double> factors(numWorkers, 1.0), sums;
  if (system.groups.empty())
    return factors;
  for (size_t group = 0; group < system.groups.size(); ++group) {
    Expected<LayerLoads> loads =
        costLayers(model, systemOfGroup(system, group));
    if (!loads)
      return loads.takeError();
    sums.push_back(std::max(1.0, sumOf(*loads)));
  }
  for (int64_t worker = 0; worker < numWorkers; ++worker) {
    Expected<size_t> group = groupOfWorker(system, worker);
    if (!group)
      return group.takeError();
    factors[worker] = sums[*group] / sums.front();
  }
  return factors;
}

/// The weight of a worker with normal speed.
static constexpr double kSpeed = 1000;

std::vector<int64_t> pipesched::weightsOf(ArrayRef<double> factors) {
  std::vector<int64_t> weights;
  for (double factor : factors)
    weights.push_back(std::max<int64_t>(1, std::llround(kSpeed * factor)));
  return weights;
}

//===----------------------------------------------------------------------===//
// Even division
//===----------------------------------------------------------------------===//

Expected<std::vector<int64_t>> pipesched::divideExactly(int64_t numStages,
                                                        int64_t layers,
                                                        int64_t first,
                                                        int64_t last) {
  CheckedInt sum = CheckedInt(layers) + first + last + numStages;
  if (!sum.isValid())
    return makeError("the layers add up to more than 2^63 - 1");
  int64_t ends = first + last, share = (layers + ends) / numStages;
  if ((layers + ends) % numStages != 0)
    return refuseLayers(numStages, layers, ends);
  std::vector<int64_t> result(numStages, share);
  result.front() -= first;
  result.back() -= last;
  for (auto [left, beside, end] : {std::tuple(result.front(), first, "first"),
                                   std::tuple(result.back(), last, "last")})
    if (left < 0)
      return makeError("an even share of " + Twine(share) +
                       " layers leaves no room for the " + Twine(beside) +
                       " that the " + end + " stage holds beside layers");
  return result;
}

//===----------------------------------------------------------------------===//
// Equal layers
//===----------------------------------------------------------------------===//

/// Gives `units` to bins that already hold `bases`; the entry of a bin in
/// `eaches` is the load of one unit there. Each unit goes to the bin that is
/// then the lowest, on ties to the last. No other way gives lower loads,
/// compared from the highest down. A binary search finds the level below which
/// no bin has room for another unit:
///
///    level  - - - - -+---+- - -
///          | u | u | | u |          u: a unit
///          | u | u | +---+---+
///          | u +---+ | base  |
///          +---+base |       |
static std::vector<int64_t>
fillEvenly(ArrayRef<int64_t> bases, ArrayRef<int64_t> eaches, int64_t units) {
  std::vector<int64_t> flat(bases.size()), ones(bases.size(), 1);
  if (eaches.front() == 0) { // units have no load: fill all bins equally
    bases = flat;
    eaches = ones;
  }
  auto countBelow = [&](size_t bin, __int128 level) {
    __int128 room = level - bases[bin];
    return room < 0 ? __int128(0) : room / eaches[bin];
  };
  auto sumBelow = [&](__int128 level) {
    __int128 sum = 0;
    for (size_t bin = 0; bin < bases.size(); ++bin)
      sum += countBelow(bin, level);
    return sum;
  };
  __int128 low = *llvm::min_element(bases); // no unit fits
  __int128 high = low + (__int128(units) + 1) *
                            *llvm::max_element(eaches); // more than `units` fit
  while (high - low > 1) {
    __int128 middle = low + (high - low) / 2;
    (sumBelow(middle) <= units ? low : high) = middle;
  }
  std::vector<int64_t> counts(bases.size());
  for (size_t bin = 0; bin < bases.size(); ++bin)
    units -= counts[bin] = static_cast<int64_t>(countBelow(bin, low));
  // Layers that reach the same load are sorted by the load before them, highest
  // first.
  llvm::SmallVector<size_t> order;
  for (size_t bin = bases.size(); bin-- > 0;)
    if (countBelow(bin, high) > counts[bin])
      order.push_back(bin);
  llvm::stable_sort(order,
                    [&](size_t a, size_t b) { return eaches[a] < eaches[b]; });
  for (size_t bin : llvm::ArrayRef(order).take_front(units))
    ++counts[bin];
  return counts;
}

/// Returns the stages of each worker of the path. Workers are in the order in
/// which the path first reaches them.
static std::vector<llvm::SmallVector<int64_t, 1>>
groupByWorker(ArrayRef<int32_t> workers) {
  std::vector<llvm::SmallVector<int64_t, 1>> groups;
  llvm::DenseMap<int32_t, size_t> groupOf;
  for (auto [stage, worker] : llvm::enumerate(workers)) {
    auto [entry, isNew] = groupOf.try_emplace(worker, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[entry->second].push_back(stage);
  }
  return groups;
}

static std::vector<int64_t> balanceEqual(ArrayRef<int32_t> workers,
                                         const LayerLoads &loads, int64_t each,
                                         int64_t layers,
                                         ArrayRef<int64_t> weights) {
  std::vector<int64_t> stageLoads(workers.size(), 0);
  stageLoads.front() += loads.first;
  stageLoads.back() += loads.last;
  for (auto [load, weight] : llvm::zip_equal(stageLoads, weights))
    load *= weight;
  std::vector<llvm::SmallVector<int64_t, 1>> groups = groupByWorker(workers);
  std::vector<int64_t> bases, eaches;
  for (ArrayRef<int64_t> stages : groups) {
    int64_t base = 0, weight = 0;
    for (int64_t stage : stages) {
      base += stageLoads[stage];
      weight += weights[stage];
    }
    bases.push_back(base);
    eaches.push_back(each * (weight / int64_t(stages.size())));
  }
  std::vector<int64_t> perWorker = fillEvenly(bases, eaches, layers);
  std::vector<int64_t> result(workers.size());
  for (auto [stages, count] : llvm::zip_equal(groups, perWorker)) {
    bases.clear();
    eaches.clear();
    for (int64_t stage : stages) {
      bases.push_back(stageLoads[stage]);
      eaches.push_back(each * weights[stage]);
    }
    for (auto [stage, share] :
         llvm::zip_equal(stages, fillEvenly(bases, eaches, count)))
      result[stage] = share;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Different layers
//===----------------------------------------------------------------------===//

namespace {
/// Cuts between layers: stage s holds the layers from cut s to cut s + 1.
class Division {
public:
  Division(const LayerLoads &loads, ArrayRef<int64_t> weights)
      : numStages(weights.size()), loads(loads), weights(weights) {
    for (LayerLoads::Run run : loads.runs)
      for (int64_t i = 0; i < run.count; ++i)
        sums.push_back(sums.back() + run.each);
  }

  std::vector<int64_t> run() {
    limit = findLongestStage();
    std::vector<int64_t> counts(numStages);
    fillRows();
    int64_t cut = getNumLayers();
    for (int64_t stage = numStages; stage-- > 0;) {
      int64_t before = stage == 0 ? 0 : cuts[stage * sums.size() + cut];
      counts[stage] = cut - before;
      cut = before;
    }
    return counts;
  }

private:
  static constexpr __int128 kUnreachable = -1;

  int64_t getNumLayers() const { return sums.size() - 1; }
  int64_t loadBeside(int64_t stage) const {
    return (stage == 0 ? loads.first : 0) +
           (stage == numStages - 1 ? loads.last : 0);
  }
  bool fits(int64_t longest) const;
  int64_t findLongestStage() const;
  void fillRows();
  void fillRow(int64_t stage, int64_t begin, int64_t end, int64_t firstCut,
               int64_t lastCut);

  int64_t numStages;
  const LayerLoads &loads;
  ArrayRef<int64_t> weights;       ///< of stages
  std::vector<int64_t> sums = {0}; ///< load of the layers before each cut
  int64_t limit = 0;               ///< load of the longest stage
  /// Smallest sum of squares of the stages so far, by the cut where they end.
  std::vector<__int128> squares, before;
  std::vector<uint32_t> cuts; ///< first block of the stage, by stage and end
                              ///< cut
};
} // namespace

/// Whether the stages hold all layers if each is filled up to `longest` in
/// turn.
bool Division::fits(int64_t longest) const {
  auto cut = sums.begin();
  for (int64_t stage = 0; stage < numStages; ++stage) {
    int64_t room = longest / weights[stage] - loadBeside(stage);
    if (room < 0)
      return false;
    room = std::min(room, sums.back() - *cut);
    cut = std::upper_bound(cut, sums.end(), *cut + room) - 1;
  }
  return cut + 1 == sums.end();
}

int64_t Division::findLongestStage() const {
  int64_t low = -1, high = (sums.back() + loads.first + loads.last) *
                           *llvm::max_element(weights);
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

void Division::fillRows() {
  before.assign(sums.size(), kUnreachable);
  before.front() = 0;
  cuts.resize(numStages * sums.size());
  for (int64_t stage = 0; stage < numStages; ++stage) {
    squares.assign(sums.size(), kUnreachable);
    fillRow(stage, 0, getNumLayers(), 0, getNumLayers());
    std::swap(squares, before);
  }
}

/// Fills the row of a stage for end cuts from `begin` to `end`, whose best
/// begins are between `firstCut` and `lastCut`. Squares of sums satisfy the
/// quadrangle inequality, so the best begin never moves back as the end moves
/// forward. So the best begin of the middle end bounds both halves.
void Division::fillRow(int64_t stage, int64_t begin, int64_t end,
                       int64_t firstCut, int64_t lastCut) {
  if (begin > end)
    return;
  int64_t middle = begin + (end - begin) / 2;
  int64_t best = -1;
  for (int64_t cut = firstCut; cut <= std::min(middle, lastCut); ++cut) {
    int64_t load = sums[middle] - sums[cut];
    if (before[cut] == kUnreachable ||
        load > limit / weights[stage] - loadBeside(stage))
      continue;
    load = (load + loadBeside(stage)) * weights[stage];
    __int128 square = before[cut] + __int128(load) * load;
    if (best >= 0 && square >= squares[middle])
      continue;
    best = cut;
    squares[middle] = square;
  }
  if (best < 0) { // later ends only make the stage longer
    fillRow(stage, begin, middle - 1, firstCut, lastCut);
    return;
  }
  cuts[stage * sums.size() + middle] = best;
  fillRow(stage, begin, middle - 1, firstCut, best);
  fillRow(stage, middle + 1, end, best, lastCut);
}

/// Checks that workers are valid numbers: a hash map cannot have every number
/// as a key.
static llvm::Error checkWorkers(ArrayRef<int32_t> workers) {
  for (auto [stage, worker] : llvm::enumerate(workers))
    if (worker < 0 || worker >= kMaxWorkers)
      return makeError("stage " + Twine(stage) + " is on worker " +
                       Twine(worker) + ": expected 0 to " +
                       Twine(kMaxWorkers - 1));
  return llvm::Error::success();
}

Expected<std::vector<int64_t>>
pipesched::balanceLayers(ArrayRef<int32_t> workers, const LayerLoads &loads,
                         ArrayRef<int64_t> weights) {
  std::vector<int64_t> ones(workers.size(), 1);
  if (weights.empty())
    weights = ones;
  if (llvm::Error error = checkWorkers(workers))
    return std::move(error);
  if (llvm::Error error = checkTotal(loads, *llvm::max_element(weights)))
    return std::move(error);
  int64_t numStages = workers.size(), layers = 0;
  std::optional<int64_t> each;
  bool areEqual = true;
  for (LayerLoads::Run run : loads.runs) {
    layers += run.count;
    if (run.count == 0)
      continue;
    areEqual &= !each || *each == run.each;
    each = run.each;
  }
  if (areEqual)
    return balanceEqual(workers, loads, *each, layers, weights);
  if (layers >= kMaxCuts || numStages > kMaxCuts / (layers + 1))
    return makeError(Twine(layers) + " layers that differ cannot be balanced " +
                     "over " + Twine(numStages) +
                     " stages: their product may "
                     "be " +
                     Twine(kMaxCuts) + " at most");
  return Division(loads, weights).run();
}
