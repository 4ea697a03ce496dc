//===- Liveness.cpp - Lifetimes of tensors --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks twice over the row of a worker. The backward walk finds the tensors
// that a reload must bring back: tensors of its stage and microbatch that are
// read before they are made again. The forward walk creates versions. Linear in
// instructions and their tensors.
//
//===----------------------------------------------------------------------===//

#include "Liveness.h"
#include "PipeSched/Stages/PersistentLayout.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static constexpr uint32_t kNone = Program::kNone;

namespace {
/// A tensor is numbered by its stage, the rank of its microbatch and its name:
///
///   stage s                                    next stage of the worker
///   | microbatch 0        | microbatch 1 | ..  |
///   | x y dx dy t r0 r1 . |
///
/// If two consecutive stages are on the worker, the tensor that one passes to
/// the other exists once: as the input of the later stage, or its input's
/// gradient as the output gradient of the earlier one. A stage with a shard of
/// a vocabulary also has the last output, its gradient and the partials of
/// shards. On the worker of the last stage, the first two are that stage's
/// output and output gradient.
class LivenessFinder {
public:
  LivenessFinder(const LoadedProgram &loaded, const StageKernels &kernels,
                 int64_t worker);

  FailureOr<RowLiveness> run();

private:
  /// The tensors of one role: `first + rank * width`.
  struct Series {
    uint32_t first, width;

    uint32_t at(uint32_t rank) const { return first + rank * width; }
  };
  struct Access {
    Series tensors;
    int64_t bytes;
    bool isRead, isWritten, isActivation;
    /// Whether all slices of a microbatch share one tensor. The slice `begunBy`
    /// makes it and others change it in place; -1: others read it.
    bool isShared = false;
    int64_t begunBy = -1;
    /// Whether it stays in the arena because a collective may be changing it.
    bool isPinned = false;
  };
  /// The tensors that a stage sends and receives along one path.
  struct Edges {
    Series output, inputGradient;
  };

  const Instruction &at(uint32_t i) const {
    return loaded.program.instructions[i];
  }
  const Stage &stageOf(int64_t stage) const {
    return kernels.getFunctions().stages[stage];
  }
  uint32_t rankMicrobatches();
  uint32_t rankOf(Cell cell) const {
    if (ranked.empty())
      return cell.getUnit();
    return llvm::lower_bound(ranked, cell.getUnit()) - ranked.begin();
  }
  /// The rank of the first slice of the cell's microbatch.
  uint32_t firstRankOf(Cell cell) const {
    int64_t numSlices = loaded.placement.getNumSlices();
    return rankOf(Cell(cell.getStage(), cell.getPhase(),
                       cell.getUnit() / numSlices * numSlices));
  }
  uint32_t tensorOf(const Access &access) const {
    return access.tensors.at(access.isShared ? firstRank : rank);
  }
  bool isHere(int64_t stage, int64_t path) const;
  int64_t lastStage() const { return kernels.getFunctions().stages.size() - 1; }
  /// For a stage with a shard: its first tensor that shards share.
  uint32_t firstOfShard(const Stage &stage) const {
    return 5 + stage.residuals.size() + stage.earlier.size() +
           stage.earlierGradients.size();
  }
  int64_t shardHere(int64_t path) const;
  Series ofShard(int64_t path, ActivationName name) const;
  Edges edgesOf(int64_t stage, int64_t path) const;
  Series seriesOf(int64_t stage, int64_t path, ActivationName name) const;
  uint32_t firstOf(Cell cell) const {
    return begins[cell.getStage()] + rankOf(cell) * widths[cell.getStage()];
  }
  Access accessTo(int64_t stage, int64_t path, ActivationName name,
                  int64_t bytes, bool isRead, bool isWritten) const;
  Access accessTo(int64_t stage, int64_t path,
                  const KernelBuffer &buffer) const;
  FailureOr<SmallVector<Access, 4>> listAccesses(uint32_t instruction,
                                                 int64_t path) const;
  FailureOr<SmallVector<Access, 4>> listReceived(uint32_t instruction,
                                                 int64_t path) const;
  SmallVector<Access, 4> listExchanged(uint32_t instruction,
                                       int64_t path) const;
  LogicalResult findAccesses(uint32_t instruction);
  LogicalResult findMoved();
  LogicalResult makeVersions(uint32_t instruction);
  std::string describeUnit(int64_t unit) const;
  LogicalResult read(uint32_t instruction, uint32_t tensor);
  uint32_t makeVersion(uint32_t instruction, int64_t bytes, bool isActivation);
  LogicalResult copy(uint32_t instruction);

