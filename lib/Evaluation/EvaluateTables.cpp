//===- EvaluateTables.cpp - Evaluation of tables --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a table by a walk over its rows where that is possible, with one
// walk for several scenarios, and by a task graph otherwise.
//
//===----------------------------------------------------------------------===//

#include "AddFormula.h"
#include "CostPlacement.h"
#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Schedule/Table/Period.h"

using namespace pipesched;

/// Level 2 of a table with slots of its own.
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

/// A table to walk. If its rows leave microbatches out, `placement` and
/// `counts` include these microbatches.
struct WalkedRows {
  const TableView &table;
  const Placement &placement;
  const PhaseCounts &counts;
  const Groups *groups; ///< null if no cells meet
};

/// One evaluation by a walk. The object stays where it is while its inputs are
/// in use.
class TableWalk {
public:
  /// Finds the costs. False if their sum may exceed int64, or if the messages
  /// of slices differ.
  llvm::Expected<bool> prepare(const WalkedRows &rows, const CostInputs &costs,
                               const TimingOptions &options);
  WalkInputs inputs() const;
  /// Adds levels 2 and 3. False if the walk found no end, or if bytes exceed
  /// int64.
  bool finish(const WalkedRows &rows, std::optional<WalkedTable> walked,
              Evaluation &evaluation);

private:
  llvm::Error costReductions(const WalkedRows &rows, const CostInputs &costs);

  ExecutionTotals totals;
  DisturbedTimes disturbed;
  const TimingOptions *options = nullptr;
  const Groups *groups = nullptr;
};

} // namespace

llvm::Error TableWalk::costReductions(const WalkedRows &rows,
                                      const CostInputs &costs) {
  std::vector<Reduction> all;
  for (int64_t number = 0; number != groups->size(); ++number) {
    llvm::ArrayRef<CellRef> members = groups->membersOf(number);
    CellRef first = members.front();
    all.push_back({rows.table.rows[first.row][first.index],
                   groups->nameOf(number).blocks, int64_t(members.size()),
                   first.row, members.back().row});
  }
  llvm::Expected<std::vector<MessageCost>> reduced =
      costAllReduces(rows.placement, all, costs, rows.counts.costedPhases(),
                     totals.stageCosts);
  if (!reduced)
    return reduced.takeError();
  totals.stageCosts.reductions = std::move(*reduced);
  return llvm::Error::success();
}

llvm::Expected<bool> TableWalk::prepare(const WalkedRows &rows,
                                        const CostInputs &costs,
                                        const TimingOptions &timing) {
  const Placement &placement = rows.placement;
  const PhaseCounts &counts = rows.counts;
  options = &timing;
  groups = rows.groups;
  if (exchangesSlices(placement, costs))
    if (llvm::Error error = checkSliceExchange(placement, rows.table.rows))
      return std::move(error);
  llvm::Expected<StageCosts> stageCosts =
      costStages(placement, costs, counts.costedPhases(), timing.runtime);
  if (!stageCosts)
    return stageCosts.takeError();
  totals.stageCosts = std::move(*stageCosts);
  if (groups)
    if (llvm::Error error = costReductions(rows, costs))
      return std::move(error);
  llvm::Expected<std::optional<MemoryFacts>> facts =
      costMemory(placement, costs, counts.costedPhases(), timing.runtime);
  if (!facts)
    return facts.takeError();
  totals.memoryFacts = std::move(*facts);
  llvm::Expected<DisturbedTimes> times =
      DisturbedTimes::create(timing.disturbance, placement, totals.stageCosts);
  if (!times)
    return times.takeError();
  disturbed = std::move(*times);
  if (totals.stageCosts.messagesVary())
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
  std::optional<Traffic> traffic = sumTraffic(
      rows.placement, rows.table, rows.counts, totals.stageCosts, groups);
  if (!walked || !traffic)
    return false;
  totals.makespanPs = walked->makespanPs;
  totals.freeMakespanPs = walked->freeMakespanPs;
  totals.idle = std::move(walked->idle);
  totals.traffic = std::move(*traffic);
  totals.traffic.exchanges[Resource::Experts] = std::move(walked->dispatches);
  totals.criticalSteps = std::move(walked->criticalPath);
  totals.memory = std::move(walked->memory);
  totals.leavesOutPath = evaluation.totals.leavesOutPath;
  evaluation.totals = std::move(totals);
  evaluation.table = std::move(walked->unitMetrics);
  return true;
}

/// Adds levels 2 and 3 by a walk over the rows. False if the walk finds no end.
static llvm::Expected<bool> walk(const WalkedRows &rows,
                                 const CostInputs &costs,
                                 const TimingOptions &options,
                                 Evaluation &evaluation) {
  TableWalk walk;
  llvm::Expected<bool> addsUp = walk.prepare(rows, costs, options);
  if (!addsUp || !*addsUp)
    return addsUp;
  WalkInputs inputs = walk.inputs();
  inputs.numLeftOut = rows.placement.getNumMicrobatches() -
                      rows.table.placement->getNumMicrobatches();
  evaluation.totals.leavesOutPath = inputs.numLeftOut != 0;
  return walk.finish(rows, walkTable(rows.table, rows.counts, inputs),
                     evaluation);
}

