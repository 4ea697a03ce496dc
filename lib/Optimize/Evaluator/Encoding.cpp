//===- Encoding.cpp - Compact form of schedules ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encodes a problem, and rows of cells as tokens.
//
//===----------------------------------------------------------------------===//

#include "Encoding.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

static int64_t durationOf(const StageFacts &facts, CellType type) {
  switch (type) {
  case CellType::Forward:
    return facts.forward;
  case CellType::InputGrad:
    return facts.inputGrad;
  case CellType::WeightGrad:
    return facts.weightGrad;
  case CellType::Recompute:
    return facts.recompute;
  case CellType::Offload:
    return facts.offload;
  case CellType::Reload:
    return facts.reload;
  }
  return 0;
}

/// An I that makes memory grow allocates the difference at its start. The peak
/// is the same as if it did so at its end, because nothing on the worker frees
/// memory while it runs.
static void setMemory(KindFacts &kind, const StageFacts &facts, bool split) {
  switch (kind.type) {
  case CellType::Forward:
  case CellType::Reload:
    kind.allocates = facts.activation;
    break;
  case CellType::InputGrad:
    // Memory for gradients of other slices is taken at the start, and freed
    // with I's memory.
    kind.frees = (split ? facts.freedByInputGrad : facts.activation) +
                 std::max<int64_t>(0, -facts.leftForSlices);
    kind.allocates = std::max<int64_t>(0, -kind.frees) +
                     std::max<int64_t>(0, facts.leftForSlices);
    kind.frees = std::max<int64_t>(0, kind.frees);
    break;
  case CellType::WeightGrad:
    kind.frees = facts.activation - facts.freedByInputGrad;
    break;
  case CellType::Recompute:
    kind.allocates = facts.activation - facts.checkpoint;
    break;
  case CellType::Offload:
    kind.frees = facts.activation;
    break;
  }
}

/// F waits for the F of the previous stage; I waits for the cell of the next
/// stage that sends the gradient.
static void setMessages(Encoding &encoding) {
  const Problem &problem = encoding.problem;
  bool afterWeight = problem.gradientAfter == GradientAfter::WeightGrad &&
                     encoding.splitBackward;
  CellType giver = afterWeight ? CellType::WeightGrad : CellType::InputGrad;
  auto connect = [&](uint32_t from, CellType sent, uint32_t to, CellType waits,
                     int64_t delay) {
    const KindFacts &source = encoding.facts(from, sent);
    KindFacts &sink = encoding.kinds[encoding.kindOf(to, waits)];
    sink.waitsFor = source.firstCell - sink.firstCell;
    sink.waitsOn = source.worker;
    sink.delay = source.worker == sink.worker ? 0 : delay;
  };
  for (uint32_t stage = 0; stage < encoding.numStages; ++stage) {
    uint32_t next = encoding.nextStage[stage];
    if (next == kNone)
      continue;
    connect(stage, CellType::Forward, next, CellType::Forward,
            problem.stages[stage].activationDelay);
    connect(next, giver, stage, CellType::InputGrad,
            problem.stages[next].gradientDelay);
  }
}

static void setKinds(Encoding &encoding) {
  const Placement &placement = encoding.problem.placement;
  encoding.kinds.resize(size_t(encoding.numStages) * kNumCellTypes);
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
      uint32_t stage = placement.stageOffset(path) + s;
      for (uint32_t type = 0; type < kNumCellTypes; ++type) {
        KindFacts &kind = encoding.kinds[stage * kNumCellTypes + type];
        kind.type = static_cast<CellType>(type);
        kind.stage = stage;
        kind.worker = placement.workerOf(stage);
        kind.count = placement.countOnPath(path);
        kind.firstCell = encoding.numCells;
        kind.duration = durationOf(encoding.stageFacts(stage), kind.type);
        if (kind.type == CellType::Offload)
          kind.delay = encoding.stageFacts(stage).offloadDelay;
        setMemory(kind, encoding.stageFacts(stage), encoding.splitBackward);
        encoding.numCells += kind.count;
      }
    }
}

