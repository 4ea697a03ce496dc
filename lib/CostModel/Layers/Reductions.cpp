//===- Reductions.cpp - Costs of gradient all-reduces ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the gradient bytes of blocks, and times from bytes.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"
#include "Sharding.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

namespace {
/// Bytes of the weights and gradients of blocks.
class GradientBytes {
public:
  GradientBytes(const Replicas &replicas, const ModelFacts &model)
      : replicas(replicas), model(model),
        layersPerBlock(double(model.getNumLayers()) /
                       double(replicas.getNumBlocks())) {}

  /// Gradients, and weights if they are gathered after their update. The
  /// accelerators of a worker together hold `copies` of each parameter.
  GradientExchange exchangeOf(BlockSpan range, Parameters which,
                              double copies) const {
    return {copies * sumOf(range, &StateSums::gradient, which),
            copies * sumOf(range, &StateSums::weight, which)};
  }

  double sumOf(BlockSpan range) const {
    return sumOf(range, &StateSums::gradient, Parameters::All);
  }

private:
  /// Returns a sum over blocks. A range may hold only a part of a block.
  double sumOf(BlockSpan range, CheckedInt StateSums::*part,
               Parameters which) const {
    double begin = double(range.begin) * layersPerBlock;
    double end = double(range.end) * layersPerBlock;
    double bytes = 0, layer = 0;
    for (const BlockFacts &block : model.blocks) {
      double count = double(block.count);
      if (block.position == BlockPosition::First)
        count *= isFirst(range);
      if (block.position == BlockPosition::Last)
        count *= isLast(range);
      if (block.position == BlockPosition::Layer) {
        double next = layer + count;
        count = std::max(std::min(end, next) - std::max(begin, layer), 0.0);
        layer = next;
      }
      StateSums state;
      state.add(block, 1, model, /*without=*/0, which);
      bytes += count * double((state.*part).get());
    }
    return bytes;
  }

  /// Blocks that are pinned to an end of the model belong to the piece at that
  /// end, even if the piece has no layers.
  bool isFirst(BlockSpan range) const {
    BlockSpan first = replicas.blocksOf(0);
    return range.begin == first.begin &&
           (first.size() > 0 || range.size() == 0);
  }
  bool isLast(BlockSpan range) const {
    BlockSpan last = replicas.blocksOf(replicas.getNumPieces() - 1);
    return range.end == last.end && (last.size() > 0 || range.size() == 0);
  }

  const Replicas &replicas;
  const ModelFacts &model;
  double layersPerBlock;
};
} // namespace

/// Returns the sum of two costs, one after the other. Errors: times or bytes
/// over int64.
static Expected<MessageCost> addCosts(Expected<MessageCost> first,
                                      Expected<MessageCost> second) {
  if (!first)
    return llvm::joinErrors(first.takeError(),
                            second ? Error::success() : second.takeError());
  if (!second)
    return second;
  MessageCost sum;
  if (llvm::AddOverflow(first->occupancyPs, second->occupancyPs,
                        sum.occupancyPs) ||
      llvm::AddOverflow(first->latencyPs, second->latencyPs, sum.latencyPs) ||
      llvm::AddOverflow(first->bytes, second->bytes, sum.bytes))
    return llvm::createStringError("the time or the bytes of an all-reduce are "
                                   "over 2^63 - 1");
  return sum;
}

namespace {
/// The ranks that take part in the reduction of some blocks.
struct ReductionGroups {
  RingGroup all;
  /// The ranks over which the parameters of one worker are sharded.
  RingGroup peers;
  RingGroup replicas; ///< one rank of each worker, with the same part of them
  RingGroup copies; ///< ranks with the same part, in other groups of pipelines
};
} // namespace

/// Returns a group with one member on each of some workers.
static RingGroup replicasOf(const Reduction &reduction,
                            const RankLayout &layout) {
  int64_t size = reduction.numWorkers;
  return RingGroup::across(
      layout.levelOf(reduction.firstWorker, reduction.lastWorker), size);
}

