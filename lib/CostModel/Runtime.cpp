//===- Runtime.cpp - What executes a schedule -----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the time of I to W where PyTorch does.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Runtime.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::Twine;

/// What I waits for and sends belongs to W.
static llvm::Error moveTraffic(StageCost &cost) {
  for (auto *part : {&cost.shardingPs, &cost.shardingBytes}) {
    int64_t &input = (*part)[Phase::InputGrad];
    int64_t &weight = (*part)[Phase::WeightGrad];
    if (llvm::AddOverflow(input, weight, weight))
      return makeError("I and W of a stage send more than 2^63 - 1 bytes");
    input = 0;
  }
  ContextCost &input = cost.context[Phase::InputGrad];
  if (!cost.context[Phase::WeightGrad].add(input, 1))
    return makeError("the ranks of a stage pass on keys and values for more "
                     "than 2^63 - 1 ps in I and W");
  input = {};
  return llvm::Error::success();
}

llvm::Error pipesched::applyRuntime(Runtime runtime, const Placement &placement,
                                    StageCosts &stageCosts) {
  if (runtime == Runtime::Table)
    return llvm::Error::success();
  for (StageCost &stage : stageCosts.stages)
    stage.overlappedPs.reset();
  stageCosts.overlapsPairs = false;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    StageCost &cost = stageCosts.stages[placement.stageOffset(path)];
    auto &phasePs = cost.phasePs;
    std::swap(cost.dispatchPs[Phase::InputGrad],
              cost.dispatchPs[Phase::WeightGrad]);
    int64_t &input = phasePs[Phase::InputGrad];
    int64_t &weight = phasePs[Phase::WeightGrad];
    if (llvm::AddOverflow(input, weight, weight))
      return makeError("I + W of the first stage of path " + Twine(path) +
                       " is over 2^63 - 1 ps");
    input = 0;
    if (llvm::Error error =
            moveTraffic(stageCosts.stages[placement.stageOffset(path)]))
      return error;
  }
  return llvm::Error::success();
}

void pipesched::applyRuntime(Runtime runtime, const Placement &placement,
                             MemoryFacts &memory) {
  if (runtime == Runtime::Table)
    return;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    memory.stages[placement.stageOffset(path)].inputGradFreedBytes = 0;
}
