//===- RowHelp.cpp - Help for a cell of a row -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses a file without verifying it, and uses the common rule of dependences
// to find the cells that a cell waits for.
//
//===----------------------------------------------------------------------===//

#include "RowHelp.h"
#include "EditedTable.h"
#include "PipeSched/Schedule/Table/Dependences.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace pipesched;
using llvm::formatv;

/// Longer lists are cut.
static constexpr size_t kMostLines = 12, kMostOffers = 200;

namespace {
/// The row of a file as an op, with its schedule.
class ParsedRow {
public:
  ParsedRow(const DialectRegistry &dialects, StringRef text,
            const RowText &place)
      : context(dialects, MLIRContext::Threading::DISABLED),
        silence(&context, [](Diagnostic &) { return success(); }) {
    ParserConfig config(&context, /*verifyAfterParse=*/false);
    module = parseSourceString<ModuleOp>(text, config, "row");
    if (!module)
      return;
    module->walk([&](pipe::WorkerOp op) {
      auto loc = dyn_cast<FileLineColLoc>(op->getLoc());
      if (loc && loc.getLine() == place.line && loc.getColumn() == place.column)
        row = op;
    });
    auto schedule = row ? dyn_cast<pipe::ScheduleOp>(row->getParentOp())
                        : pipe::ScheduleOp();
    if (schedule && int64_t(row.getWorker()) < schedule.getWorkers())
      table = EditedTable::load(schedule);
  }

  pipe::WorkerOp row;
  /// Null if the text has syntax errors or invalid paths.
  std::unique_ptr<EditedTable> table;

private:
  MLIRContext context;
  ScopedDiagnosticHandler silence;
  OwningOpRef<ModuleOp> module;
};
} // namespace

//===----------------------------------------------------------------------===//
// Descriptions of cells
//===----------------------------------------------------------------------===//

/// Returns "forward of microbatch 0 on stage 1".
static std::string meaningOf(const Placement &placement, Cell cell) {
  std::string text = enumMeaning(cell.getPhase()).str();
  std::string path;
  if (placement.getNumPaths() > 1)
    path = formatv(" of path {0}", placement.pathOf(cell));
  if (cell.isPerPath())
    return formatv("{0} of stage {1}{2}", text, cell.getStage(), path);
  int64_t unit = cell.getUnit();
  std::string slice;
  if (placement.getNumSlices() > 1)
    slice = formatv("slice {0} of ", placement.sliceOf(unit));
  return formatv("{0} of {1}microbatch {2} on stage {3}{4}", text, slice,
                 placement.microbatchOf(unit), cell.getStage(), path);
}

namespace {
/// The facts about one cell of a table.
class CellStory {
public:
  CellStory(const EditedTable &table, CellRef at)
      : table(table), at(at), cell(table.getView().rows[at.row][at.index]) {
    bool isWhole = table.getMissing().empty() && table.getProblem().empty();
    if (!isWhole || !table.getIndex())
      return;
    llvm::Expected<SlotAssignment> assigned =
        assignSlots(table.getView(), *table.getIndex());
    if (assigned)
      slots = std::move(*assigned);
    else
      noSlots = toString(assigned.takeError());
  }

  std::string tell();

private:
  void list(StringRef title, std::vector<std::string> lines);
  void tellPlace();
  std::string whyNoSlots() const;
  std::string lineOf(CellRef other) const;
  std::string slotsAt(CellRef other) const;
  CellRef refOf(uint32_t flat) const { return table.getIndex()->refOf(flat); }
  std::vector<std::string> waitsFor() const;
  std::vector<std::string> waitingForIt() const;
  std::vector<std::string> met() const;

  const EditedTable &table;
  CellRef at;
  Cell cell;
  std::optional<SlotAssignment> slots;
  std::string noSlots, text;
};
} // namespace

/// Returns "slot 3" or "slots 3 to 4".
std::string CellStory::slotsAt(CellRef other) const {
  uint32_t flat = table.getIndex()->rowBegin(other.row) + other.index;
  int64_t first = slots->start[flat];
  int64_t count = slotsOf(table.getView(), other);
  if (count > 1)
    return formatv("slots {0} to {1}", first, first + count - 1);
  return formatv(count == 1 ? "slot {0}" : "at slot {0}", first);
}

std::string CellStory::lineOf(CellRef other) const {
  Cell named = table.getView().rows[other.row][other.index];
  std::string line =
      formatv("`{0}` on worker {1}", table.nameOf(named), other.row);
  if (!table.isWritten(other))
    return line + ", which its row lacks";
  return slots ? line + ", " + slotsAt(other) : line;
}

std::string CellStory::whyNoSlots() const {
  ArrayRef<Cell> missing = table.getMissing();
  if (!table.getProblem().empty())
    return table.getProblem().str();
  if (missing.empty())
    return noSlots;
  return formatv("rows lack {0} cell{1}, first {2}", missing.size(),
                 missing.size() == 1 ? "" : "s", table.nameOf(missing.front()));
}