/// Returns the groups for parameters that every rank of a sequence holds.
static ReductionGroups groupsOf(const Reduction &reduction,
                                const RankLayout &layout) {
  int64_t first = reduction.firstWorker, last = reduction.lastWorker;
  return {layout.groupOf(first, last, reduction.numWorkers),
          layout.groupOf(first, first, 1), replicasOf(reduction, layout),
          layout.shardCopies(first)};
}

/// Costs the exchange at the end of a step. Gradients are always summed. If
/// each member updates only its part of the parameters, the weights are
/// gathered instead of the gradients. Sums and gathers that run in cells are
/// left out; then only replicas of the same part sum their gradients, and so do
/// groups of pipelines with the same state.
static Expected<MessageCost> costExchange(GradientExchange whole,
                                          const ReductionGroups &groups,
                                          const SystemFacts &system) {
  double gradient = whole.reducedBytes;
  if (system.sharding == Sharding::None)
    return ringExchange({gradient, gradient}, groups.all, system);
  auto sumParts = [&](RingGroup holders, RingGroup group) {
    double part = gradient / double(holders.size());
    return ringExchange({part, part}, group, system);
  };
  if (!movesInCells(system))
    return addCosts(ringExchange(whole, groups.all, system),
                    sumParts(groups.all, groups.copies));
  Expected<MessageCost> among =
      addCosts(sumParts(groups.peers, groups.replicas),
               sumParts(groups.peers, groups.copies));
  if (system.sharding == Sharding::Full)
    return among;
  return addCosts(std::move(among),
                  ringExchange({0, whole.gatheredBytes}, groups.peers, system));
}

/// Costs the gathering of weights in this exchange.
static Expected<MessageCost> costGather(GradientExchange whole,
                                        const ReductionGroups &groups,
                                        const SystemFacts &system) {
  if (system.sharding == Sharding::None || system.sharding == Sharding::Full)
    return MessageCost();
  return ringExchange({0, whole.gatheredBytes},
                      movesInCells(system) ? groups.peers : groups.all, system);
}

namespace {
/// Parameters of some blocks that are reduced together.
struct ReducedKind {
  Parameters which;
  GradientExchange whole;
  ReductionGroups groups;
};
} // namespace

/// Each kind of parameters is reduced among its holders: parameters that every
/// rank of a sequence holds, and experts if they are sharded differently.
static llvm::SmallVector<ReducedKind, 2> kindsOf(const Reduction &reduction,
                                                 const GradientBytes &bytes,
                                                 const RankLayout &layout,
                                                 const SystemFacts &system) {
  int64_t first = reduction.firstWorker, last = reduction.lastWorker;
  bool isSplit = dividesExperts(system);
  ReductionGroups groups = groupsOf(reduction, layout);
  Parameters others = isSplit ? Parameters::Others : Parameters::All;
  llvm::SmallVector<ReducedKind, 2> kinds = {
      {others,
       bytes.exchangeOf(reduction.blocks, others,
                        double(system.contextParallel)),
       groups}};
  double copies = double(system.accelerators) / double(system.expertRanks());
  if (isSplit)
    kinds.push_back(
        {Parameters::Experts,
         bytes.exchangeOf(reduction.blocks, Parameters::Experts, copies),
         {layout.expertReplicas(first, last, reduction.numWorkers),
          layout.expertReplicas(first, first, 1), groups.replicas,
          groups.copies}});
  return kinds;
}

static Expected<MessageCost> costReduction(const Reduction &reduction,
                                           const GradientBytes &bytes,
                                           const RankLayout &layout,
                                           const SystemFacts &system) {
  Expected<MessageCost> sum = MessageCost();
  for (const ReducedKind &kind : kindsOf(reduction, bytes, layout, system))
    sum =
        addCosts(std::move(sum), costExchange(kind.whole, kind.groups, system));
  return sum;
}

Expected<std::vector<MessageCost>>
pipesched::costReductions(const Placement &placement,
                          ArrayRef<Reduction> reductions,
                          const ModelFacts &model, const SystemFacts &system) {
  Expected<Replicas> replicas = Replicas::create(placement);
  if (!replicas)
    return replicas.takeError();
  GradientBytes bytes(*replicas, model);
  RankLayout layout(system, placement.getNumWorkers());
  std::vector<MessageCost> stageCosts;
  stageCosts.reserve(reductions.size());
  for (const Reduction &reduction : reductions) {
    Expected<MessageCost> cost =
        costReduction(reduction, bytes, layout, system);
    if (!cost)
      return cost.takeError();
    stageCosts.push_back(*cost);
  }
  return stageCosts;
}