  const LoadedProgram &loaded;
  const StageKernels &kernels;
  int64_t worker;
  uint32_t rowBegin, rowEnd;
  /// By stage: its first tensor, and the number of tensors per microbatch.
  std::vector<uint32_t> begins, widths;
  std::vector<Edges> edges; ///< by path, then by stage
  uint32_t numTensors = 0;
  bool hasTooMany = false; ///< whether there are more tensors than numbers
  /// Microbatches in the row; empty: each is its own rank.
  std::vector<int64_t> ranked;

  ArrayRef<Access> accesses; ///< of the current instruction
  uint32_t rank = 0;         ///< of the unit of the current instruction
  uint32_t firstRank = 0;    ///< of its microbatch
  /// By path, stage, phase and kind of instruction, filled on first use.
  std::vector<std::optional<SmallVector<Access, 4>>> known;
  /// By the first tensor of a stage and microbatch: the tensors that its reload
  /// brings back.
  llvm::DenseMap<uint32_t, SmallVector<uint32_t>> moved;
  std::vector<uint32_t> current, inHost; ///< by tensor: its version, or none
  RowLiveness result;
};
} // namespace

/// Numbers the microbatches that occur in the row, so that memory grows with
/// these and not with the microbatches that the program declares. Returns the
/// number of ranks.
uint32_t LivenessFinder::rankMicrobatches() {
  std::vector<int64_t> found;
  int64_t end = 0;
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    if (at(i).cell.isPerPath() || at(i).is(InstructionRole::Collective))
      continue;
    found.push_back(at(i).cell.getUnit());
    end = std::max(end, found.back() + 1);
  }
  if (end <= static_cast<int64_t>(found.size()))
    return end;
  llvm::sort(found);
  found.erase(llvm::unique(found), found.end());
  ranked = std::move(found);
  return ranked.size();
}

LivenessFinder::LivenessFinder(const LoadedProgram &loaded,
                               const StageKernels &kernels, int64_t worker)
    : loaded(loaded), kernels(kernels), worker(worker),
      rowBegin(loaded.program.rowBegins[worker]),
      rowEnd(loaded.program.rowBegins[worker + 1]) {
  uint64_t numRanks = rankMicrobatches();
  for (const Stage &stage : kernels.getFunctions().stages) {
    bool isHosted =
        llvm::any_of(loaded.placement.getPaths(), [&](const Path &path) {
          return path.workers[stage.number] == this->worker;
        });
    begins.push_back(numTensors);
    widths.push_back(firstOfShard(stage));
    if (kernels.getFunctions().shardOf(stage.number))
      widths.back() += 2 + kernels.getFunctions().partials.size();
    if (!isHosted)
      continue;
    uint64_t end = numTensors + widths.back() * numRanks;
    hasTooMany |= end >= kNone;
    numTensors = hasTooMany ? 0 : end;
  }
  for (int64_t path = 0; path < loaded.placement.getNumPaths(); ++path)
    for (size_t stage = 0; stage < begins.size(); ++stage)
      edges.push_back(edgesOf(stage, path));
  known.resize(edges.size() * kNumPhases * kNumInstructionKinds);
}

bool LivenessFinder::isHere(int64_t stage, int64_t path) const {
  const Placement &placement = loaded.placement;
  return stage >= 0 && stage < placement.getNumStages(path) &&
         placement.getPath(path).workers[stage] == worker;
}

