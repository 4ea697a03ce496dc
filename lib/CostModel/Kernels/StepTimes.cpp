//===- StepTimes.cpp - What an optimizer step moves -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// O of parameters of which no kernel says what it runs.
//
//===----------------------------------------------------------------------===//

#include "StepTimes.h"
#include "KernelTimes.h"

using namespace pipesched;

double pipesched::memoryPs(double bytes, const SystemFacts &system) {
  double share = bytes / double(system.accelerators);
  return share > 0 ? transferPs(share, system.memory) +
                         double(system.memory.latencyPs)
                   : 0;
}

/// Of Adam's state for a parameter: master copy and two moments, 4 bytes each.
static constexpr int64_t kAdamBytes = 12;

double pipesched::weightPassesOfStep(const ModelFacts &model) {
  bool isMaster =
      model.weightBytesPerParameter + model.optimizerBytesPerParameter ==
      kAdamBytes;
  return isMaster ? 2 : 1;
}
