//===- EvaluateTables.cpp - Evaluation of tables --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates a table by a walk over its rows if possible, with one walk for
// several scenarios, otherwise by a task graph.
//
//===----------------------------------------------------------------------===//

#include "CostPlacement.h"
#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Level 1
//===----------------------------------------------------------------------===//

namespace {

/// The common value of a series if all its values are equal.
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

/// Returns the delay of a message if all hops between workers have the same
/// delay.
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

/// Returns the times of one stage if all stages have the same times. Formulas
/// include only the phases F, B, I and W, and of vocabulary shards S, T and
/// free collectives.
static std::optional<FormulaInputs::Times>
uniformTimes(const Placement &placement, const StageCosts &stageCosts,
             PhaseSet phases, bool hasPairs) {
  if (!(phases - kBackwardPhases - Phase::Forward - kSpreadPhases).isEmpty())
    return std::nullopt;
  // The time of pairs of different stages by PairRule::InOrder depends on all
  // segments.
  if (stageCosts.pairRule == PairRule::InOrder &&
      stageCosts.useAny(Resource::Experts))
    return std::nullopt;
  bool isSplit = phases.intersects(kSplitBackward);
  bool usesWhole = phases.contains(Phase::Backward);
  SharedValue forward, inputGrad, weightGrad, overlapped, dispatches;
  SharedValue logits, logitsGrad;
  PhaseSet free = phases & (kDetachedPhases | kEmbeddingPhases);
  // Formulas need one time for all pairs.
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
    // I and W together take the time of a B.
    llvm::SmallVector<Segment, 8> backward;
    for (Phase phase : {Phase::Backward, Phase::InputGrad, Phase::WeightGrad})
      if (usesWhole == (phase == Phase::Backward))
        llvm::append_range(backward, stage.cells.segmentsOf(phase, slice));
    if (!isTimed)
      overlapped.add(stage.overlappedPs.value_or(stageCosts.pairPs(
          stage.cells.segmentsOf(Phase::Forward, slice), backward)));
    // Pairs of cells of two stages take the same time only if both cells wait
    // equally long for rows of experts.
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

static bool anyOverlap(const TableView &table) {
  return llvm::any_of(table.rows, [](llvm::ArrayRef<Cell> row) {
    return llvm::any_of(row, [](Cell cell) { return cell.overlapsNext(); });
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

/// Adds level 1, or the reason why there is none, to an evaluation whose totals
/// already have their costs. A disturbed schedule has a formula for its slots,
/// but not for its times. Of `table`, only placement, slots and gradient rule
/// are read.
static void addFormula(llvm::StringRef family, const FamilyOptions &options,
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

/// Level 2 of a table with its own slots.
static llvm::Expected<TableMetrics> measureTable(const TableView &table) {
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  llvm::Expected<SlotAssignment> slots = assignSlots(table, *index);
  if (!slots)
    return slots.takeError();
  return computeMetrics(table, *index, *slots);
}

namespace {

struct WalkedRows {
  const TableView &table;
  const PhaseCounts &counts;
  const Groups *groups; ///< null if there are none
};

/// One evaluation by a walk. The object must not move while its inputs are in
/// use.
class TableWalk {
public:
  /// Finds the costs. False if their sum may exceed int64, if the messages of
  /// slices or of the targets of a stage differ, or if edges have memory.
  llvm::Expected<bool> prepare(const WalkedRows &rows, const CostInputs &costs,
                               const TimingOptions &options);
  WalkInputs inputs() const;
  /// Adds levels 2 and 3. Returns false if the walk did not reach the end, or
  /// if bytes exceed int64.
  bool finish(const WalkedRows &rows, std::optional<WalkedTable> walked,
              Evaluation &evaluation);

private:
  ExecutionTotals totals;
  DisturbedTimes disturbed;
  const TimingOptions *options = nullptr;
  const Groups *groups = nullptr;
};

} // namespace

/// Returns the all-reduces of groups, by number.
static std::vector<Reduction> listReductions(const WalkedRows &rows) {
  std::vector<Reduction> all;
  for (int64_t number = 0; rows.groups && number != rows.groups->size();
       ++number) {
    llvm::ArrayRef<CellRef> members = rows.groups->membersOf(number);
    CellRef first = members.front();
    all.push_back({rows.table.rows[first.row][first.index],
                   rows.groups->nameOf(number).blocks, int64_t(members.size()),
                   first.row, members.back().row});
  }
  return all;
}

llvm::Expected<bool> TableWalk::prepare(const WalkedRows &rows,
                                        const CostInputs &costs,
                                        const TimingOptions &timing) {
  const Placement &placement = *rows.table.placement;
  const PhaseCounts &counts = rows.counts;
  options = &timing;
  groups = rows.groups;
  auto checkExchange = [&] {
    return checkSliceExchange(placement, rows.table.rows);
  };
  if (llvm::Error error = costRows({placement, counts.costedPhases(),
                                    listReductions(rows), checkExchange},
                                   costs, timing.runtime)
                              .moveInto(totals))
    return std::move(error);
  if (llvm::Error error = DisturbedTimes::create(timing.disturbance, placement,
                                                 totals.stageCosts)
                              .moveInto(disturbed))
    return std::move(error);
  if (totals.stageCosts.messagesVary() || !totals.stageCosts.edges.empty() ||
      (totals.memoryFacts && !totals.memoryFacts->edges.empty()))
    return false;
  return canAddUp(placement, counts, totals.stageCosts,
                  disturbed.largestBefore());
}

WalkInputs TableWalk::inputs() const {
  WalkInputs inputs;
  inputs.costs = &totals.stageCosts;
  inputs.transport = options->transport;
  inputs.memoryFacts = totals.memoryFacts ? &*totals.memoryFacts : nullptr;
  inputs.groups = groups;
  if (!options->disturbance.isEmpty())
    inputs.changePs = disturbed;
  inputs.changeVaries = options->disturbance.jitter != 0;
  return inputs;
}

bool TableWalk::finish(const WalkedRows &rows,
                       std::optional<WalkedTable> walked,
                       Evaluation &evaluation) {
  std::optional<Traffic> traffic =
      sumTraffic(rows.table, rows.counts, totals.stageCosts, groups);
  if (!walked || !traffic)
    return false;
  totals.makespanPs = walked->makespanPs;
  totals.freeMakespanPs = walked->freeMakespanPs;
  totals.idle = std::move(walked->idle);
  totals.traffic = std::move(*traffic);
  totals.traffic.exchanges[Resource::Experts] = std::move(walked->dispatches);
  attributeWaits(totals.traffic, totals.idle);
  totals.criticalSteps = std::move(walked->criticalPath);
  totals.memory = std::move(walked->memory);
  totals.leavesOutPath = evaluation.totals.leavesOutPath;
  evaluation.totals = std::move(totals);
  evaluation.table = std::move(walked->unitMetrics);
  return true;
}

/// Adds levels 2 and 3 by a walk over the rows. Returns false if the walk does
/// not reach the end.
static llvm::Expected<bool> walk(const WalkedRows &rows,
                                 const CostInputs &costs,
                                 const TimingOptions &options,
                                 Evaluation &evaluation) {
  TableWalk walk;
  llvm::Expected<bool> addsUp = walk.prepare(rows, costs, options);
  if (!addsUp || !*addsUp)
    return addsUp;
  return walk.finish(rows, walkTable(rows.table, rows.counts, walk.inputs()),
                     evaluation);
}

/// Finds the groups of cells. Returns false if a walk cannot time them, if a
/// stage gets outputs from several stages, or if not all units run a stage.
static bool findGroups(const TableView &table, const PhaseCounts &counts,
                       std::optional<Groups> &groups) {
  if (!table.placement->getEdges().areLines() || !table.placement->runsAll())
    return false;
  if (!counts.hasAny(kCollectivePhases))
    return true;
  llvm::Expected<Groups> found = Groups::create(table);
  if (!found) {
    llvm::consumeError(found.takeError()); // the graph finds the error again
    return false;
  }
  groups = std::move(*found);
  return canWalkGroups(*groups);
}

namespace {

/// Shares work between all evaluations of a table.
class TableEvaluator {
public:
  TableEvaluator(const TableView &table, llvm::StringRef family,
                 const FamilyOptions &familyOptions)
      : table(table), family(family), familyOptions(familyOptions),
        isCountable(table.placement->isAssigned() &&
                    table.getNumCells() <= kMaxTableCells) {
    if (!isCountable)
      return; // the graph finds the error again
    counts = countPhases(table);
    isWalkable = findGroups(table, counts, groups);
  }

  bool canWalk(const Scenario &scenario) const {
    const TimingOptions &options = *scenario.options;
    return isWalkable &&
           canWalkTables(options.transport, options.receivePlacement,
                         options.forwardSends) &&
           (options.transport == Transport::Delay ||
            !receivesFollowTimes(*table.placement, *scenario.costs));
  }
  llvm::Expected<Evaluation> evaluate(const Scenario &scenario);
  std::vector<llvm::Expected<Evaluation>>
  evaluateAll(llvm::ArrayRef<Scenario> scenarios);

private:
  WalkedRows rows() const {
    return {table, counts, groups ? &*groups : nullptr};
  }
  llvm::Expected<Evaluation> byGraph(const Scenario &scenario);
  llvm::Error countOffloaded(const Scenario &scenario,
                             Evaluation &evaluation) const;
  llvm::Expected<Evaluation> finish(const Scenario &scenario,
                                    Evaluation evaluation);

  const TableView &table;
  llvm::StringRef family;
  const FamilyOptions &familyOptions;
  bool isCountable, isWalkable = false;
  PhaseCounts counts;
  std::optional<Groups> groups;         ///< if there are any
  std::optional<TableMetrics> measured; ///< if the table has its own slots
};

} // namespace

/// Counts activations at the times of the execution, in which copies to the
/// host take time; in a table they have no slots.
llvm::Error TableEvaluator::countOffloaded(const Scenario &scenario,
                                           Evaluation &evaluation) const {
  std::shared_ptr<const Execution> execution = evaluation.execution;
  if (!execution) {
    llvm::Expected<Execution> expanded =
        expandTotals(table, evaluation.totals, *scenario.options);
    if (!expanded)
      return expanded.takeError();
    execution = std::make_shared<const Execution>(std::move(*expanded));
  }
  return countActivations(*execution, *table.placement)
      .moveInto(evaluation.table->peakActivations);
}

/// Adds level 1, and level 2 of a table with its own slots.
llvm::Expected<Evaluation> TableEvaluator::finish(const Scenario &scenario,
                                                  Evaluation evaluation) {
  bool hasSlots = table.aligned || !table.slots.empty();
  if (!evaluation.table || hasSlots) {
    if (!measured) {
      llvm::Expected<TableMetrics> metrics = measureTable(table);
      if (!metrics)
        return metrics.takeError();
      measured = std::move(*metrics);
    }
    evaluation.table = measured;
  }
  PhaseSet phases = isCountable ? counts.costedPhases() : phasesInUse(table);
  if (phases.intersects(kCopyPhases))
    if (llvm::Error error = countOffloaded(scenario, evaluation))
      return std::move(error);
  addFormula(family, familyOptions, table, phases,
             !scenario.options->disturbance.isEmpty(), evaluation);
  return evaluation;
}

llvm::Expected<Evaluation> TableEvaluator::byGraph(const Scenario &scenario) {
  llvm::Expected<Execution> execution =
      executeTable(table, *scenario.costs, *scenario.options);
  if (!execution)
    return execution.takeError();
  Evaluation evaluation;
  evaluation.set(std::move(*execution));
  return finish(scenario, std::move(evaluation));
}

/// Levels 2 and 3 have two engines with equal results. The walk is faster and
/// keeps no arrays. It needs messages without queues, or in the queues of
/// `overlap` in the order of unit slots, and sends that return at once
/// (canWalkTables, receivesFollowTimes); stages in lines; groups that
/// canWalkGroups accepts; messages that are the same for all slices; and sums
/// that fit 64 bits. The graph times everything else.
llvm::Expected<Evaluation> TableEvaluator::evaluate(const Scenario &scenario) {
  if (!canWalk(scenario))
    return byGraph(scenario);
  Evaluation evaluation;
  llvm::Expected<bool> hasEnd =
      walk(rows(), *scenario.costs, *scenario.options, evaluation);
  if (!hasEnd)
    return hasEnd.takeError();
  return *hasEnd ? finish(scenario, std::move(evaluation)) : byGraph(scenario);
}

std::vector<llvm::Expected<Evaluation>>
TableEvaluator::evaluateAll(llvm::ArrayRef<Scenario> scenarios) {
  std::vector<TableWalk> walks(scenarios.size());
  std::vector<WalkInputs> inputs;
  std::vector<bool> isWalked(scenarios.size(), false);
  for (auto [number, scenario] : llvm::enumerate(scenarios)) {
    if (!canWalk(scenario))
      continue;
    llvm::Expected<bool> addsUp =
        walks[number].prepare(rows(), *scenario.costs, *scenario.options);
    isWalked[number] = addsUp && *addsUp;
    llvm::consumeError(addsUp.takeError()); // evaluate() finds the error again
    if (isWalked[number])
      inputs.push_back(walks[number].inputs());
  }
  std::vector<std::optional<WalkedTable>> walked =
      walkTables(table, counts, inputs);
  std::vector<llvm::Expected<Evaluation>> evaluations;
  auto next = walked.begin();
  for (auto [number, scenario] : llvm::enumerate(scenarios)) {
    Evaluation evaluation;
    evaluation.totals.leavesOutPath = true;
    if (isWalked[number] &&
        walks[number].finish(rows(), std::move(*next++), evaluation))
      evaluations.push_back(finish(scenario, std::move(evaluation)));
    else
      evaluations.push_back(evaluate(scenario));
  }
  return evaluations;
}

llvm::Expected<Evaluation>
pipesched::evaluateTable(const TableView &table, llvm::StringRef family,
                         const CostInputs &costs, const TimingOptions &options,
                         const FamilyOptions &familyOptions) {
  return TableEvaluator(table, family, familyOptions)
      .evaluate({&costs, &options});
}

std::vector<llvm::Expected<Evaluation>>
pipesched::evaluateTables(const TableView &table, llvm::StringRef family,
                          llvm::ArrayRef<Scenario> scenarios,
                          const FamilyOptions &familyOptions) {
  return TableEvaluator(table, family, familyOptions).evaluateAll(scenarios);
}
