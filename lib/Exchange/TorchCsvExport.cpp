//===- TorchCsvExport.cpp - Writes PyTorch's schedule files ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that the format can express the table, then writes one of two forms.
//
//===----------------------------------------------------------------------===//

#include "ExportViolation.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "TorchToken.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Parameters
//
// Reproduces PyTorch's changes to a compute-only row when it loads one:
// _add_unshard_reshard, then _add_reduce_grad
// (torch/distributed/pipelining/schedules.py, 2.13). Messages are added after
// them.
//===----------------------------------------------------------------------===//

namespace {
/// An action of a rank: an entry of its row, or an action on the parameters of
/// a stage.
struct TorchAction {
  TorchToken::Kind kind = TorchToken::Compute;
  int32_t stage = 0; ///< for UNSHARD, RESHARD and REDUCE_GRAD
  int64_t entry = 0; ///< in the row; for a pair, its first entry
};
} // namespace

namespace {
/// The stages that a row runs next, each once, in order. PyTorch prefetches
/// three stages (max_active_stages), and a fourth if the third and the fourth
/// first occur in one overlapped pair.
class UpcomingStages {
public:
  static constexpr unsigned kActiveStages = 3, kMost = 4;

  /// Puts the one or two stages of an action in front.
  void prepend(llvm::ArrayRef<int32_t> ran, int64_t action) {
    llvm::SmallVector<Stage, 2 * kMost> all;
    for (int32_t stage : ran)
      if (llvm::none_of(all, [&](Stage other) { return other.stage == stage; }))
        all.push_back({stage, action});
    size_t numRan = all.size();
    for (const Stage &later : stages)
      if (llvm::none_of(
              llvm::ArrayRef(all).take_front(numRan),
              [&](Stage other) { return other.stage == later.stage; }))
        all.push_back(later);
    all.resize(std::min<size_t>(all.size(), kMost));
    stages.assign(all.begin(), all.end());
  }

  llvm::SmallVector<int32_t, kMost> get() const {
    llvm::SmallVector<int32_t, kMost> next;
    for (auto [number, each] : llvm::enumerate(stages))
      if (number < kActiveStages || each.action == stages[number - 1].action)
        next.push_back(each.stage);
    return next;
  }

private:
  struct Stage {
    int32_t stage;
    int64_t action; ///< in which the stage first occurs
  };
  llvm::SmallVector<Stage, kMost> stages;
};

/// A set of small integers that iterates in the order of CPython's `set`
/// (Objects/setobject.c): open addressing, in which a removed entry keeps its
/// place until the table grows.
class PythonSet {
public:
  PythonSet() : table(kSmallest, kUnused) {}

  bool contains(int32_t value) const {
    return llvm::is_contained(table, value);
  }

  void insert(int32_t value) {
    place(table, value);
    ++numUsed;
    if (++numFilled * 5 >= (table.size() - 1) * 3)
      grow();
  }

  void erase(int32_t value) {
    *llvm::find(table, value) = kRemoved;
    --numUsed;
  }

  llvm::SmallVector<int32_t, 8> get() const {
    llvm::SmallVector<int32_t, 8> values;
    llvm::copy_if(table, std::back_inserter(values),
                  [](int32_t value) { return value >= 0; });
    return values;
  }

private:
  using Entries = llvm::SmallVector<int32_t, 32>;
  static constexpr size_t kSmallest = 8, kLinearProbes = 9, kPerturbShift = 5;
  static constexpr int32_t kUnused = -1, kRemoved = -2;

  /// Takes the first unused entry on the probe sequence of the value.
  static void place(Entries &entries, int32_t value) {
    size_t mask = entries.size() - 1, perturb = value, slot = value & mask;
    while (true) {
      size_t probes = slot + kLinearProbes <= mask ? kLinearProbes : 0;
      for (size_t i = slot; i <= slot + probes; ++i)
        if (entries[i] == kUnused) {
          entries[i] = value;
          return;
        }
      perturb >>= kPerturbShift;
      slot = (slot * 5 + 1 + perturb) & mask;
    }
  }

  void grow() {
    size_t size = kSmallest;
    while (size <= numUsed * 4)
      size *= 2;
    Entries larger(size, kUnused);
    for (int32_t value : get())
      place(larger, value);
    table = std::move(larger);
    numFilled = numUsed;
  }

