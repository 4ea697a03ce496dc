//===- MemoryBudget.cpp - The memory budget of a worker -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks budgets with computeMemory. For a budget in activations, each
// activation counts as one byte.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/MemoryBudget.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <unordered_set>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
struct ByteUnit {
  StringRef name;
  int64_t bytes;
};
constexpr ByteUnit kByteUnits[] = {
    {"B", 1},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"PB", 1000000000000000},
    {"KiB", int64_t(1) << 10},
    {"MiB", int64_t(1) << 20},
    {"GiB", int64_t(1) << 30},
    {"TiB", int64_t(1) << 40},
    {"PiB", int64_t(1) << 50},
};
} // namespace

/// Reads digits; absent for any other text and for a number over int64.
static std::optional<int64_t> parseDigits(StringRef text) {
  int64_t value = 0;
  bool isNumber = llvm::all_of(text, llvm::isDigit) && !text.empty() &&
                  !text.getAsInteger(10, value);
  return isNumber ? std::optional(value) : std::nullopt;
}

/// Reads a number of units with up to three digits after its point.
static std::optional<int64_t> parseBytes(StringRef number, int64_t unit) {
  auto [digits, fraction] = number.split('.');
  std::optional<int64_t> whole = parseDigits(digits);
  if (!whole)
    return std::nullopt;
  CheckedInt bytes = CheckedInt(*whole) * unit;
  if (digits.size() != number.size()) {
    std::optional<int64_t> rest = parseDigits(fraction);
    if (!rest || fraction.size() > 3)
      return std::nullopt;
    int64_t scale = fraction.size() == 1   ? 10
                    : fraction.size() == 2 ? 100
                                           : 1000;
    bytes += *rest * unit / scale;
  }
  return bytes.isValid() ? std::optional(bytes.get()) : std::nullopt;
}

Expected<MemoryBudget> pipesched::parseMemoryBudget(StringRef text) {
  if (text == "system")
    return MemoryBudget{MemoryBudget::Unit::System, 0};
  StringRef number =
      text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  StringRef name = text.drop_front(number.size());
  std::optional<int64_t> amount;
  if (name.empty())
    amount = parseDigits(number);
  for (const ByteUnit &unit : kByteUnits)
    if (name == unit.name)
      amount = parseBytes(number, unit.bytes);
  if (!amount || *amount == 0)
    return formatError(
        "expected a number of activations (4), bytes with a unit "
        "(80GiB, 64.5GB) or system, found '{0}'",
        text);
  return MemoryBudget{name.empty() ? MemoryBudget::Unit::Activations
                                   : MemoryBudget::Unit::Bytes,
                      *amount};
}

//===----------------------------------------------------------------------===//
// Held memory
//===----------------------------------------------------------------------===//

/// Whether times matter, because copies overlap with the rows.
static bool hasCopies(PhaseSet phases) {
  return phases.intersects(kCopyPhases);
}

/// Returns facts with which bytes count activations.
static MemoryFacts oneOfEach(const Placement &placement) {
  StageMemory one;
  one.activationBytes = 1;
  MemoryFacts facts;
  facts.stages.assign(placement.getNumGlobalStages(), one);
  return facts;
}

Expected<std::vector<int64_t>>
pipesched::countActivations(const Execution &execution,
                            const Placement &placement) {
  Expected<MemoryUsage> held =
      computeMemory(execution.graph, execution.times, execution.timeline,
                    placement, oneOfEach(placement));
  if (!held)
    return held.takeError();
  std::vector<int64_t> counts;
  for (const WorkerMemory &worker : held->workers)
    counts.push_back(worker.peakActivationBytes);
  return counts;
}

static Expected<MemoryFacts> factsFor(const Placement &placement,
                                      const CostInputs &costs, PhaseSet phases,
                                      MemoryBudget::Unit unit) {
  if (unit == MemoryBudget::Unit::Activations)
    return oneOfEach(placement);
  if (!costs.model)
    return formatError("has no model, which a memory budget in bytes needs; a "
                       "number without a unit counts activations");
  return computeMemoryFacts(placement, costs.modelFor(phases),
                            costs.system ? &*costs.system : nullptr, phases);
}

static Expected<MemoryUsage>
measureAtTimes(const Program &program, const Placement &placement,
               const CostInputs &costs, const MemoryFacts &facts,
               PhaseSet phases, Transport transport) {
  Expected<StageCosts> stageCosts = computeStageCosts(placement, costs, phases);
  if (!stageCosts)
    return stageCosts.takeError();
  Expected<TaskGraph> graph = buildTaskGraph(program, transport);
  if (!graph)
    return graph.takeError();
  Expected<TaskTimes> times =
      computeTaskTimes(*graph, placement, *stageCosts, transport);
  if (!times)
    return times.takeError();
  return computeMemory(*graph, *times, computeTimeline(*graph, *times),
                       placement, facts);
}

namespace {
/// The peaks of the workers, and the offloads that may end late.
struct HeldMemory {
  MemoryUsage usage;
  std::vector<std::vector<Cell>> pending; ///< by worker; empty for given times
};
} // namespace