/// Sets the stages of workers and paths, and the room for rows.
static void setRows(Encoding &encoding) {
  const Placement &placement = encoding.problem.placement;
  uint32_t perPair = 2 + encoding.splitBackward;
  perPair += encoding.offload ? 2 : encoding.recompute;
  encoding.stagesOf.resize(encoding.numWorkers);
  std::vector<uint32_t> room(encoding.numWorkers, 1);
  for (uint32_t stage = 0; stage < encoding.numStages; ++stage) {
    const KindFacts &kind = encoding.facts(stage, CellType::Forward);
    encoding.stagesOf[kind.worker].push_back(stage);
    room[kind.worker] += perPair * kind.count;
  }
  encoding.rowBegins = {0};
  for (uint32_t entries : room)
    encoding.rowBegins.push_back(encoding.rowBegins.back() + entries);
  encoding.nextStage.assign(encoding.numStages, kNone);
  encoding.stageBefore.assign(encoding.numStages, kNone);
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t s = 1; s < placement.getNumStages(path); ++s) {
      uint32_t stage = placement.stageOffset(path) + s;
      encoding.nextStage[stage - 1] = stage;
      encoding.stageBefore[stage] = stage - 1;
    }
}

/// Records which stages have slices of the same microbatches.
static void setSlices(Encoding &encoding) {
  const Placement &placement = encoding.problem.placement;
  encoding.numSlices = encoding.problem.numSlices;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t slice = path % encoding.numSlices;
    int64_t first = placement.stageOffset(path - slice);
    for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
      encoding.sliceOf.push_back(slice);
      encoding.firstSlice.push_back(first + s);
      encoding.sliceStride.push_back(placement.getNumStages(path));
    }
  }
}

Encoding::Encoding(const Problem &problem) : problem(problem) {
  const Placement &placement = problem.placement;
  numWorkers = placement.getNumWorkers();
  numStages = placement.getNumGlobalStages();
  splitBackward = problem.techniques.splitBackward;
  offload = problem.techniques.offload;
  recompute = problem.techniques.recompute;
  sharedQueue = problem.sharedCopyQueue;
  anyTimes = problem.memoryTimes == MemoryTimes::Any;
  capacity = problem.capacity;
  microbatches.resize(placement.getNumPaths());
  for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m)
    microbatches[placement.pathOf(m)].push_back(m);
  setKinds(*this);
  setSlices(*this);
  setRows(*this);
  setMessages(*this);
}

bool Encoding::isFixedBySlices(Token earlier, Token later) const {
  if (numSlices == 1)
    return false;
  const KindFacts &a = kinds[earlier.kind], &b = kinds[later.kind];
  if (a.stage == b.stage || firstSlice[a.stage] != firstSlice[b.stage] ||
      rankOf(earlier) != rankOf(later))
    return false;
  bool isLast = sliceOf[b.stage] == numSlices - 1;
  if (a.type == b.type)
    return a.type <= CellType::WeightGrad ||
           (a.type == CellType::Reload && isLast);
  return a.type == CellType::Forward && b.type == CellType::Offload;
}

/// By CellType.
static constexpr Phase kPhases[kNumCellTypes] = {
    Phase::Forward,   Phase::InputGrad, Phase::WeightGrad,
    Phase::Recompute, Phase::Offload,   Phase::Reload};