  Entries table;
  size_t numUsed = 0, numFilled = 0; ///< numFilled includes removed entries
};

class ParameterActions {
public:
  ParameterActions(llvm::ArrayRef<Cell> row, int64_t numMicrobatches)
      : row(row), numMicrobatches(numMicrobatches) {}

  std::vector<TorchAction> run();

private:
  void listCells();
  void findUpcoming();
  void prefetch(llvm::ArrayRef<int32_t> next);
  void reshard(int32_t stage);
  void reduce(const TorchAction &action);
  llvm::SmallVector<int32_t, 2> stagesOf(const TorchAction &action) const;

  llvm::ArrayRef<Cell> row;
  int64_t numMicrobatches;
  std::vector<TorchAction> cells;
  std::vector<llvm::SmallVector<int32_t, UpcomingStages::kMost>> upcoming;
  PythonSet active;
  llvm::DenseMap<int32_t, int64_t> numGradients; ///< by stage
  std::vector<TorchAction> actions;
};
} // namespace

llvm::SmallVector<int32_t, 2>
ParameterActions::stagesOf(const TorchAction &action) const {
  llvm::SmallVector<int32_t, 2> stages = {
      int32_t(row[action.entry].getStage())};
  if (action.kind == TorchToken::Overlapped)
    stages.push_back(row[action.entry + 1].getStage());
  return stages;
}

void ParameterActions::listCells() {
  for (int64_t entry = 0, end = row.size(); entry < end; ++entry) {
    if (row[entry].isIdle())
      continue;
    bool isPair = row[entry].overlapsNext();
    cells.push_back(
        {isPair ? TorchToken::Overlapped : TorchToken::Compute, 0, entry});
    entry += isPair;
  }
}

void ParameterActions::findUpcoming() {
  UpcomingStages stages;
  upcoming.resize(cells.size());
  for (int64_t action = cells.size() - 1; action >= 0; --action) {
    stages.prepend(stagesOf(cells[action]), action);
    upcoming[action] = stages.get();
  }
}

void ParameterActions::reshard(int32_t stage) {
  active.erase(stage);
  actions.push_back({TorchToken::Reshard, stage, 0});
}

void ParameterActions::prefetch(llvm::ArrayRef<int32_t> next) {
  for (int32_t stage : active.get())
    if (!llvm::is_contained(next, stage))
      reshard(stage);
  for (int32_t stage : next)
    if (!active.contains(stage)) {
      active.insert(stage);
      actions.push_back({TorchToken::Unshard, stage, 0});
    }
}

void ParameterActions::reduce(const TorchAction &action) {
  unsigned count = action.kind == TorchToken::Overlapped ? 2 : 1;
  for (Cell cell : row.slice(action.entry, count))
    if (cell.isIn(kGradientPhases))
      if (++numGradients[cell.getStage()] == numMicrobatches)
        actions.push_back(
            {TorchToken::ReduceGrad, int32_t(cell.getStage()), 0});
}

std::vector<TorchAction> ParameterActions::run() {
  listCells();
  findUpcoming();
  for (auto [action, next] : llvm::zip_equal(cells, upcoming)) {
    prefetch(next);
    actions.push_back(action);
    reduce(action);
  }
  for (int32_t stage : active.get())
    reshard(stage);
  return std::move(actions);
}

/// Returns the cells of a row, without idle entries, and the actions on
/// parameters:
///
///   UNSHARD      before a cell, for stages among the next three of the row
///                that are resharded, in the order in which they occur
///   RESHARD      before these, for unsharded stages that are not among the
///                next three; and at the end of the row
///   REDUCE_GRAD  after the last weight gradient (B or W) of each stage
///
/// `row` must pass verifyRow and have only phases F, B, I and W; each of its
/// stages runs `numMicrobatches`. Adjacent RESHARDs have the order of a set of
/// CPython, as in PyTorch. Linear.
static std::vector<TorchAction> addParameterActions(llvm::ArrayRef<Cell> row,
                                                    int64_t numMicrobatches) {
  return ParameterActions(row, numMicrobatches).run();
}

//===----------------------------------------------------------------------===//
// Limits of the format
//===----------------------------------------------------------------------===//

