//===- Roofline.cpp - Costs from facts ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roofline compute and Hockney messages in picoseconds (docs/CostModel.md).
//
//===----------------------------------------------------------------------===//

#include "Roofline.h"
#include "../Comm/StorePs.h"
#include "../Kernels/BlockTimes.h"
#include "../Layers/Sharding.h"
#include "../Memory/MemoryFacts.h"
#include "../Pairs/StagePairs.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "PipeSched/Facts/CellCosts.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <map>
#include <memory>

using namespace pipesched;
using llvm::Twine;

namespace {
/// The rounded times of the cells of a stage, ps, and the parts of them that
/// are transfers. Whole times are rounded before their parts, so that the
/// division of a cell does not change its time.
struct CellTimes {
  int64_t &operator[](Phase phase) { return all[phase]; }
  /// Stores transfers as segments, and the rest as compute. Errors: as for
  /// CellCosts::setSegments.
  llvm::Error storeIn(CellCosts &cells, int64_t slice) const;

  PhaseMap<int64_t> all = {};
  /// Transfers of rows to experts and back: the time that the cell waits, and
  /// the time that the compute of another cell hides, which is not part of the
  /// cell's time.
  PhaseMap<int64_t> dispatch = {}, hiddenDispatch = {};
  PhaseMap<Exchange> context = {};
};
} // namespace

llvm::Error CellTimes::storeIn(CellCosts &cells, int64_t slice) const {
  for (const EnumName<Phase> &entry : enumValues<Phase>()) {
    Phase phase = entry.value;
    if (all[phase] != 0)
      cells.set(phase, all[phase], slice);
    if (int64_t ps = dispatch[phase], hidden = hiddenDispatch[phase];
        ps != 0 || hidden != 0)
      if (auto error =
              cells.splitOff(phase, {Resource::Experts, ps, hidden}, slice))
        return error;
    const Exchange &passed = context[phase];
    if (passed.ps == 0 && passed.bytes == 0)
      continue;
    if (auto error =
            cells.splitOff(phase,
                           {Resource::Context, passed.exposedPs,
                            passed.ps - passed.exposedPs, passed.bytes},
                           slice))
      return error;
  }
  return llvm::Error::success();
}

namespace {
/// Computes the costs of the stages of a placement. Values that do not depend
/// on the stage are computed once.
class StageCostBuilder {
public:
  /// `exchanged` are, by block, the bytes that the workers of two slices with
  /// balanced attention exchange; empty if they exchange nothing.
  StageCostBuilder(const ModelFacts &model, const SystemFacts &system,
                   PhaseSet phases,
                   std::vector<PhaseMap<int64_t>> exchanged = {})
      : model(model), system(system), phases(phases),
        recomputesInBackward(model.recompute != Recompute::None &&
                             !phases.contains(Phase::Recompute)),
        exchanged(std::move(exchanged)),
        blockTimes(timesOfBlocks(model, system)) {}

  /// `owned` are the entries of `blocks` whose parameters the stage updates;
  /// their bytes are in `stepped`. `link`, if not null, is the link to the
  /// worker with which the slice balances its attention.
  llvm::Error cost(const StageBlocks &blocks, const StageBlocks &owned,
                   const StageMemory &memory, const StageMemory &stepped,
                   const LinkFacts *link, CellCosts &cells,
                   int64_t slice) const;

  /// Adds the waits of the worker's cells for sharded parameters.
  llvm::Error shard(const StageBlocks &blocks, const RankLayout &layout,
                    int64_t worker, CellCosts &cells, int64_t slice) const {
    auto timeOf = [&](uint32_t block, Phase phase) {
      return blockTimes[block].of(phase);
    };
    return shardCells(blocks, model, system, layout, worker,
                      {kCostedPhases, recomputesInBackward, timeOf}, cells,
                      slice);
  }

private:
  llvm::Error costCompute(const StageBlocks &blocks, const LinkFacts *link,
                          CellTimes &cost) const;
  double exchangePs(BlockCount entry, Phase phase, const LinkFacts &link) const;
  llvm::Error costBackward(const StageBlocks &blocks, double ps,
                           CellTimes &cost) const;
  llvm::Error costDispatches(const BlockTimes &sum, CellTimes &cost) const;
  void hideDispatches(const BlockTimes &sum, CellTimes &cost) const;
  llvm::Error costContext(const BlockTimes &sum, CellTimes &cost) const;
  llvm::Error costCopies(const StageMemory &memory, CellTimes &cost) const;
  llvm::Error costStep(const StageBlocks &owned, const StageMemory &memory,
                       CellTimes &cost) const;

