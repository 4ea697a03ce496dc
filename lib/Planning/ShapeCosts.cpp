//===- ShapeCosts.cpp - Costs of the shapes of plans ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Distributes costs by shapes, and times steps with them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/ShapeCosts.h"
#include "PipeSched/Evaluation/TimedCells.h"
#include <functional>
#include <numeric>

using namespace pipesched;

llvm::Expected<CostSources>
pipesched::costsOn(const CostSources &whole, const PlanShape &shape,
                   llvm::ArrayRef<int64_t> parameterBytes, bool hasHost) {
  CostSources costs = whole;
  costs.microbatchSize = shape.microbatchSize;
  costs.expansion.recompute = *enumFromName<Recompute>(shape.recompute);
  if (llvm::Error error =
          setParameterBytes(*costs.architecture, parameterBytes))
    return std::move(error);
  HardwareFacts hardware = whole.system->hardware();
  if (!hasHost)
    hardware.operationPs = hardware.launchPs = hardware.synchronizePs = 0;
  if (llvm::Error error = setAccelerators(hardware, shape.getWorker()))
    return std::move(error);
  Deployment deployment = whole.system->deployment();
  deployment.dataParallel = shape.data;
  deployment.sharding = *enumFromName<Sharding>(shape.sharding);
  deployment.contextParallel = shape.context;
  deployment.contextExchange = *enumFromName<ContextExchange>(shape.exchange);
  deployment.expertParallel = shape.expert;
  if (llvm::Error error =
          deploy(std::move(hardware), deployment).moveInto(costs.system))
    return std::move(error);
  return costs;
}

//===----------------------------------------------------------------------===//
// Probes
//===----------------------------------------------------------------------===//

Configuration pipesched::probeOf(const CostSources &costs,
                                 llvm::ArrayRef<int64_t> stages,
                                 int64_t microbatches, bool isSplit) {
  Configuration made;
  made.problem.family = findFamily(isSplit ? "greedy" : "gpipe");
  made.problem.workers = stages.size();
  made.problem.microbatches = microbatches;
  if (isSplit)
    made.problem.options.splitBackward = true;
  Path &path = made.problem.paths.emplace_back();
  path.workers.resize(stages.size());
  std::iota(path.workers.begin(), path.workers.end(), 0);
  path.blocks = stages.vec();
  made.costs = &costs;
  made.timing.transport = Transport::Delay;
  return made;
}

namespace {

/// A timed probe.
struct Probed {
  std::vector<double> timesOf(Phase phase) const;
  /// Returns the bytes of each worker; 0 without a model.
  template <typename Value>
  std::vector<double> bytesOf(Value value) const {
    std::vector<double> found(result.placement.getNumWorkers());
    if (getTotals().memory)
      for (auto [each, memory] : llvm::zip(found, getTotals().memory->workers))
        each = double(std::invoke(value, memory));
    return found;
  }
  const ExecutionTotals &getTotals() const { return result.evaluation.totals; }

  NamedEvaluation result;
  /// Owns the rows to which the result refers.
  std::shared_ptr<const Table> table;
};

} // namespace

static llvm::Expected<Probed> runProbe(const CostSources &costs,
                                       llvm::ArrayRef<int64_t> stages,
                                       int64_t microbatches,
                                       bool isSplit = false) {
  llvm::Expected<EvaluatedTable> found =
      evaluateConfiguration(probeOf(costs, stages, microbatches, isSplit));
  if (!found)
    return found.takeError();
  return Probed{std::move(found->result), std::move(found->table)};
}

