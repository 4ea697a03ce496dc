//===- ProfileCosts.cpp - Costs from measured times -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns profiled times and unit slots into costs of stages.
//
//===----------------------------------------------------------------------===//

#include "Kernels/BlockTimes.h"
#include "Layers/Sharding.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <utility>

using namespace pipesched;
using llvm::Twine;

static constexpr int64_t kSlotPs = 1000000;

llvm::Expected<StageCosts> pipesched::costUnit(const Placement &placement) {
  llvm::Expected<std::vector<int64_t>> lengths = stageLengths(placement);
  if (!lengths)
    return lengths.takeError();
  StageCosts stageCosts;
  stageCosts.stages.resize(lengths->size());
  for (auto [stage, cost] : llvm::enumerate(stageCosts.stages)) {
    int64_t length = (*lengths)[stage];
    if (stage != 0 && length == (*lengths)[stage - 1]) {
      cost = stageCosts.stages[stage - 1];
      continue;
    }
    for (const EnumName<Phase> &phase : enumValues<Phase>()) {
      int64_t ps = 0;
      int64_t slices =
          kPerPathPhases.contains(phase.value) ? 1 : placement.getNumSlices();
      if (llvm::MulOverflow(traitsOf(phase.value).unitSlots * kSlotPs / slices,
                            length, ps))
        return makeError("a stage of " + Twine(length) +
                         " slots of 1 us takes more than 2^63 - 1 ps");
      cost.cells.set(phase.value, ps);
    }
  }
  return stageCosts;
}

/// Checks that a list has one time, or one for each stage of every path.
static llvm::Error checkLength(const Placement &placement,
                               const std::vector<int64_t> &times,
                               llvm::StringRef name) {
  if (times.size() <= 1)
    return llvm::Error::success();
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t stages = placement.getNumStages(path);
    if (int64_t(times.size()) != stages)
      return makeError("the profile's " + name + " has " + Twine(times.size()) +
                       " times, expected one or one for each of the " +
                       Twine(stages) + " stages of path " + Twine(path));
  }
  return llvm::Error::success();
}

static llvm::Error checkLengths(const Placement &placement,
                                const Profile &profile) {
  for (const EnumName<Phase> &phase : enumValues<Phase>())
    if (auto error =
            checkLength(placement, profile.phasePs[phase.value], phase.name))
      return error;
  if (auto error = checkLength(placement, profile.overlappedPs, "FB"))
    return error;
  if (auto error = checkLength(placement, profile.commPs, "comm"))
    return error;
  return checkLength(placement, profile.sendPs, "send");
}

/// The time of a stage in a list that passed checkLength; absent if the list is
/// empty.
static std::optional<int64_t> timeAt(const std::vector<int64_t> &times,
                                     int64_t stage) {
  if (times.empty())
    return std::nullopt;
  return times.size() == 1 ? times.front() : times[stage];
}

/// Divides a time of a whole microbatch among its slices, in proportion to
/// their costs so far, but evenly for weights. O and G do not belong to a
/// slice.
static std::vector<int64_t> divideAmongSlices(Phase phase, int64_t ps,
                                              const CellCosts &cells) {
  int64_t numSlices = cells.getNumSlices();
  std::vector<int64_t> shares(numSlices, ps);
  if (numSlices == 1 || kPerPathPhases.contains(phase))
    return shares;
  auto costOf = [&](int64_t slice) {
    return cells.alonePs(phase, slice) -
           cells.on(Resource::Sharding, phase, slice).exposedPs;
  };
  __int128 all = 0, before = 0;
  for (int64_t slice = 0; slice < numSlices; ++slice)
    all += costOf(slice);
  int64_t given = 0;
  for (auto [slice, share] : llvm::enumerate(shares)) {
    before += all == 0 ? 1 : costOf(slice);
    __int128 whole = all == 0 ? numSlices : all;
    int64_t upTo = static_cast<int64_t>(ps * before / whole);
    share = upTo - std::exchange(given, upTo);
  }
  return shares;
}

