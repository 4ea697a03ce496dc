//===- PairSavings.cpp - Exchanges that pairs of cells hide ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules the layers of pairs of stages, each pair once.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/PairSavings.h"
#include "PipeSched/Support/MakeError.h"

using namespace pipesched;

/// The time of the parts of a layer on one stream.
static int64_t sumOfStream(Stream stream, const LayerTimes &layer) {
  int64_t sum = 0;
  for (auto [part, phases] : llvm::enumerate(layer.ps))
    if (streamOf(LayerPart(part)) == stream)
      for (int64_t ps : phases)
        sum += ps;
  return sum;
}

llvm::Expected<PairSavings> PairSavings::create(const CostSources &costs) {
  llvm::Expected<CostInputs> inputs = resolveCosts(costs, 1);
  if (!inputs)
    return inputs.takeError();
  if (!inputs->model || !inputs->system)
    return makeError("pairs of cells need a model and a system");
  PairSavings savings;
  savings.options.order = inputs->system->pairOrder;
  // Partly hidden exchanges cannot be scheduled part by part.
  if (inputs->system->expertExposed != kAllPercent)
    savings.options.order = PairOrder::Fluid;
  if (llvm::Error error = costLayerParts(*inputs->model, *inputs->system)
                              .moveInto(savings.kinds))
    return std::move(error);
  double compute = 0, exchange = 0;
  for (const LayerKind &kind : savings.kinds) {
    auto one = double(sumOfStream(Stream::Compute, kind.times));
    auto other = double(sumOfStream(Stream::Exchange, kind.times));
    compute += double(kind.count) * one;
    exchange += double(kind.count) * other;
    if (other > 0)
      savings.anyPart = std::max(savings.anyPart, other / (one + other));
  }
  savings.anyPs = std::min(compute, exchange);
  return savings;
}

/// The layers of each stage of a path. Kinds are in the order of the layers.
std::vector<PairSavings::Stage>
PairSavings::divide(llvm::ArrayRef<int64_t> counts) const {
  std::vector<Stage> divided;
  uint32_t kind = 0;
  int64_t left = kinds.empty() ? 0 : kinds.front().count;
  for (int64_t count : counts) {
    Stage &stage = divided.emplace_back();
    while (count > 0 && kind < kinds.size()) {
      int64_t taken = std::min(count, left);
      if (taken)
        stage.emplace_back(kind, taken);
      count -= taken;
      left -= taken;
      if (!left && ++kind < kinds.size())
        left = kinds[kind].count;
    }
  }
  return divided;
}

int32_t PairSavings::numberOf(Stage stage) {
  auto [found, isNew] = numbers.try_emplace(std::move(stage), stages.size());
  if (isNew) {
    std::vector<LayerTimes> &layers = stages.emplace_back();
    for (auto [kind, count] : found->first)
      layers.insert(layers.end(), size_t(count), kinds[kind].times);
  }
  return found->second;
}

double PairSavings::pairPs(int32_t forward, int32_t backward) {
  auto [found, isNew] = known.try_emplace({forward, backward}, 0);
  if (!isNew)
    return found->second;
  double alone = 0;
  for (const LayerTimes &layer : stages[forward])
    for (const auto &[forwardPs, inputPs, weightPs] : layer.ps)
      alone += double(forwardPs);
  for (const LayerTimes &layer : stages[backward])
    for (const auto &[forwardPs, inputPs, weightPs] : layer.ps)
      alone += double(inputPs + weightPs);
  if (options.order == PairOrder::Fluid) {
    for (int32_t stage : {forward, backward})
      for (const LayerTimes &layer : stages[stage])
        found->second += double(sumOfStream(Stream::Exchange, layer));
    return found->second;
  }
  llvm::Expected<PairSchedule> pair =
      schedulePair(stages[forward], stages[backward], options);
  if (pair)
    found->second = std::max(0.0, alone - double(pair->endPs));
  else
    llvm::consumeError(pair.takeError()); // such a pair saves nothing
  return found->second;
}

std::vector<std::vector<double>>
PairSavings::ofStages(const LayerCounts &counts) {
  std::vector<std::vector<int32_t>> paths;
  std::map<int32_t, double> most;
  for (const std::vector<int64_t> &path : counts) {
    std::vector<int32_t> &stages = paths.emplace_back();
    for (Stage &stage : divide(path)) {
      stages.push_back(numberOf(std::move(stage)));
      most[stages.back()] = 0;
    }
  }
  for (auto &[forward, ps] : most)
    for (const auto &[backward, unused] : most)
      ps = std::max(ps, pairPs(forward, backward));
  std::vector<std::vector<double>> found;
  for (const std::vector<int32_t> &path : paths) {
    std::vector<double> &stages = found.emplace_back();
    for (int32_t stage : path)
      stages.push_back(most[stage]);
  }
  return found;
}
