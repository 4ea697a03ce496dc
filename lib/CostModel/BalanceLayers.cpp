//===- BalanceLayers.cpp - How many layers a stage holds ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Equal layers are poured like water, first into workers, then into the stages
// of each. Layers that differ are cut where a search for the longest stage and
// then a dynamic programme say.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/BalanceLayers.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Expected;
using llvm::Twine;

/// Of the dynamic programme: stages times cuts.
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
    return makeError("the time of the blocks beside the layers is over 2^63 - "
                     "1 ps");
  loads.first = first.get();
  loads.last = last.get();
  return loads;
}

/// Nothing that is added up later can be more.
static llvm::Error checkTotal(const LayerLoads &loads) {
  CheckedInt total = CheckedInt(loads.first) + loads.last, layers;
  for (LayerLoads::Run run : loads.runs) {
    total += CheckedInt(run.count) * run.each;
    layers += run.count;
  }
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

/// Gives `units` of load `each` to bins that hold `bases` already, always to
/// the one that is then lowest, of several to the last: no other way gives
/// lower loads, highest first. The level below which no bin has room for one
/// more is searched for:
///
///    level  - - - - -+---+- - -
///          | u | u | | u |          u: a unit
///          | u | u | +---+---+
///          | u +---+ | base  |
///          +---+base |       |
static std::vector<int64_t> fillEvenly(ArrayRef<int64_t> bases, int64_t each,
                                       int64_t units) {
  std::vector<int64_t> flat(each == 0 ? bases.size() : 0);
  if (each == 0) { // they weigh nothing: as many to each
    bases = flat;
    each = 1;
  }
  auto countBelow = [&](size_t bin, __int128 level) {
    __int128 room = level - bases[bin];
    return room < 0 ? __int128(0) : room / each;
  };
  auto sumBelow = [&](__int128 level) {
    __int128 sum = 0;
    for (size_t bin = 0; bin < bases.size(); ++bin)
      sum += countBelow(bin, level);
    return sum;
  };
  __int128 low = *llvm::min_element(bases);           // takes nothing
  __int128 high = low + (__int128(units) + 1) * each; // takes too many
  while (high - low > 1) {
    __int128 middle = low + (high - low) / 2;
    (sumBelow(middle) <= units ? low : high) = middle;
  }
  std::vector<int64_t> counts(bases.size());
  for (size_t bin = 0; bin < bases.size(); ++bin)
    units -= counts[bin] = static_cast<int64_t>(countBelow(bin, low));
  for (size_t bin = bases.size(); units > 0 && bin-- > 0;)
    if (countBelow(bin, high) > counts[bin]) {
      ++counts[bin];
      --units;
    }
  return counts;
}

/// By worker of the path, in the order in which it comes to them, the stages
/// there.
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
                                         int64_t layers) {
  std::vector<int64_t> stageLoads(workers.size(), 0);
  stageLoads.front() += loads.first;
  stageLoads.back() += loads.last;
  std::vector<llvm::SmallVector<int64_t, 1>> groups = groupByWorker(workers);
  std::vector<int64_t> bases;
  for (ArrayRef<int64_t> stages : groups) {
    bases.push_back(0);
    for (int64_t stage : stages)
      bases.back() += stageLoads[stage];
  }
  std::vector<int64_t> perWorker = fillEvenly(bases, each, layers);
  std::vector<int64_t> result(workers.size());
  for (auto [stages, count] : llvm::zip_equal(groups, perWorker)) {
    bases.clear();
    for (int64_t stage : stages)
      bases.push_back(stageLoads[stage]);
    for (auto [stage, share] :
         llvm::zip_equal(stages, fillEvenly(bases, each, count)))
      result[stage] = share;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Layers that differ
//===----------------------------------------------------------------------===//

namespace {
/// Cuts between layers: stage s holds the layers from cut s to cut s + 1.
class Division {
public:
  Division(int64_t numStages, const LayerLoads &loads)
      : numStages(numStages), loads(loads) {
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
  std::vector<int64_t> sums = {0}; ///< of the layers before each cut
  int64_t limit = 0;               ///< no stage is longer
  /// Smallest sum of squares of the stages so far, by the cut they end at.
  std::vector<__int128> squares, before;
  std::vector<uint32_t> cuts; ///< where the stage then begins, by stage and cut
};
} // namespace

/// Whether stages filled one after the other up to `longest` hold all layers.
bool Division::fits(int64_t longest) const {
  auto cut = sums.begin();
  for (int64_t stage = 0; stage < numStages; ++stage) {
    if (longest < loadBeside(stage))
      return false;
    int64_t room = longest - loadBeside(stage);
    room = std::min(room, sums.back() - *cut);
    cut = std::upper_bound(cut, sums.end(), *cut + room) - 1;
  }
  return cut + 1 == sums.end();
}

int64_t Division::findLongestStage() const {
  int64_t low = -1, high = sums.back() + loads.first + loads.last;
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

/// The row of a stage between two cuts at which it may end, whose best
/// beginnings lie between two others. Squares of sums satisfy the quadrangle
/// inequality, so that the best beginning never moves back as the end moves on:
/// that of the middle bounds those of both sides.
void Division::fillRow(int64_t stage, int64_t begin, int64_t end,
                       int64_t firstCut, int64_t lastCut) {
  if (begin > end)
    return;
  int64_t middle = begin + (end - begin) / 2;
  int64_t best = -1;
  for (int64_t cut = firstCut; cut <= std::min(middle, lastCut); ++cut) {
    int64_t load = sums[middle] - sums[cut];
    if (before[cut] == kUnreachable || load > limit - loadBeside(stage))
      continue;
    load += loadBeside(stage);
    __int128 square = before[cut] + __int128(load) * load;
    if (best >= 0 && square >= squares[middle])
      continue;
    best = cut;
    squares[middle] = square;
  }
  if (best < 0) { // what ends later is longer still
    fillRow(stage, begin, middle - 1, firstCut, lastCut);
    return;
  }
  cuts[stage * sums.size() + middle] = best;
  fillRow(stage, begin, middle - 1, firstCut, best);
  fillRow(stage, middle + 1, end, best, lastCut);
}

Expected<std::vector<int64_t>>
pipesched::balanceLayers(ArrayRef<int32_t> workers, const LayerLoads &loads) {
  if (llvm::Error error = checkTotal(loads))
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
    return balanceEqual(workers, loads, *each, layers);
  if (layers >= kMaxCuts || numStages > kMaxCuts / (layers + 1))
    return makeError(Twine(layers) + " layers that differ cannot be balanced " +
                     "over " + Twine(numStages) +
                     " stages: their product may "
                     "be " +
                     Twine(kMaxCuts) + " at most");
  return Division(numStages, loads).run();
}