namespace {
/// The number of blocks of a stage that it owns.
struct StageShare {
  int64_t numOwned = 1, numHeld = 1;
};

/// Replaces the costs of one stage by its profile.
class StageProfile {
public:
  StageProfile(const Profile &profile, int64_t stage, StageShare blocks,
               Recompute recompute, bool hasOtherCosts)
      : profile(profile), stage(stage), blocks(blocks), recompute(recompute),
        hasOtherCosts(hasOtherCosts) {}

  llvm::Error apply(StageCost &cost, PhaseSet phases) const {
    applyForward(cost);
    if (auto error = applyBackward(cost, phases))
      return error;
    (kCostedPhases - kForwardPhases - kBackwardPhases)
        .forEach([&](Phase phase) {
          if (std::optional<int64_t> ps = given(phase))
            measured(phase,
                     kPerPathPhases.contains(phase)
                         ? portionOf(*ps, blocks.numOwned, blocks.numHeld)
                         : *ps,
                     cost);
        });
    if (std::optional<int64_t> pair = timeAt(profile.overlappedPs, stage))
      cost.overlappedPs = *pair / cost.cells.getNumSlices();
    applyMessages(cost);
    if (phases.contains(Phase::Forward) && !hasOtherCosts &&
        !given(Phase::Forward))
      return makeError("the schedule has F, the profile gives no F");
    if (phases.contains(Phase::Recompute) && !hasOtherCosts && isSelective() &&
        !given(Phase::Recompute))
      return makeError("the schedule recomputes selectively, the profile gives "
                       "no R");
    return llvm::Error::success();
  }

private:
  std::optional<int64_t> given(Phase phase) const {
    return timeAt(profile.phasePs[phase], stage);
  }

  void applyForward(StageCost &cost) const {
    std::optional<int64_t> forward = given(Phase::Forward);
    std::optional<int64_t> again = given(Phase::Recompute);
    if (forward)
      measured(Phase::Forward, *forward, cost);
    if (!again && !isSelective())
      again = forward;
    if (again)
      measured(Phase::Recompute, *again, cost);
  }

  /// A measured time shows neither for which data a cell waits, nor when rows,
  /// keys or values are sent.
  static void measured(Phase phase, int64_t ps, StageCost &cost) {
    std::vector<int64_t> shares = divideAmongSlices(phase, ps, cost.cells);
    for (auto [slice, share] : llvm::enumerate(shares))
      cost.cells.set(phase, share, slice);
  }

  /// Whether R runs only a part of F.
  bool isSelective() const { return recompute == Recompute::Selective; }

  llvm::Error applyBackward(StageCost &cost, PhaseSet phases) const;

  void applyMessages(StageCost &cost) const {
    if (profile.commPs.empty() && profile.sendPs.empty())
      return;
    auto apply = [&](StageMessages &messages) {
      int64_t slices = cost.cells.getNumSlices();
      for (MessageCost *message : {&messages.activation, &messages.gradient}) {
        message->latencyPs = timeAt(profile.commPs, stage).value_or(0) / slices;
        message->occupancyPs =
            timeAt(profile.sendPs, stage).value_or(0) / slices;
      }
    };
    apply(cost);
    llvm::for_each(cost.messagesOfSlices, apply);
  }

  const Profile &profile;
  int64_t stage;
  StageShare blocks;
  Recompute recompute;
  bool hasOtherCosts;
};
} // namespace

/// Returns an error such as "the schedule has I and W, the profile does not
/// give I and W".
static llvm::Error missingBackward(PhaseSet missing, bool hasWhole) {
  std::string names = describePhases(missing, " and ");
  if (hasWhole && (kSplitBackward - missing).isEmpty())
    return makeError("the schedule has split backward cells, the profile gives "
                     "only B; give I and W");
  return makeError("the schedule has " + Twine(names) +
                   ", the profile does not give " + names);
}