Error pipesched::addReduction(const Reduction &reduction,
                              const BlockFacts &block, const ModelFacts &model,
                              const SystemFacts &system,
                              const RankLayout &layout, MessageCost &cost) {
  StateSums state;
  state.add(block, 1, model);
  auto copies = double(system.contextParallel);
  GradientExchange whole = {copies * double(state.gradient.get()),
                            copies * double(state.weight.get())};
  Expected<MessageCost> sum =
      addCosts(cost, costExchange(whole, groupsOf(reduction, layout), system));
  if (!sum)
    return sum.takeError();
  cost = *sum;
  return Error::success();
}

int64_t pipesched::portionOf(int64_t ps, int64_t part, int64_t whole) {
  if (part >= whole)
    return ps;
  __int128 product = static_cast<__int128>(ps) * part;
  return static_cast<int64_t>((product + whole / 2) / whole);
}

Expected<std::vector<MessageCost>> pipesched::shareReductions(
    const Placement &placement, ArrayRef<Reduction> reductions,
    const StageCosts &stageCosts, const ModelFacts *model) {
  Expected<ParameterSets> sets = ParameterSets::create(placement);
  if (!sets)
    return sets.takeError();
  const Replicas &replicas = sets->getReplicas();
  std::vector<MessageCost> shares;
  shares.reserve(reductions.size());
  for (const Reduction &reduction : reductions) {
    int64_t stage = placement.globalStage(reduction.cell);
    MessageCost &share = shares.emplace_back();
    share.occupancyPs =
        portionOf(stageCosts.stages[stage].cells.alonePs(Phase::AllReduce),
                  reduction.blocks.size(), sets->ownedBlocksOf(stage).size());
    if (!model)
      continue;
    double bytes = GradientBytes(replicas, *model).sumOf(reduction.blocks);
    Expected<int64_t> sent = ringBytes(bytes, reduction.numWorkers);
    if (!sent)
      return sent.takeError();
    share.bytes = *sent;
  }
  return shares;
}

Expected<int64_t> pipesched::ringBytes(double bytes, int64_t numWorkers) {
  double sent =
      std::nearbyint(2.0 * double(numWorkers - 1) * bytes / double(numWorkers));
  if (!(sent < 0x1p63))
    return llvm::createStringError(
        "a worker sends more than 2^63 - 1 bytes in an all-reduce");
  return static_cast<int64_t>(sent);
}

//===----------------------------------------------------------------------===//
// Layer by layer
//===----------------------------------------------------------------------===//

namespace {
/// The part of a reduction that overlaps with the last backward of a stage and
/// its first forward. Layers have shares of the times in proportion to their
/// bytes.
class LayerwiseReduction {
public:
  LayerwiseReduction(const StageBlocks &blocks, const ModelFacts &model,
                     ArrayRef<int64_t> blockTimes)
      : blocks(blocks), model(model), blockTimes(blockTimes),
        reducePs(blocks.size()), gatherPs(blocks.size()) {
    for (auto [block, count] : blocks)
      wholePs += double(count) * double(blockTimes[block]);
  }

  /// Adds the times of reducing and gathering parameters of a kind.
  void add(Parameters which, double reduce, double gather);
  /// Returns the time between the moment when the gradients of a backward of
  /// `ps` can start to be sent and its end.
  double aheadPs(double ps) const;
  /// Returns how much of the gathering a forward of `ps` hides, if the weights
  /// of each layer are gathered while the previous layer computes.
  double gatheredUnder(double ps) const;

private:
  double computePs(size_t i, double ps) const {
    return wholePs > 0 ? ps * double(blockTimes[blocks[i].block]) / wholePs : 0;
  }

