//===- Evaluate.cpp - Evaluation of one schedule --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the costs for both engines of evaluations, and implements the engine
// that uses the graph. It runs the analyses one after the other, and frees data
// that later ones do not need.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Evaluate.h"
#include "CostPlacement.h"
#include "GroupCosts.h"
#include "MicrobatchCosts.h"
#include "PipeSched/Analysis/Walk/WalkTable.h"
#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "PipeSched/CostModel/Memory/RuntimeBuffers.h"
#include "PipeSched/CostModel/Vocab/ShardReductions.h"
#include "PipeSched/Evaluation/TimedCells.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Support/CheckedInt.h"
#include <cmath>
#include <map>
#include <set>

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

ModelFacts CostInputs::modelFor(PhaseSet phases) const {
  ModelFacts facts = *model;
  if (phases.contains(Phase::Recompute))
    facts.recompute = recompute;
  return facts;
}

/// Whether several accelerators hold the same part of a layer or of its
/// experts.
static bool hasReplicas(const SystemFacts &system) {
  return system.dataParallel > 1 || system.contextParallel > 1 ||
         (system.expertParallel > 1 &&
          system.accelerators > system.expertRanks());
}

bool pipesched::reducesEveryStage(const std::optional<SystemFacts> &system,
                                  const std::optional<Profile> &profile) {
  return (system && hasReplicas(*system)) ||
         (profile && !profile->phasePs[Phase::AllReduce].empty());
}

/// Refuses costs that have no times for the shards of a vocabulary, because
/// these would then take no time. Collectives without a time are free, like
/// messages.
static llvm::Error checkShards(const CostInputs &costs, PhaseSet phases) {
  PhaseSet shards = phases & kSpreadPhases & kUnitComputePhases;
  bool hasModel = costs.model && costs.system;
  if (shards.isEmpty() || hasModel || !costs.profile)
    return llvm::Error::success();
  PhaseSet missing;
  shards.forEach([&](Phase phase) {
    if (costs.profile->phasePs[phase].empty())
      missing |= phase;
  });
  if (missing.isEmpty())
    return llvm::Error::success();
  return llvm::createStringError("the profile has no time of " +
                                 describePhases(missing, " and ") +
                                 ", which the rows have");
}

llvm::Expected<StageCosts>
pipesched::computeStageCosts(const Placement &placement,
                             const CostInputs &costs, PhaseSet phases) {
  if (hasGroups(costs))
    return costByGroups(placement, costs, [&](const CostInputs &alone) {
      return computeStageCosts(placement, alone, phases);
    });
  if (hasUnequalMicrobatches(costs))
    return costByMicrobatch(placement, costs, [&](const CostInputs &alone) {
      return computeStageCosts(placement, alone, phases);
    });
  if (llvm::Error error = checkShards(costs, phases))
    return std::move(error);
  if (costs.model && costs.system) {
    llvm::Expected<StageCosts> stageCosts =
        costRoofline(placement, costs.modelFor(phases), *costs.system, phases);
    if (stageCosts && phases.contains(Phase::Optimizer))
      if (llvm::Error error =
              addTieTimes(placement, costs.ties, *costs.system, *stageCosts))
        return std::move(error);
    if (!stageCosts || !costs.profile)
      return stageCosts;
    stageCosts = overlayProfile(placement, std::move(*stageCosts),
                                *costs.profile, phases, costs.recompute);
    if (stageCosts)
      if (llvm::Error error =
              shardMeasured(placement, costs.modelFor(phases), *costs.system,
                            *costs.profile, phases, *stageCosts))
        return std::move(error);
    return stageCosts;
  }
  if (costs.profile) {
    llvm::Expected<StageCosts> stageCosts =
        costProfile(placement, *costs.profile, phases, costs.recompute);
    if (stageCosts && costs.model)
      if (llvm::Error error =
              setMessageBytes(placement, *costs.model, *stageCosts))
        return std::move(error);
    return stageCosts;
  }
  if (costs.model)
    return llvm::createStringError("model '" + costs.model->name +
                                   "' has no times: attach a system or a "
                                   "profile");
  if (costs.system)
    return llvm::createStringError("system '" + costs.system->name +
                                   "' has nothing to run: attach a model or a "
                                   "profile");
  return costUnit(placement);
}

PhaseSet pipesched::phasesInUse(const TableView &table) {
  PhaseSet phases;
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      phases |= cell.getPhase();
  return phases & kCostedPhases;
}

PhaseSet pipesched::phasesInUse(const Program &program) {
  PhaseSet phases;
  for (const Instruction &instruction : program.instructions)
    if (!instruction.is(InstructionRole::Message))
      phases |= instruction.cell.getPhase();
  return phases & kCostedPhases;
}

