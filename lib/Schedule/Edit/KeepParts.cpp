//===- KeepParts.cpp - Parts of a table -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the new number of each worker, stage, path and unit, then rewrites
// paths and rows with these numbers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/KeepParts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;
using llvm::BitVector;

TableParts::TableParts(const TableView &table)
    : microbatches(table.placement->getNumMicrobatches(), true),
      workers(table.placement->getNumWorkers(), true),
      stages(table.placement->getNumGlobalStages(), true),
      slices(table.placement->getNumSlices(), true), phases(kNumPhases, true),
      cells(table.getNumCells(), true) {}

namespace {
/// The kept items of a range and their new numbers, counted from the first one.
class Numbering {
public:
  explicit Numbering(BitVector kept) : kept(std::move(kept)) {
    int64_t next = 0;
    numbers.reserve(this->kept.size());
    for (unsigned i = 0; i != this->kept.size(); ++i)
      numbers.push_back(this->kept[i] ? next++ : next);
    count = next;
  }

  bool has(int64_t old) const { return kept[old]; }
  int64_t of(int64_t old, int64_t first = 0) const {
    return numbers[old] - numbers[first];
  }
  int64_t size() const { return count; }

private:
  BitVector kept;
  std::vector<int32_t> numbers;
  int64_t count;
};

class PartKeeper {
public:
  PartKeeper(const TableView &table, const TableParts &parts)
      : table(table), placement(*table.placement), parts(parts),
        workers(parts.workers), stages(keptStages()), paths(keptPaths()),
        microbatches(keptMicrobatches()), slices(parts.slices) {}

  llvm::Expected<Table> run() const;

private:
  BitVector keptStages() const;
  BitVector keptPaths() const;
  BitVector keptMicrobatches() const;
  Path makePath(int64_t path) const;
  AddedStages makeAdded() const;
  std::vector<MicrobatchRange>
  makeTakes(llvm::function_ref<bool(int64_t)> takesIt) const;
  std::optional<Cell> makeCell(Cell cell) const;
  Row makeRow(int64_t row, int64_t firstCell) const;
  int64_t pathOfMicrobatch(int64_t microbatch) const {
    return placement.pathOf(placement.unitOf(microbatch, 0));
  }

  const TableView &table;
  const Placement &placement;
  const TableParts &parts;
  Numbering workers, stages, paths, microbatches, slices;
};
} // namespace

BitVector PartKeeper::keptStages() const {
  BitVector kept = parts.stages;
  for (int64_t stage : parts.stages.set_bits())
    if (!workers.has(placement.workerOf(stage)))
      kept.reset(stage);
  return kept;
}

BitVector PartKeeper::keptPaths() const {
  BitVector isTaken(placement.getNumPaths(), !placement.isAssigned());
  if (placement.isAssigned())
    for (int64_t microbatch : parts.microbatches.set_bits())
      isTaken.set(pathOfMicrobatch(microbatch));
  BitVector kept(placement.getNumPaths());
  for (int64_t path : isTaken.set_bits())
    for (int64_t i = 0, end = placement.getNumStages(path); i != end; ++i)
      if (stages.has(placement.stageOffset(path) + i))
        kept.set(path);
  return kept;
}

BitVector PartKeeper::keptMicrobatches() const {
  BitVector kept = parts.microbatches;
  if (placement.isAssigned())
    for (int64_t microbatch : parts.microbatches.set_bits())
      if (!paths.has(pathOfMicrobatch(microbatch)))
        kept.reset(microbatch);
  return kept;
}

/// The kept microbatches that a path or node takes, as ranges of neighbours.
std::vector<MicrobatchRange>
PartKeeper::makeTakes(llvm::function_ref<bool(int64_t)> takesIt) const {
  std::vector<MicrobatchRange> takes;
  for (int64_t i = 0, end = placement.getNumMicrobatches(); i != end; ++i) {
    if (!microbatches.has(i) || !takesIt(i))
      continue;
    int64_t number = microbatches.of(i);
    if (takes.empty() || takes.back().end != number)
      takes.push_back({number, number, 1});
    ++takes.back().end;
  }
  return takes;
}

Path PartKeeper::makePath(int64_t path) const {
  const Path &old = placement.getPath(path);
  Path made;
  int64_t first = placement.stageOffset(path);
  for (int64_t i = 0; i != old.getNumStages(); ++i) {
    if (!stages.has(first + i))
      continue;
    made.workers.push_back(workers.of(old.workers[i]));
    if (!old.blocks.empty())
      made.blocks.push_back(old.blocks[i]);
    if (!old.weights.empty())
      made.weights.push_back(old.weights[i]);
  }
  made.backward.isNone = old.backward.isNone;
  for (int64_t stage : old.backward.frozen)
    if (stages.has(first + stage))
      made.backward.frozen.push_back(stages.of(first + stage, first));
  if (paths.size() > 1 && placement.isAssigned())
    made.takes = makeTakes([&](int64_t microbatch) {
      return pathOfMicrobatch(microbatch) == path;
    });
  return made;
}