  const StageBlocks &blocks;
  const ModelFacts &model;
  ArrayRef<int64_t> blockTimes;
  llvm::SmallVector<double> reducePs, gatherPs; ///< of each block
  double wholePs = 0;
};
} // namespace

void LayerwiseReduction::add(Parameters which, double reduce, double gather) {
  llvm::SmallVector<double> bytes;
  double sum = 0;
  for (auto [block, count] : blocks) {
    StateSums state;
    state.add(model.blocks[block], 1, model, /*without=*/0, which);
    bytes.push_back(double(state.gradient.get()));
    sum += double(count) * bytes.back();
  }
  for (auto [i, ofBlock] : llvm::enumerate(bytes)) {
    reducePs[i] += sum > 0 ? reduce * ofBlock / sum : 0;
    gatherPs[i] += sum > 0 ? gather * ofBlock / sum : 0;
  }
}

/// A backward runs the blocks from the last to the first. The gradients of a
/// block are sent once they are computed and the gradients of the previous
/// block have been sent:
///
///   computes   2   1   0
///   reduces        2     1     0
double LayerwiseReduction::aheadPs(double ps) const {
  double computedPs = 0, reducedPs = 0, sum = 0;
  for (size_t i = blocks.size(); i-- != 0;) {
    double compute = computePs(i, ps), reduce = reducePs[i];
    double count = double(blocks[i].count);
    if (count == 0)
      continue;
    // The slowest of the earlier blocks, for reducing and for computing.
    reducedPs = std::max({reducedPs + count * reduce,
                          computedPs + compute + count * reduce,
                          computedPs + count * compute + reduce});
    computedPs += count * compute;
    sum += count * reduce;
  }
  return std::max(sum - std::max(reducedPs - computedPs, 0.0), 0.0);
}

double LayerwiseReduction::gatheredUnder(double ps) const {
  llvm::SmallVector<ShardedBlocks> order;
  double sum = 0, computedPs = 0;
  for (auto [i, block] : llvm::enumerate(blocks)) {
    double compute = computePs(i, ps), count = double(block.count);
    order.push_back({block.count, compute, gatherPs[i], 0});
    sum += count * gatherPs[i];
    computedPs += count * compute;
  }
  double exposedPs = prefetchedPs(order) - computedPs;
  return std::max(sum - std::max(exposedPs, 0.0), 0.0);
}

/// Whether an all-reduce covers all blocks of a stage, and no other stage of
/// the worker holds only some of these.
static bool coversStage(const ParameterSets &sets, const Reduction &reduction,
                        int64_t stage) {
  const Replicas &replicas = sets.getReplicas();
  BlockSpan span = replicas.blocksOf(replicas.piecesOf(stage));
  if (!sets.ownsAll(stage) ||
      sets.ownedBlocksOf(stage).size() != reduction.blocks.size())
    return false;
  return llvm::all_of(sets.ownedSetsOf(stage), [&](int64_t set) {
    return llvm::all_of(sets.stagesOf(set), [&](int64_t other) {
      BlockSpan held = replicas.blocksOf(replicas.piecesOf(other));
      return held.begin == span.begin && held.end == span.end;
    });
  });
}

static double shortestPs(const CellCosts &cells, Phase phase) {
  int64_t ps = cells.alonePs(phase, 0);
  for (int64_t slice = 1; slice < cells.getNumSlices(); ++slice)
    ps = std::min(ps, cells.alonePs(phase, slice));
  return double(ps);
}

