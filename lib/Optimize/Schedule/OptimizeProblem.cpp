//===- OptimizeProblem.cpp - Problems from costs --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills a problem with times, then with memory.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using optimize::Problem;
using optimize::StageFacts;

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

static bool isTimed(const CostInputs &costs, Phase phase) {
  return costs.profile && !costs.profile->phasePs[phase].empty();
}

static bool givesCopies(const CostInputs &costs) {
  if (costs.model && costs.system)
    return true; // if it is too large, computeStageCosts reports the error
  return isTimed(costs, Phase::Offload) && isTimed(costs, Phase::Reload);
}

static Error checkCosts(const CostInputs &costs,
                        const optimize::Techniques &techniques) {
  if (costs.profile && costs.profile->variesByMicrobatch())
    return formatError("has times by microbatch, and a search takes all "
                       "microbatches to be equal");
  if (techniques.offload && !givesCopies(costs))
    return formatError("has no times for offload: a profile gives D and U, or "
                       "model and system do");
  if (techniques.splitBackward && isTimed(costs, Phase::Backward) &&
      !isTimed(costs, Phase::InputGrad) && !isTimed(costs, Phase::WeightGrad))
    return formatError("has a profile that gives only B, and the optimizer "
                       "splits backwards: give I and W, or "
                       "split-backward=false (--no-split-backward) to keep "
                       "them whole");
  if (techniques.recompute && costs.model &&
      costs.model->recompute != Recompute::None)
    return formatError("has model '{0}', whose backwards recompute by "
                       "themselves; with recompute=none the optimizer decides "
                       "which do",
                       costs.model->name);
  return Error::success();
}

/// A D frees the output of its F, so it waits until the output is sent: under
/// transport `delay`, until it has arrived.
static void delayOffloads(Problem &problem) {
  const Placement &placement = problem.placement;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t s = 1; s < placement.getNumStages(path); ++s) {
      int64_t next = placement.stageOffset(path) + s;
      StageFacts &stage = problem.stages[next - 1];
      if (placement.workerOf(next - 1) != placement.workerOf(next))
        stage.offloadDelay = stage.activationDelay;
    }
}

namespace {
/// A global stage of a placement together with a slice of its microbatches: one
/// stage of the problem.
struct SlicedStage {
  int64_t stage, slice;
};
} // namespace

/// Lists the stages of the problem: by path, slice and stage of the path.
static std::vector<SlicedStage> placesOf(const Placement &placement) {
  std::vector<SlicedStage> places;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t slice = 0; slice < placement.getNumSlices(); ++slice)
      for (int64_t s = 0; s < placement.getNumStages(path); ++s)
        places.push_back({placement.stageOffset(path) + s, slice});
  return places;
}