/// The nodes, and the edges whose stages are both kept. An edge is left out if
/// the new path already contains it.
AddedStages PartKeeper::makeAdded() const {
  AddedStages made;
  int64_t pathStages = placement.getPath(0).getNumStages(), numOnPath = 0;
  for (int64_t stage = 0; stage != pathStages; ++stage)
    numOnPath += stages.has(stage);
  for (const StageNode &node : placement.getAdded().nodes) {
    if (!stages.has(node.number))
      continue;
    StageNode &copy = made.nodes.emplace_back(node);
    copy.number = stages.of(node.number);
    copy.worker = workers.of(node.worker);
    if (node.takes)
      copy.takes = makeTakes([&](int64_t microbatch) {
        return placement.runs(node.number, placement.unitOf(microbatch, 0));
      });
  }
  for (const AddedEdge &edge : placement.getAdded().edges) {
    if (!stages.has(edge.from) || !stages.has(edge.to))
      continue;
    int64_t from = stages.of(edge.from), to = stages.of(edge.to);
    if (to == from + 1 && to < numOnPath)
      continue;
    AddedEdge &copy = made.edges.emplace_back(edge);
    std::tie(copy.from, copy.to) = std::pair(from, to);
  }
  return made;
}

/// The cell with its new numbers, or nothing if it is not kept.
std::optional<Cell> PartKeeper::makeCell(Cell cell) const {
  if (!parts.phases[static_cast<unsigned>(cell.getPhase())])
    return std::nullopt;
  if (cell.isIdle())
    return cell;
  int64_t path = placement.pathOf(cell);
  int64_t first = placement.stageOffset(path);
  if (!paths.has(path) || !stages.has(first + cell.getStage()))
    return std::nullopt;
  int64_t stage = stages.of(first + cell.getStage(), first);
  if (cell.isPerPath())
    return Cell(stage, cell.getPhase(), paths.of(path), cell.overlapsNext());
  int64_t microbatch = placement.microbatchOf(cell.getUnit());
  int64_t slice = placement.sliceOf(cell.getUnit());
  if (!microbatches.has(microbatch) || !slices.has(slice))
    return std::nullopt;
  return Cell(stage, cell.getPhase(),
              microbatches.of(microbatch) * slices.size() + slices.of(slice),
              cell.overlapsNext());
}

Row PartKeeper::makeRow(int64_t row, int64_t firstCell) const {
  Row made;
  bool joinsLast = false;
  for (Cell old : table.rows[row]) {
    std::optional<Cell> cell;
    if (parts.cells[firstCell++])
      cell = makeCell(old);
    if (!cell && joinsLast && !made.empty())
      made.back() = made.back().withOverlap(false);
    if (cell)
      made.push_back(*cell);
    joinsLast = cell && cell->overlapsNext();
  }
  return made;
}

llvm::Expected<Table> PartKeeper::run() const {
  Table made;
  std::vector<Path> madePaths;
  for (int64_t path = 0; path != placement.getNumPaths(); ++path)
    if (paths.has(path))
      madePaths.push_back(makePath(path));
  AddedStages added;
  if (!placement.getAdded().isEmpty())
    added = makeAdded();
  llvm::Expected<Placement> madePlacement =
      Placement::create(workers.size(), microbatches.size(),
                        std::move(madePaths), slices.size(), std::move(added));
  if (!madePlacement)
    return madePlacement.takeError();
  made.placement = std::move(*madePlacement);
  made.gradientAfter = table.gradientAfter;
  made.aligned = table.aligned;
  for (int64_t path = 0; path != placement.getNumPaths(); ++path)
    for (int64_t i = 0; paths.has(path) && i != placement.getNumStages(path);
         ++i)
      if (int64_t stage = placement.stageOffset(path) + i;
          !table.slots.empty() && stages.has(stage))
        made.slots.push_back(table.slots[stage]);
  int64_t firstCell = 0;
  for (auto [row, cells] : llvm::enumerate(table.rows)) {
    if (workers.has(row))
      made.rows.push_back(makeRow(row, firstCell));
    firstCell += cells.size();
  }
  return made;
}

llvm::Expected<Table> pipesched::keepParts(const TableView &table,
                                           const TableParts &parts) {
  return PartKeeper(table, parts).run();
}
