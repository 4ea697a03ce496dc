//===- Sharding.cpp - Cells with sharded parameters -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ZeRO-2 (arXiv 1910.02054, section 5.2) moves gradients in every cell that
// computes them. FSDP (arXiv 2304.11277, section 3.3) also moves weights in
// every cell that needs them.
//
//===----------------------------------------------------------------------===//

#include "Sharding.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

SmallVector<ShardPart, 2> pipesched::shardPartsOf(const BlockFacts &block,
                                                  const ModelFacts &model,
                                                  const SystemFacts &system,
                                                  const RankLayout &layout,
                                                  int64_t worker) {
  auto part = [&](Parameters which, double copies, RingGroup group) {
    StateSums state;
    state.add(block, 1, model, /*without=*/0, which);
    return ShardPart{group, copies * double(state.weight.get()),
                     copies * double(state.gradient.get())};
  };
  bool isSplit = dividesExperts(system) && block.experts;
  SmallVector<ShardPart, 2> parts = {
      part(isSplit ? Parameters::Others : Parameters::All,
           double(system.contextParallel), layout.groupOf(worker, worker, 1))};
  if (isSplit)
    parts.push_back(
        part(Parameters::Experts,
             double(system.accelerators) / double(system.expertRanks()),
             layout.expertReplicas(worker, worker, 1)));
  return parts;
}

