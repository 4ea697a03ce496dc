//===- Vocabulary.cpp - Costs of a head in shards -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes the head from the model. A shard of it, which is a head with a part
// of its work and bytes, runs on each worker. The parameters of the embedding
// are sharded in the same way.
//
//===----------------------------------------------------------------------===//

#include "Vocabulary.h"
#include "../Kernels/BlockTimes.h"
#include "../Layers/Sharding.h"
#include "../Memory/MemoryFacts.h"
#include "../Stages/Roofline.h"
#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"
#include "PipeSched/CostModel/Vocab/ShardReductions.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/FormatError.h"
#include "ShardWork.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

static Error checkUnsliced(const Placement &placement) {
  if (placement.getNumSlices() == 1)
    return Error::success();
  return formatError("the shards of a vocabulary have costs by model for whole "
                     "microbatches only, and each has {0} slices; give a "
                     "profile",
                     placement.getNumSlices());
}

/// Whether the embedding has separate cells: E, A, C and V.
static bool hasLookups(PhaseSet phases) {
  return phases.intersects(kEmbeddingPhases);
}

/// Refuses shards of an embedding without shards of a head, because their costs
/// are additions to the costs of the head.
static Error checkHasHead(PhaseSet phases) {
  if (!hasLookups(phases) || phases.contains(Phase::Logits))
    return Error::success();
  return formatError("the shards of an embedding (E) have costs by model in "
                     "rows that have shards of the head too (S), and these "
                     "have none; give a profile");
}

/// Returns the only block after the layers of a model.
static Expected<const BlockFacts *> findHead(const ModelFacts &model,
                                             const Placement &placement) {
  int64_t count = llvm::count_if(model.blocks, isHead);
  if (count != 1)
    return formatError("a vocabulary is spread over workers where a model has "
                       "one block behind its layers, the head; '{0}' has {1}",
                       model.name, count);
  if (Error error = checkUnsliced(placement))
    return std::move(error);
  return &*llvm::find_if(model.blocks, isHead);
}

static std::set<int32_t> workersOf(const Path &path) {
  return {path.workers.begin(), path.workers.end()};
}

namespace {
/// A ring of the workers of a path.
class ShardRing {
public:
  ShardRing(const Placement &placement, int64_t path,
            const SystemFacts &system);

  /// Costs an all-reduce in two halves.
  Error exchange(Phase phase, GradientExchange bytes, CellCosts &cells) const {
    Expected<MessageCost> cost = ringExchange(bytes, group, system);
    if (!cost)
      return cost.takeError();
    return set(phase, double(cost->occupancyPs) + double(cost->latencyPs),
               cells);
  }
  /// Costs a broadcast, or a sum for one worker.
  Error gather(Phase phase, double bytes, CellCosts &cells) const {
    return exchange(phase, {0, toRing(bytes)}, cells);
  }
  Error reduce(Phase phase, double bytes, CellCosts &cells) const {
    return exchange(phase, {toRing(bytes), 0}, cells);
  }
  /// In a broadcast, all bytes pass each link; in a half of an all-reduce, one
  /// of n parts does not.
  double toRing(double bytes) const {
    return numShards > 1 ? bytes * double(numShards) / double(numShards - 1)
                         : bytes;
  }
  static Error set(Phase phase, double ps, CellCosts &cells) {
    if (!(ps < double(std::numeric_limits<int64_t>::max())))
      return formatError("{0} of a shard takes more than 2^63 - 1 ps",
                         phaseLetter(phase));
    cells.set(phase, std::llround(ps));
    return Error::success();
  }

private:
  const SystemFacts &system;
  int64_t numShards;
  RingGroup group;
};

/// The times of the shards of one path.
class ShardCosts {
public:
  /// `lookups` has the kernels of E and V if the rows have such cells;
  /// otherwise `shard` has these kernels too.
  ShardCosts(const ModelFacts &model, const SystemFacts &system,
             BlockFacts shard, std::optional<BlockFacts> lookups,
             ShardRing ring, bool reduces)
      : model(model), system(system), shard(std::move(shard)),
        lookups(std::move(lookups)), ring(ring), reduces(reduces) {}