/// Returns the stage of a path whose shard is on this worker.
int64_t LivenessFinder::shardHere(int64_t path) const {
  ArrayRef<int64_t> shards = kernels.getFunctions().shards;
  const auto *found =
      llvm::find_if(shards, [&](int64_t stage) { return isHere(stage, path); });
  assert(found != shards.end() && "every worker of a path has a shard");
  return *found;
}

LivenessFinder::Series LivenessFinder::ofShard(int64_t path,
                                               ActivationName name) const {
  bool isLastHere = isHere(lastStage(), path);
  if (name.role == StageRole::LastOutput && isLastHere)
    return seriesOf(lastStage(), path, {StageRole::Output});
  if (name.role == StageRole::LastOutputGradient && isLastHere)
    return seriesOf(lastStage(), path, {StageRole::OutputGradient});
  int64_t stage = shardHere(path);
  uint32_t place = firstOfShard(stageOf(stage));
  if (name.role == StageRole::LastOutputGradient)
    place += 1;
  if (name.role == StageRole::Partials)
    place += 2 + name.index;
  return {begins[stage] + place, widths[stage]};
}

LivenessFinder::Edges LivenessFinder::edgesOf(int64_t stage,
                                              int64_t path) const {
  Edges found{{begins[stage] + 1, widths[stage]},
              {begins[stage] + 2, widths[stage]}};
  if (isHere(stage + 1, path))
    found.output = {begins[stage + 1], widths[stage + 1]};
  if (isHere(stage - 1, path) && stageOf(stage - 1).outputGradient)
    found.inputGradient = {begins[stage - 1] + 3, widths[stage - 1]};
  return found;
}

LivenessFinder::Series LivenessFinder::seriesOf(int64_t stage, int64_t path,
                                                ActivationName name) const {
  const Edges &handed = edges[path * begins.size() + stage];
  auto own = [&](uint32_t place) {
    return Series{begins[stage] + place, widths[stage]};
  };
  switch (name.role) {
  case StageRole::Input:
    return own(0);
  case StageRole::Output:
    return handed.output;
  case StageRole::InputGradient:
    return handed.inputGradient;
  case StageRole::OutputGradient:
    return own(3);
  case StageRole::Target:
    return own(4);
  case StageRole::Earlier:
    return own(5 + stageOf(stage).residuals.size() + name.index);
  case StageRole::EarlierGradient:
    return own(5 + stageOf(stage).residuals.size() +
               stageOf(stage).earlier.size() + name.index);
  case StageRole::LastOutput:
  case StageRole::LastOutputGradient:
  case StageRole::Partials:
    return ofShard(path, name);
  default:
    return own(5 + name.index);
  }
}

LivenessFinder::Access LivenessFinder::accessTo(int64_t stage, int64_t path,
                                                ActivationName name,
                                                int64_t bytes, bool isRead,
                                                bool isWritten) const {
  bool isActivation =
      name.role == StageRole::Input || name.role == StageRole::Residual;
  Access access = {seriesOf(stage, path, name), bytes, isRead, isWritten,
                   isActivation};
  // With shards, collectives send the last stage's output and its gradient to
  // all workers.
  bool isLastOfShards =
      stage == lastStage() && !kernels.getFunctions().shards.empty();
  access.isPinned =
      name.role == StageRole::LastOutput ||
      name.role == StageRole::LastOutputGradient ||
      name.role == StageRole::Partials ||
      (isLastOfShards && (name.role == StageRole::Output ||
                          name.role == StageRole::OutputGradient));
  return access;
}