  const ModelFacts &model;
  const SystemFacts &system;
  PhaseSet phases;
  bool recomputesInBackward;
  std::vector<PhaseMap<int64_t>> exchanged;
  std::vector<BlockTimes> blockTimes;
};
} // namespace

/// Unless a block states the work of B, B is the sum of the rounded I and W, so
/// that splitting a backward changes no total.
llvm::Error StageCostBuilder::costBackward(const StageBlocks &blocks, double ps,
                                           CellTimes &cost) const {
  int64_t first = cost[Phase::InputGrad];
  int64_t second = cost[Phase::WeightGrad];
  if (llvm::any_of(blocks, [&](BlockCount entry) {
        return anyStates(model.blocks[entry.block], &Kernel::backward);
      })) {
    first = recomputesInBackward ? cost[Phase::Recompute] : 0;
    if (auto error = store(ps, "B", second))
      return error;
  }
  if (llvm::AddOverflow(first, second, cost[Phase::Backward]))
    return makeError("the time of B is over 2^63 - 1 ps");
  return llvm::Error::success();
}

/// The time that a cell in these blocks waits when another worker takes or
/// passes a part of the attention: one message in each direction.
double StageCostBuilder::exchangePs(BlockCount entry, Phase phase,
                                    const LinkFacts &link) const {
  int64_t bytes = exchanged[entry.block][phase];
  if (bytes == 0)
    return 0;
  return double(entry.count) *
         (transferPs(double(bytes), link) + 2 * double(link.latencyPs));
}

llvm::Error StageCostBuilder::costCompute(const StageBlocks &blocks,
                                          const LinkFacts *link,
                                          CellTimes &cost) const {
  BlockTimes sum;
  for (auto [block, count] : blocks)
    sum.add(blockTimes[block], count);
  if (link)
    for (BlockCount entry : blocks)
      for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::Recompute})
        sum.waiting[phase] += exchangePs(entry, phase, *link);

  // An I with recomputation is the sum of the rounded R and I, so that adding R
  // cells changes no total.
  for (auto [phase, name] : {std::pair(Phase::Forward, "F"),
                             {Phase::Recompute, "R"},
                             {Phase::InputGrad, "I"},
                             {Phase::WeightGrad, "W"}})
    if (auto error = store(sum.of(phase), name, cost[phase]))
      return error;
  int64_t recompute = cost[Phase::Recompute];
  int64_t &inputGrad = cost[Phase::InputGrad];
  if (recomputesInBackward &&
      llvm::AddOverflow(inputGrad, recompute, inputGrad))
    return makeError("the time of I is over 2^63 - 1 ps");
  if (llvm::Error error = costBackward(blocks, sum.of(Phase::Backward), cost))
    return error;
  if (llvm::Error error = costDispatches(sum, cost))
    return error;
  return costContext(sum, cost);
}

/// The part of the times in which rows are transferred, rounded and summed in
/// the same way.
llvm::Error StageCostBuilder::costDispatches(const BlockTimes &sum,
                                             CellTimes &cost) const {
  for (const EnumName<Phase> &phase : enumValues<Phase>())
    if (auto error =
            store(sum.dispatch[phase.value], "rows on their way to experts",
                  cost.dispatch[phase.value]))
      return error;
  auto at = [&](Phase phase) -> int64_t & { return cost.dispatch[phase]; };
  if (recomputesInBackward) {
    at(Phase::InputGrad) += at(Phase::Recompute);
    at(Phase::Backward) += at(Phase::Recompute);
  }
  hideDispatches(sum, cost);
  return llvm::Error::success();
}