/// Adds the peaks to the memory that workers hold during the whole step.
static Expected<HeldMemory> addPeaks(std::vector<AnyTimePeak> peaks,
                                     MemoryUsage usage) {
  HeldMemory held = {std::move(usage), {}};
  int64_t most = -1;
  for (auto [number, peak] : llvm::enumerate(peaks)) {
    WorkerMemory &worker = held.usage.workers[number];
    worker.peakActivationBytes = peak.bytes;
    worker.peakCell = peak.cell;
    worker.peakMicrobatches = peak.microbatches;
    CheckedInt total = CheckedInt(worker.persistentBytes()) + peak.bytes;
    if (!total.isValid())
      return formatError("memory of worker {0} exceeds 2^63-1 bytes", number);
    if (total.get() > most) {
      most = total.get();
      held.usage.bottleneckWorker = number;
    }
    held.pending.push_back(std::move(peak.pending));
  }
  return std::move(held);
}

static Expected<HeldMemory> measureMemory(const TableView &table,
                                          const CostInputs &costs,
                                          MemoryBudget::Unit unit,
                                          MemoryTimes times,
                                          const TimingOptions &options) {
  const Placement &placement = *table.placement;
  PhaseSet phases = phasesInUse(table);
  Expected<MemoryFacts> facts = factsFor(placement, costs, phases, unit);
  if (!facts)
    return facts.takeError();
  Expected<Program> program = lowerTable(table, costs, options);
  if (!program)
    return program.takeError();
  if ((hasCopies(phases) || !facts->edges.empty()) &&
      times == MemoryTimes::Given) {
    HeldMemory held;
    if (Error error = measureAtTimes(*program, placement, costs, *facts, phases,
                                     options.transport)
                          .moveInto(held.usage))
      return std::move(error);
    return std::move(held);
  }
  Expected<MemoryUsage> persistent = computePersistentMemory(placement, *facts);
  if (!persistent)
    return persistent.takeError();
  Expected<std::vector<AnyTimePeak>> peaks =
      computeAnyTimePeaks(*program, placement, *facts);
  if (!peaks)
    return peaks.takeError();
  return addPeaks(std::move(*peaks), std::move(*persistent));
}

//===----------------------------------------------------------------------===//
// Violations
//===----------------------------------------------------------------------===//

namespace {
/// Prints amounts in either unit.
class Wording {
public:
  explicit Wording(MemoryBudget::Unit unit)
      : isCount(unit == MemoryBudget::Unit::Activations) {}

  /// Returns "3 activations" or "1536 bytes (1.5 KiB)".
  std::string amount(int64_t value) const {
    if (isCount)
      return formatv("{0} activation{1}", value, value == 1 ? "" : "s");
    std::string text = formatv("{0} byte{1}", value, value == 1 ? "" : "s");
    unsigned unit = 0;
    double scaled = static_cast<double>(value);
    for (; scaled >= 1024 && unit < 5; ++unit)
      scaled /= 1024;
    if (unit > 0)
      text += formatv(" ({0:f1} {1}iB)", scaled, "KMGTP"[unit - 1]).str();
    return text;
  }

private:
  bool isCount;
};
} // namespace

/// Returns the range of an entry: two cells if it is an overlapped pair.
static std::pair<int64_t, int64_t> entryOf(ArrayRef<Cell> row, int64_t index) {
  int64_t begin = index - (index > 0 && row[index - 1].overlapsNext());
  return {begin, index + 1 + row[index].overlapsNext()};
}

/// Returns the forwards whose full activations a row holds when the entry of
/// `peak` starts, in a table without copies.
static std::vector<Cell> heldAt(const Placement &placement, ArrayRef<Cell> row,
                                int64_t peak) {
  auto keyOf = [](Cell cell) {
    return Cell(cell.getStage(), Phase::Forward, cell.getUnit()).getRaw();
  };
  std::unordered_set<uint64_t> recomputed, held;
  for (Cell cell : row)
    if (cell.is(Phase::Recompute))
      recomputed.insert(keyOf(cell));
  auto [begin, end] = entryOf(row, peak);
  for (int64_t i = 0; i != end; ++i) {
    bool isLeftToR =
        row[i].is(Phase::Forward) && recomputed.count(keyOf(row[i]));
    if (row[i].isIn(kActivationMakers) && !isLeftToR)
      held.insert(keyOf(row[i]));
    if (i < begin && !row[i].isIdle() &&
        row[i].isIn(releasingPhases(placement.backwardOf(row[i]))))
      held.erase(keyOf(row[i]));
  }
  std::vector<Cell> forwards;
  for (Cell cell : row)
    if (cell.is(Phase::Forward) && held.count(keyOf(cell)))
      forwards.push_back(cell.withOverlap(false));
  return forwards;
}

/// Returns "a, b, c and 3 more".
template <typename Value>
static std::string listOf(ArrayRef<Value> values) {
  constexpr size_t kMost = 8;
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(values.take_front(kMost), os);
  if (values.size() > kMost)
    os << " and " << values.size() - kMost << " more";
  return text;
}