  /// Adds the times to a stage. With Vocab-2, S also computes the part of the
  /// output's gradient that does not depend on other shards.
  Error addTo(CellCosts &cells) const {
    double forward = of(Phase::Forward), inputGrad = of(Phase::InputGrad);
    double backward = of(Phase::Backward);
    double output = outputBytes(model), statistics = statisticBytes(model);
    double embedded = embeddedBytes(model);
    if (lookups) {
      if (Error error = addLookupsTo(cells, embedded))
        return error;
      embedded = 0;
    }
    if (Error error = ShardRing::set(
            Phase::Logits, forward + (reduces ? 0 : inputGrad), cells))
      return error;
    if (Error error = ShardRing::set(
            Phase::LogitsGrad,
            reduces ? backward : std::max(backward - inputGrad, 0.0), cells))
      return error;
    // If the table has no cells for the embedding, X also sends the gradient of
    // the embedding's output to all workers, and Y sums that output for the
    // first worker.
    if (Error error = ring.gather(Phase::Broadcast, output + embedded, cells))
      return error;
    GradientExchange combined = {statistics, statistics};
    combined.reducedBytes += ring.toRing(embedded);
    if (!reduces)
      combined.reducedBytes += output;
    if (Error error = ring.exchange(Phase::Combine, combined, cells))
      return error;
    return reduces ? ring.reduce(Phase::Reduce, output, cells)
                   : Error::success();
  }

  /// The time of O for the shard, computed as for a stage: from its kernels, or
  /// from the bytes of its parameters.
  double stepPs() const {
    if (anyStates(shard, &Kernel::optimizer))
      return of(Phase::Optimizer);
    bool isShared = system.sharding != Sharding::None;
    double bytes =
        double(model.gradientBytesPerParameter) +
        weightPassesOfStep(model) * double(model.weightBytesPerParameter) +
        2 * double(model.optimizerBytesPerParameter);
    double ranks = isShared ? 1.0 / double(system.shards())
                            : double(system.contextParallel);
    return memoryPs(double(shard.parameters) * bytes * ranks, system);
  }

private:
  double of(Phase phase) const { return blockPs(shard, phase, system); }
  Error addLookupsTo(CellCosts &cells, double embedded) const {
    for (auto [cell, work] : {std::pair(Phase::Lookup, Phase::Forward),
                              std::pair(Phase::LookupGrad, Phase::Backward)})
      if (Error error =
              ShardRing::set(cell, blockPs(*lookups, work, system), cells))
        return error;
    if (Error error = ring.reduce(Phase::LookupSum, embedded, cells))
      return error;
    return ring.gather(Phase::GradientBroadcast, embedded, cells);
  }

  const ModelFacts &model;
  const SystemFacts &system;
  BlockFacts shard;
  std::optional<BlockFacts> lookups;
  ShardRing ring;
  bool reduces;
};
} // namespace

static Expected<ShardSize> sizeOfShards(const ModelFacts &model,
                                        const Placement &placement,
                                        int64_t path) {
  return ShardSize::get(model, workersOf(placement.getPath(path)).size());
}

/// The level of the ring is the level between the two workers that are farthest
/// apart.
ShardRing::ShardRing(const Placement &placement, int64_t path,
                     const SystemFacts &system)
    : system(system) {
  std::set<int32_t> workers = workersOf(placement.getPath(path));
  numShards = static_cast<int64_t>(workers.size());
  group = RingGroup::across(RankLayout(system, placement.getNumWorkers())
                                .levelOf(*workers.begin(), *workers.rbegin()),
                            numShards);
}

/// Calls `visit(stage)` with the last stage of each worker on a path.
template <typename Visit>
static void forEachHome(const Placement &placement, int64_t path,
                        Visit &&visit) {
  std::set<int32_t> seen;
  for (int64_t stage = placement.stageOffset(path + 1),
               begin = placement.stageOffset(path);
       stage-- != begin;)
    if (seen.insert(placement.workerOf(stage)).second)
      visit(stage);
}

//===----------------------------------------------------------------------===//
// Shards that stages define themselves
//===----------------------------------------------------------------------===//

static bool hasShard(const BlockFacts &block) {
  return block.shard != ShardBytes();
}

static bool statesShards(const ModelFacts &model) {
  return llvm::any_of(model.blocks, hasShard);
}