/// Hides exchanges of a forward under a backward of another microbatch, and
/// exchanges of a backward under a forward, as far as their times allow. If the
/// host takes longer than the device, less can be hidden.
void StageCostBuilder::hideDispatches(const BlockTimes &sum,
                                      CellTimes &cost) const {
  if (system.expertExposed == kAllPercent)
    return;
  double forward = sum.alone(Phase::Forward);
  double input = sum.alone(Phase::InputGrad);
  if (recomputesInBackward)
    input += sum.alone(Phase::Recompute);
  double backward = input + sum.alone(Phase::WeightGrad);
  double part = double(kAllPercent - system.expertExposed) / kAllPercent;
  auto hide = [&](Phase phase, double alone, double other) {
    double hidden = std::min({part * double(cost.dispatch[phase]),
                              double(cost[phase]) - alone, other});
    auto ps = std::max(int64_t(0), int64_t(std::nearbyint(hidden)));
    cost[phase] -= ps;
    cost.dispatch[phase] -= ps;
    cost.hiddenDispatch[phase] = ps;
  };
  hide(Phase::Forward, forward, backward);
  hide(Phase::InputGrad, input, forward);
  hide(Phase::Backward, backward, forward);
}

/// The transfers between the ranks of a sequence, rounded and summed in the
/// same way.
llvm::Error StageCostBuilder::costContext(const BlockTimes &sum,
                                          CellTimes &cost) const {
  if (system.contextParallel == 1)
    return llvm::Error::success();
  for (const EnumName<Phase> &phase : enumValues<Phase>()) {
    const ContextSums &sums = sum.context[phase.value];
    for (auto [from, to] : {std::pair(&ContextSums::ps, &Exchange::ps),
                            {&ContextSums::exposedPs, &Exchange::exposedPs},
                            {&ContextSums::bytes, &Exchange::bytes}})
      if (auto error = store(sums.*from, "an exchange of keys and values",
                             cost.context[phase.value].*to))
        return error;
  }
  auto at = [&](Phase phase) -> Exchange & { return cost.context[phase]; };
  if (recomputesInBackward)
    for (Phase phase : {Phase::InputGrad, Phase::Backward})
      if (!at(phase).add(at(Phase::Recompute), 1))
        return makeError("ranks pass on keys and values for more than 2^63 - 1 "
                         "ps in a backward that recomputes");
  return llvm::Error::success();
}

/// Costs D and U, which move the activations of a microbatch; each accelerator
/// moves its share.
llvm::Error StageCostBuilder::costCopies(const StageMemory &memory,
                                         CellTimes &cost) const {
  if (!phases.intersects(kCopyPhases))
    return llvm::Error::success();
  if (system.host.bytesPerSecond == 0)
    return makeError("D and U need the 'host' link of the system, '" +
                     Twine(system.name) + "' has none");
  double bytes = double(memory.activationBytes) / double(system.accelerators);
  double ps = transferPs(bytes, system.host) + double(system.host.latencyPs);
  if (auto error = store(ps, "D", cost[Phase::Offload]))
    return error;
  cost[Phase::Reload] = cost[Phase::Offload];
  return llvm::Error::success();
}