/// Finds the groups of cells. False if a walk cannot time them, or flows
/// between more than neighbours.
static bool findGroups(const TableView &table, const PhaseCounts &counts,
                       std::optional<Groups> &groups) {
  if (counts.hasAny(kWidePhases))
    return false;
  if (!counts.hasAny(kCollectivePhases))
    return true;
  llvm::Expected<Groups> found = Groups::create(table);
  if (!found) {
    llvm::consumeError(found.takeError()); // the graph finds it again
    return false;
  }
  groups = std::move(*found);
  return canWalkGroups(*groups);
}

namespace {

/// What all evaluations of a table have in common.
class TableEvaluator {
public:
  TableEvaluator(const TableView &table, llvm::StringRef family,
                 const FamilyOptions &familyOptions)
      : table(table), family(family), familyOptions(familyOptions),
        isCountable(table.placement->isAssigned() &&
                    table.getNumCells() <= kMaxTableCells) {
    if (!isCountable)
      return; // the graph finds what is wrong
    counts = countPhases(table);
    isWalkable = findGroups(table, counts, groups);
  }

  bool canWalk(const TimingOptions &options) const {
    return isWalkable &&
           canWalkTables(options.transport, options.receivePlacement,
                         options.forwardSends);
  }
  llvm::Expected<Evaluation> evaluate(const Scenario &scenario);
  std::vector<llvm::Expected<Evaluation>>
  evaluateAll(llvm::ArrayRef<Scenario> scenarios);

private:
  WalkedRows rows() const {
    return {table, *table.placement, counts, groups ? &*groups : nullptr};
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
  std::optional<Groups> groups;         ///< if cells meet
  std::optional<TableMetrics> measured; ///< if the table has slots of its own
};

} // namespace

/// Counts activations at the times of the execution, in which copies to the
/// host take some: a table has no slots for them.
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

/// Adds level 1, and level 2 of a table with slots of its own.
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

llvm::Expected<Evaluation> TableEvaluator::evaluate(const Scenario &scenario) {
  if (!canWalk(*scenario.options))
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
    if (!canWalk(*scenario.options))
      continue;
    llvm::Expected<bool> addsUp =
        walks[number].prepare(rows(), *scenario.costs, *scenario.options);
    isWalked[number] = addsUp && *addsUp;
    llvm::consumeError(addsUp.takeError()); // evaluate() finds it again
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

//===----------------------------------------------------------------------===//
// Tables that are not written out
//===----------------------------------------------------------------------===//

/// How often each phase runs, microbatches that the rows leave out included.
/// Each period that is left out adds the counts of one period of the rows.
/// Nothing if the rows leave out part of a period.
static std::optional<PhaseCounts> countWithLeftOut(const TableView &shortened,
                                                   int64_t numMicrobatches,
                                                   PhaseCounts counts) {
  std::optional<TablePeriod> period = findPeriod(shortened);
  int64_t numLeftOut =
      numMicrobatches - shortened.placement->getNumMicrobatches();
  if (!period || numLeftOut % period->getNumMicrobatches() != 0)
    return std::nullopt;
  int64_t numPeriods = numLeftOut / period->getNumMicrobatches();
  for (auto [row, repeats] : llvm::zip_equal(shortened.rows, period->rows))
    for (Cell cell : row.slice(repeats.begin, repeats.length))
      counts.counts[shortened.placement->globalStage(cell)][cell.getPhase()] +=
          numPeriods;
  return counts;
}

llvm::Expected<std::optional<Evaluation>> pipesched::evaluateShortened(
    const TableView &shortened, const Placement &placement,
    llvm::StringRef family, const CostInputs &costs,
    const TimingOptions &options, const FamilyOptions &familyOptions) {
  PhaseCounts some = countPhases(shortened);
  std::optional<PhaseCounts> counts =
      countWithLeftOut(shortened, placement.getNumMicrobatches(), some);
  std::optional<Groups> groups;
  if (!counts || shortened.aligned || !shortened.slots.empty() ||
      !canWalkTables(options.transport, options.receivePlacement,
                     options.forwardSends) ||
      !findGroups(shortened, some, groups))
    return std::nullopt;
  Evaluation evaluation;
  WalkedRows rows = {shortened, placement, *counts,
                     groups ? &*groups : nullptr};
  llvm::Expected<bool> hasEnd = walk(rows, costs, options, evaluation);
  if (!hasEnd)
    return hasEnd.takeError();
  if (!*hasEnd)
    return std::nullopt;
  TableView table = shortened;
  table.placement = &placement;
  addFormula(family, familyOptions, table, some.costedPhases(),
             !options.disturbance.isEmpty(), evaluation);
  return std::move(evaluation);
}