//===----------------------------------------------------------------------===//
// Levels 2 and 3
//===----------------------------------------------------------------------===//

static llvm::Expected<StageCosts> costStages(const Placement &placement,
                                             const CostInputs &costs,
                                             PhaseSet phases, Runtime runtime) {
  llvm::Expected<StageCosts> stageCosts =
      computeStageCosts(placement, costs, phases);
  if (!stageCosts)
    return stageCosts.takeError();
  if (llvm::Error error = applyRuntime(runtime, placement, *stageCosts))
    return std::move(error);
  return stageCosts;
}

static llvm::Expected<std::optional<MemoryFacts>>
costMemory(const Placement &placement, const CostInputs &costs, PhaseSet phases,
           Runtime runtime) {
  if (!costs.model)
    return std::nullopt;
  llvm::Expected<MemoryFacts> facts =
      computeMemoryFacts(placement, costs.modelFor(phases),
                         costs.system ? &*costs.system : nullptr, phases);
  if (!facts)
    return facts.takeError();
  applyRuntime(runtime, placement, *facts);
  if (llvm::Error error =
          addRuntimeBuffers(runtime, placement, costs.modelFor(phases),
                            costs.system ? &*costs.system : nullptr, *facts))
    return std::move(error);
  return std::move(*facts);
}

static llvm::Expected<std::vector<MessageCost>>
costAllReduces(const Placement &placement, llvm::ArrayRef<Reduction> reductions,
               const CostInputs &costs, PhaseSet phases,
               const StageCosts &stageCosts) {
  if (hasGroups(costs))
    return costReductionsByGroups(
        reductions, costs, [&](const CostInputs &alone) {
          return costAllReduces(placement, reductions, alone, phases,
                                stageCosts);
        });
  bool isMeasured =
      costs.profile && !costs.profile->phasePs[Phase::AllReduce].empty();
  if (costs.model && costs.system && !isMeasured &&
      phases.intersects(kSpreadPhases))
    return costShardReductions(placement, reductions, costs.modelFor(phases),
                               *costs.system, phases, stageCosts);
  llvm::Expected<std::vector<MessageCost>> found =
      costs.model && costs.system && !isMeasured
          ? costReductions(placement, reductions, *costs.model, *costs.system)
          : shareReductions(placement, reductions, stageCosts,
                            costs.model ? &*costs.model : nullptr);
  if (found && costs.model && costs.system &&
      costs.system->gradientBuckets == GradientBuckets::Layers)
    if (llvm::Error error =
            reduceByLayers(placement, reductions, costs.modelFor(phases),
                           *costs.system, phases, stageCosts, *found))
      return std::move(error);
  return found;
}

llvm::Expected<ExecutionTotals> pipesched::costRows(const CostedRows &rows,
                                                    const CostInputs &costs,
                                                    Runtime runtime) {
  ExecutionTotals totals;
  totals.stageCosts.stages.resize(rows.placement.getNumGlobalStages());
  if (!rows.isFree) {
    bool exchangesSlices = costs.model && costs.system &&
                           rows.placement.getNumSlices() > 1 &&
                           costs.system->sliceExchange != SliceExchange::None;
    if (exchangesSlices)
      if (llvm::Error error = rows.checkExchange())
        return std::move(error);
    if (llvm::Error error =
            costStages(rows.placement, costs, rows.phases, runtime)
                .moveInto(totals.stageCosts))
      return std::move(error);
  }
  if (!rows.reductions.empty())
    if (llvm::Error error =
            costAllReduces(rows.placement, rows.reductions, costs, rows.phases,
                           totals.stageCosts)
                .moveInto(totals.stageCosts.reductions))
      return std::move(error);
  if (llvm::Error error =
          costMemory(rows.placement, costs, rows.phases, runtime)
              .moveInto(totals.memoryFacts))
    return std::move(error);
  return totals;
}

//===----------------------------------------------------------------------===//
// Stated work
//===----------------------------------------------------------------------===//

/// Replaces the memory of activations by the memory that instructions state,
/// and keeps the memory of parameters.
static llvm::Error replaceMemory(llvm::ArrayRef<StatedWork> work,
                                 const CostInputs &costs,
                                 Execution &execution) {
  if (!anyHasMemory(work))
    return llvm::Error::success();
  execution.memoryFacts.reset();
  if (!execution.memory) {
    execution.memory.emplace();
    if (costs.system) {
      CheckedInt capacity =
          CheckedInt(costs.system->memoryBytes) * costs.system->accelerators;
      if (!capacity.isValid())
        return llvm::createStringError(
            "the memory of a worker is over 2^63 - 1 bytes");
      execution.memory->capacityBytes = capacity.get();
    }
  }
  return addStatedMemory(work, execution.graph, execution.times,
                         execution.timeline, *execution.memory);
}