/// Costs O, which has the work that the blocks state. For blocks that state
/// nothing, it reads the gradients, reads and writes the optimizer state, and
/// writes the weights. It also reads the weights if they are the master copy or
/// a part of it. Only parameters whose state this pipeline holds count.
/// Accelerators that hold the same parameters do the same work, unless the
/// state is sharded over them.
llvm::Error StageCostBuilder::costStep(const StageBlocks &owned,
                                       const StageMemory &memory,
                                       CellTimes &cost) const {
  bool isShared = system.sharding != Sharding::None;
  int64_t sharers = isShared ? system.shards() : 1;
  int64_t copies = isShared ? 1 : system.contextParallel;
  StateSums stated; // of blocks that state their work
  double statedPs = 0;
  for (auto [block, count] : owned)
    if (anyStates(model.blocks[block], &Kernel::optimizer)) {
      statedPs += double(count) * blockTimes[block].of(Phase::Optimizer);
      stated.add(model.blocks[block], count, model);
    }
  auto without = [&](int64_t all, CheckedInt part) {
    return double(std::max<int64_t>(all - (part * copies).get(), 0));
  };
  double bytes =
      (without(memory.gradientBytes, stated.gradient) +
       weightPassesOfStep(model) * without(memory.weightBytes, stated.weight)) /
          double(sharers) +
      2 * without(memory.optimizerBytes,
                  int64_t(llvm::divideCeil(uint64_t(stated.optimizer.get()),
                                           uint64_t(sharers))));
  return store(memoryPs(bytes, system) +
                   statedPs * double(copies) / double(sharers),
               "O", cost[Phase::Optimizer]);
}

llvm::Error StageCostBuilder::cost(const StageBlocks &blocks,
                                   const StageBlocks &owned,
                                   const StageMemory &memory,
                                   const StageMemory &stepped,
                                   const LinkFacts *link, CellCosts &cells,
                                   int64_t slice) const {
  CellTimes times;
  if (auto error = costCompute(blocks, link, times))
    return error;
  if (auto error = costCopies(memory, times))
    return error;
  if (auto error = costStep(owned, stepped, times))
    return error;
  return times.storeIn(cells, slice);
}

/// Messages use the link of a node if both workers are on it, else the network
/// of a pod, else the spine.
static llvm::Expected<std::vector<StageMessages>>
costMessages(const Placement &placement, llvm::ArrayRef<MessageBytes> bytes,
             const SystemFacts &system) {
  std::vector<StageMessages> messages(bytes.size());
  RankLayout layout(system, placement.getNumWorkers());
  auto assign = [&](int64_t size, NetworkLevel level,
                    MessageCost &message) -> llvm::Error {
    llvm::Expected<MessageCost> cost =
        hockney(size, linkOfWorker(level, system));
    if (!cost)
      return cost.takeError();
    message = *cost;
    return llvm::Error::success();
  };
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path);
    int64_t last = first + placement.getNumStages(path) - 1;
    auto levelAfter = [&](int64_t stage) {
      return stage >= first && stage < last
                 ? layout.levelOf(placement.workerOf(stage),
                                  placement.workerOf(stage + 1))
                 : NetworkLevel::Network;
    };
    for (int64_t stage = first; stage <= last; ++stage) {
      StageMessages &own = messages[stage];
      if (auto error = assign(bytes[stage].activation, levelAfter(stage),
                              own.activation))
        return std::move(error);
      if (auto error = assign(bytes[stage].gradient, levelAfter(stage - 1),
                              own.gradient))
        return std::move(error);
    }
  }
  return messages;
}

/// The messages of edges, if there are others than chains.
static llvm::Expected<std::vector<EdgeCost>>
costEdges(const Placement &placement, llvm::ArrayRef<MessageBytes> messages,
          const SystemFacts &system) {
  std::vector<EdgeCost> edges;
  if (placement.getAdded().isEmpty())
    return edges;
  RankLayout layout(system, placement.getNumWorkers());
  for (const EdgeBytes &bytes : bytesOfEdges(placement, messages)) {
    LinkFacts link = linkOfWorker(layout.levelOf(placement.workerOf(bytes.from),
                                                 placement.workerOf(bytes.to)),
                                  system);
    llvm::Expected<MessageCost> tensor = hockney(bytes.activation, link);
    if (!tensor)
      return tensor.takeError();
    llvm::Expected<MessageCost> gradient = hockney(bytes.gradient, link);
    if (!gradient)
      return gradient.takeError();
    edges.push_back({{{*tensor, *gradient}, {}}, bytes.from, bytes.to});
  }
  return edges;
}

