//===- Dependences.cpp - The dependences of cells -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the columns of the phases that make and take each flow.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Dependences.h"

using namespace pipesched;

Dependences::Dependences(const TableView &table, const CellIndex &index)
    : placement(*table.placement), index(index), edges(placement.getEdges()) {
  if (edges.areLines())
    findLines();
  kIndexedPhases.forEach([&](Phase phase) {
    if (std::optional<Flow> flow = flowNeededBy(phase)) {
      auto number = static_cast<unsigned>(*flow);
      takings[phase] = {&makers[number], *flow,
                        edges.areLines() ? lines[number].data() : nullptr};
      if (index.has(phase))
        takers[number].add(index.columnOf(phase));
    }
    if (std::optional<Flow> flow =
            flowMadeBy(phase, table.gradientAfter, StageBackward::Whole)) {
      auto number = static_cast<unsigned>(*flow);
      makings[phase] = {&takers[number], *flow};
      if (index.has(phase))
        makers[number].add(index.columnOf(phase));
    }
  });
  auto gradient = static_cast<unsigned>(Flow::Gradient);
  inputMaking = {&takers[gradient], Flow::Gradient};
  if (table.gradientAfter == GradientAfter::WeightGrad &&
      !placement.trainsAll() && index.has(Phase::InputGrad))
    makers[gradient].add(index.columnOf(Phase::InputGrad));
}

void Dependences::findLines() {
  for (Flow flow : {Flow::Activation, Flow::Gradient}) {
    std::vector<Source> &line = lines[static_cast<unsigned>(flow)];
    line.resize(placement.getNumGlobalStages());
    for (auto [stage, source] : llvm::enumerate(line))
      for (int32_t other : edges.sourcesOf(flow, stage))
        source = {other, static_cast<int32_t>(placement.workerOf(other))};
  }
}