/// Describes the access to a buffer. A tensor that slices share starts with the
/// first F of a microbatch, its gradient with the first backward, which is of
/// the last slice.
LivenessFinder::Access
LivenessFinder::accessTo(int64_t stage, int64_t path,
                         const KernelBuffer &buffer) const {
  Access access = accessTo(stage, path, buffer.name, buffer.bytes,
                           buffer.isRead, buffer.isWritten);
  access.isShared = buffer.name.isShared();
  if (auto slice = buffer.begunBy(loaded.placement.getNumSlices())) {
    access.isActivation = buffer.name.role == StageRole::Earlier;
    access.begunBy = *slice;
  }
  return access;
}

/// Lists the tensors that messages and computes read and write. `moved` has the
/// tensors of copies. Sums of gradients access only gradients, which are
/// persistent.
FailureOr<SmallVector<LivenessFinder::Access, 4>>
LivenessFinder::listAccesses(uint32_t instruction, int64_t path) const {
  SmallVector<Access, 4> listed;
  auto [cell, peer, kind] = at(instruction);
  int64_t stage = cell.getStage();
  bool isForward = cell.is(Phase::Forward);
  if (!traitsOf(kind).isCompiled)
    return emitTableError(loaded.ops[instruction])
           << "is not run by compiled programs";
  if (traitsOf(kind).grouping == Grouping::Unit)
    return listExchanged(instruction, path);
  switch (traitsOf(kind).role) {
  case InstructionRole::Message: {
    if (kind == InstructionKind::Recv)
      return listReceived(instruction, path);
    listed.push_back(accessTo(
        stage, path, {isForward ? StageRole::Output : StageRole::InputGradient},
        bytesOf(isForward ? stageOf(stage).output
                          : stageOf(stage).inputGradient),
        /*isRead=*/true, /*isWritten=*/false));
    return listed;
  }
  case InstructionRole::Compute: {
    const StageKernel *kernel = kernels.find(stage, cell.getPhase());
    if (!kernel)
      return emitTableError(loaded.ops[instruction])
             << "runs " << phaseLetter(cell.getPhase()) << " of stage " << stage
             << ", which has no function for it";
    if (!cell.isPerPath())
      for (const KernelBuffer &buffer : kernel->buffers)
        listed.push_back(accessTo(stage, path, buffer));
    return listed;
  }
  case InstructionRole::Copy:
  case InstructionRole::Join:
  case InstructionRole::Collective:
    return listed;
  }
  llvm_unreachable("covered switch");
}

/// Lists the tensors that shards exchange: a broadcast sends the output of the
/// last stage to all other workers; sums change the result of a shard in place.
SmallVector<LivenessFinder::Access, 4>
LivenessFinder::listExchanged(uint32_t instruction, int64_t path) const {
  const StageFunctions &functions = kernels.getFunctions();
  int64_t stage = at(instruction).cell.getStage();
  InstructionKind kind = at(instruction).kind;
  auto access = [&](ActivationName name, bool isWritten) {
    RankedTensorType type = typeOf(functions, stageOf(stage), name);
    return accessTo(stage, path, name, bytesOf(type), !isWritten, isWritten);
  };
  if (kind == InstructionKind::Broadcast)
    return {access({StageRole::LastOutput}, !isHere(lastStage(), path))};
  if (kind == InstructionKind::Reduce)
    return {access({StageRole::LastOutputGradient}, /*isWritten=*/false)};
  SmallVector<Access, 4> listed;
  for (unsigned i = 0; i < functions.partials.size(); ++i)
    listed.push_back(access({StageRole::Partials, i}, /*isWritten=*/false));
  return listed;
}

/// Lists the tensors that a receive writes.
FailureOr<SmallVector<LivenessFinder::Access, 4>>
LivenessFinder::listReceived(uint32_t instruction, int64_t path) const {
  Cell cell = at(instruction).cell;
  bool isForward = cell.is(Phase::Forward);
  int64_t user = cell.getStage() + (isForward ? 1 : -1);
  ActivationName name{isForward ? StageRole::Input : StageRole::OutputGradient};
  RankedTensorType type = typeOf(kernels.getFunctions(), stageOf(user), name);
  if (!type)
    return emitTableError(loaded.ops[instruction])
           << "brings a gradient that no function of stage " << user
           << " takes";
  return SmallVector<Access, 4>{accessTo(user, path, name, bytesOf(type),
                                         /*isRead=*/false,
                                         /*isWritten=*/true)};
}

