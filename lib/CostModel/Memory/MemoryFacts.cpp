//===- MemoryFacts.cpp - Bytes of each stage ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums blocks to stages: activations of one microbatch, parameters, their
// gradients and optimizer state.
//
//===----------------------------------------------------------------------===//

#include "MemoryFacts.h"
#include "../Layers/Sharding.h"
#include "PipeSched/CostModel/Layers/Slices.h"
#include "PipeSched/CostModel/Layers/StageLayers.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

namespace {
/// The bytes of a worker beyond one copy of everything that is sharded evenly
/// over its accelerators.
struct Excess {
  explicit Excess(const SystemFacts *system) {
    if (!system)
      return;
    copies = system->tensorParallel() - 1;
    if (dividesExperts(*system))
      rowsPpm = system->expertBalancePpm - kEvenBalance;
    wideCopies = system->expertWidths() - 1;
  }

  /// Every accelerator has room for as many rows as the fullest one, and for
  /// all rows of an expert whose widths are sharded.
  CheckedInt ofRows(int64_t bytes, int64_t wide) const {
    CheckedInt copied = CheckedInt(wide) * wideCopies;
    CheckedInt product = (copied + bytes) * rowsPpm;
    return product.isValid()
               ? copied + int64_t(llvm::divideCeil(uint64_t(product.get()),
                                                   uint64_t(kEvenBalance)))
               : product;
  }

  /// Extra copies of bytes that are whole on each accelerator of a
  /// tensor-parallel group.
  int64_t copies = 0;
  int64_t rowsPpm = 0;    ///< extra rows of experts, parts per million
  int64_t wideCopies = 0; ///< the same for rows that are not sharded by widths
};

struct StageSums {
  CheckedInt activations, weightGrad, boundary;
  /// Of the largest block, without the tensors that F keeps.
  CheckedInt working;

  void add(const BlockFacts &block, CheckedInt count, Recompute recompute,
           const Excess &excess) {
    CheckedInt copies = excess.copies;
    CheckedInt all = block.activationBytes + copies * block.whole.activation;
    CheckedInt gradients =
        block.weightGradBytes + copies * block.whole.weightGrad;
    if (block.experts) {
      const ExpertFacts &experts = *block.experts;
      all += excess.ofRows(experts.activationBytes, experts.wide.activation);
      gradients +=
          excess.ofRows(experts.weightGradBytes, experts.wide.weightGrad);
    }
    CheckedInt kept =
        recompute == Recompute::Selective
            ? all - block.coreBytes
            : block.recomputedBytes + copies * block.whole.recomputed;
    activations += count * all;
    weightGrad += count * gradients;
    boundary += count * kept;
    CheckedInt dropped = all - kept;
    if (dropped.get() > working.get())
      working = dropped;
  }
};
} // namespace

static bool assign(int64_t &bytes, CheckedInt value) {
  bytes = value.get();
  return value.isValid();
}

/// By worker: whether it owns the first blocks of the model. These include the
/// table that the end of the model may share.
static std::vector<bool> findFirstBlocks(const Placement &placement,
                                         const ModelFacts &model,
                                         llvm::ArrayRef<StageBlocks> owned) {
  std::vector<bool> hasFirst(placement.getNumWorkers());
  for (auto [stage, blocks] : llvm::enumerate(owned))
    if (llvm::any_of(blocks, [&](const BlockCount &each) {
          return model.blocks[each.block].position == BlockPosition::First;
        }))
      hasFirst[placement.workerOf(stage)] = true;
  return hasFirst;
}

namespace {
/// The weights, gradients and state of the blocks that a stage owns. A worker
/// with both ends of the model holds their shared table once.
struct StageState {
  StageState(const StageBlocks &owned, const ModelFacts &model, bool hasFirst,
             bool dividesExperts) {
    for (auto [index, count] : owned) {
      const BlockFacts &block = model.blocks[index];
      bool isThere = hasFirst && block.position == BlockPosition::Last;
      int64_t without = isThere ? block.tiedParameters : 0;
      others.add(block, count, model, without,
                 dividesExperts ? Parameters::Others : Parameters::All);
      if (dividesExperts)
        experts.add(block, count, model, 0, Parameters::Experts);
    }
  }

  /// The number that `part` points to, as held by the accelerators of a worker.
  /// Each rank of a sequence holds its part of a layer again; each rank holds
  /// its part of the experts.
  CheckedInt held(CheckedInt StateSums::*part,
                  const SystemFacts *system) const {
    if (!system)
      return others.*part;
    CheckedInt rows = experts.*part * system->accelerators;
    int64_t ofExperts =
        llvm::divideCeil(uint64_t(rows.get()), uint64_t(system->expertRanks()));
    CheckedInt sum =
        others.*part * system->contextParallel + CheckedInt(ofExperts);
    return rows.isValid() ? sum : rows;
  }

