//===- Workload.cpp - Workload of the operations --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All stages are equal, so that the schedule and not the model decides the
// shape of the timeline. Messages take time, so that every queue has work.
//
//===----------------------------------------------------------------------===//

#include "Workload.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using namespace pipesched::bench;

/// One layer per stage, one matrix product per layer.
static ModelFacts makeModel(int64_t numLayers) {
  Kernel product;
  product.name = "product";
  product.forward = product.inputGrad =
      product.weightGrad = {int64_t(1) << 42, int64_t(1) << 30};
  BlockFacts layer;
  layer.name = "layer";
  layer.count = numLayers;
  layer.parameters = int64_t(1) << 28;
  layer.activationBytes = int64_t(1) << 26;
  layer.kernels = {product};
  ModelFacts model;
  model.name = "uniform";
  model.boundaryBytes = int64_t(1) << 24;
  model.blocks = {layer};
  return model;
}

static SystemFacts makeSystem() {
  SystemFacts system;
  system.name = "round";
  system.matrix.flopsPerSecond = 500'000'000'000'000;
  system.vector.flopsPerSecond = 50'000'000'000'000;
  system.memory.bytesPerSecond = 3'000'000'000'000;
  system.memoryBytes = 80'000'000'000;
  system.network.bytesPerSecond = 50'000'000'000;
  system.network.latencyPs = 2'000'000;
  system.host.bytesPerSecond = 50'000'000'000;
  system.host.latencyPs = 5'000'000;
  return system;
}

CostInputs bench::makeCosts(int64_t numLayers) {
  CostInputs costs;
  costs.model = makeModel(numLayers);
  costs.system = makeSystem();
  return costs;
}

Workload::Workload(const Family &family, int64_t numCells) : family(family) {
  int64_t numMicrobatches = llvm::divideCeil(numCells, 2 * kNumWorkers);
  placement = take(Placement::create(kNumWorkers, numMicrobatches,
                                     {placeLinear(kNumWorkers)}));
  costs = makeCosts(kNumWorkers);
}

Table Workload::generate() const {
  return take(pipesched::generate(family, placement));
}

const TableView &Workload::view() {
  if (!table) {
    table = generate();
    tableView = table->view();
  }
  return *tableView;
}

const CellIndex &Workload::index() {
  if (!cellIndex)
    cellIndex = take(CellIndex::create(view()));
  return *cellIndex;
}

const SlotAssignment &Workload::slots() {
  if (!slotAssignment)
    slotAssignment = take(alignSlots(view(), index()));
  return *slotAssignment;
}

const Program &Workload::program() {
  if (!lowered)
    lowered =
        take(lowerTable(view(), index(), slots(), ReceivePlacement::Arrival));
  return *lowered;
}

const Execution &Workload::execution(Transport transport) {
  if (!lastExecution || executionTransport != transport) {
    lastExecution.reset();
    lastExecution =
        take(executeProgram(program(), placement, costs, transport));
    executionTransport = transport;
  }
  return *lastExecution;
}

PlainGraph bench::makePlain(const Execution &execution) {
  const TaskGraph &graph = execution.graph;
  PlainGraph plain;
  plain.begins = graph.edgeBegins;
  plain.before.reserve(graph.edges.size());
  for (Edge edge : graph.edges)
    plain.before.push_back(edge.task());
  plain.durationPs.reserve(graph.size());
  for (uint32_t task = 0; task < graph.size(); ++task)
    plain.durationPs.push_back(execution.times.occupancyPs[task] +
                               execution.times.latencyPs[task]);
  return plain;
}

const PlainGraph &Workload::plain(Transport transport) {
  if (!lastPlain || plainTransport != transport) {
    lastPlain.reset();
    lastPlain = makePlain(execution(transport));
    plainTransport = transport;
  }
  return *lastPlain;
}

int64_t PlainGraph::longestPath(std::vector<int64_t> &ends) const {
  int64_t longest = 0;
  for (size_t task = 0; task < durationPs.size(); ++task) {
    int64_t start = 0;
    for (uint32_t e = begins[task]; e < begins[task + 1]; ++e)
      start = std::max(start, ends[before[e]]);
    ends[task] = start + durationPs[task];
    longest = std::max(longest, ends[task]);
  }
  return longest;
}