static std::optional<Violation> checkCsvCell(const TableView &table,
                                             CellRef at) {
  llvm::ArrayRef<Cell> row = table.rows[at.row];
  Cell cell = row[at.index];
  if (!cell.isIdle() && !cell.isIn(kKnownPhases))
    return makeViolation(formatv("cell {0} ({1}): PyTorch's CSV has no token "
                                 "for {2}",
                                 at.index, cell,
                                 describeOtherPhase(cell.getPhase())),
                         at);
  if (cell.overlapsNext() &&
      !(cell.is(Phase::Forward) && row[at.index + 1].is(Phase::Backward)))
    return makeViolation(formatv("cell {0} ({1}+{2}): PyTorch's CSV overlaps a "
                                 "forward with a whole backward only, in this "
                                 "order",
                                 at.index, cell, row[at.index + 1]),
                         at);
  if (cell.isIn(kSplitBackward) &&
      table.gradientAfter == GradientAfter::WeightGrad)
    return makeViolation(formatv("cell {0} ({1}): PyTorch sends a gradient "
                                 "after I, this schedule after W; generate it "
                                 "with gradient-after=I, or merge each I with "
                                 "its W (pipe-merge-backward)",
                                 at.index, cell),
                         at);
  return std::nullopt;
}

/// Columns that the cell or overlapped pair at `index` takes; an idle entry
/// takes its slots.
static int64_t columnsOf(const TableView &table, llvm::ArrayRef<Cell> row,
                         int64_t index) {
  if (row[index].isIdle())
    return row[index].getIdleSlots();
  return table.aligned ? slotsOf(UnitSlots(), row, index) : 1;
}

/// Checks a row, and counts its columns.
static std::optional<Violation> checkRow(const TableView &table, int64_t row,
                                         int64_t &numColumns) {
  llvm::ArrayRef<Cell> cells = table.rows[row];
  bool hasCells = false;
  for (int64_t index = 0, end = cells.size(); index != end; ++index) {
    if (std::optional<Violation> violation = checkCsvCell(table, {row, index}))
      return violation;
    hasCells |= !cells[index].isIdle();
    if (index == 0 || !cells[index - 1].overlapsNext())
      numColumns += columnsOf(table, cells, index);
  }
  if (!hasCells)
    return makeViolation(
        formatv("worker {0} runs nothing: PyTorch's CSV has an action on every "
                "rank",
                row));
  return std::nullopt;
}

/// Names the first cell of the second path.
static Violation describeReplicas(const TableView &table) {
  const Placement &placement = *table.placement;
  Violation violation = makeViolation(
      formatv("the schedule has {0} paths: in PyTorch's CSV each stage sits on "
              "one rank, replicated stages cannot be written",
              placement.getNumPaths()));
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (auto [index, cell] : llvm::enumerate(table.rows[row]))
      if (!cell.isIdle() && !cell.isPerPath() &&
          placement.pathOf(cell.getUnit()) == 1) {
        int64_t first = placement.workerOf(cell.getStage());
        violation.notes.push_back(
            {CellRef{row, int64_t(index)},
             formatv("cell {0} ({1}) runs stage {2} of path 1 on worker {3}; "
                     "path 0 runs it on worker {4}",
                     index, cell, cell.getStage(), row, first)});
        return violation;
      }
  return violation;
}

static std::optional<Violation> checkCsvTable(const TableView &table) {
  if (table.placement->getNumPaths() > 1)
    return describeReplicas(table);
  if (table.aligned && !table.slots.empty())
    return makeViolation(
        "the schedule is aligned by other slots, but PyTorch's CSV has columns "
        "for unit slots; align it to unit slots (pipe-align-slots), or remove "
        "its idle slots (pipe-compact)");
  int64_t numColumns = 0;
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    if (std::optional<Violation> violation = checkRow(table, row, numColumns))
      return violation;
  if (numColumns > kMaxTableCells)
    return makeViolation(formatv("the schedule has {0} cells and idle slots: "
                                 "the export writes {1} at most",
                                 numColumns, kMaxTableCells));
  return std::nullopt;
}