  CheckedInt all(CheckedInt StateSums::*part) const {
    return others.*part + experts.*part;
  }

  StateSums others, experts; ///< `experts` are sharded differently
};
} // namespace

/// Fills in the state of a stage. `sharding` shards state over all accelerators
/// that hold the same parameters. Returns false if a number overflows.
static bool fillState(StageMemory &memory, const StageState &parameters,
                      const SystemFacts *system) {
  Sharding sharding = system ? system->sharding : Sharding::None;
  bool sharesWeights = sharding == Sharding::Full;
  bool sharesGradients = sharesWeights || sharding == Sharding::Gradients;
  auto put = [&](int64_t &bytes, CheckedInt StateSums::*part, bool isShared) {
    if (!isShared)
      return assign(bytes, parameters.held(part, system));
    bool isValid = assign(bytes, parameters.all(part));
    bytes = llvm::divideCeil(uint64_t(bytes), uint64_t(system->shards()));
    return isValid;
  };
  return put(memory.weightBytes, &StateSums::weight, sharesWeights) &&
         put(memory.gradientBytes, &StateSums::gradient, sharesGradients) &&
         put(memory.optimizerBytes, &StateSums::optimizer,
             sharding != Sharding::None);
}

namespace {
/// The memory of stages for one unit.
class UnitSums {
public:
  UnitSums(const ModelFacts &model, const SystemFacts *system, PhaseSet phases)
      : excess(system),
        recomputesInBackward(model.recompute != Recompute::None &&
                             !phases.contains(Phase::Recompute)) {}

  /// Fills in the memory of a stage from its blocks; the unit has the facts of
  /// `model`. Without R cells a backward recomputes block by block: F keeps
  /// only the boundary, and one block at a time is restored. After a split I,
  /// everything that W needs of all blocks is present. Returns false if a
  /// number overflows.
  bool fill(StageMemory &memory, const ModelFacts &model,
            const StageBlocks &blocks) const {
    StageSums sums;
    for (auto [block, count] : blocks)
      sums.add(model.blocks[block], count, model.recompute, excess);
    CheckedInt kept = recomputesInBackward ? sums.boundary : sums.activations;
    CheckedInt working = recomputesInBackward ? sums.working : 0;
    return sums.activations.isValid() && assign(memory.activationBytes, kept) &&
           assign(memory.inputGradFreedBytes, kept - sums.weightGrad) &&
           assign(memory.boundaryBytes, sums.boundary) &&
           assign(memory.workingBytes, working);
  }

private:
  Excess excess;
  bool recomputesInBackward;
};
} // namespace

/// Adds the gradients of keys and values that wait for the backwards of their
/// slices. The last slice runs first and leaves the gradients of all others:
///
///   slice of B    2        1        0
///   holds         g0 + g1  g0       -       g_j: of the tokens of slice j
///
/// Returns false if a number overflows.
static bool addGradientsOfKeys(const StageBlocks &blocks,
                               const ModelFacts &model,
                               llvm::ArrayRef<TokenSpan> slices,
                               llvm::MutableArrayRef<StageMemory> memory) {
  CheckedInt all = 0;
  for (auto [block, count] : blocks)
    all += CheckedInt(count) * keyValueBytes(model.blocks[block]);
  auto before = [&](int64_t end) {
    return static_cast<int64_t>(static_cast<__int128>(all.get()) * end /
                                model.sequence);
  };
  int64_t ofEarlier = before(slices.back().begin);
  memory.back().leftForSlicesBytes = ofEarlier;
  bool isValid = all.isValid() &&
                 assign(memory.back().workingBytes,
                        CheckedInt(memory.back().workingBytes) + ofEarlier);
  for (auto [span, each] : llvm::zip(slices.drop_back(), memory))
    each.leftForSlicesBytes = before(span.begin) - before(span.end);
  return isValid;
}

/// Fills in the memory of stages for each slice. Returns false if a number
/// overflows.
static bool fillSlices(llvm::ArrayRef<TokenSpan> slices,
                       const ModelFacts &model, const UnitSums &sums,
                       llvm::ArrayRef<StageBlocks> stages, MemoryFacts &facts) {
  facts.numSlices = slices.size();
  for (const StageMemory &stage : facts.stages)
    facts.slices.insert(facts.slices.end(), slices.size(), stage);
  auto sliceOf = [&](size_t stage, size_t slice) -> StageMemory & {
    return facts.slices[stage * slices.size() + slice];
  };
  for (auto [slice, span] : llvm::enumerate(slices)) {
    ModelFacts part = takeSlice(model, span);
    for (auto [stage, blocks] : llvm::enumerate(stages))
      if (!sums.fill(sliceOf(stage, slice), part, blocks))
        return false;
  }
  for (auto [stage, blocks] : llvm::enumerate(stages)) {
    if (!addGradientsOfKeys(blocks, model, slices,
                            {&sliceOf(stage, 0), slices.size()}))
      return false;
    StageMemory &first = facts.stages[stage], own = sliceOf(stage, 0);
    for (auto bytes :
         {&StageMemory::activationBytes, &StageMemory::inputGradFreedBytes,
          &StageMemory::boundaryBytes, &StageMemory::workingBytes})
      first.*bytes = own.*bytes;
  }
  return true;
}