void CellStory::tellPlace() {
  text += formatv("cell {0} of worker {1}, ", at.index, at.row);
  ArrayRef<Cell> row = table.getView().rows[at.row];
  bool isSecond = at.index > 0 && row[at.index - 1].overlapsNext();
  if (isSecond || cell.overlapsNext())
    text += formatv("overlapped with `{0}`, ",
                    table.nameOf(row[at.index + (isSecond ? -1 : 1)]));
  if (slots)
    text += slotsAt(at) + formatv(" of {0}\n", slots->numSlots).str();
  else
    text += "no slot yet: " + whyNoSlots() + "\n";
}

void CellStory::list(StringRef title, std::vector<std::string> lines) {
  if (lines.empty())
    return;
  text += formatv("\n{0}\n\n", title);
  for (const std::string &line : ArrayRef(lines).take_front(kMostLines))
    text += "- " + line + "\n";
  if (lines.size() > kMostLines)
    text += formatv("- and {0} more\n", lines.size() - kMostLines);
}

std::vector<std::string> CellStory::waitsFor() const {
  std::vector<std::string> lines;
  Dependences dependences(table.getView(), *table.getIndex());
  dependences.forEachPredecessor(
      cell, [&](uint32_t flat) { lines.push_back(lineOf(refOf(flat))); });
  for (int64_t i = at.index - 1; i >= 0; --i) {
    Cell before = table.getView().rows[at.row][i];
    if (before.isIdle() || before.overlapsNext())
      continue;
    lines.push_back(formatv("its row, behind `{0}`", table.nameOf(before)));
    break;
  }
  return lines;
}

std::vector<std::string> CellStory::waitingForIt() const {
  std::vector<std::string> lines;
  Dependences dependences(table.getView(), *table.getIndex());
  uint32_t self = table.getIndex()->rowBegin(at.row) + at.index;
  const TableView &view = table.getView();
  for (int64_t row = 0, end = view.rows.size(); row != end; ++row)
    for (int64_t i = 0, size = view.rows[row].size(); i != size; ++i)
      if (!view.rows[row][i].isIdle())
        dependences.forEachPredecessor(view.rows[row][i], [&](uint32_t flat) {
          if (flat == self)
            lines.push_back(lineOf({row, i}));
        });
  return lines;
}

/// The other cells of its groups.
std::vector<std::string> CellStory::met() const {
  std::vector<std::string> lines;
  const Groups *groups = table.getIndex()->getGroups();
  if (!groups || !cell.isIn(groups->getPhases()))
    return lines;
  for (int64_t group : groups->groupsOf(cell))
    for (CellRef member : groups->membersOf(group))
      if (member.row != at.row)
        lines.push_back(lineOf(member));
  return lines;
}

std::string CellStory::tell() {
  text = formatv("**{0}**: {1}\n\n", table.nameOf(cell),
                 meaningOf(table.getPlacement(), cell));
  tellPlace();
  if (!table.getIndex())
    return text;
  list("waits for", waitsFor());
  list("waited for by", waitingForIt());
  list("meets", met());
  return text;
}

std::optional<std::string>
pipesched::describeCell(const RowText &row, const DialectRegistry &dialects) {
  if (!row.word)
    return std::nullopt;
  ParsedRow parsed(dialects, row.repaired(/*dropsWord=*/false), row);
  if (!parsed.table || parsed.row.getCells().size() != row.words.size())
    return std::nullopt;
  CellRef at = {int64_t(parsed.row.getWorker()), int64_t(*row.word)};
  if (!parsed.table->isWritten(at))
    return std::nullopt; // a second row of the same worker
  Cell written = parsed.row.getCells()[at.index];
  Cell known = parsed.table->getView().rows[at.row][at.index];
  if (written.isIdle())
    return formatv("idle for {0} slot{1}", written.getIdleSlots(),
                   written.getIdleSlots() == 1 ? "" : "s")
        .str();
  if (known.isIdle())
    return formatv("**{0}** does not belong here: {1}",
                   parsed.table->nameOf(written), parsed.table->getProblem())
        .str();
  return CellStory(*parsed.table, at).tell();
}

//===----------------------------------------------------------------------===//
// Missing cells of rows
//===----------------------------------------------------------------------===//

namespace {
/// Collects the cells that a row could have at a place.
class Offers {
public:
  Offers(const EditedTable &table, int64_t worker, int64_t index)
      : table(table), placement(table.getPlacement()), worker(worker),
        index(index), dependences(table.getView(), *table.getIndex()) {}

  std::vector<CellOffer> collect();

private:
  struct Found {
    bool isLate;
    int64_t unit, stage;
    Cell cell;
    std::string waits;
  };