llvm::Error StageProfile::applyBackward(StageCost &cost,
                                        PhaseSet phases) const {
  std::optional<int64_t> whole = given(Phase::Backward);
  std::optional<int64_t> inputGrad = given(Phase::InputGrad);
  std::optional<int64_t> weightGrad = given(Phase::WeightGrad);
  if (!whole && !inputGrad && !weightGrad && hasOtherCosts)
    return llvm::Error::success();

  if (!whole && inputGrad && weightGrad) {
    int64_t sum;
    if (llvm::AddOverflow(*inputGrad, *weightGrad, sum))
      return makeError("the profile's I + W is over 2^63 - 1 ps");
    whole = sum;
  }
  PhaseSet missing;
  auto apply = [&](Phase phase, std::optional<int64_t> ps) {
    measured(phase, ps.value_or(0), cost);
    if (!ps)
      missing |= phases & phase;
  };
  apply(Phase::Backward, whole);
  apply(Phase::InputGrad, inputGrad);
  apply(Phase::WeightGrad, weightGrad);
  if (missing.isEmpty())
    return llvm::Error::success();
  // B is the sum of I and W, so if only one of the two is given, the other is
  // missing.
  if (missing.contains(Phase::Backward) && (inputGrad || weightGrad))
    missing |= inputGrad ? Phase::WeightGrad : Phase::InputGrad;
  return missingBackward(missing, whole.has_value());
}

/// The shares of all stages, if the profile has times that need them: O and G
/// are measured for all blocks of a stage, but run only for blocks that it
/// owns.
static llvm::Expected<std::vector<StageShare>>
sharesOf(const Placement &placement, const Profile &profile) {
  std::vector<StageShare> shares(placement.getNumGlobalStages());
  if (placement.getNumPaths() == 1 ||
      (profile.phasePs[Phase::Optimizer].empty() &&
       profile.phasePs[Phase::AllReduce].empty()))
    return shares;
  llvm::Expected<ParameterSets> sets = ParameterSets::create(placement);
  if (!sets)
    return sets.takeError();
  for (auto [stage, share] : llvm::enumerate(shares))
    if (!sets->ownsAll(stage))
      share = {sets->ownedBlocksOf(stage).size(),
               sets->getReplicas().blocksOfStage(stage).size()};
  return shares;
}

/// Each tensor takes the time of a message of its stage. Where stages are in
/// lines, a message has one tensor, so that its stage has its time.
static void applyToEdges(const Placement &placement, const Profile &profile,
                         StageCosts &stageCosts) {
  std::vector<EdgeCost> &edges = stageCosts.edges;
  if (edges.empty() && !placement.getEdges().areLines())
    edges = edgesOfStages(placement, stageCosts.stages);
  if (profile.commPs.empty() && profile.sendPs.empty())
    return;
  for (EdgeCost &edge : edges) {
    MessageCost &tensor = edge.activation, &gradient = edge.gradient;
    const MessageCost &output = stageCosts.stages[edge.from].activation;
    const MessageCost &back = stageCosts.stages[edge.to].gradient;
    tensor = {output.occupancyPs, output.latencyPs, tensor.bytes};
    gradient = {back.occupancyPs, back.latencyPs, gradient.bytes};
  }
}

static llvm::Expected<StageCosts>
applyProfile(const Placement &placement, StageCosts stageCosts,
             const Profile &profile, PhaseSet phases, Recompute recompute,
             bool hasOtherCosts) {
  if (auto error = checkLengths(placement, profile))
    return std::move(error);
  llvm::Expected<std::vector<StageShare>> shares = sharesOf(placement, profile);
  if (!shares)
    return shares.takeError();
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage) {
      int64_t global = placement.stageOffset(path) + stage;
      StageProfile stageProfile(profile, stage, (*shares)[global], recompute,
                                hasOtherCosts);
      if (auto error = stageProfile.apply(stageCosts.stages[global], phases))
        return std::move(error);
    }
  applyToEdges(placement, profile, stageCosts);
  return stageCosts;
}