/// Adds the memory of parameters that are gathered for a cell. A worker runs
/// one cell at a time, so the largest amount of each worker is added to the
/// stage that has it. Returns false if a number overflows.
static bool addGathered(const Placement &placement, const ModelFacts &model,
                        const SystemFacts &system,
                        llvm::ArrayRef<StageBlocks> stages,
                        MemoryFacts &facts) {
  RankLayout layout(system, placement.getNumWorkers());
  /// The stage of a worker with the most bytes of each kind, and these bytes.
  struct Most {
    int64_t stage = 0;
    CheckedInt bytes;

    void update(int64_t other, CheckedInt otherBytes) {
      if (!otherBytes.isValid() || otherBytes.get() > bytes.get())
        *this = {other, otherBytes};
    }
    bool addTo(MemoryFacts &facts, int64_t StageMemory::*part) const {
      int64_t &sum = facts.stages[stage].*part;
      return assign(sum, bytes + sum);
    }
  };
  std::vector<Most> weights(placement.getNumWorkers());
  std::vector<Most> gradients(placement.getNumWorkers());
  for (auto [stage, blocks] : llvm::enumerate(stages)) {
    int64_t worker = placement.workerOf(stage);
    Gathered gathered = gatheredBytes(blocks, model, system, layout, worker);
    weights[worker].update(stage, gathered.weight);
    if (placement.backwardOf(stage) == StageBackward::Whole)
      gradients[worker].update(stage, gathered.gradient);
  }
  bool isValid = true;
  for (const Most &most : gradients)
    isValid &= most.addTo(facts, &StageMemory::gradientBytes);
  if (system.sharding == Sharding::Full)
    for (const Most &most : weights)
      isValid &= most.addTo(facts, &StageMemory::weightBytes);
  return isValid;
}

/// Adds the tensors of edges, if there are others than chains. The activations
/// of a stage contain its input from a chain.
static void addEdges(const Placement &placement, const ModelFacts &model,
                     llvm::ArrayRef<StageBlocks> stages, MemoryFacts &facts) {
  if (placement.getAdded().isEmpty())
    return;
  for (const EdgeBytes &edge :
       bytesOfEdges(placement, messagesOfStages(model, stages)))
    facts.edges.push_back({edge.from, edge.to,
                           edge.isAdded ? edge.activation : 0, edge.gradient});
}

llvm::Expected<MemoryFacts> pipesched::computeMemoryWithoutShards(
    const Placement &placement, const ModelFacts &model,
    const SystemFacts *system, PhaseSet phases) {
  llvm::Expected<std::vector<StageBlocks>> stages =
      blocksOfStages(placement, model);
  if (!stages)
    return stages.takeError();
  llvm::Expected<std::vector<StageBlocks>> owned =
      ownedBlocksOfStages(placement, model, *stages);
  if (!owned)
    return owned.takeError();

  auto tooLarge = [] {
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "the memory of a stage is over 2^63 - 1 bytes");
  };
  UnitSums sums(model, system, phases);
  MemoryFacts facts;
  facts.stages.resize(stages->size());
  std::vector<bool> hasFirst = findFirstBlocks(placement, model, *owned);
  for (auto [stage, memory] : llvm::enumerate(facts.stages)) {
    StageState state((*owned)[stage], model,
                     hasFirst[placement.workerOf(stage)],
                     system && dividesExperts(*system));
    if (!sums.fill(memory, model, (*stages)[stage]) ||
        !fillState(memory, state, system))
      return tooLarge();
    if (placement.backwardOf(stage) != StageBackward::Whole)
      memory.gradientBytes = memory.optimizerBytes = 0;
  }
  if (placement.getNumSlices() > 1) {
    llvm::Expected<std::vector<TokenSpan>> slices =
        cutSequence(model, placement.getNumSlices(), system);
    if (!slices)
      return slices.takeError();
    if (!fillSlices(*slices, model, sums, *stages, facts))
      return tooLarge();
  }

  addEdges(placement, model, *stages, facts);
  if (!system)
    return facts;
  if (movesInCells(*system) &&
      !addGathered(placement, model, *system, *stages, facts))
    return tooLarge();
  CheckedInt capacity = CheckedInt(system->memoryBytes) * system->accelerators;
  if (!capacity.isValid())
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "the memory of a worker is over 2^63 - 1 bytes");
  facts.capacityBytes = capacity.get();
  return facts;
}