namespace {
/// Describes the memory of workers over budget.
class BudgetReport {
public:
  BudgetReport(const TableView &table, const HeldMemory &held,
               MemoryBudget::Unit unit, int64_t amount)
      : table(table), usage(held.usage), pending(held.pending), unit(unit),
        wording(unit), amount(amount) {}

  std::optional<Violation> find() const {
    std::vector<int64_t> over;
    for (auto [number, worker] : llvm::enumerate(usage.workers))
      if (worker.peakBytes() > amount)
        over.push_back(number);
    if (over.empty())
      return std::nullopt;
    Violation violation = describe(usage.bottleneckWorker);
    llvm::erase(over, usage.bottleneckWorker);
    if (!over.empty())
      violation.notes.push_back(
          {std::nullopt,
           formatv("{0} more worker{1} over the budget: {2}", over.size(),
                   over.size() == 1 ? " is" : "s are",
                   listOf(ArrayRef<int64_t>(over)))});
    return violation;
  }

private:
  Violation describe(int64_t number) const {
    const WorkerMemory &worker = usage.workers[number];
    ArrayRef<Cell> row = table.rows[number];
    auto peak = llvm::find_if(row, [&](Cell cell) {
      return worker.peakCell &&
             cell.withOverlap(false) == worker.peakCell->withOverlap(false);
    });
    bool hasPeak = peak != row.end();
    CellRef at = {number, hasPeak ? peak - row.begin() : 0};
    std::string where = hasPeak ? formatv(" at cell {0} ({1})", at.index,
                                          table.placement->nameOf(*peak))
                                      .str()
                                : "";
    Violation violation = {
        at,
        formatv("worker {0} {1} {2}{3}, {4} more than the budget of {5}",
                number, pendingOf(number).empty() ? "holds" : "may hold",
                wording.amount(worker.peakBytes()), where,
                wording.amount(worker.peakBytes() - amount),
                wording.amount(amount)),
        {}};
    if (std::string parts = describeParts(worker, at, hasPeak); !parts.empty())
      violation.notes.push_back({at, std::move(parts)});
    if (ArrayRef<Cell> offloads = pendingOf(number); !offloads.empty())
      violation.notes.push_back({at, describePending(offloads)});
    return violation;
  }

  ArrayRef<Cell> pendingOf(int64_t number) const {
    if (pending.empty())
      return {};
    return pending[number];
  }

  static std::string describePending(ArrayRef<Cell> offloads) {
    return formatv("what {0} frees counts, since nothing before waits for it: "
                   "a join ({1}) does; memory-times=given proves the budget "
                   "for the attached times alone",
                   listOf(offloads),
                   offloads.back().withPhase(joinOf(Phase::Offload)));
  }

  /// Describes the parts of the memory that follow from the row; empty if they
  /// depend on the times of copies.
  std::string describeParts(const WorkerMemory &worker, CellRef at,
                            bool hasPeak) const {
    if (unit != MemoryBudget::Unit::Activations)
      return formatv(
          "{0} of weights, {1} of gradients, {2} of optimizer state and {3} of "
          "activations, of {4} microbatch{5}",
          wording.amount(worker.weightBytes),
          wording.amount(worker.gradientBytes),
          wording.amount(worker.optimizerBytes),
          wording.amount(worker.peakActivationBytes), worker.peakMicrobatches,
          worker.peakMicrobatches == 1 ? "" : "es");
    ArrayRef<Cell> row = table.rows[at.row];
    if (!hasPeak || llvm::any_of(row, [](Cell cell) { return cell.isCopy(); }))
      return "";
    return "they are those of " +
           listOf(ArrayRef<Cell>(heldAt(*table.placement, row, at.index)));
  }

  const TableView &table;
  const MemoryUsage &usage;
  ArrayRef<std::vector<Cell>> pending;
  MemoryBudget::Unit unit;
  Wording wording;
  int64_t amount;
};
} // namespace

Error pipesched::verifyMemory(const TableView &table, const CostInputs &costs,
                              const MemoryBudget &budget, MemoryTimes times,
                              const TimingOptions &options) {
  int64_t amount = budget.amount;
  if (budget.unit == MemoryBudget::Unit::System && !costs.system)
    return formatError("has no system, whose memory is to be the budget");
  Expected<HeldMemory> held =
      measureMemory(table, costs, budget.unit, times, options);
  if (!held)
    return held.takeError();
  if (budget.unit == MemoryBudget::Unit::System)
    amount = held->usage.capacityBytes;
  if (budget.unit == MemoryBudget::Unit::System && amount == 0)
    return formatError("has a system, '{0}', that does not say how much memory "
                       "it has",
                       costs.system->name);
  if (std::optional<Violation> violation =
          BudgetReport(table, *held, budget.unit, amount).find())
    return llvm::make_error<ViolationError>(std::move(*violation));
  return Error::success();
}