  void addUnit(int64_t globalStage, int64_t unit);
  void addStage(int64_t globalStage);
  void add(Cell cell, bool isLast = false);

  const EditedTable &table;
  const Placement &placement;
  int64_t worker, index;
  Dependences dependences;
  std::vector<Found> found;
};
} // namespace

/// Adds a cell, preceded by the first missing cell that it waits for in the
/// same row.
void Offers::add(Cell cell, bool isLast) {
  Found entry = {isLast, cell.getNumber(), cell.getStage(), cell, ""};
  dependences.forEachPredecessor(cell, [&](uint32_t flat) {
    CellRef ref = table.getIndex()->refOf(flat);
    Cell other = table.getView().rows[ref.row][ref.index];
    bool isThere = table.isWritten(ref);
    entry.isLate |= !isThere || (ref.row == worker && ref.index >= index);
    entry.waits += entry.waits.empty() ? "; waits for " : ", ";
    entry.waits += table.nameOf(other).str();
    if (ref.row != worker)
      entry.waits += formatv(" of worker {0}", ref.row);
    if (!isThere)
      entry.waits += ", which is missing";
  });
  found.push_back(std::move(entry));
}

void Offers::addUnit(int64_t globalStage, int64_t unit) {
  int64_t stage =
      globalStage - placement.stageOffset(placement.pathOfStage(globalStage));
  auto cellOf = [&](Phase phase) { return Cell(stage, phase, unit); };
  PhaseSet written = table.phasesOf(cellOf(Phase::Forward));
  StageBackward backward = placement.backwardOf(globalStage);
  PhaseSet wanted = table.wantedBackward(globalStage);
  allowedPhases(backward).forEach([&](Phase phase) {
    const PhaseTraits &traits = traitsOf(phase);
    const PhaseOrder &order = traits.order;
    if (traits.number != CellNumber::Unit || written.contains(phase) ||
        written.intersects(order.alternatives))
      return;
    bool isBackward = order.occurrence == Occurrence::Alternative ||
                      kSplitBackward.contains(phase);
    bool follows = false;
    written.forEach(
        [&](Phase other) { follows |= followerOf(other, backward) == phase; });
    bool hasOwn = (written & kSplitBackward).isEmpty();
    if (phase == Phase::Forward || follows)
      return add(cellOf(phase));
    // Offer a whole and a split backward, unless the schedule already uses one
    // kind.
    bool hasKind = table.uses(Phase::Backward);
    kSplitBackward.forEach([&](Phase half) { hasKind |= table.uses(half); });
    if (isBackward && hasOwn &&
        (!hasKind || wanted.contains(phase) || table.uses(phase)))
      return add(cellOf(phase));
    bool hasCopy = order.needs == PhaseSet() || written.intersects(order.needs);
    if (!isBackward && table.uses(phase) && hasCopy)
      add(cellOf(phase));
  });
}

/// Offers cells of a whole stage, if the schedule has such cells.
void Offers::addStage(int64_t globalStage) {
  int64_t path = placement.pathOfStage(globalStage);
  int64_t stage = globalStage - placement.stageOffset(path);
  kPerPathPhases.forEach([&](Phase phase) {
    if (allowedPhases(placement.backwardOf(globalStage)).contains(phase) &&
        table.uses(phase) && !table.pathPhasesOf(globalStage).contains(phase))
      add(Cell(stage, phase, path), /*isLast=*/true);
  });
}

std::vector<CellOffer> Offers::collect() {
  for (int64_t stage = 0; stage != placement.getNumGlobalStages(); ++stage) {
    if (placement.workerOf(stage) != worker)
      continue;
    int64_t path = placement.pathOfStage(stage);
    for (int64_t unit = 0; unit != placement.getNumUnits(); ++unit)
      if (placement.pathOf(unit) == path)
        addUnit(stage, unit);
    addStage(stage);
  }
  llvm::sort(found, [](const Found &a, const Found &b) {
    return std::tuple(a.isLate, a.unit, a.stage, a.cell.getRaw()) <
           std::tuple(b.isLate, b.unit, b.stage, b.cell.getRaw());
  });
  std::vector<CellOffer> offers;
  for (const Found &entry : ArrayRef(found).take_front(kMostOffers))
    offers.push_back({table.nameOf(entry.cell).str(),
                      meaningOf(placement, entry.cell) + entry.waits});
  return offers;
}

std::optional<std::vector<CellOffer>>
pipesched::offerCells(const RowText &row, const DialectRegistry &dialects) {
  ParsedRow parsed(dialects, row.repaired(/*dropsWord=*/true), row);
  if (!parsed.table || !parsed.table->getIndex())
    return std::nullopt;
  return Offers(*parsed.table, parsed.row.getWorker(), row.numBefore).collect();
}