namespace {
/// The inputs for the costs of a slice, except its model.
struct RooflineInputs {
  const Placement &placement;
  const SystemFacts &system;
  PhaseSet phases;
  llvm::ArrayRef<StageBlocks> blocks, owned;
  const MemoryFacts &memory, &stepped;
  /// The partners with which cells balance their attention, by stage and slice;
  /// empty: none.
  std::vector<SlicePartner> partners = {};
};

/// The builders of the costs of one slice: one for each slice with which it
/// balances its attention, on any worker.
class SliceBuilders {
public:
  SliceBuilders(const RooflineInputs &inputs, const ModelFacts &whole,
                llvm::ArrayRef<TokenSpan> slices, int64_t slice)
      : inputs(inputs), whole(whole), slices(slices), slice(slice) {}

  const StageCostBuilder &of(int64_t partner) {
    std::unique_ptr<Made> &made = byPartner[partner];
    if (!made)
      made = std::make_unique<Made>(modelOf(partner), bytesOf(partner), inputs);
    return made->builder;
  }
  /// The model of only the slice.
  const ModelFacts &model() {
    (void)of(-1);
    return byPartner[-1]->model;
  }

private:
  struct Made {
    Made(ModelFacts facts, std::vector<PhaseMap<int64_t>> bytes,
         const RooflineInputs &inputs)
        : model(std::move(facts)),
          builder(model, inputs.system, inputs.phases, std::move(bytes)) {}
    ModelFacts model;
    StageCostBuilder builder;
  };

  ModelFacts modelOf(int64_t partner) const {
    if (slices.size() == 1)
      return whole;
    return takeSlice(whole, slices[slice],
                     partner < 0 ? nullptr : &slices[partner]);
  }
  std::vector<PhaseMap<int64_t>> bytesOf(int64_t partner) const {
    std::vector<PhaseMap<int64_t>> bytes;
    if (partner >= 0)
      for (const BlockFacts &block : whole.blocks)
        bytes.push_back(
            exchangedBytes(whole, block, slices[slice], slices[partner]));
    return bytes;
  }

  const RooflineInputs &inputs;
  const ModelFacts &whole;
  llvm::ArrayRef<TokenSpan> slices;
  int64_t slice;
  std::map<int64_t, std::unique_ptr<Made>> byPartner; ///< -1: no partner
};
} // namespace

static llvm::Error costSlice(const RooflineInputs &inputs,
                             const ModelFacts &whole,
                             llvm::ArrayRef<TokenSpan> slices, int64_t slice,
                             StageCosts &stageCosts) {
  SliceBuilders builders(inputs, whole, slices, slice);
  RankLayout layout(inputs.system, inputs.placement.getNumWorkers());
  for (auto [stage, cost] : llvm::enumerate(stageCosts.stages)) {
    const StageBlocks &held = inputs.blocks[stage];
    int64_t worker = inputs.placement.workerOf(stage);
    SlicePartner partner;
    if (!inputs.partners.empty())
      partner = inputs.partners[stage * slices.size() + slice];
    LinkFacts link;
    if (partner.worker >= 0)
      link =
          linkOfWorker(layout.levelOf(worker, partner.worker), inputs.system);
    if (partner.worker >= 0 && link.bytesPerSecond <= 0)
      return makeError("the system has no network between workers");
    const StageCostBuilder &builder = builders.of(partner.slice);
    if (auto error = builder.cost(
            held, inputs.owned[stage], inputs.memory.memoryOf(stage, slice),
            inputs.stepped.stages[stage], partner.worker < 0 ? nullptr : &link,
            cost.cells, slice))
      return error;
    if (auto error = builder.shard(held, layout, worker, cost.cells, slice))
      return error;
  }
  const ModelFacts &model = builders.model();
  llvm::Expected<std::vector<StageMessages>> messages = costMessages(
      inputs.placement, messagesOfStages(model, inputs.blocks), inputs.system);
  if (!messages)
    return messages.takeError();
  for (auto [cost, own] : llvm::zip_equal(stageCosts.stages, *messages)) {
    if (slice == 0)
      static_cast<StageMessages &>(cost) = own;
    if (cost.cells.getNumSlices() > 1)
      cost.messagesOfSlices.push_back(std::move(own));
  }
  return llvm::Error::success();
}

