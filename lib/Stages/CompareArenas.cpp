//===- CompareArenas.cpp - Arenas and predicted peaks ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads places from the ops instead of the assignment. Walks a row twice: first
// over its places, up to the instruction at which the arena has its size; then
// over the counts of the costs for each stage and microbatch, up to that
// instruction and on to the end.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/CompareArenas.h"
#include "ArenaAllocator.h"
#include "Liveness.h"
#include "PipeSched/CostModel/CostModel.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Stages/Kernels.h"
#include "PipeSched/Stages/PersistentLayout.h"
#include "RowWaits.h"
#include <map>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

namespace {
/// The contents of the arena at the moment at which it reaches its size.
struct FullArena {
  uint32_t instruction = 0;
  int64_t aligned = 0, live = 0, inFlight = 0, gaps = 0, largestGap = 0;
  int64_t grownBy = 0;
  std::vector<uint32_t> versions; ///< the live ones
};

/// Puts tensors at the places that the ops of a row state, and records the last
/// tensor of each place.
class ArenaWalk {
public:
  ArenaWalk(const LoadedProgram &loaded, const RowLiveness &row, int64_t worker)
      : loaded(loaded), row(row), rowBegin(loaded.program.rowBegins[worker]),
        rowEnd(loaded.program.rowBegins[worker + 1]),
        waits(loaded.program, worker) {}

  /// Walks until the arena has `size` bytes.
  FailureOr<FullArena> run(int64_t size);

private:
  /// The version at an offset.
  struct Tenant {
    int64_t end;
    uint32_t version;
  };

  LogicalResult findOffsets();
  void put(uint32_t version);
  FullArena describe(uint32_t instruction, int64_t size) const;
  bool isLive(uint32_t version, uint32_t instruction) const {
    return row.versions[version].lastUse >= instruction;
  }
  bool isInFlight(uint32_t version) const;
  int64_t endOf(uint32_t version) const {
    return offsets[version] + ArenaAllocator::align(bytesOf(version));
  }
  int64_t bytesOf(uint32_t version) const {
    return row.versions[version].bytes;
  }

  const LoadedProgram &loaded;
  const RowLiveness &row;
  uint32_t rowBegin, rowEnd;
  std::vector<int64_t> offsets; ///< by version
  RowWaits waits;
  /// By start: the last version at this place.
  std::map<int64_t, Tenant> tenants;
};
} // namespace

/// Finds the offsets of all versions. For a copy, `at` lists the place in the
/// arena, the place in host memory and the bytes; for a pair, the places of its
/// first half and then of its second.
LogicalResult ArenaWalk::findOffsets() {
  offsets.assign(row.versions.size(), -1);
  size_t used = 0;
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    Operation *op = loaded.ops[i];
    if (i == rowBegin || loaded.ops[i - 1] != op)
      used = 0;
    auto places = op->getAttrOfType<DenseI64ArrayAttr>("buffers");
    bool isCopy = loaded.program.instructions[i].is(InstructionRole::Copy);
    for (auto [k, version] : llvm::enumerate(row.buffersOf(i - rowBegin))) {
      if (!places || used >= size_t(places.size()))
        return emitTableError(op) << "has too few places of tensors after "
                                     "'at'; run exec-assign-buffers";
      offsets[version] = places.asArrayRef()[used];
      // Skip the bytes, which come after the place in host memory.
      used += isCopy && k % 2 == 1 ? 2 : 1;
    }
  }
  return success();
}

/// Puts a version at its offset. Parts of older versions that it does not cover
/// remain.
void ArenaWalk::put(uint32_t version) {
  int64_t begin = offsets[version], end = endOf(version);
  auto at = tenants.lower_bound(begin);
  if (at != tenants.begin())
    --at;
  while (at != tenants.end() && at->first < end) {
    auto [otherBegin, other] = *at;
    if (other.end <= begin) {
      ++at;
      continue;
    }
    at = tenants.erase(at);
    if (otherBegin < begin)
      tenants[otherBegin] = {begin, other.version};
    if (other.end > end)
      tenants[end] = other;
  }
  tenants[begin] = {end, version};
}

bool ArenaWalk::isInFlight(uint32_t version) const {
  const TensorVersion &tensor = row.versions[version];
  auto isUnderWay = [&](uint32_t reader) { return !waits.hasEnded(reader); };
  bool isPosted =
      !loaded.program.instructions[tensor.made].is(InstructionRole::Compute);
  return llvm::any_of(tensor.readers, isUnderWay) ||
         (isPosted && isUnderWay(tensor.made));
}