/// Sets `accesses` and `rank`. All microbatches of a path have the same
/// accesses, so the accesses are listed once.
LogicalResult LivenessFinder::findAccesses(uint32_t instruction) {
  auto [cell, peer, kind] = at(instruction);
  accesses = {};
  const InstructionTraits &traits = traitsOf(kind);
  if (traits.role == InstructionRole::Copy ||
      traits.role == InstructionRole::Join ||
      (traits.role == InstructionRole::Collective && traits.isCompiled &&
       traits.grouping == Grouping::Blocks))
    return success();
  if (cell.isPerPath())
    return listAccesses(instruction, /*path=*/0);
  rank = rankOf(cell);
  firstRank = firstRankOf(cell);
  int64_t path = loaded.placement.pathOf(cell.getUnit());
  size_t place = path * begins.size() + cell.getStage();
  place = place * kNumPhases + static_cast<unsigned>(cell.getPhase());
  auto &listed =
      known[place * kNumInstructionKinds + static_cast<unsigned>(kind)];
  if (!listed) {
    FailureOr<SmallVector<Access, 4>> found = listAccesses(instruction, path);
    if (failed(found))
      return failure();
    listed = std::move(*found);
  }
  accesses = *listed;
  return success();
}

/// Finds the tensors that copies move. A tensor that is made between the
/// offload and the reload, such as a gradient that arrives, is not moved. A
/// tensor is also not moved if its receive is posted before the offload and it
/// is not read until then, because it may not have arrived.
LogicalResult LivenessFinder::findMoved() {
  auto isCopy = [&](uint32_t i) { return at(i).is(InstructionRole::Copy); };
  if (llvm::none_of(llvm::seq(rowBegin, rowEnd), isCopy))
    return success();
  std::vector<bool> isRead(numTensors); // before it is made again
  // By tensor that a reload seems to bring back: the first tensor of its
  // microbatch.
  std::vector<uint32_t> movedWith(numTensors, kNone);
  // The same for tensors that an offload reads and no earlier compute does.
  std::vector<uint32_t> movedUnread(numTensors, kNone);
  auto keep = [&](uint32_t tensor) {
    uint32_t first = std::exchange(movedWith[tensor], kNone);
    if (first != kNone)
      llvm::erase(moved[first], tensor);
  };
  for (uint32_t i = rowEnd; i-- > rowBegin;) {
    if (failed(findAccesses(i)))
      return failure();
    for (const Access &access : accesses) {
      // Not copied, because other slices need it, or a collective may be
      // changing it.
      if (access.isShared || access.isPinned)
        continue;
      uint32_t tensor = access.tensors.at(rank);
      if (access.isWritten)
        keep(tensor);
      isRead[tensor] = access.isRead;
      uint32_t unread = std::exchange(movedUnread[tensor], kNone);
      if (unread != kNone && at(i).is(InstructionKind::Recv))
        llvm::erase(moved[unread], tensor);
    }
    if (!at(i).is(InstructionRole::Copy))
      continue;
    uint32_t first = firstOf(at(i).cell);
    SmallVector<uint32_t> &tensors = moved[first];
    bool isReload = at(i).is(InstructionKind::Reload);
    if (isReload)
      for (uint32_t tensor = first;
           tensor < first + widths[at(i).cell.getStage()]; ++tensor)
        if (isRead[tensor])
          tensors.push_back(tensor);
    for (uint32_t tensor : tensors) {
      movedWith[tensor] = isReload ? first : kNone;
      movedUnread[tensor] = isReload ? kNone : first;
      isRead[tensor] = !isReload;
    }
  }
  return success();
}