/// Returns the costs by slice. If messages are equal for all slices, they are
/// stored once.
static llvm::Expected<StageCosts> costSlices(const RooflineInputs &inputs,
                                             llvm::ArrayRef<TokenSpan> slices,
                                             const ModelFacts &model) {
  StageCosts stageCosts;
  stageCosts.stages.resize(inputs.blocks.size());
  for (StageCost &cost : stageCosts.stages)
    cost.cells = CellCosts(slices.size());
  for (size_t slice = 0; slice < slices.size(); ++slice)
    if (auto error = costSlice(inputs, model, slices, slice, stageCosts))
      return std::move(error);
  for (StageCost &cost : stageCosts.stages)
    if (llvm::all_equal(cost.messagesOfSlices))
      cost.messagesOfSlices.clear();
  return stageCosts;
}

/// Finds the partners with which cells balance their attention, if they do.
static llvm::Error addPartners(const ModelFacts &model,
                               llvm::ArrayRef<TokenSpan> slices,
                               RooflineInputs &inputs) {
  if (inputs.system.sliceExchange == SliceExchange::None || slices.size() == 1)
    return llvm::Error::success();
  for (const BlockFacts &block : model.blocks)
    if (keepsScores(block))
      return makeError("slice-exchange=pairs needs an attention kernel that "
                       "keeps no scores, such as attention=fused, and block '" +
                       Twine(block.name) + "' of model '" + model.name +
                       "' keeps them");
  llvm::Expected<std::vector<SlicePartner>> partners =
      pairSlices(inputs.placement, slices);
  if (!partners)
    return partners.takeError();
  inputs.partners = std::move(*partners);
  return llvm::Error::success();
}

llvm::Expected<StageCosts>
pipesched::costWithoutShards(const Placement &placement,
                             const ModelFacts &model, const SystemFacts &system,
                             PhaseSet phases) {
  if (llvm::Error error = checkSystem(model, system))
    return std::move(error);
  if (llvm::Error error = checkBackwards(model, phases))
    return std::move(error);
  llvm::Expected<std::vector<TokenSpan>> slices =
      cutSequence(model, placement.getNumSlices(), &system);
  if (!slices)
    return slices.takeError();
  // Ranks that shard the state of parameters update each parameter once. Other
  // shared data makes no difference.
  SystemFacts stepping = system;
  if (system.sharding != Sharding::None) {
    stepping.sharding = Sharding::Optimizer;
    stepping.contextParallel = stepping.expertParallel = 1;
  }
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  llvm::Expected<std::vector<StageBlocks>> owned =
      ownedBlocksOfStages(placement, model, *blocks);
  if (!owned)
    return owned.takeError();
  llvm::Expected<MemoryFacts> memory =
      computeMemoryWithoutShards(placement, model, &system, phases);
  if (!memory)
    return memory.takeError();
  llvm::Expected<MemoryFacts> stepped =
      stepping == system
          ? llvm::Expected<MemoryFacts>(*memory)
          : computeMemoryWithoutShards(placement, model, &stepping, phases);
  if (!stepped)
    return stepped.takeError();
  RooflineInputs inputs = {placement, system,  phases,  *blocks,
                           *owned,    *memory, *stepped};
  if (llvm::Error error = addPartners(model, *slices, inputs))
    return std::move(error);
  llvm::Expected<StageCosts> stageCosts = costSlices(inputs, *slices, model);
  if (!stageCosts)
    return stageCosts;
  if (auto error =
          costEdges(placement, messagesOfStages(model, *blocks), system)
              .moveInto(stageCosts->edges))
    return std::move(error);
  if (auto error = addPairTimes(model, system, phases, *blocks, *stageCosts))
    return std::move(error);
  if (phases.contains(Phase::AllReduce))
    if (auto error = costStageReductions(
            placement,
            [&](llvm::ArrayRef<Reduction> reductions) {
              return costReductions(placement, reductions, model, system);
            },
            *stageCosts))
      return std::move(error);
  return stageCosts;
}