FullArena ArenaWalk::describe(uint32_t instruction, int64_t size) const {
  FullArena full;
  full.instruction = instruction;
  int64_t gap = 0, at = 0;
  auto addGap = [&](int64_t bytes) {
    gap += bytes;
    full.gaps += bytes;
    full.largestGap = std::max(full.largestGap, gap);
  };
  for (const auto &[begin, tenant] : tenants) {
    addGap(begin - at);
    at = tenant.end;
    int64_t bytes = tenant.end - begin;
    if (isLive(tenant.version, instruction)) {
      full.versions.push_back(tenant.version);
      full.aligned += bytes;
      full.live += bytesOf(tenant.version);
      if (tenant.end == size)
        full.grownBy = bytes;
    } else if (isInFlight(tenant.version)) {
      full.inFlight += bytes;
    } else {
      addGap(bytes);
      continue;
    }
    gap = 0;
  }
  return full;
}

FailureOr<FullArena> ArenaWalk::run(int64_t size) {
  if (failed(findOffsets()))
    return failure();
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    waits.note(i);
    bool isFull = size == 0;
    for (uint32_t version : row.buffersOf(i - rowBegin)) {
      const TensorVersion &tensor = row.versions[version];
      if (tensor.made != i || tensor.isInHost || tensor.bytes == 0)
        continue;
      put(version);
      isFull |= endOf(version) == size;
    }
    if (isFull)
      return describe(i, size);
  }
  return FullArena();
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {
/// The set of tensors that a stage keeps of a microbatch, as the memory
/// analysis counts them:
///
///   None | F: Kept, or Boundary with R in the row | R: Kept | I: ForWeight
///        | B, W: None
///
/// From D to U it is Host.
enum class Held { None, Boundary, Kept, ForWeight, Host };

struct StageState {
  /// Before: the set when D moved it out.
  Held held = Held::None, before = Held::None;
  bool isRecomputed = false;
  bool isSplit = false;
  bool isWorking = false; ///< while B or I runs
  bool hasShard = false;  ///< from S to T
  Cell cell;
};

/// Walks a row with the costs of its stages, and explains the memory at one
/// instruction.
class RowComparison {
public:
  RowComparison(const LoadedProgram &loaded, const StageKernels &kernels,
                const RowLiveness &row, const MemoryFacts &facts,
                int64_t worker)
      : loaded(loaded), kernels(kernels), row(row), facts(facts),
        rowBegin(loaded.program.rowBegins[worker]),
        rowEnd(loaded.program.rowBegins[worker + 1]),
        names(row.versions.size()) {}

  void run(const FullArena &full, ArenaComparison &result);

private:
  /// The name of a tensor of a stage and microbatch.
  struct Name {
    Cell cell; ///< phase F
    ActivationName tensor;
  };

  StageState &at(Cell cell) {
    return states[cell.withPhase(Phase::Forward).withOverlap(false).getRaw()];
  }
  const Instruction &instruction(uint32_t i) const {
    return loaded.program.instructions[i];
  }
  bool isCell(uint32_t i) const {
    return instruction(i).is(InstructionKind::Compute) &&
           !instruction(i).cell.isPerPath();
  }
  void readRow();
  int64_t bytesOf(const StageState &state) const;
  template <typename Change>
  void change(Cell cell, Change apply);
  void start(uint32_t i);
  void finish(uint32_t i);
  SmallVector<ActivationName, 8> namesOf(const StageState &state) const;
  bool isShared(uint32_t version) const {
    return llvm::any_of(names[version], [](const Name &name) {
      return name.tensor.isShared();
    });
  }
  void explain(const FullArena &full, ArenaComparison &result);
  void addOther(uint32_t version, ArenaComparison &result) const;

  const LoadedProgram &loaded;
  const StageKernels &kernels;
  const RowLiveness &row;
  const MemoryFacts &facts;
  uint32_t rowBegin, rowEnd;
  std::vector<SmallVector<Name, 2>> names; ///< by version
  std::map<uint64_t, StageState> states;
  int64_t held = 0; ///< according to the costs
};
} // namespace

/// Names versions by their names in computes, and records R and W of each cell.
void RowComparison::readRow() {
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    if (!isCell(i))
      continue;
    Cell cell = instruction(i).cell;
    StageState &state = at(cell);
    state.cell = cell.withPhase(Phase::Forward).withOverlap(false);
    state.isRecomputed |= cell.is(Phase::Recompute);
    state.isSplit |= cell.isIn(kSplitBackward);
    const StageKernel &kernel = *kernels.find(cell.getStage(), cell.getPhase());
    for (auto [buffer, version] :
         llvm::zip(kernel.buffers, row.buffersOf(i - rowBegin))) {
      bool isNamed =
          llvm::any_of(names[version], [&, &buffer = buffer](Name n) {
            return n.cell == state.cell && n.tensor == buffer.name;
          });
      if (!isNamed)
        names[version].push_back({state.cell, buffer.name});
    }
  }
}