/// Returns the block with the shard of each stage, or null for stages without
/// one. Errors: slices; a worker whose last stage has none.
static Expected<std::vector<const BlockFacts *>>
shardsOfStages(const Placement &placement, const ModelFacts &model) {
  if (Error error = checkUnsliced(placement))
    return std::move(error);
  Expected<std::vector<StageBlocks>> blocks = blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  std::vector<const BlockFacts *> shards(blocks->size(), nullptr);
  for (auto [stage, ofStage] : llvm::enumerate(*blocks))
    for (auto [block, count] : ofStage)
      if (hasShard(model.blocks[block]))
        shards[stage] = &model.blocks[block];
  std::optional<int64_t> without;
  for (int64_t path = 0; path != placement.getNumPaths(); ++path)
    forEachHome(placement, path, [&](int64_t stage) {
      if (!shards[stage])
        without = stage;
    });
  if (without)
    return formatError("stage {0}, the last one of worker {1}, has no shard of "
                       "the vocabulary in model '{2}', in which others have",
                       *without, placement.workerOf(*without), model.name);
  return shards;
}

/// Adds S and T from the kernels of a stage, and X, Y and Z from the bytes that
/// it states.
static Error addOwnShard(const BlockFacts &block, const ShardRing &ring,
                         const SystemFacts &system, PhaseSet phases,
                         CellCosts &cells) {
  for (Phase phase : {Phase::Logits, Phase::LogitsGrad})
    if (Error error =
            ShardRing::set(phase, blockPs(block, phase, system), cells))
      return error;
  auto combined = double(block.shard.combined);
  if (Error error =
          ring.gather(Phase::Broadcast, double(block.shard.broadcast), cells))
    return error;
  if (Error error = ring.exchange(Phase::Combine, {combined, combined}, cells))
    return error;
  if (!phases.contains(Phase::Reduce))
    return Error::success();
  return ring.reduce(Phase::Reduce, double(block.shard.reduced), cells);
}

static Error checkOwnPhases(const ModelFacts &model, PhaseSet phases) {
  if (!hasLookups(phases))
    return Error::success();
  return formatError("model '{0}' says what the shards of its stages do, of "
                     "which no function is for an embedding in shards, and the "
                     "rows have E; take rows without",
                     model.name);
}

static Expected<StageCosts> costOwnShards(const Placement &placement,
                                          const ModelFacts &model,
                                          const SystemFacts &system,
                                          PhaseSet phases) {
  if (Error error = checkOwnPhases(model, phases))
    return std::move(error);
  auto shards = shardsOfStages(placement, model);
  if (!shards)
    return shards.takeError();
  Expected<StageCosts> costs =
      costWithoutShards(placement, model, system, phases - kSpreadPhases);
  if (!costs)
    return costs;
  for (int64_t path = 0; path != placement.getNumPaths(); ++path) {
    ShardRing ring(placement, path, system);
    for (int64_t stage = placement.stageOffset(path);
         stage != placement.stageOffset(path + 1); ++stage)
      if (const BlockFacts *block = (*shards)[stage])
        if (Error error = addOwnShard(*block, ring, system, phases,
                                      costs->stages[stage].cells))
          return std::move(error);
  }
  return costs;
}

static Expected<MemoryFacts> ownShardMemory(const Placement &placement,
                                            const ModelFacts &model,
                                            const SystemFacts *system,
                                            PhaseSet phases) {
  auto shards = shardsOfStages(placement, model);
  if (!shards)
    return shards.takeError();
  Expected<MemoryFacts> facts = computeMemoryWithoutShards(
      placement, model, system, phases - kSpreadPhases);
  if (facts)
    for (auto [stage, block] : llvm::enumerate(*shards))
      if (block)
        facts->stages[stage].shardBytes = block->shard.kept;
  return facts;
}

//===----------------------------------------------------------------------===//
// All-reduces
//===----------------------------------------------------------------------===//

