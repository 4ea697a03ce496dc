//===- NamedEvaluation.cpp - Results with their subjects ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps rows, and builds the task graph when it is first requested.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"

using namespace pipesched;

void NamedTable::keepRows() {
  auto copies = std::make_shared<std::vector<Row>>();
  copies->reserve(table.rows.size());
  for (llvm::ArrayRef<Cell> &row : table.rows) {
    copies->emplace_back(row.begin(), row.end());
    row = copies->back();
  }
  kept = std::move(copies);
}

/// Returns the engine of linear layers: the one with fewer bits if any kernel
/// uses it.
static Engine findLinearEngine(const ModelFacts &model) {
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels)
      if (isNarrow(kernel.engine))
        return kernel.engine;
  return Engine::Matrix;
}

void NamedEvaluation::describe(const CostInputs &costs) {
  if (!costs.model)
    return;
  const ModelFacts &model = *costs.model;
  microbatchSize = model.microbatchSize;
  if (placement.trainsAll())
    modelFlops =
        double(placement.getNumMicrobatches()) *
        double(forwardsOf(Phase::Forward) + forwardsOf(Phase::Backward)) *
        forwardFlops(model);
  else
    addFlopsByStage(model);
  if (costs.system)
    peakFlops = peakFlopsPerSecond(*costs.system, findLinearEngine(model));
}

/// Sums the work of stages for schedules in which some stages have no whole
/// backward.
void NamedEvaluation::addFlopsByStage(const ModelFacts &model) {
  llvm::Expected<std::vector<double>> forward =
      forwardFlopsOfStages(placement, model);
  if (!forward)
    return llvm::consumeError(forward.takeError());
  for (auto [stage, flops] : llvm::enumerate(*forward)) {
    int64_t numForwards = forwardsOf(Phase::Forward);
    PhaseSet starts = backwardStarts(placement.backwardOf(stage));
    if (!starts.isEmpty())
      numForwards += forwardsOf(starts.first());
    int64_t numUnits = placement.countOnPath(placement.pathOfStage(stage));
    modelFlops += double(numUnits) / double(placement.getNumSlices()) *
                  double(numForwards) * flops;
  }
}

std::optional<double> NamedEvaluation::getMfu() const {
  auto seconds = double(evaluation.totals.makespanPs) / 1e12;
  if (modelFlops == 0 || peakFlops == 0 || seconds == 0)
    return std::nullopt;
  return modelFlops / seconds / (peakFlops * double(placement.getNumWorkers()));
}

void NamedEvaluation::countFlops(const Program &program,
                                 const CostInputs &costs) {
  if (!costs.model)
    return;
  llvm::Expected<std::vector<double>> forward =
      forwardFlopsOfStages(placement, *costs.model);
  if (!forward)
    return llvm::consumeError(forward.takeError());
  modelFlops = 0;
  llvm::ArrayRef<StatedWork> stated = work;
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    bool isPair = instruction.cell.overlapsNext();
    int64_t forwards = forwardsOf(instruction.cell.getPhase());
    while (!stated.empty() && stated.front().instruction < i)
      stated = stated.drop_front();
    if (!instruction.is(InstructionRole::Compute))
      continue;
    if (!stated.empty() && stated.front().instruction == i &&
        stated.front().flops) {
      modelFlops += forwards || isPair ? double(*stated.front().flops) : 0;
      i += isPair;
    } else if (forwards) {
      modelFlops += double(forwards) *
                    (*forward)[placement.globalStage(instruction.cell)] /
                    double(placement.getNumSlices());
    }
  }
}

const Execution &NamedEvaluation::getExecution() const {
  if (evaluation.execution)
    return *evaluation.execution;
  std::call_once(onDemand->once, [&] {
    // The walk reached the end and its times fit, so the graph has no cycle and
    // the same times.
    onDemand->execution =
        llvm::cantFail(expandTotals(tableView(), evaluation.totals, timing),
                       "a table that was walked has a graph");
  });
  return *onDemand->execution;
}
