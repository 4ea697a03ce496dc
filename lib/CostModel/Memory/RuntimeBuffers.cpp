//===- RuntimeBuffers.cpp - Memory that runtimes add ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory of PipelineStage and FSDP2 of PyTorch in addition to the tensors
// that cells need.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Memory/RuntimeBuffers.h"
#include "../Layers/Sharding.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

/// Adds to `bytes`; returns false if the sum exceeds int64.
static bool add(int64_t &bytes, CheckedInt more) {
  CheckedInt sum = more + bytes;
  bytes = sum.get();
  return sum.isValid();
}

/// The bytes of logits that the last block of a model returns for a microbatch.
/// The loss, or the copy before it, reads them and writes 4 bytes for each; it
/// has four FLOPs for each. 0: the block has no such kernels.
static CheckedInt logitsOf(const BlockFacts &block) {
  auto named = [&](llvm::StringRef name) -> const Kernel * {
    auto found = llvm::find_if(
        block.kernels, [&](const Kernel &each) { return each.name == name; });
    return found == block.kernels.end() ? nullptr : &*found;
  };
  const Kernel *loss = named("loss"), *copy = named("logits_float");
  if (block.position != BlockPosition::Last || !loss)
    return 0;
  int64_t numbers = loss->forward.flops / 4;
  const Kernel *reads = copy ? copy : loss;
  return CheckedInt(reads->forward.bytes) - CheckedInt(numbers) * 4;
}

namespace {
/// The memory of PipelineStage in addition to the activations that a backward
/// needs (torch/distributed/pipelining/stage.py):
///
///   received activation   is the input of the first block; stays after B
///   sent activation       from F to B
///   output of the last    from F to the end of the step
///   received gradient     of all microbatches, from the start on
///   gradient of the input from B to the end of the step
///
/// A model in one stage is not a pipeline and has none of these buffers:
/// torchtitan drops its logits before the backward (`del pred` in train.py).
class MessageBuffers {
public:
  MessageBuffers(const Placement &placement, const ModelFacts &model,
                 const SystemFacts *system, llvm::ArrayRef<StageBlocks> blocks)
      : placement(placement), model(model), blocks(blocks),
        messages(messagesOfStages(model, blocks)),
        copies(system && isWhole(model) ? system->tensorParallel() : 1) {}

  bool addTo(int64_t path, int64_t index, StageMemory &memory) const {
    int64_t stage = placement.stageOffset(path) + index;
    bool isFirst = index == 0;
    bool isLast = index + 1 == placement.getPath(path).getNumStages();
    int64_t input = isFirst ? 0 : messages[stage - 1].activation;
    int64_t inputGradient = isFirst ? 0 : messages[stage].gradient;
    CheckedInt left =
        CheckedInt(copies) * (CheckedInt(input) + CheckedInt(inputGradient));
    CheckedInt kept = isLast ? outputOf(stage)
                             : CheckedInt(copies) * messages[stage].activation;
    if (isLast)
      left += kept;
    bool isValid = add(memory.activationBytes, kept) &&
                   add(memory.boundaryBytes, kept) &&
                   add(memory.leftForSlicesBytes, left);
    if (isLast)
      return isValid;
    CheckedInt received = CheckedInt(copies) * messages[stage + 1].gradient *
                          placement.countOnPath(path);
    if (!isFirst)
      isValid = isValid && add(memory.inputGradFreedBytes, kept);
    return isValid && add(memory.gradientBytes, received);
  }

private:
  /// Whether every accelerator has the whole residual stream.
  static bool isWhole(const ModelFacts &model) {
    return llvm::any_of(model.blocks, [](const BlockFacts &block) {
      return block.position == BlockPosition::Layer &&
             block.whole.recomputed > 0;
    });
  }
  CheckedInt outputOf(int64_t stage) const {
    CheckedInt sum = 0;
    for (auto [block, count] : blocks[stage])
      sum += logitsOf(model.blocks[block]);
    return sum;
  }

  const Placement &placement;
  const ModelFacts &model;
  llvm::ArrayRef<StageBlocks> blocks;
  std::vector<MessageBytes> messages;
  int64_t copies; ///< of a message that is whole on every accelerator
};
} // namespace

/// Adds the buffers of FSDP2. It gathers into flat buffers, two blocks at a
/// time; the weights are copies of them. With `full`, gradients of a block have
/// the bytes of its weights until they are cast to be reduced; with
/// `full-kept`, the reduced parts have separate memory
/// (torch/distributed/fsdp/_fully_shard). Both are used on other streams, so
/// the caching allocator does not reuse this memory for tensors of the compute
/// stream. A worker runs one cell at a time, so only its stage with the most
/// bytes counts.
static bool addShardBuffers(const Placement &placement, const ModelFacts &model,
                            const SystemFacts &system,
                            llvm::ArrayRef<StageBlocks> blocks,
                            MemoryFacts &memory) {
  bool keepsGradients = system.sharding == Sharding::FullKept;
  if (system.shards() * system.contextParallel == 1 ||
      (system.sharding != Sharding::Full && !keepsGradients))
    return true;
  RankLayout layout(system, placement.getNumWorkers());
  struct Most {
    int64_t stage = -1;
    CheckedInt flat, gradient;
  };
  std::vector<Most> most(placement.getNumWorkers());
  for (auto [stage, each] : llvm::enumerate(blocks)) {
    int64_t worker = placement.workerOf(stage);
    Gathered gathered = gatheredBytes(each, model, system, layout, worker);
    if (most[worker].stage < 0 ||
        gathered.weight.get() > most[worker].flat.get())
      most[worker] = {int64_t(stage), gathered.weight, gathered.blockWeight};
    if (!keepsGradients)
      continue;
    StateSums sums;
    for (auto [block, count] : each)
      sums.add(model.blocks[block], count, model);
    CheckedInt part = int64_t(llvm::divideCeil(uint64_t(sums.gradient.get()),
                                               uint64_t(system.shards())));
    if (!sums.gradient.isValid() ||
        !add(memory.stages[stage].gradientBytes, part))
      return false;
  }
  for (const Most &each : most) {
    if (each.stage < 0)
      continue;
    StageMemory &stage = memory.stages[each.stage];
    if (!add(stage.weightBytes, each.flat) ||
        (!keepsGradients && !add(stage.gradientBytes, each.gradient)))
      return false;
  }
  return true;
}

llvm::Error pipesched::addRuntimeBuffers(Runtime runtime,
                                         const Placement &placement,
                                         const ModelFacts &model,
                                         const SystemFacts *system,
                                         MemoryFacts &memory) {
  if (runtime == Runtime::Table)
    return llvm::Error::success();
  if (llvm::Error error =
          placement.checkTrainsAll("the memory of a runtime is known for"))
    return error;
  llvm::Expected<std::vector<StageBlocks>> blocks =
      blocksOfStages(placement, model);
  if (!blocks)
    return blocks.takeError();
  bool isValid =
      !system || addShardBuffers(placement, model, *system, *blocks, memory);
  MessageBuffers buffers(placement, model, system, *blocks);
  if (memory.slices.empty()) // PyTorch's stages have no slices
    for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
      int64_t numStages = placement.getPath(path).getNumStages();
      if (numStages == 1)
        continue; // a whole model runs without PipelineStage
      for (int64_t index = 0; index < numStages; ++index)
        isValid =
            isValid &&
            buffers.addTo(path, index,
                          memory.stages[placement.stageOffset(path) + index]);
    }
  if (!isValid)
    return makeError("the memory of a stage is over 2^63 - 1 bytes");
  return llvm::Error::success();
}
