//===- BlockTimes.cpp - Times of blocks by phase --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the times of the blocks of a model. Times of stages are sums of
// them.
//
//===----------------------------------------------------------------------===//

#include "BlockTimes.h"
#include "../Comm/StorePs.h"
#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/CostModel/Comm/Rings.h"
#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::Twine;

BlockTimes::BlockTimes(const BlockFacts &block, const SystemFacts &system,
                       Recompute recompute) {
  for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::WeightGrad,
                      Phase::Backward, Phase::Recompute, Phase::Optimizer}) {
    Recompute again = phase == Phase::Recompute ? recompute : Recompute::Full;
    HostTime host = hostTime(block, phase, system, again);
    double device = rooflinePs(block, phase, system, again);
    if (system.expertParallel > 1)
      dispatch[phase] = enginePs(block, phase, Engine::AllToAll, system, again);
    if (host.waits) {
      auto withHost = [&](double ps) {
        return std::max(ps, host.launchPs) + host.synchronizePs;
      };
      waiting[phase] = withHost(device);
      waitingAlone[phase] = withHost(device - dispatch[phase]);
    } else {
      ahead[phase] = device;
      aheadAlone[phase] = device - dispatch[phase];
      launched[phase] = host.launchPs;
    }
    if (system.contextParallel > 1)
      context[phase] = contextSums(block, phase, system, again);
  }
}

void BlockTimes::add(const BlockTimes &block, int64_t count) {
  kCostedPhases.forEach([&](Phase phase) {
    for (auto part :
         {&BlockTimes::ahead, &BlockTimes::aheadAlone, &BlockTimes::launched,
          &BlockTimes::waiting, &BlockTimes::waitingAlone})
      (this->*part)[phase] += double(count) * (block.*part)[phase];
    dispatch[phase] += double(count) * block.dispatch[phase];
    for (auto part :
         {&ContextSums::ps, &ContextSums::exposedPs, &ContextSums::bytes})
      context[phase].*part += double(count) * (block.context[phase].*part);
  });
}

std::vector<size_t> pipesched::firstOfEqualTimes(const ModelFacts &model) {
  std::vector<size_t> firsts;
  // the blocks that are the first of their kind
  llvm::SmallVector<size_t> kinds;
  for (auto [index, block] : llvm::enumerate(model.blocks)) {
    // KernelTimes reads only the kernels and the experts of a block.
    const auto *same = llvm::find_if(kinds, [&, &block = block](size_t kind) {
      const BlockFacts &other = model.blocks[kind];
      return block.kernels == other.kernels && block.experts == other.experts;
    });
    firsts.push_back(same == kinds.end() ? index : *same);
    if (same == kinds.end())
      kinds.push_back(index);
  }
  return firsts;
}

std::vector<BlockTimes> pipesched::timesOfBlocks(const ModelFacts &model,
                                                 const SystemFacts &system) {
  std::vector<BlockTimes> times;
  times.reserve(model.blocks.size());
  for (auto [block, first] : llvm::enumerate(firstOfEqualTimes(model)))
    if (first == block)
      times.emplace_back(model.blocks[block], system, model.recompute);
    else
      times.push_back(times[first]);
  return times;
}

llvm::Expected<std::vector<int64_t>>
pipesched::costBlocks(const ModelFacts &model, const SystemFacts &system) {
  if (llvm::Error error = checkSystem(model, system))
    return std::move(error);
  std::vector<int64_t> times;
  for (auto [index, first] : llvm::enumerate(firstOfEqualTimes(model))) {
    if (first != index) {
      times.push_back(times[first]);
      continue;
    }
    const BlockFacts &block = model.blocks[index];
    double ps = blockPs(block, Phase::Forward, system) +
                blockPs(block, Phase::Backward, system);
    if (model.recompute != Recompute::None)
      ps += blockPs(block, Phase::Recompute, system, model.recompute);
    if (auto error = store(ps, "a block", times.emplace_back()))
      return std::move(error);
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Steps of parameters
//===----------------------------------------------------------------------===//

double pipesched::memoryPs(double bytes, const SystemFacts &system) {
  double share = bytes / double(system.accelerators);
  return share > 0 ? transferPs(share, system.memory) +
                         double(system.memory.latencyPs)
                   : 0;
}

/// Adam's state of a parameter: master copy and two moments, 4 bytes each.
static constexpr int64_t kAdamBytes = 12;

double pipesched::weightPassesOfStep(const ModelFacts &model) {
  bool isMaster =
      model.weightBytesPerParameter + model.optimizerBytesPerParameter ==
      kAdamBytes;
  return isMaster ? 2 : 1;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static llvm::Error checkLink(const SystemFacts &system) {
  if (system.accelerators == 1 || system.link.bytesPerSecond != 0)
    return llvm::Error::success();
  return makeError("a worker of '" + Twine(system.name) + "' has " +
                   Twine(system.accelerators) +
                   " accelerators and no 'link' among them");
}

/// Returns "flash-2 with heads of 64, 128 and 256": the attention kernels whose
/// rates a system has.
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
      if (isNarrow(kernel.engine) && system.matrix.peakOf(kernel.engine) == 0) {
        bool isFp8 = kernel.engine == Engine::MatrixFp8;
        return makeError("kernel '" + Twine(kernel.name) + "' of block '" +
                         block.name + "' is in " + (isFp8 ? "FP8" : "NVFP4") +
                         ", for which the system '" + system.name +
                         "' has no rate; state its matrix." +
                         (isFp8 ? "fp8_tflops" : "fp4_tflops") +
                         ", or choose another precision");
      }
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

/// Checks that blocks have work for the split backwards of a schedule. A block
/// that splits only some backwards is not checked.
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

/// Checks that the ranks of a sequence get equal parts of it. Each gets two
/// pieces, one from the start and one from the end, so that all have the same
/// work under a causal mask.
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

/// Checks that experts are sharded evenly over ranks.
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