uint32_t LivenessFinder::makeVersion(uint32_t instruction, int64_t bytes,
                                     bool isActivation) {
  TensorVersion &version = result.versions.emplace_back();
  version.made = version.lastUse = instruction;
  version.bytes = bytes;
  version.isActivation = isActivation;
  return result.versions.size() - 1;
}

/// Returns "microbatch 3" or "slice 1 of microbatch 3".
std::string LivenessFinder::describeUnit(int64_t unit) const {
  const Placement &placement = loaded.placement;
  std::string text =
      "microbatch " + std::to_string(placement.microbatchOf(unit));
  if (placement.getNumSlices() == 1)
    return text;
  return "slice " + std::to_string(placement.sliceOf(unit)) + " of " + text;
}

LogicalResult LivenessFinder::read(uint32_t instruction, uint32_t tensor) {
  if (current[tensor] == kNone)
    return emitTableError(loaded.ops[instruction])
           << "reads a tensor of stage " << at(instruction).cell.getStage()
           << " and " << describeUnit(at(instruction).cell.getUnit())
           << " that no instruction of worker " << worker
           << " in front of it has made or received";
  TensorVersion &version = result.versions[current[tensor]];
  version.lastUse = instruction;
  if (!at(instruction).is(InstructionKind::Compute))
    version.readers.push_back(instruction);
  return success();
}

LogicalResult LivenessFinder::copy(uint32_t instruction) {
  bool isOffload = at(instruction).is(InstructionKind::Offload);
  for (uint32_t tensor : moved[firstOf(at(instruction).cell)]) {
    if (isOffload) {
      if (failed(read(instruction, tensor)))
        return failure();
      const TensorVersion &version = result.versions[current[tensor]];
      inHost[tensor] =
          makeVersion(instruction, version.bytes, version.isActivation);
      result.versions.back().isInHost = true;
    } else {
      TensorVersion &host = result.versions[inHost[tensor]];
      host.lastUse = instruction;
      host.readers.push_back(instruction);
      current[tensor] = makeVersion(instruction, host.bytes, host.isActivation);
    }
    result.buffers.push_back(current[tensor]);
    result.buffers.push_back(inHost[tensor]);
  }
  return success();
}

LogicalResult LivenessFinder::makeVersions(uint32_t instruction) {
  if (at(instruction).is(InstructionRole::Copy))
    return copy(instruction);
  if (failed(findAccesses(instruction)))
    return failure();
  int64_t slice = loaded.placement.sliceOf(at(instruction).cell.getUnit());
  auto isMade = [&](const Access &access) {
    return access.isShared ? access.begunBy == slice : access.isWritten;
  };
  for (const Access &access : accesses)
    if (access.isRead && !(access.isShared && isMade(access)) &&
        failed(read(instruction, tensorOf(access))))
      return failure();
  for (const Access &access : accesses) {
    uint32_t tensor = tensorOf(access);
    if (isMade(access))
      current[tensor] =
          makeVersion(instruction, access.bytes, access.isActivation);
    result.buffers.push_back(current[tensor]);
  }
  return success();
}

FailureOr<RowLiveness> LivenessFinder::run() {
  if (hasTooMany)
    return emitTableError(loaded.ops[rowBegin])
           << "is of worker " << worker << ", whose row has more than "
           << kNone - 1 << " tensors";
  if (failed(findMoved()))
    return failure();
  current.assign(numTensors, kNone);
  inHost.assign(numTensors, kNone);
  result.bufferBegins.reserve(rowEnd - rowBegin + 1);
  result.versions.reserve(2 * (rowEnd - rowBegin));
  result.buffers.reserve(4 * (rowEnd - rowBegin));
  result.bufferBegins.push_back(0);
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    if (failed(makeVersions(i)))
      return failure();
    result.bufferBegins.push_back(result.buffers.size());
  }
  return std::move(result);
}

FailureOr<RowLiveness> pipesched::findLiveness(const LoadedProgram &loaded,
                                               const StageKernels &kernels,
                                               int64_t worker) {
  return LivenessFinder(loaded, kernels, worker).run();
}