static Error addCellTimes(const Placement &placement, const CostInputs &costs,
                          Problem &problem) {
  bool isSplit = problem.techniques.splitBackward;
  if (costs.model && costs.system && placement.getNumSlices() > 1 &&
      costs.system->sliceExchange != SliceExchange::None)
    return formatError("has slice-exchange={0}, which needs workers that "
                       "compute successive slices at the same time, as in "
                       "slimpipe; a search orders them freely",
                       enumName(costs.system->sliceExchange));
  Expected<StageCosts> stageCosts = computeStageCosts(
      placement, costs, problem.techniques.phases() & kCostedPhases);
  if (!stageCosts)
    return stageCosts.takeError();
  for (auto [index, place] : llvm::enumerate(placesOf(placement))) {
    const StageCost &cost = stageCosts->stages[place.stage];
    int64_t slice = cost.cells.getNumSlices() == 1 ? 0 : place.slice;
    auto of = [&](Phase phase) { return cost.cells.alonePs(phase, slice); };
    const MessageCost &activation = cost.message(Flow::Activation, place.slice);
    const MessageCost &gradient = cost.message(Flow::Gradient, place.slice);
    StageFacts &stage = problem.stages[index];
    stage.forward = of(Phase::Forward);
    stage.inputGrad = of(isSplit ? Phase::InputGrad : Phase::Backward);
    stage.weightGrad = isSplit ? of(Phase::WeightGrad) : 0;
    stage.recompute = problem.techniques.recompute ? of(Phase::Recompute) : 0;
    stage.offload = problem.techniques.offload ? of(Phase::Offload) : 0;
    stage.reload = problem.techniques.offload ? of(Phase::Reload) : 0;
    if (llvm::AddOverflow(activation.occupancyPs, activation.latencyPs,
                          stage.activationDelay) ||
        llvm::AddOverflow(gradient.occupancyPs, gradient.latencyPs,
                          stage.gradientDelay))
      return formatError("has a message of more than 2^63 - 1 ps");
  }
  // If W takes no time, a separate W gains nothing: right after its I it frees
  // the rest as early as possible.
  if (llvm::all_of(problem.stages, [](const StageFacts &stage) {
        return stage.weightGrad == 0;
      }))
    problem.techniques.splitBackward = false;
  delayOffloads(problem);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

std::optional<MemoryBudget>
pipesched::budgetFor(const CostInputs &costs, const ProblemOptions &options) {
  if (options.memory)
    return options.memory;
  if (costs.model && costs.system && costs.system->memoryBytes > 0)
    return MemoryBudget{MemoryBudget::Unit::System, 0};
  return std::nullopt;
}

/// Counts each activation as one unit, with room for `most` of them or for all.
static void countActivations(std::optional<int64_t> most, Problem &problem) {
  for (StageFacts &stage : problem.stages)
    stage.activation = 1;
  const Placement &placement = problem.placement;
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    problem.capacity.push_back(
        most.value_or(placement.getNumLocalPairs(worker)));
}

static Expected<int64_t> bytesOf(const MemoryBudget &budget,
                                 const CostInputs &costs,
                                 const MemoryFacts &facts) {
  if (budget.unit == MemoryBudget::Unit::Bytes)
    return budget.amount;
  if (!costs.system)
    return formatError("has no system, whose memory is to be the budget");
  if (facts.capacityBytes == 0)
    return formatError("has a system, '{0}', that does not say how much memory "
                       "it has",
                       costs.system->name);
  return facts.capacityBytes;
}

/// Sets the capacity: the part of the budget that remains for activations.
static Error addCapacity(const Placement &placement, const MemoryFacts &facts,
                         int64_t budget, Problem &problem) {
  int64_t numWorkers = placement.getNumWorkers();
  std::vector<CheckedInt> persistent(numWorkers, 0);
  std::vector<int64_t> working(numWorkers, 0);
  for (auto [index, stage] : llvm::enumerate(facts.stages))
    persistent[placement.workerOf(index)] += CheckedInt(stage.weightBytes) +
                                             stage.gradientBytes +
                                             stage.optimizerBytes;
  // Gradients that a backward leaves to other slices are counted slice by
  // slice.
  for (SlicedStage place : placesOf(placement)) {
    const StageMemory &stage = facts.memoryOf(place.stage, place.slice);
    int64_t own =
        stage.workingBytes - std::max<int64_t>(stage.leftForSlicesBytes, 0);
    int64_t &most = working[placement.workerOf(place.stage)];
    most = std::max(most, own);
  }
  for (int64_t worker = 0; worker < numWorkers; ++worker) {
    CheckedInt fixed = persistent[worker] + working[worker];
    if (!fixed.isValid() || fixed.get() > budget)
      return formatError(
          "worker {0} needs {1} bytes for weights, gradients and "
          "optimizer state, and {2} in its backwards, of a budget "
          "of {3}: nothing is left for activations",
          worker, persistent[worker].get(), working[worker], budget);
    problem.capacity.push_back(budget - fixed.get());
  }
  return Error::success();
}

static Error addMemory(const Placement &placement, const CostInputs &costs,
                       const std::optional<MemoryBudget> &budget,
                       Problem &problem) {
  if (!budget || budget->unit == MemoryBudget::Unit::Activations) {
    countActivations(budget ? std::optional(budget->amount) : std::nullopt,
                     problem);
    return Error::success();
  }
  if (!costs.model)
    return formatError("has no model, which a memory budget in bytes needs; a "
                       "number without a unit counts activations");
  PhaseSet phases = problem.techniques.phases() & kCostedPhases;
  Expected<MemoryFacts> facts =
      computeMemoryFacts(placement, costs.modelFor(phases),
                         costs.system ? &*costs.system : nullptr, phases);
  if (!facts)
    return facts.takeError();
  for (auto [stage, place] :
       llvm::zip_equal(problem.stages, placesOf(placement))) {
    const StageMemory &memory = facts->memoryOf(place.stage, place.slice);
    stage.leftForSlices = memory.leftForSlicesBytes;
    stage.activation = memory.activationBytes;
    if (problem.techniques.splitBackward)
      stage.freedByInputGrad = memory.inputGradFreedBytes;
    if (problem.techniques.recompute)
      stage.checkpoint = memory.boundaryBytes;
  }
  Expected<int64_t> bytes = bytesOf(*budget, costs, *facts);
  if (!bytes)
    return bytes.takeError();
  return addCapacity(placement, *facts, *bytes, problem);
}

Expected<Problem> pipesched::makeProblem(const Placement &placement,
                                         const CostInputs &costs,
                                         const ProblemOptions &options) {
  if (Error error = placement.checkTrainsAll("the optimizer takes"))
    return std::move(error);
  Expected<Placement> divided = optimize::divideSlices(placement);
  if (!divided)
    return divided.takeError();
  Problem problem;
  problem.placement = std::move(*divided);
  problem.numSlices = placement.getNumSlices();
  problem.stages.resize(problem.placement.getNumGlobalStages());
  problem.gradientAfter = options.gradientAfter;
  problem.techniques = options.techniques;
  problem.objective = options.objective;
  problem.memoryTimes = options.memoryTimes;
  if (Error error = checkCosts(costs, options.techniques))
    return std::move(error);
  if (Error error = addCellTimes(placement, costs, problem))
    return std::move(error);
  if (Error error =
          addMemory(placement, costs, budgetFor(costs, options), problem))
    return std::move(error);
  return problem;
}