Cell Encoding::cellOf(Token token) const {
  const Placement &placement = problem.placement;
  const KindFacts &kind = kinds[token.kind];
  Phase phase = kPhases[static_cast<unsigned>(kind.type)];
  if (phase == Phase::InputGrad && !splitBackward)
    phase = Phase::Backward;
  int64_t path = 0;
  while (placement.stageOffset(path + 1) <= kind.stage)
    ++path;
  return Cell(kind.stage - placement.stageOffset(path), phase,
              microbatches[path][rankOf(token)]);
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

Plan::Plan(const Encoding &encoding)
    : tokens(encoding.rowBegins.back()), sizes(encoding.numWorkers),
      positions(encoding.numCells, kNone), remaining(encoding.rowBegins.back()),
      levels(encoding.rowBegins.back()) {}

bool Plan::refresh(const Encoding &encoding, uint32_t worker, uint32_t begin,
                   uint32_t end) {
  bool fits = true;
  for (uint32_t pos = begin; pos < end; ++pos) {
    Token token = tokens[pos];
    const KindFacts &kind = encoding.kinds[token.kind];
    positions[token.cell] = pos;
    int64_t level = levels[pos] + kind.allocates;
    fits &= level <= encoding.capacity[worker];
    level -= kind.frees;
    if (encoding.recompute && kind.type == CellType::Forward &&
        has(encoding.sibling(token, CellType::Recompute)))
      level -= encoding.freedByDropping(kind.stage);
    levels[pos + 1] = level;
  }
  for (uint32_t pos = end; pos-- > begin;) {
    const KindFacts &kind = encoding.kinds[tokens[pos].kind];
    remaining[pos] = remaining[pos + 1] + (kind.isCopy() ? 0 : kind.duration);
  }
  return fits || encoding.offload;
}

bool Plan::refreshRow(const Encoding &encoding, uint32_t worker) {
  uint32_t begin = encoding.rowBegins[worker], end = begin + sizes[worker];
  for (uint32_t stage : encoding.stagesOf[worker]) {
    uint32_t first = encoding.facts(stage, CellType::Forward).firstCell;
    uint32_t count = encoding.facts(stage, CellType::Forward).count;
    std::fill_n(positions.begin() + first, size_t(count) * kNumCellTypes,
                kNone);
  }
  for (uint32_t pos = begin; pos < end; ++pos)
    positions[tokens[pos].cell] = pos;
  levels[begin] = 0;
  remaining[end] = 0;
  return refresh(encoding, worker, begin, end);
}

bool Plan::refreshAll(const Encoding &encoding) {
  bool fits = true;
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    fits &= refreshRow(encoding, worker);
  return fits;
}

bool Plan::fitsMemory(const Encoding &encoding) const {
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker) {
    uint32_t begin = encoding.rowBegins[worker];
    for (uint32_t pos = begin; pos < begin + sizes[worker]; ++pos)
      if (levels[pos] + encoding.kinds[tokens[pos].kind].allocates >
          encoding.capacity[worker])
        return false;
  }
  return true;
}

bool Plan::isOrdered(const Encoding &encoding, Token token) const {
  uint32_t last = 0;
  bool isFirst = true;
  for (CellType type :
       {CellType::Forward, CellType::Offload, CellType::Reload,
        CellType::Recompute, CellType::InputGrad, CellType::WeightGrad}) {
    uint32_t position = positions[encoding.sibling(token, type).cell];
    if (position == kNone)
      continue;
    if (!isFirst && position < last)
      return false;
    last = position;
    isFirst = false;
  }
  return areSlicesOrdered(encoding, token);
}

bool Plan::areSlicesOrdered(const Encoding &encoding, Token token) const {
  uint32_t lastSlice = encoding.numSlices - 1;
  auto at = [&](CellType type, uint32_t slice) {
    return positions[encoding.ofSlice(token, type, slice).cell];
  };
  for (uint32_t slice = 0; slice < lastSlice; ++slice) {
    if (at(CellType::Forward, slice) > at(CellType::Forward, slice + 1) ||
        at(CellType::InputGrad, slice) < at(CellType::InputGrad, slice + 1) ||
        at(CellType::WeightGrad, slice) < at(CellType::WeightGrad, slice + 1))
      return false;
    if (at(CellType::Offload, slice) != kNone &&
        (at(CellType::Offload, slice) < at(CellType::Forward, lastSlice) ||
         at(CellType::Reload, lastSlice) == kNone ||
         at(CellType::Reload, slice) > at(CellType::Reload, lastSlice)))
      return false;
  }
  return true;
}

bool Plan::isComplete(const Encoding &encoding) const {
  uint32_t expected = 0, found = 0;
  for (const KindFacts &kind : encoding.kinds)
    for (uint32_t rank = 0; rank < kind.count; ++rank) {
      Token token = encoding.token(kind.stage, kind.type, rank);
      bool isNeeded =
          kind.type < CellType::WeightGrad ||
          (kind.type == CellType::WeightGrad && encoding.splitBackward);
      bool isPair =
          kind.type == CellType::Offload || kind.type == CellType::Reload;
      if ((isNeeded && !has(token)) ||
          (isPair && has(encoding.sibling(token, CellType::Offload)) !=
                         has(encoding.sibling(token, CellType::Reload))) ||
          (kind.type == CellType::Forward && !isOrdered(encoding, token)))
        return false;
      expected += has(token);
    }
  for (uint32_t size : sizes)
    found += size;
  return found == expected;
}

