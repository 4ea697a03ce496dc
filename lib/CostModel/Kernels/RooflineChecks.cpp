//===- RooflineChecks.cpp - What a roofline needs of its inputs ---------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Refuses models and systems that the roofline cannot cost, and names what
// would go.
//
//===----------------------------------------------------------------------===//

#include "RooflineChecks.h"
#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::Twine;

static llvm::Error checkLink(const SystemFacts &system) {
  if (system.accelerators == 1 || system.link.bytesPerSecond != 0)
    return llvm::Error::success();
  return makeError("a worker of '" + Twine(system.name) + "' has " +
                   Twine(system.accelerators) +
                   " accelerators and no 'link' among them");
}

/// "flash-2 with heads of 64, 128 and 256": the attention kernels whose rates a
/// system has.
static std::string listAttention(const SystemFacts &system) {
  std::string text;
  for (const EnumName<FlashKernel> &kernel : EnumNames<FlashKernel>::values) {
    std::string sizes;
    for (const AttentionRates &rates : system.attention)
      if (rates.kernel == kernel.value)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(rates.headSize);
    if (!sizes.empty())
      text += (Twine(text.empty() ? "" : "; ") + kernel.name +
               " with heads of " + sizes)
                  .str();
  }
  return text.empty() ? "none" : text;
}

/// Checks that the system has the rates that the model's kernels need.
static llvm::Error checkRates(const ModelFacts &model,
                              const SystemFacts &system) {
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels) {
      if (kernel.engine == Engine::MatrixFp8 &&
          system.matrix.fp8FlopsPerSecond == 0)
        return makeError("kernel '" + Twine(kernel.name) + "' of block '" +
                         block.name + "' is in FP8, for which the system '" +
                         system.name + "' has no rate");
      const std::optional<AttentionShape> &shape = kernel.attention;
      if (shape && !findAttentionRates(system, shape->kernel, shape->headSize))
        return makeError("kernel '" + Twine(kernel.name) + "' of block '" +
                         block.name + "' is " + enumName(shape->kernel) +
                         " with heads of " + Twine(shape->headSize) +
                         ", for which the system '" + system.name +
                         "' has no rates; it has: " + listAttention(system));
    }
  return llvm::Error::success();
}

/// Checks that blocks have work for the split backwards of a schedule. One that
/// splits some backwards only is not checked.
llvm::Error pipesched::checkBackwards(const ModelFacts &model,
                                      PhaseSet phases) {
  if (!phases.intersects(kSplitBackward) || phases.contains(Phase::Backward))
    return llvm::Error::success();
  for (const BlockFacts &block : model.blocks)
    if (anyStates(block, &Kernel::backward) &&
        llvm::all_of(block.kernels, [](const Kernel &kernel) {
          return kernel.inputGrad.isZero() && kernel.weightGrad.isZero();
        }))
      return makeError("block '" + Twine(block.name) +
                       "' has work for a whole B only, but the schedule splits "
                       "backwards into I and W; state its work in I and W, "
                       "or keep backwards whole");
  return llvm::Error::success();
}

/// Checks that the ranks that divide a sequence get equal parts of it: two
/// pieces each, from its begin and its end, so that a causal mask leaves each
/// of them as much work.
static llvm::Error checkSequence(const ModelFacts &model,
                                 const SystemFacts &system) {
  int64_t degree = system.contextParallel, pieces = 0;
  if (degree == 1 || model.sequence == 0)
    return llvm::Error::success();
  if (!llvm::MulOverflow<int64_t>(2, degree, pieces) &&
      model.sequence % pieces == 0)
    return llvm::Error::success();
  return makeError("sequences of " + Twine(model.sequence) +
                   " tokens are not divided into the " + Twine(pieces) +
                   " equal pieces of " + Twine(degree) +
                   "-way context parallelism, two for each rank; the nearest "
                   "that are have " +
                   nearestMultiples(model.sequence, pieces) + " tokens");
}

/// Checks that the ranks that divide experts get equally many of them.
static llvm::Error checkExpertRanks(const ModelFacts &model,
                                    const SystemFacts &system) {
  int64_t degree = system.expertParallel;
  if (degree == 1)
    return llvm::Error::success();
  bool hasExperts = false;
  for (const BlockFacts &block : model.blocks) {
    if (!block.experts)
      continue;
    hasExperts = true;
    if (int64_t count = block.experts->count; count % degree != 0)
      return makeError(Twine(degree) +
                       "-way expert parallelism does not divide "
                       "the " +
                       Twine(count) + " experts of block '" + block.name +
                       "'; the nearest degrees that do are " +
                       nearestDivisors(count, degree));
  }
  if (hasExperts)
    return llvm::Error::success();
  return makeError("model '" + Twine(model.name) + "' has no experts for " +
                   Twine(degree) + "-way expert parallelism");
}

llvm::Error pipesched::checkSystem(const ModelFacts &model,
                                   const SystemFacts &system) {
  if (llvm::Error error = checkLink(system))
    return error;
  if (llvm::Error error = checkSplit(system))
    return error;
  if (llvm::Error error = checkSequence(model, system))
    return error;
  if (llvm::Error error = checkExpertRanks(model, system))
    return error;
  return checkRates(model, system);
}