static bool isCostedByWork(llvm::ArrayRef<StatedWork> work,
                           const CostInputs &costs) {
  return anyHasTime(work) && !costs.model && !costs.profile;
}

/// Returns the groups that reduce blocks. They have the lowest numbers.
static std::vector<Reduction> reductionsOf(const TaskGraph &graph) {
  std::vector<Reduction> reductions;
  for (auto [number, task] : llvm::enumerate(graph.groupTasks)) {
    if (graph.groups[number].grouping() != Grouping::Blocks)
      break;
    llvm::ArrayRef<int32_t> workers = graph.workersOf(number);
    auto [first, last] = std::minmax_element(workers.begin(), workers.end());
    reductions.push_back({graph.cell[task], graph.groups[number].blocks,
                          int64_t(workers.size()), *first, *last});
  }
  return reductions;
}

/// Checks the rows from which a graph was built.
static llvm::Error checkSliceExchange(const Placement &placement,
                                      const TaskGraph &graph) {
  std::vector<std::vector<Cell>> cells(placement.getNumWorkers());
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.is(task, InstructionRole::Compute))
      cells[graph.worker[task]].push_back(graph.cell[task]);
  std::vector<llvm::ArrayRef<Cell>> rows(cells.begin(), cells.end());
  return checkSliceExchange(placement, llvm::ArrayRef(rows));
}

/// Computes the costs of `execution.graph`, and from them times and traffic.
/// Work that instructions state has precedence.
static llvm::Error costGraph(const Placement &placement,
                             const CostInputs &costs, PhaseSet phases,
                             Transport transport, Runtime runtime,
                             llvm::ArrayRef<StatedWork> work,
                             Execution &execution) {
  bool byWork = isCostedByWork(work, costs);
  auto checkExchange = [&] {
    return checkSliceExchange(placement, execution.graph);
  };
  if (llvm::Error error =
          costRows({placement, phases, reductionsOf(execution.graph),
                    checkExchange, byWork},
                   costs, runtime)
              .moveInto(static_cast<ExecutionTotals &>(execution)))
    return error;
  llvm::Expected<TaskTimes> times = computeTaskTimes(
      execution.graph, placement, execution.stageCosts, transport);
  if (!times)
    return times.takeError();
  execution.times = std::move(*times);
  llvm::BitVector stated(execution.graph.size());
  for (const StatedWork &each : work)
    if (each.hasTime())
      stated.set(execution.graph.taskOfInstruction[each.instruction]);
  llvm::Expected<Traffic> traffic =
      computeTraffic(execution.graph, placement, execution.stageCosts, stated);
  if (!traffic)
    return traffic.takeError();
  execution.traffic = std::move(*traffic);
  if (!anyHasTime(work))
    return llvm::Error::success();
  if (llvm::Error error = costStatedWork(
          work, execution.graph, costs.system ? &*costs.system : nullptr,
          transport, byWork, execution.times))
    return error;
  return addStatedTraffic(work, execution.graph, placement,
                          execution.stageCosts, *costs.system,
                          execution.traffic);
}

/// Makes the parts of an execution that need the program.
static llvm::Expected<Execution> instantiateProgram(const Program &program,
                                                    Transport transport) {
  llvm::Expected<TaskGraph> graph = buildTaskGraph(program, transport);
  if (!graph)
    return graph.takeError();
  Execution execution;
  execution.graph = std::move(*graph);
  return execution;
}

static void addTimeline(Execution &execution) {
  execution.timeline = computeTimeline(execution.graph, execution.times);
  execution.criticalPath =
      criticalPath(execution.graph, execution.times, execution.timeline);
}

/// Adds times, memory and all other results to the output of
/// instantiateProgram.
static llvm::Expected<Execution>
execute(Execution execution, const Placement &placement,
        const CostInputs &costs, PhaseSet phases, Transport transport,
        Runtime runtime, llvm::ArrayRef<StatedWork> work,
        const Disturbance &disturbance) {
  if (llvm::Error error = costGraph(placement, costs, phases, transport,
                                    runtime, work, execution))
    return std::move(error);
  if (llvm::Error error = disturb(disturbance, execution.graph, placement,
                                  execution.stageCosts, execution.times))
    return std::move(error);
  addTimeline(execution);
  execution.makespanPs = execution.timeline.makespanPs;
  execution.freeMakespanPs =
      freeMakespan(execution.graph, execution.times, execution.timeline);
  execution.criticalSteps =
      describePath(execution.graph, execution.criticalPath);
  execution.idle =
      computeIdle(execution.graph, execution.times, execution.timeline);
  attributeWaits(execution.traffic, execution.idle);
  if (execution.memoryFacts)
    if (llvm::Error error =
            computeMemory(execution.graph, execution.times, execution.timeline,
                          placement, *execution.memoryFacts)
                .moveInto(execution.memory))
      return std::move(error);
  if (llvm::Error error = replaceMemory(work, costs, execution))
    return std::move(error);
  return execution;
}