//===----------------------------------------------------------------------===//
// Rows of cells
//===----------------------------------------------------------------------===//

/// Returns the type of a cell; a whole backward has the type of I.
static std::optional<CellType> typeOf(Phase phase) {
  const Phase *found =
      llvm::find(kPhases, phase == Phase::Backward ? Phase::InputGrad : phase);
  if (found == std::end(kPhases))
    return std::nullopt;
  return static_cast<CellType>(found - std::begin(kPhases));
}

namespace {
/// Reads rows of cells into a plan.
class RowReader {
public:
  explicit RowReader(const Encoding &encoding)
      : encoding(encoding), plan(encoding), seen(encoding.numCells) {}

  bool read(ArrayRef<Row> rows);
  void putInOrder();
  std::optional<Plan> take();

private:
  bool readCell(uint32_t worker, Cell cell);
  bool add(uint32_t worker, Token token);

  const Encoding &encoding;
  Plan plan;
  std::vector<bool> seen;
  bool hasExtras = false; ///< D, U or R
};
} // namespace

bool RowReader::add(uint32_t worker, Token token) {
  if (seen[token.cell] || plan.sizes[worker] == encoding.capacityOfRow(worker))
    return false;
  seen[token.cell] = true;
  plan.append(encoding, worker, token);
  return true;
}

bool RowReader::readCell(uint32_t worker, Cell cell) {
  std::optional<CellType> type = typeOf(cell.getPhase());
  if (!type)
    return true; // joins, idle slots, O and G
  const Placement &placement = encoding.problem.placement;
  if (cell.getUnit() >= placement.getNumUnits())
    return false;
  int64_t path = placement.pathOf(cell.getUnit());
  if (cell.getStage() >= placement.getNumStages(path))
    return false;
  uint32_t stage = placement.globalStage(cell);
  bool isCopy = *type >= CellType::Offload;
  if (placement.workerOf(stage) != worker || (isCopy && !encoding.offload) ||
      (*type == CellType::Recompute && !encoding.recompute))
    return false;
  hasExtras |= *type >= CellType::Recompute;
  if (*type == CellType::WeightGrad && !encoding.splitBackward)
    return true; // already read as part of its B, which replaces I
  uint32_t rank = placement.rankOf(cell);
  if (!add(worker, encoding.token(stage, *type, rank)))
    return false;
  return !cell.is(Phase::Backward) || !encoding.splitBackward ||
         add(worker, encoding.token(stage, CellType::WeightGrad, rank));
}

bool RowReader::read(ArrayRef<Row> rows) {
  if (rows.size() != encoding.numWorkers)
    return false;
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    for (Cell cell : rows[worker])
      if (!readCell(worker, cell))
        return false;
  return true;
}

/// Numbers the cells of each kind in the order of the row. Microbatches are
/// equal, so this is allowed unless there are copies or recompute.
void RowReader::putInOrder() {
  if (hasExtras)
    return;
  std::vector<uint32_t> next(encoding.kinds.size());
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    for (uint32_t i = 0; i < plan.sizes[worker]; ++i) {
      Token &token = plan.tokens[encoding.rowBegins[worker] + i];
      token.cell = encoding.kinds[token.kind].firstCell + next[token.kind]++;
    }
}

std::optional<Plan> RowReader::take() {
  plan.refreshAll(encoding);
  if (!plan.isComplete(encoding))
    return std::nullopt;
  return std::move(plan);
}

std::optional<Plan> optimize::planOf(const Encoding &encoding,
                                     ArrayRef<Row> rows) {
  RowReader reader(encoding);
  if (!reader.read(rows))
    return std::nullopt;
  reader.putInOrder();
  return reader.take();
}