/// Adds the reductions of shards, on a placement with one path.
static Error addShardReductions(const Placement &placement,
                                llvm::ArrayRef<Reduction> reductions,
                                const ModelFacts &model,
                                const SystemFacts &system,
                                const BlockFacts &head,
                                std::vector<MessageCost> &costs) {
  if (placement.getNumPaths() != 1)
    return formatError("the all-reduces of shards of a vocabulary (G) have "
                       "costs by model on one path only, and the placement has "
                       "{0}; give a profile",
                       placement.getNumPaths());
  if (movesInCells(system))
    return formatError(
        "shards of a vocabulary have no costs by model where "
        "cells gather weights (sharding={0}); give a profile, or "
        "take sharding=optimizer",
        enumName(system.sharding));
  Expected<ShardSize> size = sizeOfShards(model, placement, 0);
  if (!size)
    return size.takeError();
  BlockFacts shard = shardOf(head, *size);
  addEmbedding(model, *size, shard);
  std::set<int64_t> homes;
  forEachHome(placement, 0, [&](int64_t stage) { homes.insert(stage); });
  RankLayout layout(system, placement.getNumWorkers());
  for (auto [reduction, cost] : llvm::zip_equal(reductions, costs))
    if (homes.count(placement.globalStage(reduction.cell)))
      if (Error error =
              addReduction(reduction, shard, model, system, layout, cost))
        return error;
  return Error::success();
}

/// Costs the reductions by `gradient-buckets`: per layer, or per stage with its
/// shards.
static Expected<std::vector<MessageCost>>
reduceOwn(const Placement &placement, llvm::ArrayRef<Reduction> reductions,
          const ModelFacts &model, const SystemFacts &system, PhaseSet phases,
          const StageCosts &stageCosts) {
  Expected<std::vector<MessageCost>> costs =
      costReductions(placement, reductions, model, system);
  if (costs && system.gradientBuckets == GradientBuckets::Layers)
    if (Error error =
            reduceByLayers(placement, reductions, model, system,
                           phases - kSpreadPhases, stageCosts, *costs))
      return std::move(error);
  return costs;
}

