//===- OptimizeProblem.cpp - Problems from costs --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills a problem with times, then with memory.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/OptimizeProblem.h"
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
    return true; // otherwise computeStageCosts reports the error
  return isTimed(costs, Phase::Offload) && isTimed(costs, Phase::Reload);
}

static Error checkCosts(const CostInputs &costs,
                        const optimize::Techniques &techniques) {
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

/// A D frees the output of its F, so it waits until that has been sent: under
/// transport `delay`, until it has arrived.
static void delayOffloads(const Placement &placement, Problem &problem) {
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t s = 1; s < placement.getNumStages(path); ++s) {
      int64_t next = placement.stageOffset(path) + s;
      StageFacts &stage = problem.stages[next - 1];
      if (placement.workerOf(next - 1) != placement.workerOf(next))
        stage.offloadDelay = stage.activationDelay;
    }
}

static Error addTimes(const Placement &placement, const CostInputs &costs,
                      Problem &problem) {
  bool isSplit = problem.techniques.splitBackward;
  Expected<StageCosts> stageCosts = computeStageCosts(
      placement, costs, problem.techniques.phases() & kCostedPhases);
  if (!stageCosts)
    return stageCosts.takeError();
  for (const StageCost &cost : stageCosts->stages) {
    auto of = [&](Phase phase) { return cost.cells.alonePs(phase); };
    StageFacts &stage = problem.stages.emplace_back();
    stage.forward = of(Phase::Forward);
    stage.inputGrad = of(isSplit ? Phase::InputGrad : Phase::Backward);
    stage.weightGrad = isSplit ? of(Phase::WeightGrad) : 0;
    stage.recompute = problem.techniques.recompute ? of(Phase::Recompute) : 0;
    stage.offload = problem.techniques.offload ? of(Phase::Offload) : 0;
    stage.reload = problem.techniques.offload ? of(Phase::Reload) : 0;
    if (llvm::AddOverflow(cost.activation.occupancyPs,
                          cost.activation.latencyPs, stage.activationDelay) ||
        llvm::AddOverflow(cost.gradient.occupancyPs, cost.gradient.latencyPs,
                          stage.gradientDelay))
      return formatError("has a message of more than 2^63 - 1 ps");
  }
  delayOffloads(placement, problem);
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

/// Counts each activation as one, with room for `most` of them or for all.
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

/// Sets the capacity: the part of the budget that is left for activations.
static Error addCapacity(const MemoryFacts &facts, int64_t budget,
                         Problem &problem) {
  int64_t numWorkers = problem.placement.getNumWorkers();
  std::vector<CheckedInt> persistent(numWorkers, 0);
  std::vector<int64_t> working(numWorkers, 0);
  for (auto [index, stage] : llvm::enumerate(facts.stages)) {
    int64_t worker = problem.placement.workerOf(index);
    persistent[worker] += CheckedInt(stage.weightBytes) + stage.gradientBytes +
                          stage.optimizerBytes;
    working[worker] = std::max(working[worker], stage.workingBytes);
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

static Error addMemory(const CostInputs &costs,
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
      computeMemoryFacts(problem.placement, costs.modelFor(phases),
                         costs.system ? &*costs.system : nullptr, phases);
  if (!facts)
    return facts.takeError();
  for (auto [stage, memory] : llvm::zip_equal(problem.stages, facts->stages)) {
    stage.activation = memory.activationBytes;
    if (problem.techniques.splitBackward)
      stage.freedByInputGrad = memory.inputGradFreedBytes;
    if (problem.techniques.recompute)
      stage.checkpoint = memory.boundaryBytes;
  }
  Expected<int64_t> bytes = bytesOf(*budget, costs, *facts);
  if (!bytes)
    return bytes.takeError();
  return addCapacity(*facts, *bytes, problem);
}

Expected<Problem> pipesched::makeProblem(const Placement &placement,
                                         const CostInputs &costs,
                                         const ProblemOptions &options) {
  if (placement.getNumSlices() > 1)
    return formatError(
        "has {0} slices of each microbatch; a search takes whole "
        "microbatches only",
        placement.getNumSlices());
  Problem problem;
  problem.placement = placement;
  problem.gradientAfter = options.gradientAfter;
  problem.techniques = options.techniques;
  problem.objective = options.objective;
  problem.memoryTimes = options.memoryTimes;
  if (Error error = checkCosts(costs, options.techniques))
    return std::move(error);
  if (Error error = addTimes(placement, costs, problem))
    return std::move(error);
  if (Error error = addMemory(costs, budgetFor(costs, options), problem))
    return std::move(error);
  return problem;
}