/// The time of the cells of a microbatch on each worker.
std::vector<double> Probed::timesOf(Phase phase) const {
  std::vector<double> found(result.placement.getNumWorkers());
  forEachTimedCell(result.getExecution(), [&](const TimedCell &timed) {
    if (timed.cell.is(phase))
      found[timed.worker] += double(timed.endPs - timed.startPs);
  });
  for (double &each : found)
    each /= double(result.placement.getNumMicrobatches());
  return found;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<int64_t>>
pipesched::findRuns(const CostSources &costs, int64_t numLayers) {
  std::vector<int64_t> stages(numLayers, 1), runs;
  stages.push_back(0);
  llvm::Expected<Probed> probed = runProbe(costs, stages, 1);
  if (!probed)
    return probed.takeError();
  std::array<std::vector<double>, 4> kinds = {
      probed->timesOf(Phase::Forward), probed->timesOf(Phase::Backward),
      probed->bytesOf(&WorkerMemory::peakBytes),
      probed->bytesOf(&WorkerMemory::persistentBytes)};
  for (int64_t layer = 0; layer < numLayers; ++layer) {
    bool isAlike =
        layer > 1 && llvm::all_of(kinds, [&](llvm::ArrayRef<double> kind) {
          return kind[layer] == kind[layer - 1];
        });
    if (isAlike)
      ++runs.back();
    else
      runs.push_back(1);
  }
  runs.push_back(0);
  return runs;
}

static std::vector<double> partsOfLayers(llvm::ArrayRef<double> ofRuns,
                                         llvm::ArrayRef<int64_t> runs) {
  std::vector<double> found;
  for (auto [whole, length] : llvm::zip_equal(ofRuns, runs)) {
    int64_t count = std::max<int64_t>(length, 1);
    found.insert(found.end(), count, whole / double(count));
  }
  return found;
}

static Sums sumUp(llvm::ArrayRef<double> ofLayers) {
  Sums sums = {0};
  for (double each : ofLayers)
    sums.push_back(sums.back() + each);
  return sums;
}

/// Returns bytes multiplied by the time for which a microbatch is held: the
/// times of all later layers, up to the last of `numTimed`.
static Sums sumHeld(llvm::ArrayRef<double> bytes, const Sums &times,
                    size_t numTimed) {
  std::vector<double> held;
  for (auto [layer, each] : llvm::enumerate(bytes))
    held.push_back(each * std::max(0.0, times[numTimed] - times[layer + 1]));
  return sumUp(held);
}

llvm::Expected<LayerSums> pipesched::sumLayers(const CostSources &costs,
                                               llvm::ArrayRef<int64_t> runs,
                                               bool hasSplit) {
  llvm::Expected<Probed> one = runProbe(costs, runs, 1);
  if (!one)
    return one.takeError();
  llvm::Expected<Probed> two = runProbe(costs, runs, 2);
  if (!two)
    return two.takeError();
  auto addTimes = [&](llvm::ArrayRef<double> first, const Probed &probed,
                      Phase phase) {
    std::vector<double> sum = partsOfLayers(probed.timesOf(phase), runs);
    for (auto [each, more] : llvm::zip_equal(sum, first))
      each += more;
    return sum;
  };
  std::vector<double> forward =
      partsOfLayers(two->timesOf(Phase::Forward), runs);
  std::vector<double> work = addTimes(forward, *two, Phase::Backward);
  std::vector<double> chain = forward;
  if (hasSplit) {
    llvm::Expected<Probed> split = runProbe(costs, runs, 1, /*isSplit=*/true);
    if (!split)
      return split.takeError();
    chain = addTimes(forward, *split, Phase::InputGrad);
  }
  for (auto [each, most] : llvm::zip_equal(chain, work))
    each = std::min(each, most);
  std::vector<double> stash = two->bytesOf(&WorkerMemory::peakBytes);
  for (auto [each, less] :
       llvm::zip_equal(stash, one->bytesOf(&WorkerMemory::peakBytes)))
    each -= less;
  stash = partsOfLayers(stash, runs);
  LayerSums found = {sumUp(forward), sumUp(work), sumUp(stash), {}, {}};
  std::array<Sums, 2> times = {found.workPs, sumUp(chain)};
  for (unsigned kind : {0, 1}) {
    found.held[kind] = sumHeld(stash, times[kind], work.size());
    found.headless[kind] = sumHeld(stash, times[kind], work.size() - 1);
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

llvm::Expected<ParameterSums>
pipesched::sumParameters(const CostSources &costs,
                         llvm::ArrayRef<int64_t> runs) {
  llvm::Expected<Probed> probed = runProbe(costs, runs, 1);
  if (!probed)
    return probed.takeError();
  ParameterSums found;
  for (auto [sums, bytes] :
       llvm::zip_equal(found, std::array{&WorkerMemory::weightBytes,
                                         &WorkerMemory::gradientBytes,
                                         &WorkerMemory::optimizerBytes}))
    sums = sumUp(partsOfLayers(probed->bytesOf(bytes), runs));
  return found;
}

Sums pipesched::addParts(const ParameterSums &sums,
                         const std::array<double, 3> &parts) {
  Sums found(sums[0].size());
  for (auto [all, part] : llvm::zip_equal(sums, parts))
    for (auto [each, more] : llvm::zip_equal(found, all))
      each += part * more;
  return found;
}