int64_t RowComparison::bytesOf(const StageState &state) const {
  const StageMemory &stage = facts.memoryOf(loaded.placement, state.cell);
  int64_t working = (state.isWorking ? stage.workingBytes : 0) +
                    (state.hasShard ? stage.shardBytes : 0);
  switch (state.held) {
  case Held::None:
  case Held::Host:
    return working;
  case Held::Boundary:
    return stage.boundaryBytes + working;
  case Held::Kept:
    return stage.activationBytes + working;
  case Held::ForWeight:
    return stage.activationBytes - stage.inputGradFreedBytes + working;
  }
  llvm_unreachable("covered switch");
}

template <typename Change>
void RowComparison::change(Cell cell, Change apply) {
  StageState &state = at(cell);
  held -= bytesOf(state);
  apply(state);
  held += bytesOf(state);
}

void RowComparison::start(uint32_t i) {
  Cell cell = instruction(i).cell;
  change(cell, [&](StageState &state) {
    if (cell.is(Phase::Forward))
      state.held = state.isRecomputed ? Held::Boundary : Held::Kept;
    else if (cell.is(Phase::Recompute))
      state.held = Held::Kept;
    else if (cell.isIn(kBackwardStarts))
      state.isWorking = true;
    state.hasShard |= cell.is(Phase::Logits);
  });
}

void RowComparison::finish(uint32_t i) {
  Cell cell = instruction(i).cell;
  change(cell, [&](StageState &state) {
    if (cell.isIn(kReleasingPhases))
      state.held = Held::None;
    else if (cell.is(Phase::InputGrad))
      state.held = Held::ForWeight;
    state.isWorking = false;
    state.hasShard &= !cell.is(Phase::LogitsGrad);
  });
  if (cell.isIn(kBackwardStarts))
    held += facts.memoryOf(loaded.placement, cell).leftForSlicesBytes;
}

/// The tensors that the functions of a stage keep in a state.
SmallVector<ActivationName, 8>
RowComparison::namesOf(const StageState &state) const {
  SmallVector<ActivationName, 8> kept;
  auto kernelOf = [&](Phase phase) {
    return kernels.find(state.cell.getStage(), phase);
  };
  auto add = [&](Phase phase) {
    if (const StageKernel *kernel = kernelOf(phase))
      for (const KernelBuffer &buffer : kernel->buffers) {
        StageRole role = buffer.name.role;
        bool counts = role == StageRole::Input || role == StageRole::Output ||
                      role == StageRole::Residual ||
                      (role == StageRole::OutputGradient &&
                       state.held == Held::ForWeight);
        if (counts && buffer.isRead && !llvm::is_contained(kept, buffer.name))
          kept.push_back(buffer.name);
      }
  };
  auto drop = [&](Phase phase) {
    if (const StageKernel *kernel = kernelOf(phase))
      for (const KernelBuffer &buffer : kernel->buffers)
        if (buffer.isWritten)
          llvm::erase(kept, buffer.name);
  };
  if (const StageKernel *kernel =
          state.hasShard ? kernelOf(Phase::LogitsGrad) : nullptr)
    for (const KernelBuffer &buffer : kernel->buffers)
      if (buffer.isRead && (buffer.name.role == StageRole::Residual ||
                            buffer.name.role == StageRole::LastOutput ||
                            buffer.name.role == StageRole::Partials))
        kept.push_back(buffer.name);
  if (state.held == Held::None || state.held == Held::Host)
    return kept;
  if (state.isSplit || state.held == Held::ForWeight)
    add(Phase::WeightGrad);
  if (state.held == Held::ForWeight)
    return kept;
  if (state.isSplit)
    drop(Phase::InputGrad);
  add(state.isSplit ? Phase::InputGrad : Phase::Backward);
  if (state.held == Held::Boundary) {
    drop(Phase::Recompute);
    add(Phase::Recompute);
  }
  return kept;
}

/// Explains a tensor that is live although the costs do not count it at this
/// moment.
void RowComparison::addOther(uint32_t version, ArenaComparison &result) const {
  const TensorVersion &tensor = row.versions[version];
  bool isReceived = instruction(tensor.made).is(InstructionKind::Recv);
  int64_t *term = &result.passing;
  for (const Name &name : names[version]) {
    switch (name.tensor.role) {
    case StageRole::Input:
      if (isReceived)
        term = &result.ahead;
      break;
    case StageRole::Output:
    case StageRole::LastOutput:
      term = &result.outputs;
      break;
    case StageRole::Residual:
      break;
    default:
      term = &result.gradients;
    }
  }
  *term += tensor.bytes;
}

