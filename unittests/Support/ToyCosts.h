//===- ToyCosts.h - A system to check by hand -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A toy system of 1 TFLOP/s, 0.1 TFLOP/s and 1 TB/s: a matrix FLOP takes 1 ps,
// a vector FLOP 10 ps, a byte 1 ps. The network has 0.1 TB/s and 7 ps: a byte
// takes 10 ps.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_ANALYSIS_TOYCOSTS_H
#define PIPESCHED_UNITTESTS_ANALYSIS_TOYCOSTS_H

#include "PipeSched/CostModel/CostModel.h"

namespace pipesched {

inline int64_t ps(const StageCost &cost, Phase phase) {
  return cost.cells.alonePs(phase);
}

inline SystemFacts toySystem() {
  SystemFacts system;
  system.name = "toy";
  system.matrix.flopsPerSecond = 1000000000000;
  system.vector.flopsPerSecond = 100000000000;
  system.memory.bytesPerSecond = 1000000000000;
  system.memoryBytes = 5000;
  system.network = {100000000000, 7, {}};
  return system;
}

/// Blocks that keep a byte each.
inline BlockFacts blockOf(BlockPosition position, int64_t count,
                          int64_t parameters) {
  BlockFacts block;
  block.position = position;
  block.count = count;
  block.parameters = parameters;
  block.activationBytes = 1;
  return block;
}

/// A model of equal layers of 10 parameters.
inline ModelFacts layersOf(int64_t count, int64_t boundaryBytes,
                           std::vector<Kernel> kernels) {
  BlockFacts block;
  block.name = "layer";
  block.count = count;
  block.parameters = 10;
  block.activationBytes = 50;
  block.weightGradBytes = 20;
  block.recomputedBytes = 8;
  block.kernels = std::move(kernels);
  ModelFacts model;
  model.name = "toy";
  model.boundaryBytes = boundaryBytes;
  model.blocks = {block};
  return model;
}

inline Placement linear(int64_t stages) {
  return llvm::cantFail(Placement::create(stages, 4, {placeLinear(stages)}));
}

/// Two paths that pass each other on the same workers.
inline Placement mirrored(int64_t stages) {
  Path down = placeLinear(stages), up = down;
  std::reverse(up.workers.begin(), up.workers.end());
  down.takes = {{0, 4, 2}};
  up.takes = {{1, 4, 2}};
  return llvm::cantFail(Placement::create(stages, 4, {down, up}));
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_ANALYSIS_TOYCOSTS_H
