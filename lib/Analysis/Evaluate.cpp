//===- Evaluate.cpp - Everything there is to know about one schedule ------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls the analyses one after the other and lets go of what the next does not
// need.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Evaluate.h"
#include "CheckedInt.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

llvm::Expected<Prices> pipesched::computePrices(const Placement &placement,
                                                const CostInputs &costs,
                                                unsigned phases) {
  if (costs.model && costs.system) {
    llvm::Expected<Prices> prices =
        priceRoofline(placement, *costs.model, *costs.system, phases);
    if (!prices || !costs.profile)
      return prices;
    return overlayProfile(placement, std::move(*prices), *costs.profile,
                          phases);
  }
  if (costs.profile) {
    llvm::Expected<Prices> prices =
        priceProfile(placement, *costs.profile, phases);
    if (prices && costs.model)
      for (StagePrice &stage : prices->stages)
        stage.activation.bytes = stage.gradient.bytes =
            costs.model->boundaryBytes;
    return prices;
  }
  if (costs.model)
    return llvm::createStringError("model '" + costs.model->name +
                                   "' has no times: attach a system or a "
                                   "profile");
  if (costs.system)
    return llvm::createStringError("system '" + costs.system->name +
                                   "' has nothing to run: attach a model or a "
                                   "profile");
  return priceUnit(placement);
}

static unsigned phaseBit(Cell cell) {
  unsigned phase = static_cast<unsigned>(cell.getPhase());
  return phase < kNumPhases ? 1u << phase : 0;
}

static constexpr unsigned bitsOf(std::initializer_list<Phase> phases) {
  unsigned bits = 0;
  for (Phase phase : phases)
    bits |= 1u << static_cast<unsigned>(phase);
  return bits;
}

unsigned pipesched::phasesInUse(const TableView &table) {
  unsigned phases = 0;
  for (llvm::ArrayRef<Cell> row : table.rows)
    for (Cell cell : row)
      phases |= phaseBit(cell);
  return phases;
}

unsigned pipesched::phasesInUse(const Program &program) {
  unsigned phases = 0;
  for (const Instruction &instruction : program.instructions)
    if (instruction.kind != InstructionKind::Send &&
        instruction.kind != InstructionKind::Recv)
      phases |= phaseBit(instruction.cell);
  return phases;
}

//===----------------------------------------------------------------------===//
// Level 1
//===----------------------------------------------------------------------===//

namespace {

/// A value that all of a series share, as long as they do.
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

static int64_t phasePs(const StagePrice &stage, Phase phase) {
  return stage.phasePs[static_cast<unsigned>(phase)];
}

/// The delay of a message, where all hops between workers have the same.
static SharedValue sharedDelay(const Placement &placement,
                               const Prices &prices) {
  SharedValue delay;
  auto add = [&](const MessagePrice &message) {
    delay.add(message.occupancyPs + message.latencyPs);
  };
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path);
    int64_t last = first + placement.getPath(path).getNumStages() - 1;
    for (int64_t stage = first; stage < last; ++stage)
      if (placement.workerOf(stage) != placement.workerOf(stage + 1)) {
        add(prices.stages[stage].activation);
        add(prices.stages[stage + 1].gradient);
      }
  }
  return delay;
}

/// One stage's times where all stages have the same; phases beyond F, B, I and
/// W are in no formula.
static std::optional<FormulaInputs::Times>
uniformTimes(const Placement &placement, const Prices &prices,
             unsigned phases) {
  constexpr unsigned split = bitsOf({Phase::InputGrad, Phase::WeightGrad});
  constexpr unsigned known = bitsOf({Phase::Forward, Phase::Backward}) | split;
  if (phases & ~known)
    return std::nullopt;
  SharedValue forward, inputGrad, weightGrad, overlapped;
  for (const StagePrice &stage : prices.stages) {
    int64_t backward = phasePs(stage, Phase::Backward);
    int64_t halves =
        phasePs(stage, Phase::InputGrad) + phasePs(stage, Phase::WeightGrad);
    bool usesWhole = phases & bitsOf({Phase::Backward});
    if (usesWhole && (phases & split) && backward != halves)
      return std::nullopt;
    overlapped.add(stage.overlappedPs.value_or(
        phasePs(stage, Phase::Forward) + (usesWhole ? backward : halves)));
    forward.add(phasePs(stage, Phase::Forward));
    inputGrad.add(
        phasePs(stage, phases & split ? Phase::InputGrad : Phase::Backward));
    weightGrad.add(phases & split ? phasePs(stage, Phase::WeightGrad) : 0);
  }
  SharedValue delay = sharedDelay(placement, prices);
  for (const SharedValue &value :
       {forward, inputGrad, weightGrad, overlapped, delay})
    if (!value.holds())
      return std::nullopt;
  return FormulaInputs::Times{forward.get(), inputGrad.get(), weightGrad.get(),
                              delay.get(), overlapped.get()};
}

static void addFormula(llvm::StringRef family, const FamilyOptions &options,
                       const Placement &placement, unsigned phases,
                       Evaluation &evaluation) {
  if (family.empty()) {
    evaluation.formulaReason = "the rows are of no known family";
    return;
  }
  FormulaInputs inputs;
  inputs.workers = placement.getNumWorkers();
  inputs.stages = placement.getMaxStages();
  inputs.microbatches = placement.getNumMicrobatches();
  inputs.paths = placement.getNumPaths();
  inputs.group = options.group;
  inputs.construction = options.construction;
  inputs.times = uniformTimes(placement, evaluation.execution.prices, phases);
  llvm::Expected<FormulaResult> formula =
      evaluateFormula(formulaFamilyOf(family, placement), inputs);
  if (formula)
    evaluation.formula = std::move(*formula);
  else
    evaluation.formulaReason = llvm::toString(formula.takeError());
}