llvm::Expected<Execution>
pipesched::executeProgram(const Program &program, const Placement &placement,
                          const CostInputs &costs, Transport transport,
                          llvm::ArrayRef<StatedWork> work, Runtime runtime,
                          const Disturbance &disturbance) {
  llvm::Expected<Execution> execution = instantiateProgram(program, transport);
  if (!execution)
    return execution.takeError();
  return execute(std::move(*execution), placement, costs, phasesInUse(program),
                 transport, runtime, work, disturbance);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

bool pipesched::receivesFollowTimes(const Placement &placement,
                                    const CostInputs &costs) {
  bool hasTimes = costs.profile || (costs.model && costs.system);
  return hasTimes &&
         (!placement.getAdded().isEmpty() || hasUnequalMicrobatches(costs));
}

namespace {
/// The times of cells and messages by costs.
class CostedSlots final : public TimedSlots {
public:
  CostedSlots(const Placement &placement, const StageCosts &costs)
      : placement(placement), costs(costs) {}

  int64_t slotsOf(Cell cell) const override {
    return cell.isIdle() ? 0 : costs.alonePs(placement, cell);
  }
  int64_t ofPair(Cell first, Cell second) const override {
    return costs.pairPs(placement, first, second);
  }
  int64_t ofMessage(Cell cell, int64_t worker,
                    const Dependences &dependences) const override {
    MessageCost cost;
    if (costs.edges.empty())
      cost = costs.message(placement, cell);
    else
      dependences.forEachEdgeTo(worker, cell, [&](int64_t from, int64_t to) {
        cost.addTensor(costs.tensorOf(cell, from, to));
      });
    return cost.occupancyPs + cost.latencyPs;
  }

private:
  const Placement &placement;
  const StageCosts &costs;
};
} // namespace

static llvm::Expected<Program> lowerByTimes(const TableView &table,
                                            const CostInputs &costs,
                                            const TimingOptions &options) {
  llvm::Expected<StageCosts> stageCosts =
      costStages(*table.placement, costs, phasesInUse(table), options.runtime);
  if (!stageCosts)
    return stageCosts.takeError();
  // If the times do not add up, the graph of the program says so.
  if (!canAddUp(*table.placement, countPhases(table), *stageCosts,
                std::numeric_limits<int64_t>::max()))
    return lowerTable(table, options.receivePlacement);
  CostedSlots times(*table.placement, *stageCosts);
  return lowerTable(table, options.receivePlacement, &times);
}

llvm::Expected<Program> pipesched::lowerTable(const TableView &table,
                                              const CostInputs &costs,
                                              const TimingOptions &options) {
  llvm::Expected<Program> program =
      receivesFollowTimes(*table.placement, costs)
          ? lowerByTimes(table, costs, options)
          : lowerTable(table, options.receivePlacement);
  if (program && options.forwardSends == ForwardSends::Sync)
    synchronizeForwards(*program);
  return program;
}

/// The graph of a table; index, slots and program are freed before it returns.
static llvm::Expected<Execution>
instantiateTable(const TableView &table, const CostInputs &costs,
                 const TimingOptions &options) {
  llvm::Expected<Program> program = lowerTable(table, costs, options);
  if (!program)
    return program.takeError();
  return instantiateProgram(*program, options.transport);
}

llvm::Expected<Execution>
pipesched::executeTable(const TableView &table, const CostInputs &costs,
                        const TimingOptions &options) {
  llvm::Expected<Execution> execution = instantiateTable(table, costs, options);
  if (!execution)
    return execution.takeError();
  return execute(std::move(*execution), *table.placement, costs,
                 phasesInUse(table), options.transport, options.runtime,
                 /*work=*/{}, options.disturbance);
}

llvm::Expected<Execution>
pipesched::expandTotals(const TableView &table, const ExecutionTotals &totals,
                        const TimingOptions &options) {
  // A table is walked only if its receives do not follow times, or if their
  // order does not matter.
  llvm::Expected<Execution> execution =
      instantiateTable(table, /*costs=*/{}, options);
  if (!execution)
    return execution.takeError();
  static_cast<ExecutionTotals &>(*execution) = totals;
  const StageCosts &stageCosts = execution->stageCosts;
  llvm::Expected<TaskTimes> times = computeTaskTimes(
      execution->graph, *table.placement, stageCosts, options.transport);
  if (!times)
    return times.takeError();
  execution->times = std::move(*times);
  if (llvm::Error error =
          disturb(options.disturbance, execution->graph, *table.placement,
                  stageCosts, execution->times))
    return std::move(error);
  addTimeline(*execution);
  return execution;
}

//===----------------------------------------------------------------------===//
// Sums of tied gradients
//
// Before the first O of a tied stage, each worker of a compiled program sums
// its own gradients, all-reduces the sum, and copies it to its other gradients
// (docs/StageCosts.md#ties).
//===----------------------------------------------------------------------===//

namespace {
/// The stages of a tie on one worker.
struct OwnStages {
  int64_t first = -1; ///< the first stage of its paths, as a global stage
  /// Stage numbers; several paths share the functions of a number.
  std::set<int64_t> numbers;
};
} // namespace

static std::map<int64_t, OwnStages> stagesByWorker(const Placement &placement,
                                                   const TiedGradients &tie) {
  std::map<int64_t, OwnStages> found;
  for (auto [path, placed] : llvm::enumerate(placement.getPaths()))
    for (auto [stage, worker] : llvm::enumerate(placed.workers)) {
      if (!llvm::is_contained(tie.stages, static_cast<int64_t>(stage)))
        continue;
      OwnStages &own = found[worker];
      if (own.first < 0)
        own.first = placement.stageOffset(static_cast<int64_t>(path)) +
                    static_cast<int64_t>(stage);
      own.numbers.insert(static_cast<int64_t>(stage));
    }
  return found;
}

/// Returns a ring of all workers over the slowest link between two of them.
static RingGroup groupOf(const std::map<int64_t, OwnStages> &owners,
                         const RankLayout &layout) {
  auto size = static_cast<int64_t>(owners.size());
  NetworkLevel worst = NetworkLevel::Link;
  for (const auto &[worker, own] : owners)
    worst = std::max(worst, layout.levelOf(owners.begin()->first, worker));
  return RingGroup::across(worst, size);
}

/// Adding another gradient of a worker reads two and writes the sum; the copy
/// back reads and writes once. The FLOPs take less time than these bytes.
static double ownPs(int64_t bytes, int64_t numOthers,
                    const SystemFacts &system) {
  if (numOthers == 0)
    return 0;
  BlockFacts block;
  for (int64_t part : {3, 2}) {
    Kernel &kernel = block.kernels.emplace_back();
    kernel.forward.bytes = part * bytes;
    kernel.count = numOthers;
  }
  return rooflinePs(block, Phase::Forward, system);
}

static int64_t countOf(const TiedGradients &tie, const OwnStages &own) {
  return llvm::count_if(
      tie.stages, [&](int64_t stage) { return own.numbers.count(stage) != 0; });
}

llvm::Error pipesched::addTieTimes(const Placement &placement,
                                   llvm::ArrayRef<TiedGradients> ties,
                                   const SystemFacts &system,
                                   StageCosts &stageCosts) {
  RankLayout layout(system, placement.getNumWorkers());
  for (const TiedGradients &tie : ties) {
    std::map<int64_t, OwnStages> owners = stagesByWorker(placement, tie);
    auto bytes = static_cast<double>(tie.bytes);
    MessageCost sum;
    if (owners.size() > 1) {
      llvm::Expected<MessageCost> ring =
          ringExchange({bytes, bytes}, groupOf(owners, layout), system);
      if (!ring)
        return ring.takeError();
      sum = *ring;
    }
    for (const auto &[worker, own] : owners) {
      double ownTime =
          std::nearbyint(ownPs(tie.bytes, countOf(tie, own) - 1, system));
      CellCosts &cells = stageCosts.stages[own.first].cells;
      CheckedInt ps = CheckedInt(cells.alonePs(Phase::Optimizer)) +
                      sum.occupancyPs + sum.latencyPs +
                      (ownTime < 0x1p62 ? static_cast<int64_t>(ownTime)
                                        : std::numeric_limits<int64_t>::max());
      if (!ps.isValid())
        return llvm::createStringError(
            "the sum of the gradients tied as \"" + tie.name +
            "\" takes more than 2^63 - 1 ps with its O");
      cells.set(Phase::Optimizer, ps.get());
    }
  }
  return llvm::Error::success();
}