std::optional<Violation>
pipesched::findUnorderedForward(const TableView &table) {
  int64_t last = table.placement->getNumStages(0) - 1;
  int64_t row = table.placement->workerOf(last), previous = -1;
  for (auto [index, cell] : llvm::enumerate(table.rows[row])) {
    if (!cell.is(Phase::Forward) || cell.getStage() != last)
      continue;
    if (cell.getUnit() < previous)
      return makeViolation(
          formatv(
              "cell {0} ({1}) comes after {2}: PyTorch's runtime pairs losses "
              "with microbatches by the order of the last stage's forwards, "
              "and its gradients would be wrong; number the microbatches in "
              "that order",
              index, cell, Cell(last, Phase::Forward, previous)),
          CellRef{row, int64_t(index)});
    previous = cell.getUnit();
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// compute_only
//===----------------------------------------------------------------------===//

/// Writes the cell or the overlapped pair at `index`.
static void writeToken(llvm::raw_ostream &os, llvm::ArrayRef<Cell> row,
                       int64_t index) {
  if (row[index].overlapsNext())
    os << '(' << row[index] << ';' << row[index + 1] << ")OVERLAP_F_B";
  else
    os << row[index];
}

static void writeComputeRow(llvm::raw_ostream &os, const TableView &table,
                            llvm::ArrayRef<Cell> row) {
  for (int64_t index = 0, end = row.size(); index < end;) {
    if (index != 0)
      os << ',';
    if (!row[index].isIdle())
      writeToken(os, row, index);
    for (int64_t left = columnsOf(table, row, index) - 1; left > 0; --left)
      os << ',';
    index += row[index].overlapsNext() ? 2 : 1;
  }
  os << '\n';
}

//===----------------------------------------------------------------------===//
// compute_comms
//===----------------------------------------------------------------------===//

namespace {
/// Reproduces PyTorch's lowering (_add_send_recv). It sweeps repeatedly over
/// the ranks in order. In a sweep, each rank takes one action unless it waits
/// for another rank. A message is added to the receiver's row at once:
///
///   rank 0   0UNSHARD    0F0 0SEND_F0          0F1 0SEND_F1
///                                  \                     \
///   rank 1   1UNSHARD           1RECV_F0   1F0 ...     1RECV_F1
///            sweep 0     sweep 1           sweep 2
///
/// A waiting rank is skipped until a message wakes it: in the current sweep if
/// the sweep has not passed the rank yet, else in the next one. Linear in
/// actions, plus sweeps times workers / 64.
class CommLowering {
public:
  CommLowering(const TableView &table, const CellIndex &index)
      : table(table), index(index), dependences(table, index),
        ranks(table.rows.size()), active(ranks.size(), true),
        activeNext(ranks.size()), isIssued(table.getNumCells()) {
    for (auto [rank, row] : llvm::zip_equal(ranks, table.rows))
      rank.actions =
          addParameterActions(row, table.placement->getNumMicrobatches());
  }

  /// Returns the lines without newlines. Errors: a rank that waits forever.
  llvm::Expected<std::vector<std::string>> run();

private:
  struct Rank {
    std::vector<TorchAction> actions;
    size_t next = 0;
    std::string text;
  };

  bool takeAction(int64_t row);
  bool isReady(int64_t row, int64_t entry) const;
  void issue(int64_t row, const TorchAction &action);
  void send(int64_t row, Cell cell);
  void wake(int64_t row, int64_t sender);

  const TableView &table;
  const CellIndex &index;
  Dependences dependences;
  std::vector<Rank> ranks;
  llvm::BitVector active, activeNext; ///< in this sweep, in the next
  llvm::BitVector isIssued;           ///< by flat index
};
} // namespace

/// Starts a new field at the end of a line and returns where to append.
static std::string &startField(std::string &line) {
  if (!line.empty())
    line += ',';
  return line;
}

bool CommLowering::isReady(int64_t row, int64_t entry) const {
  Dependences::Producer producer =
      dependences.producerOf(table.rows[row][entry]);
  return !producer || isIssued[producer.flat];
}

void CommLowering::wake(int64_t row, int64_t sender) {
  (row > sender ? active : activeNext).set(row);
}

void CommLowering::send(int64_t row, Cell cell) {
  int64_t peer = dependences.messageDestination(cell);
  if (peer < 0)
    return;
  bool isForward = cell.is(Phase::Forward);
  Phase phase = isForward ? Phase::Forward : Phase::Backward;
  Cell sent(cell.getStage(), phase, cell.getUnit());
  Cell received(cell.getStage() + (isForward ? 1 : -1), phase, cell.getUnit());
  llvm::raw_string_ostream sender(startField(ranks[row].text));
  printMessage(sender, TorchToken::Send, sent);
  llvm::raw_string_ostream receiver(startField(ranks[peer].text));
  printMessage(receiver, TorchToken::Receive, received);
  wake(peer, row);
}

void CommLowering::issue(int64_t row, const TorchAction &action) {
  llvm::raw_string_ostream os(startField(ranks[row].text));
  if (action.kind >= TorchToken::Unshard) {
    os << action.stage << nameOfParameterAction(action.kind);
    return;
  }
  llvm::ArrayRef<Cell> cells = table.rows[row];
  writeToken(os, cells, action.entry);
  unsigned count = action.kind == TorchToken::Overlapped ? 2 : 1;
  for (unsigned i = 0; i < count; ++i)
    isIssued.set(index.rowBegin(row) + action.entry + i);
  for (unsigned i = 0; i < count; ++i)
    send(row, cells[action.entry + i]);
}

/// Returns whether the rank advanced.
bool CommLowering::takeAction(int64_t row) {
  Rank &rank = ranks[row];
  if (rank.next == rank.actions.size())
    return false;
  const TorchAction &action = rank.actions[rank.next];
  bool isPair = action.kind == TorchToken::Overlapped;
  bool isCell = isPair || action.kind == TorchToken::Compute;
  if (isCell && !isReady(row, action.entry))
    return false;
  if (isPair && !isReady(row, action.entry + 1))
    return false;
  issue(row, action);
  ++rank.next;
  return true;
}

llvm::Expected<std::vector<std::string>> CommLowering::run() {
  for (; active.any(); std::swap(active, activeNext)) {
    for (int row = active.find_first(); row >= 0; row = active.find_next(row))
      if (takeAction(row))
        activeNext.set(row);
    active.reset();
  }
  std::vector<std::string> lines;
  for (auto [row, rank] : llvm::enumerate(ranks)) {
    if (rank.next != rank.actions.size())
      return llvm::createStringError(
          llvm::formatv("worker {0} waits forever at cell {1} ({2})", row,
                        rank.actions[rank.next].entry,
                        table.rows[row][rank.actions[rank.next].entry])
              .str());
    lines.push_back(std::move(rank.text));
  }
  return lines;
}

/// Checks the lines like an import before anything is written, because a
/// message in another order would silently give wrong gradients.
static llvm::Error checkCsvLines(const TableView &table,
                                 llvm::ArrayRef<std::string> lines) {
  llvm::SmallVector<llvm::StringRef> texts(lines.begin(), lines.end());
  const std::vector<int32_t> &workers = table.placement->getPath(0).workers;
  TorchFile file{texts, workers, int64_t(workers.size())};
  if (llvm::Error error = checkTorchMessages(file))
    return error;
  return checkTorchParameters(file);
}

static llvm::Expected<std::vector<std::string>>
lowerMessages(const TableView &table) {
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  llvm::Expected<std::vector<std::string>> lines =
      CommLowering(table, *index).run();
  if (!lines)
    return lines.takeError();
  if (llvm::Error error = checkCsvLines(table, *lines))
    return std::move(error);
  return lines;
}

std::optional<Violation> pipesched::writeTorchCsv(llvm::raw_ostream &os,
                                                  const TableView &table,
                                                  TorchCsvFormat format) {
  if (std::optional<Violation> violation = checkCsvTable(table))
    return violation;
  if (std::optional<Violation> violation = findUnorderedForward(table))
    return violation;
  if (format == TorchCsvFormat::ComputeOnly) {
    for (llvm::ArrayRef<Cell> row : table.rows)
      writeComputeRow(os, table, row);
    return std::nullopt;
  }
  llvm::Expected<std::vector<std::string>> lines = lowerMessages(table);
  if (!lines)
    return makeViolation(llvm::toString(lines.takeError()));
  for (const std::string &line : *lines)
    os << line << '\n';
  return std::nullopt;
}