Expected<std::vector<MessageCost>> pipesched::costShardReductions(
    const Placement &placement, llvm::ArrayRef<Reduction> reductions,
    const ModelFacts &model, const SystemFacts &system, PhaseSet phases,
    const StageCosts &stageCosts) {
  Expected<const BlockFacts *> head = findHead(model, placement);
  if (!head)
    return head.takeError();
  Expected<std::vector<MessageCost>> costs = reduceOwn(
      placement, reductions, withoutEnds(model), system, phases, stageCosts);
  if (!costs)
    return costs;
  if (Error error = addShardReductions(placement, reductions, model, system,
                                       **head, *costs))
    return std::move(error);
  return costs;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Adds the shards of a path to the costs of its stages.
static Error costPath(const Placement &placement, int64_t path,
                      const ModelFacts &model, const BlockFacts &head,
                      const SystemFacts &system, PhaseSet phases,
                      StageCosts &costs) {
  bool reduces = phases.contains(Phase::Reduce);
  Expected<ShardSize> size = sizeOfShards(model, placement, path);
  if (!size)
    return size.takeError();
  BlockFacts block = shardOf(head, *size);
  if (!movesInCells(system))
    addEmbedding(model, *size, block);
  if (Error error = addPasses(model, *size, reduces, block))
    return error;
  std::optional<BlockFacts> lookups;
  if (hasLookups(phases)) {
    lookups = block;
    lookups->kernels.clear();
  }
  addLookups(model, *size, lookups ? *lookups : block);
  ShardCosts shard(model, system, std::move(block), std::move(lookups),
                   ShardRing(placement, path, system), reduces);
  for (int64_t stage = placement.stageOffset(path);
       stage != placement.stageOffset(path + 1); ++stage)
    if (Error error = shard.addTo(costs.stages[stage].cells))
      return error;
  if (phases.contains(Phase::Optimizer))
    forEachHome(placement, path, [&](int64_t stage) {
      CellCosts &cells = costs.stages[stage].cells;
      cells.set(Phase::Optimizer,
                cells.alonePs(Phase::Optimizer) + std::llround(shard.stepPs()));
    });
  return Error::success();
}

Expected<StageCosts> pipesched::costShards(const Placement &placement,
                                           const ModelFacts &model,
                                           const SystemFacts &system,
                                           PhaseSet phases) {
  if (Error error = checkHasHead(phases))
    return std::move(error);
  if (statesShards(model))
    return costOwnShards(placement, model, system, phases);
  Expected<const BlockFacts *> head = findHead(model, placement);
  if (!head)
    return head.takeError();
  Expected<StageCosts> costs = costWithoutShards(
      placement, withoutShards(model, !movesInCells(system)), system,
      phases - kSpreadPhases - PhaseSet(Phase::AllReduce));
  if (!costs)
    return costs.takeError();
  if (phases.contains(Phase::AllReduce)) {
    SystemFacts whole = system;
    whole.gradientBuckets = GradientBuckets::Whole;
    auto costOf = [&](llvm::ArrayRef<Reduction> reductions) {
      return costShardReductions(placement, reductions, model, whole, phases,
                                 *costs);
    };
    if (Error error = costStageReductions(placement, costOf, *costs))
      return std::move(error);
  }
  for (int64_t path = 0; path != placement.getNumPaths(); ++path)
    if (Error error =
            costPath(placement, path, model, **head, system, phases, *costs))
      return std::move(error);
  return costs;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Distributes the memory of head and embedding over the shards. The memory of
/// the last stage was computed with and without the head, and the difference is
/// divided; so is the memory of the embedding's parameters on the first stage,
/// which `layers` does not include. The tensors that the embedding keeps of a
/// microbatch stay on the first stage.
static Error addShards(const Placement &placement, int64_t path,
                       const ModelFacts &model, const MemoryFacts &whole,
                       const MemoryFacts &layers, MemoryFacts &facts) {
  int64_t first = placement.stageOffset(path);
  int64_t last = placement.stageOffset(path + 1) - 1;
  Expected<ShardSize> size = sizeOfShards(model, placement, path);
  if (!size)
    return size.takeError();
  const StageMemory with = whole.stages[last], without = facts.stages[last];
  auto shareOf = [&](int64_t StageMemory::*part) {
    return size->of(with.*part - without.*part);
  };
  int64_t kept =
      shareOf(&StageMemory::activationBytes) + std::llround(outputBytes(model));
  for (int64_t stage = first; stage <= last; ++stage)
    facts.stages[stage].shardBytes = kept;
  // If a worker has both ends of the model, a tied table belongs to the
  // embedding.
  bool hasBoth = placement.workerOf(first) == placement.workerOf(last);
  double untied = hasBoth ? 1 : untiedPart(model);
  for (auto part : {&StageMemory::weightBytes, &StageMemory::gradientBytes,
                    &StageMemory::optimizerBytes}) {
    int64_t head = shareOf(part);
    int64_t embedding = facts.stages[first].*part - layers.stages[first].*part;
    facts.stages[first].*part -= embedding;
    int64_t rows = size->of(std::llround(untied * double(embedding)));
    forEachHome(placement, path, [&](int64_t stage) {
      facts.stages[stage].*part += head + rows;
    });
  }
  return Error::success();
}

/// Adds the output of the embedding, which each worker passes to the sum and
/// the first stage receives, and its gradient.
static void addLookedUp(const Placement &placement, int64_t path,
                        const ModelFacts &model, MemoryFacts &facts) {
  auto bytes = int64_t(embeddedBytes(model));
  int64_t first = placement.stageOffset(path);
  for (int64_t stage = first; stage != placement.stageOffset(path + 1);
       ++stage) {
    StageMemory &memory = facts.stages[stage];
    (stage == first ? memory.lookupSumBytes : memory.lookupPartBytes) = bytes;
    memory.lookupGradBytes = bytes;
  }
}

Expected<MemoryFacts> pipesched::computeShardMemory(const Placement &placement,
                                                    const ModelFacts &model,
                                                    const SystemFacts *system,
                                                    PhaseSet phases) {
  if (Error error = checkHasHead(phases))
    return std::move(error);
  if (statesShards(model))
    return ownShardMemory(placement, model, system, phases);
  if (Expected<const BlockFacts *> head = findHead(model, placement); !head)
    return head.takeError();
  PhaseSet others = phases - kSpreadPhases;
  Expected<MemoryFacts> whole =
      computeMemoryWithoutShards(placement, model, system, others);
  if (!whole)
    return whole.takeError();
  Expected<MemoryFacts> facts =
      computeMemoryWithoutShards(placement, withoutHead(model), system, others);
  if (!facts)
    return facts.takeError();
  Expected<MemoryFacts> layers =
      computeMemoryWithoutShards(placement, withoutEnds(model), system, others);
  if (!layers)
    return layers.takeError();
  for (int64_t path = 0; path != placement.getNumPaths(); ++path) {
    if (Error error =
            addShards(placement, path, model, *whole, *layers, *facts))
      return std::move(error);
    if (hasLookups(phases))
      addLookedUp(placement, path, model, *facts);
  }
  return facts;
}
