//===- AddFormula.cpp - Level 1 of an evaluation --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A formula takes the times of one stage, so there are times for it only if all
// stages have the same.
//
//===----------------------------------------------------------------------===//

#include "AddFormula.h"
#include "PipeSched/Evaluation/Evaluate.h"

using namespace pipesched;

namespace {

/// The common value of a series, as long as all its values are equal.
class SharedValue {
public:
  void add(int64_t next) {
    isShared &= !value || *value == next;
    value = next;
  }
  bool holds() const { return isShared; }
  int64_t get() const { return value.value_or(0); }

private:
  std::optional<int64_t> value;
  bool isShared = true;
};

} // namespace

/// The delay of a message, if all hops between workers have the same.
static SharedValue sharedDelay(const Placement &placement,
                               const StageCosts &stageCosts) {
  SharedValue delay;
  auto add = [&](const MessageCost &message) {
    delay.add(message.occupancyPs + message.latencyPs);
  };
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path);
    int64_t last = first + placement.getPath(path).getNumStages() - 1;
    for (int64_t stage = first; stage < last; ++stage)
      if (placement.workerOf(stage) != placement.workerOf(stage + 1)) {
        add(stageCosts.stages[stage].activation);
        add(stageCosts.stages[stage + 1].gradient);
      }
  }
  return delay;
}

/// The times of one stage if all stages have the same. Formulas know only the
/// phases F, B, I and W, and the shards of a vocabulary: S, T and free
/// collectives.
static std::optional<FormulaInputs::Times>
uniformTimes(const Placement &placement, const StageCosts &stageCosts,
             PhaseSet phases, bool hasPairs) {
  if (!(phases - kBackwardPhases - Phase::Forward - kSpreadPhases).isEmpty())
    return std::nullopt;
  // What pairs of different stages take in order depends on all segments.
  if (stageCosts.pairRule == PairRule::InOrder &&
      stageCosts.useAny(Resource::Experts))
    return std::nullopt;
  bool isSplit = phases.intersects(kSplitBackward);
  bool usesWhole = phases.contains(Phase::Backward);
  SharedValue forward, inputGrad, weightGrad, overlapped, dispatches;
  SharedValue logits, logitsGrad;
  PhaseSet free = phases & (kDetachedPhases | kEmbeddingPhases);
  // Formulas know one time of pairs, whatever their stages.
  bool isTimed = hasPairs && stageCosts.pairTimes;
  if (isTimed)
    for (size_t stage = 0; stage < stageCosts.stages.size(); ++stage)
      overlapped.add(stageCosts.pairTimes->timeOf(0, int64_t(stage)).ps);
  auto add = [&](const StageCost &stage, int64_t slice) {
    auto of = [&](Phase phase) { return stage.cells.alonePs(phase, slice); };
    if (usesWhole && isSplit &&
        of(Phase::Backward) != of(Phase::InputGrad) + of(Phase::WeightGrad))
      return false;
    bool isFree = true;
    free.forEach([&](Phase phase) { isFree &= of(phase) == 0; });
    if (!isFree)
      return false;
    logits.add(of(Phase::Logits));
    logitsGrad.add(of(Phase::LogitsGrad));
    // I and W take together what a B takes.
    llvm::SmallVector<Segment, 8> backward;
    for (Phase phase : {Phase::Backward, Phase::InputGrad, Phase::WeightGrad})
      if (usesWhole == (phase == Phase::Backward))
        llvm::append_range(backward, stage.cells.of(phase, slice));
    if (!isTimed)
      overlapped.add(stage.overlappedPs.value_or(
          stageCosts.pairPs(stage.cells.of(Phase::Forward, slice), backward)));
    // Pairs of cells of different stages take the same only if they wait for
    // rows equally long.
    dispatches.add(
        stage.cells.on(Resource::Experts, Phase::Forward, slice).exposedPs);
    forward.add(of(Phase::Forward));
    inputGrad.add(of(isSplit ? Phase::InputGrad : Phase::Backward));
    weightGrad.add(isSplit ? of(Phase::WeightGrad) : 0);
    return true;
  };
  for (const StageCost &stage : stageCosts.stages)
    for (int64_t slice = 0; slice < stage.cells.getNumSlices(); ++slice)
      if (!add(stage, slice))
        return std::nullopt;
  SharedValue delay = sharedDelay(placement, stageCosts);
  for (const SharedValue &value : {forward, inputGrad, weightGrad, overlapped,
                                   dispatches, delay, logits, logitsGrad})
    if (!value.holds())
      return std::nullopt;
  return FormulaInputs::Times{
      forward.get(),    inputGrad.get(), weightGrad.get(), delay.get(),
      overlapped.get(), logits.get(),    logitsGrad.get()};
}

/// Whether cells overlap; true for rows that are not there.
static bool anyOverlap(const TableView &table) {
  return table.rows.empty() ||
         llvm::any_of(table.rows, [](llvm::ArrayRef<Cell> row) {
           return llvm::any_of(row,
                               [](Cell cell) { return cell.overlapsNext(); });
         });
}

/// Whether the slots of the rows are proportional to the times.
static bool isMadeFor(llvm::ArrayRef<StageSlots> slots, bool isSplit,
                      const FormulaInputs::Times &times) {
  auto isPart = [&](const StageSlots &stage) {
    auto of = [&](Phase phase) -> double { return stage.of(phase); };
    double forward = of(Phase::Forward), backward = of(Phase::Backward);
    double backwardPs = double(times.inputGradPs) + times.weightGradPs;
    return forward > 0 && forward * backwardPs == backward * times.forwardPs &&
           (!isSplit ||
            of(Phase::InputGrad) * backwardPs == backward * times.inputGradPs);
  };
  return !slots.empty() && llvm::all_of(slots, isPart);
}

/// A disturbed schedule has a formula for its slots, but none for its times.
void pipesched::addFormula(llvm::StringRef family, const FamilyOptions &options,
                           const TableView &table, PhaseSet phases,
                           bool isDisturbed, Evaluation &evaluation) {
  if (family.empty()) {
    evaluation.formulaReason = "the rows are of no known family";
    return;
  }
  const Placement &placement = *table.placement;
  FormulaInputs inputs = formulaInputsOf(placement, options);
  bool isSplit = phases.intersects(kSplitBackward);
  inputs.sendsAfterInput =
      isSplit && table.gradientAfter == GradientAfter::InputGrad;
  if (!isDisturbed)
    inputs.times = uniformTimes(placement, evaluation.totals.stageCosts, phases,
                                anyOverlap(table));
  inputs.isMadeForTimes =
      inputs.times && isMadeFor(table.slots, isSplit, *inputs.times);
  llvm::Expected<FormulaResult> formula =
      evaluateFormulaOfRows(family, placement, inputs);
  if (formula)
    evaluation.formula = std::move(*formula);
  else
    evaluation.formulaReason = llvm::toString(formula.takeError());
}