bool pipesched::movesInCells(const SystemFacts &system) {
  return (system.sharding == Sharding::Gradients ||
          system.sharding == Sharding::Full) &&
         (system.shards() > 1 || system.contextParallel > 1);
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

double pipesched::prefetchedPs(ArrayRef<ShardedBlocks> blocks) {
  SmallVector<ShardedBlocks> runs;
  llvm::copy_if(blocks, std::back_inserter(runs),
                [](const ShardedBlocks &run) { return run.count > 0; });
  if (runs.empty())
    return 0;
  double sum = runs.front().gatherPs + runs.back().scatterPs;
  for (size_t index = 0; index < runs.size(); ++index) {
    const ShardedBlocks &run = runs[index];
    double before = index ? runs[index - 1].scatterPs : 0;
    double after = index + 1 < runs.size() ? runs[index + 1].gatherPs : 0;
    auto step = [&](double scatterPs, double gatherPs) {
      return std::max(run.computePs, scatterPs + gatherPs);
    };
    if (run.count == 1) {
      sum += step(before, after);
      continue;
    }
    sum += step(before, run.gatherPs) + step(run.scatterPs, after) +
           double(run.count - 2) * step(run.scatterPs, run.gatherPs);
  }
  return sum;
}

namespace {
/// The transfers that a stage's worker needs for the parameters of one of its
/// blocks.
struct BlockTraffic {
  int64_t count;
  uint32_t block;
  RingSums gather, scatter;
};

/// The cells of one stage.
class StageTraffic {
public:
  StageTraffic(const ModelFacts &model, const SystemFacts &system)
      : model(model), system(system) {}

  Error add(BlockCount blocks, const RankLayout &layout, int64_t worker);

  /// Whether a phase needs the weights of all blocks, or makes their gradients.
  /// Selective recomputation runs only the core of the attention, which has no
  /// weights.
  bool gathers(Phase phase) const {
    if (system.sharding != Sharding::Full)
      return false;
    return phase == Phase::Forward || kBackwardStarts.contains(phase) ||
           (phase == Phase::Recompute &&
            model.recompute != Recompute::Selective);
  }
  static bool scatters(Phase phase) { return kGradientPhases.contains(phase); }

  double cellPs(Phase phase, const ShardedCells &sharded, double alone) const;
  double cellBytes(Phase phase) const;

private:
  const ModelFacts &model;
  const SystemFacts &system;
  SmallVector<BlockTraffic, 2> blocks;
};
} // namespace

static void append(RingSums &sum, const RingSums &part) {
  sum.occupancyPs += part.occupancyPs;
  sum.latencyPs += part.latencyPs;
  sum.bytes += part.bytes;
}

Error StageTraffic::add(BlockCount entry, const RankLayout &layout,
                        int64_t worker) {
  BlockTraffic traffic = {entry.count, entry.block, {}, {}};
  for (const ShardPart &part :
       shardPartsOf(model.blocks[entry.block], model, system, layout, worker)) {
    Expected<RingSums> gather =
        sumRings({0, part.weightBytes}, part.group, system);
    if (!gather)
      return gather.takeError();
    Expected<RingSums> scatter =
        sumRings({part.gradientBytes, 0}, part.group, system);
    if (!scatter)
      return scatter.takeError();
    append(traffic.gather, *gather);
    append(traffic.scatter, *scatter);
  }
  blocks.push_back(traffic);
  return Error::success();
}

/// Scales the compute of all blocks to the sum `ps`, in the old proportions, or
/// evenly.
static void scaleCompute(SmallVectorImpl<ShardedBlocks> &blocks, double ps) {
  double sum = 0, count = 0;
  for (const ShardedBlocks &run : blocks) {
    sum += double(run.count) * run.computePs;
    count += double(run.count);
  }
  for (ShardedBlocks &run : blocks)
    run.computePs = sum > 0 ? run.computePs / sum * ps : ps / count;
}

/// The time of a cell with its transfers. Backward phases run the blocks from
/// the last to the first. `alone` is the compute of the cell.
double StageTraffic::cellPs(Phase phase, const ShardedCells &sharded,
                            double alone) const {
  bool hasR = sharded.recomputesInBackward && kBackwardStarts.contains(phase);
  SmallVector<ShardedBlocks> order;
  for (const BlockTraffic &each : blocks) {
    auto ps = [](const RingSums &rings) {
      return rings.occupancyPs + rings.latencyPs;
    };
    double compute = sharded.timeOf(each.block, phase) +
                     (hasR ? sharded.timeOf(each.block, Phase::Recompute) : 0);
    order.push_back({each.count, compute, gathers(phase) ? ps(each.gather) : 0,
                     scatters(phase) ? ps(each.scatter) : 0});
  }
  if (sharded.isMeasured)
    scaleCompute(order, alone);
  if (kBackwardPhases.contains(phase))
    std::reverse(order.begin(), order.end());
  return prefetchedPs(order);
}

double StageTraffic::cellBytes(Phase phase) const {
  double sum = 0;
  for (const BlockTraffic &each : blocks)
    sum += double(each.count) * ((gathers(phase) ? each.gather.bytes : 0) +
                                 (scatters(phase) ? each.scatter.bytes : 0));
  return sum;
}

static Error round(double value, const char *what, int64_t &result) {
  double rounded = std::nearbyint(value);
  if (!(rounded < 0x1p63))
    return makeError(what + llvm::Twine(" over 2^63 - 1"));
  result = static_cast<int64_t>(rounded);
  return Error::success();
}

Error pipesched::shardCells(const StageBlocks &blocks, const ModelFacts &model,
                            const SystemFacts &system, const RankLayout &layout,
                            int64_t worker, const ShardedCells &sharded,
                            CellCosts &cells, int64_t slice) {
  if (!movesInCells(system))
    return Error::success();
  StageTraffic traffic(model, system);
  for (BlockCount entry : blocks)
    if (Error error = traffic.add(entry, layout, worker))
      return error;
  for (Phase phase : {Phase::Forward, Phase::Recompute, Phase::InputGrad,
                      Phase::WeightGrad, Phase::Backward}) {
    if (!sharded.phases.contains(phase) ||
        (!traffic.gathers(phase) && !traffic.scatters(phase)))
      continue;
    int64_t alone = cells.alonePs(phase, slice), ps = 0, bytes = 0;
    if (Error error = round(traffic.cellPs(phase, sharded, double(alone)),
                            "a cell that waits for parameters takes ps", ps))
      return error;
    if (Error error = round(traffic.cellBytes(phase),
                            "a cell sends bytes of parameters", bytes))
      return error;
    SmallVector<Segment, 4> segments(cells.segmentsOf(phase, slice));
    // B is a sum of rounded times and may be one picosecond longer.
    segments.push_back(
        {Resource::Sharding, std::max(ps, alone) - alone, 0, bytes});
    if (Error error = cells.setSegments(phase, segments, slice))
      return error;
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Rounds up; the result is invalid over int64.
static CheckedInt wholeBytes(double bytes) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  double rounded = std::ceil(bytes);
  return rounded < 0x1p63 ? CheckedInt(static_cast<int64_t>(rounded))
                          : CheckedInt(most) + 1;
}

Gathered pipesched::gatheredBytes(const StageBlocks &blocks,
                                  const ModelFacts &model,
                                  const SystemFacts &system,
                                  const RankLayout &layout, int64_t worker) {
  double before = 0, weight = 0, gradient = 0, blockWeight = 0;
  for (auto [index, count] : blocks) {
    if (count == 0)
      continue;
    double ofBlock = 0, gradientOfBlock = 0;
    for (const ShardPart &part :
         shardPartsOf(model.blocks[index], model, system, layout, worker)) {
      if (part.group.size() == 1)
        continue; // not sharded
      ofBlock += part.weightBytes;
      gradientOfBlock += part.gradientBytes;
    }
    weight = std::max({weight, ofBlock + before, count > 1 ? 2 * ofBlock : 0});
    gradient = std::max(gradient, gradientOfBlock);
    blockWeight = std::max(blockWeight, ofBlock);
    before = ofBlock;
  }
  return {wholeBytes(weight), wholeBytes(gradient), wholeBytes(blockWeight)};
}