llvm::Expected<StageCosts> pipesched::costProfile(const Placement &placement,
                                                  const Profile &profile,
                                                  PhaseSet phases,
                                                  Recompute recompute) {
  StageCosts stageCosts;
  stageCosts.stages.resize(placement.getNumGlobalStages());
  for (StageCost &cost : stageCosts.stages)
    cost.cells = CellCosts(placement.getNumSlices());
  return applyProfile(placement, std::move(stageCosts), profile, phases,
                      recompute,
                      /*hasOtherCosts=*/false);
}

llvm::Expected<StageCosts> pipesched::overlayProfile(const Placement &placement,
                                                     StageCosts stageCosts,
                                                     const Profile &profile,
                                                     PhaseSet phases,
                                                     Recompute recompute) {
  // For measured phases, the times of the parts of layers are unknown.
  for (Phase phase :
       {Phase::Forward, Phase::Backward, Phase::InputGrad, Phase::WeightGrad})
    if (!profile.phasePs[phase].empty())
      stageCosts.pairTimes.reset();
  if (!profile.overlappedPs.empty())
    stageCosts.pairTimes.reset();
  return applyProfile(placement, std::move(stageCosts), profile, phases,
                      recompute,
                      /*hasOtherCosts=*/true);
}

/// The phases of blocks whose times are replaced by a profile.
static PhaseSet phasesReplacedBy(const Profile &profile, Recompute recompute) {
  auto gives = [&](Phase phase) { return !profile.phasePs[phase].empty(); };
  PhaseSet replaced;
  if (gives(Phase::Forward))
    replaced |= Phase::Forward;
  if (gives(Phase::Recompute) ||
      (gives(Phase::Forward) && recompute != Recompute::Selective))
    replaced |= Phase::Recompute;
  PhaseSet backwards = kSplitBackward | PhaseSet(Phase::Backward);
  bool anyBackward = false;
  backwards.forEach([&](Phase phase) { anyBackward |= gives(phase); });
  return anyBackward ? replaced | backwards : replaced;
}

llvm::Error pipesched::shardMeasured(const Placement &placement,
                                     const ModelFacts &model,
                                     const SystemFacts &system,
                                     const Profile &profile, PhaseSet phases,
                                     StageCosts &stageCosts) {
  if (!movesInCells(system))
    return llvm::Error::success();
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  std::vector<BlockTimes> times = timesOfBlocks(model, system);
  RankLayout layout(system, placement.getNumWorkers());
  auto timeOf = [&](uint32_t block, Phase phase) {
    return times[block].of(phase);
  };
  ShardedCells measured = {phasesReplacedBy(profile, model.recompute) & phases,
                           model.recompute != Recompute::None &&
                               !phases.contains(Phase::Recompute),
                           timeOf, /*isMeasured=*/true};
  for (auto [stage, cost] : llvm::enumerate(stageCosts.stages)) {
    int64_t numSlices = cost.cells.getNumSlices();
    CheckedInt pairPs = 0;
    for (int64_t slice = 0; slice < numSlices; ++slice) {
      if (llvm::Error error = shardCells((*blocks)[stage], model, system,
                                         layout, placement.workerOf(stage),
                                         measured, cost.cells, slice))
        return error;
      for (Phase phase : {Phase::Forward, Phase::Backward})
        pairPs += cost.cells.on(Resource::Sharding, phase, slice).exposedPs;
    }
    if (!cost.overlappedPs)
      continue;
    pairPs += CheckedInt(*cost.overlappedPs) * numSlices;
    if (!pairPs.isValid())
      return makeError("FB and what it waits for take more than 2^63 - 1 ps");
    cost.overlappedPs = pairPs.get() / numSlices;
  }
  return llvm::Error::success();
}