void RowComparison::explain(const FullArena &full, ArenaComparison &result) {
  result.elsewhere = result.predicted - held;
  int64_t kept = 0;
  // by the same key as `states`
  std::map<uint64_t, SmallVector<ActivationName, 8>> counted;
  for (const auto &[key, state] : states) {
    counted[key] = namesOf(state);
    for (ActivationName name : counted[key])
      kept += pipesched::bytesOf(
          typeOf(kernels.getFunctions(),
                 kernels.getFunctions().stages[state.cell.getStage()], name));
  }
  result.kept = kept;
  result.unknown = held - kept;
  if (llvm::any_of(kernels.getFunctions().stages,
                   [](const Stage &stage) { return !stage.earlier.empty(); }))
    result.slices = -std::exchange(result.unknown, 0);
  int64_t found = 0;
  for (uint32_t version : full.versions) {
    if (isShared(version)) {
      result.slices += row.versions[version].bytes;
      continue;
    }
    int64_t times = llvm::count_if(names[version], [&](const Name &name) {
      return llvm::is_contained(counted[name.cell.getRaw()], name.tensor);
    });
    if (times == 0) {
      addOther(version, result);
      continue;
    }
    found += times * row.versions[version].bytes;
    result.handedOver += (times - 1) * row.versions[version].bytes;
  }
  result.missing = kept - found;
}

void RowComparison::run(const FullArena &full, ArenaComparison &result) {
  readRow();
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    Cell cell = instruction(i).cell;
    bool isPair = isCell(i) && cell.overlapsNext();
    bool isSecond = i > rowBegin && loaded.ops[i - 1] == loaded.ops[i];
    if (instruction(i).is(InstructionKind::Reload))
      change(cell, [](StageState &state) { state.held = state.before; });
    if (isCell(i) && !isSecond)
      start(i);
    if (isPair)
      start(i + 1);
    result.peakInRow = std::max(result.peakInRow, held);
    if (i == full.instruction)
      explain(full, result);
    if (instruction(i).is(InstructionKind::Offload))
      change(cell, [](StageState &state) {
        state.before = std::exchange(state.held, Held::Host);
      });
    if (isCell(i) && !isPair)
      finish(i);
    if (isSecond)
      finish(i - 1);
  }
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Returns the peaks that the memory analysis predicts.
static llvm::Expected<MemoryUsage> predict(const LoadedProgram &loaded,
                                           const CostInputs &costs,
                                           MemoryFacts &facts) {
  PhaseSet phases = phasesInUse(loaded.program);
  const SystemFacts *system = costs.system ? &*costs.system : nullptr;
  llvm::Expected<MemoryFacts> memory = computeMemoryFacts(
      loaded.placement, costs.modelFor(phases), system, phases);
  if (!memory)
    return memory.takeError();
  facts = std::move(*memory);
  bool isTimed = costs.system || costs.profile;
  llvm::Expected<Execution> execution =
      executeProgram(loaded.program, loaded.placement,
                     isTimed ? costs : CostInputs(), Transport::Overlap);
  if (!execution)
    return execution.takeError();
  return computeMemory(execution->graph, execution->times, execution->timeline,
                       loaded.placement, facts);
}

FailureOr<std::vector<ArenaComparison>>
pipesched::compareArenas(exec::ProgramOp program, const CostInputs &costs) {
  assert(costs.model && "nothing to compare with");
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  FailureOr<StageFunctions> functions = loadStageFunctions(program);
  if (failed(functions))
    return failure();
  MemoryFacts facts;
  llvm::Expected<MemoryUsage> usage = predict(*loaded, costs, facts);
  if (!usage)
    return emitAnalysisError(program, *loaded, usage.takeError());

  StageKernels kernels(*functions);
  std::vector<ArenaComparison> results(loaded->program.getNumWorkers());
  for (exec::WorkerOp op : program.getWorkerOps()) {
    int64_t worker = op.getWorker();
    ArenaComparison &result = results[worker];
    FailureOr<RowLiveness> row = findLiveness(*loaded, kernels, worker);
    if (failed(row))
      return failure();
    result.arena = op.getArena().value_or(0);
    FailureOr<FullArena> full =
        ArenaWalk(*loaded, *row, worker).run(result.arena);
    if (failed(full))
      return failure();
    result.predicted = usage->workers[worker].peakActivationBytes;
    result.peakCell = usage->workers[worker].peakCell;
    result.instruction = full->instruction;
    result.live = full->live;
    result.alignment = full->aligned - full->live;
    result.inFlight = full->inFlight;
    result.gaps = full->gaps;
    result.largestGap = full->largestGap;
    result.grownBy = full->grownBy;
    RowComparison(*loaded, kernels, *row, facts, worker).run(*full, result);
  }
  return std::move(results);
}