//===----------------------------------------------------------------------===//
// Levels 2 and 3
//===----------------------------------------------------------------------===//

static llvm::Error addMemory(const Placement &placement,
                             const CostInputs &costs, unsigned phases,
                             Execution &execution) {
  if (!costs.model)
    return llvm::Error::success();
  llvm::Expected<MemoryFacts> facts = computeMemoryFacts(
      placement, *costs.model, costs.system ? &*costs.system : nullptr, phases);
  if (!facts)
    return facts.takeError();
  execution.memoryFacts = std::move(*facts);
  llvm::Expected<MemoryUsage> memory =
      computeMemory(execution.graph, execution.times, execution.timeline,
                    placement, *execution.memoryFacts);
  if (!memory)
    return memory.takeError();
  execution.memory = std::move(*memory);
  return llvm::Error::success();
}

/// Activations as instructions state them, beside the parameters of a model.
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

/// Nothing but stated work has a price.
static bool isPricedByWork(llvm::ArrayRef<StatedWork> work,
                           const CostInputs &costs) {
  return anyHasTime(work) && !costs.model && !costs.profile;
}

/// Times and traffic of `execution.graph`, in which stated work wins.
static llvm::Error priceGraph(const Placement &placement,
                              const CostInputs &costs, unsigned phases,
                              Transport transport,
                              llvm::ArrayRef<StatedWork> work,
                              Execution &execution) {
  bool byWork = isPricedByWork(work, costs);
  if (byWork) {
    execution.prices.stages.resize(placement.getNumGlobalStages());
  } else {
    llvm::Expected<Prices> prices = computePrices(placement, costs, phases);
    if (!prices)
      return prices.takeError();
    execution.prices = std::move(*prices);
  }
  llvm::Expected<TaskTimes> times =
      priceTasks(execution.graph, placement, execution.prices, transport);
  if (!times)
    return times.takeError();
  execution.times = std::move(*times);
  llvm::Expected<Traffic> traffic =
      computeTraffic(execution.graph, placement, execution.prices);
  if (!traffic)
    return traffic.takeError();
  execution.traffic = std::move(*traffic);
  if (!anyHasTime(work))
    return llvm::Error::success();
  if (llvm::Error error = priceStatedWork(
          work, execution.graph, costs.system ? &*costs.system : nullptr,
          transport, byWork, execution.times))
    return error;
  return addStatedTraffic(work, execution.graph, placement, execution.prices,
                          execution.traffic);
}

static llvm::Expected<Execution>
executeGraph(TaskGraph graph, const Placement &placement,
             const CostInputs &costs, unsigned phases, Transport transport,
             llvm::ArrayRef<StatedWork> work = {}) {
  Execution execution;
  execution.graph = std::move(graph);
  if (llvm::Error error =
          priceGraph(placement, costs, phases, transport, work, execution))
    return std::move(error);
  execution.timeline = computeTimeline(execution.graph, execution.times);
  execution.criticalPath =
      criticalPath(execution.graph, execution.times, execution.timeline);
  execution.idle =
      computeIdle(execution.graph, execution.times, execution.timeline);
  if (llvm::Error error = addMemory(placement, costs, phases, execution))
    return std::move(error);
  if (llvm::Error error = replaceMemory(work, costs, execution))
    return std::move(error);
  return execution;
}

llvm::Expected<Execution>
pipesched::executeProgram(const Program &program, const Placement &placement,
                          const CostInputs &costs, Transport transport,
                          llvm::ArrayRef<StatedWork> work) {
  llvm::Expected<TaskGraph> graph = buildTaskGraph(program, transport);
  if (!graph)
    return graph.takeError();
  return executeGraph(std::move(*graph), placement, costs, phasesInUse(program),
                      transport, work);
}

/// Measures the table and builds its graph; index, slots and program are gone
/// when it returns.
static llvm::Expected<TaskGraph> instantiateTable(const TableView &table,
                                                  const TimingOptions &options,
                                                  TableMetrics &metrics) {
  std::optional<Program> program;
  {
    llvm::Expected<CellIndex> index = CellIndex::create(table);
    if (!index)
      return index.takeError();
    llvm::Expected<SlotAssignment> slots = alignSlots(table, *index);
    if (!slots)
      return slots.takeError();
    metrics = table.aligned
                  ? computeMetrics(table, *index, readSlots(table, *index))
                  : computeMetrics(table, *index, *slots);
    llvm::Expected<Program> lowered =
        lowerTable(table, *index, *slots, options.receivePlacement);
    if (!lowered)
      return lowered.takeError();
    program = std::move(*lowered);
  }
  return buildTaskGraph(*program, options.transport);
}

llvm::Expected<Evaluation>
pipesched::evaluateTable(const TableView &table, llvm::StringRef family,
                         const CostInputs &costs, const TimingOptions &options,
                         const FamilyOptions &familyOptions) {
  Evaluation evaluation;
  llvm::Expected<TaskGraph> graph =
      instantiateTable(table, options, evaluation.table.emplace());
  if (!graph)
    return graph.takeError();
  unsigned phases = phasesInUse(table);
  llvm::Expected<Execution> execution = executeGraph(
      std::move(*graph), *table.placement, costs, phases, options.transport);
  if (!execution)
    return execution.takeError();
  evaluation.execution = std::move(*execution);
  addFormula(family, familyOptions, *table.placement, phases, evaluation);
  return evaluation;
}