/// Divides the time of an all-reduce, from the roofline or a profile, between
/// reducing and gathering in the proportion of the roofline.
static Error hideLayers(const CellCosts &cells, Phase gradients,
                        ArrayRef<ReducedKind> kinds, const SystemFacts &system,
                        LayerwiseReduction layers, MessageCost &cost) {
  double whole = 0;
  llvm::SmallVector<std::pair<double, double>, 2> parts;
  for (const ReducedKind &kind : kinds) {
    Expected<MessageCost> all = costExchange(kind.whole, kind.groups, system);
    if (!all)
      return all.takeError();
    Expected<MessageCost> gather = costGather(kind.whole, kind.groups, system);
    if (!gather)
      return gather.takeError();
    double gathered = double(std::min(gather->occupancyPs, all->occupancyPs));
    parts.push_back({double(all->occupancyPs) - gathered, gathered});
    whole += double(all->occupancyPs);
  }
  if (!(whole > 0))
    return Error::success();
  double scale = double(cost.occupancyPs) / whole;
  for (auto [kind, part] : llvm::zip_equal(kinds, parts))
    layers.add(kind.which, scale * part.first, scale * part.second);
  // Rounded down, so that the total is at least the exposed part.
  auto hidden = static_cast<int64_t>(
      layers.gatheredUnder(shortestPs(cells, Phase::Forward)));
  cost.occupancyPs -= std::min(hidden, cost.occupancyPs);
  cost.aheadPs = std::min(
      static_cast<int64_t>(layers.aheadPs(shortestPs(cells, gradients))),
      cost.occupancyPs);
  return Error::success();
}

Error pipesched::reduceByLayers(const Placement &placement,
                                ArrayRef<Reduction> reductions,
                                const ModelFacts &model,
                                const SystemFacts &system, PhaseSet phases,
                                const StageCosts &stageCosts,
                                std::vector<MessageCost> &costs) {
  Expected<ParameterSets> sets = ParameterSets::create(placement);
  if (!sets)
    return sets.takeError();
  Expected<std::vector<StageBlocks>> blocks = blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  Expected<std::vector<int64_t>> blockTimes = costBlocks(model, system);
  if (!blockTimes)
    return blockTimes.takeError();
  GradientBytes bytes(sets->getReplicas(), model);
  RankLayout layout(system, placement.getNumWorkers());
  Phase gradients =
      phases.contains(Phase::WeightGrad) ? Phase::WeightGrad : Phase::Backward;
  for (auto [reduction, cost] : llvm::zip_equal(reductions, costs)) {
    int64_t stage = placement.globalStage(reduction.cell);
    if (cost.occupancyPs == 0 || !coversStage(*sets, reduction, stage))
      continue;
    if (Error error = hideLayers(
            stageCosts.stages[stage].cells, gradients,
            kindsOf(reduction, bytes, layout, system), system,
            LayerwiseReduction((*blocks)[stage], model, *blockTimes), cost))
      return error;
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// By stage
//===----------------------------------------------------------------------===//

/// Returns, for each piece, the workers that hold it.
static std::vector<Reduction> reductionsOf(const Placement &placement,
                                           const Replicas &replicas) {
  std::vector<Reduction> reductions;
  std::vector<int64_t> workers;
  for (int64_t piece = 0; piece < replicas.getNumPieces(); ++piece) {
    workers.clear();
    for (int64_t path = 0; path < placement.getNumPaths(); ++path)
      workers.push_back(placement.workerOf(replicas.holderOf(piece, path)));
    llvm::sort(workers);
    int64_t numWorkers =
        std::unique(workers.begin(), workers.end()) - workers.begin();
    Cell first(replicas.holderOf(piece, 0), Phase::AllReduce, 0);
    reductions.push_back({first, replicas.blocksOf(piece), numWorkers,
                          workers.front(), workers[numWorkers - 1]});
  }
  return reductions;
}

Error pipesched::costStageReductions(const Placement &placement,
                                     CostReductions cost,
                                     StageCosts &stageCosts) {
  Expected<ParameterSets> sets = ParameterSets::create(placement);
  if (!sets)
    return sets.takeError();
  Expected<std::vector<MessageCost>> pieces =
      cost(reductionsOf(placement, sets->getReplicas()));
  if (!pieces)
    return pieces.takeError();
  for (auto [stage, stageCost] : llvm::enumerate(stageCosts.stages)) {
    int64_t sum = stageCost.cells.alonePs(Phase::AllReduce);
    for (int64_t piece : sets->ownedPiecesOf(stage))
      for (int64_t ps :
           {(*pieces)[piece].occupancyPs, (*pieces)[piece].latencyPs})
        if (llvm::AddOverflow(sum, ps, sum))
          return llvm::createStringError("the time of G is over 2^63 - 1 ps");
    stageCost.cells.set(Phase::AllReduce, sum);
  }
  return Error::success();
}
