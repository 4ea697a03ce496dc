//===- Picture.cpp - Contents of a drawing --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns a timeline or a table into boxes and bars.
//
//===----------------------------------------------------------------------===//

#include "Picture.h"
#include "Format.h"
#include "PipeSched/Analysis/Graph/MessageCosts.h"
#include "PipeSched/CostModel/Layers/Reductions.h"
#include "PipeSched/Evaluation/Summary.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/SlotLengths.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Common parts of both variants
//===----------------------------------------------------------------------===//

/// Numbers the stages of each worker: path by path, in the order of the path.
/// If there are slices, they have the shades and stages have none.
static void assignShades(Picture &picture) {
  const Placement &placement = *picture.placement;
  std::vector<int> stagesOnWorker(placement.getNumWorkers());
  bool isPath = true;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int32_t worker : placement.getPath(path).workers) {
      int shade = stagesOnWorker[worker]++;
      isPath &= shade == path;
      picture.shadeOf.push_back(shade);
      picture.numShades = std::max(picture.numShades, shade + 1);
    }
  if (placement.getNumSlices() > 1) {
    picture.shadeKind = ShadeKind::Slice;
    picture.numShades = placement.getNumSlices();
    picture.shadeOf.assign(picture.shadeOf.size(), 0);
    return;
  }
  if (picture.numShades == 1)
    picture.shadeKind = ShadeKind::None;
  else if (placement.getNumPaths() == 1)
    picture.shadeKind = ShadeKind::Chunk;
  else
    picture.shadeKind = isPath ? ShadeKind::Path : ShadeKind::Stage;
}

std::string Picture::numberOf(Cell cell) const {
  int64_t unit = cell.getUnit(), numSlices = placement->getNumSlices();
  std::string number = std::to_string(placement->microbatchOf(unit));
  return numSlices == 1
             ? number
             : number + "." + std::to_string(placement->sliceOf(unit));
}

static std::string countOf(int64_t number, llvm::StringRef one,
                           llvm::StringRef many) {
  return std::to_string(number) + " " + (number == 1 ? one : many).str();
}

static Picture startPicture(const NamedTable &result) {
  const Placement &placement = result.placement;
  Picture picture;
  picture.placement = &placement;
  picture.title = printableName(result.name);
  picture.rows.resize(placement.getNumWorkers());
  picture.bars.resize(placement.getNumWorkers());
  picture.marks.resize(placement.getNumWorkers());
  picture.numDigits =
      picture.numberOf(Cell(0, Phase::Forward, placement.getNumUnits() - 1))
          .size();
  assignShades(picture);
  llvm::raw_string_ostream subtitle(picture.subtitle);
  if (!result.family.empty())
    subtitle << printableName(result.family) << " · ";
  subtitle << countOf(placement.getNumWorkers(), "worker", "workers") << " × "
           << countOf(placement.getNumMicrobatches(), "microbatch",
                      "microbatches");
  if (placement.getNumSlices() > 1)
    subtitle << " × " << placement.getNumSlices() << " slices";
  return picture;
}

//===----------------------------------------------------------------------===//
// Timeline
//===----------------------------------------------------------------------===//

static void addBars(Picture &picture, const Execution &execution,
                    uint32_t task) {
  const TaskGraph &graph = execution.graph;
  int64_t begin = execution.timeline.startPs[task];
  int64_t release = begin + execution.times.occupancyPs[task];
  int64_t end = release + execution.times.latencyPs[task];
  if (begin == end)
    return;
  auto add = [&](int64_t worker, Lane lane) {
    picture.bars[worker].push_back(
        {begin, release, end, graph.cell[task], lane});
  };
  const InstructionTraits &traits = traitsOf(graph.kind[task]);
  switch (traits.role) {
  case InstructionRole::Message: // a Recv is drawn with its Send
    if (!graph.isMessage(task))
      return;
    add(graph.worker[task], traits.lane);
    return add(graph.peer[task], traitsOf(InstructionKind::Recv).lane);
  case InstructionRole::Copy:
    return add(graph.worker[task], traits.lane);
  case InstructionRole::Collective:
    for (int32_t worker : graph.workersOf(graph.peer[task]))
      add(worker, traits.lane);
    return;
  case InstructionRole::Compute:
  case InstructionRole::Join:
    return;
  }
}

Picture pipesched::pictureOfTimeline(const NamedEvaluation &result) {
  Picture picture = startPicture(result);
  const Execution &execution = result.getExecution();
  const TaskGraph &graph = execution.graph;
  picture.length = execution.timeline.makespanPs;
  picture.subtitle += " · step " + formatTime(picture.length) + " · idle " +
                      formatPercent(summarize(execution).idleRatio);
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    for (uint32_t task : graph.row(worker)) {
      int64_t begin = execution.timeline.startPs[task];
      picture.rows[worker].push_back(
          {begin, begin + execution.times.occupancyPs[task], graph.cell[task],
           overlappedCell(graph, task)});
    }
  for (uint32_t task = 0; task < graph.size(); ++task)
    addBars(picture, execution, task);
  return picture;
}

MemoryTrace pipesched::traceMemoryOf(const NamedEvaluation &result) {
  const Execution &execution = result.getExecution();
  MemoryFacts units;
  units.stages.resize(result.placement.getNumGlobalStages());
  for (StageMemory &stage : units.stages)
    stage.activationBytes = 1;
  bool isInBytes = execution.memoryFacts.has_value();
  return {isInBytes, traceMemory(execution.graph, execution.times,
                                 execution.timeline, result.placement,
                                 isInBytes ? *execution.memoryFacts : units)};
}

/// The bytes that costs and memory say of the cell of a task.
static int64_t impliedBytes(const NamedEvaluation &result,
                            const MessageCosts &messages, uint32_t task) {
  const Execution &execution = result.getExecution();
  const StageCosts &costs = execution.stageCosts;
  Cell cell = execution.graph.cell[task];
  InstructionKind kind = execution.graph.kind[task];
  switch (traitsOf(kind).role) {
  case InstructionRole::Message:
    return messages.of(task).bytes;
  case InstructionRole::Collective:
    return kind != InstructionKind::AllReduce || costs.reductions.empty()
               ? 0
               : costs.reductions[execution.graph.peer[task]].bytes;
  case InstructionRole::Copy:
    return execution.memoryFacts
               ? execution.memoryFacts->memoryOf(result.placement, cell)
                     .activationBytes
               : 0;
  case InstructionRole::Compute:
  case InstructionRole::Join:
    return 0;
  }
  llvm_unreachable("covered switch");
}

std::vector<int64_t> pipesched::movedBytesOf(const NamedEvaluation &result) {
  const TaskGraph &graph = result.getExecution().graph;
  MessageCosts messages(graph, result.placement,
                        result.getExecution().stageCosts);
  std::vector<int64_t> bytes(graph.size());
  for (uint32_t task = 0; task < graph.size(); ++task)
    bytes[task] = impliedBytes(result, messages, task);
  for (const StatedWork &work : result.work) {
    uint32_t task = graph.taskOfInstruction[work.instruction];
    if (graph.is(task, InstructionRole::Copy))
      bytes[task] = work.bytesMoved.value_or(bytes[task]);
    else if (graph.is(task, InstructionRole::Collective) && work.messageBytes)
      // The time of the collective was computed from these bytes.
      bytes[task] =
          llvm::cantFail(ringBytes(static_cast<double>(*work.messageBytes),
                                   graph.workersOf(graph.peer[task]).size()));
    else if (work.messageBytes)
      bytes[task] = *work.messageBytes;
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// Returns the boxes of one row. `start` has the first slot of each cell.
/// Phases without slots have no box.
template <typename Slots>
static std::vector<Box> boxesOfRow(const Slots &lengths,
                                   llvm::ArrayRef<Cell> row,
                                   const int64_t *start) {
  std::vector<Box> boxes;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i].isCompute())
      continue;
    Box box{start[i], start[i] + slotsOf(lengths, row, i), row[i],
            std::nullopt};
    if (row[i].overlapsNext())
      box.second = row[++i];
    if (traitsOf(box.cell.getPhase()).unitSlots != 0 || box.end > box.begin)
      boxes.push_back(box);
  }
  return boxes;
}

static std::vector<Mark> marksOfRow(llvm::ArrayRef<Cell> row,
                                    const int64_t *start) {
  std::vector<Mark> marks;
  for (auto [i, cell] : llvm::enumerate(row))
    if (cell.isCopy() || cell.isJoin())
      marks.push_back({start[i], cell});
  return marks;
}

llvm::Expected<Picture> pipesched::pictureOfSlots(const NamedTable &named) {
  TableView table = named.tableView();
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  llvm::Expected<SlotAssignment> slots = assignSlots(table, *index);
  if (!slots)
    return slots.takeError();
  Picture picture = startPicture(named);
  picture.isInSlots = true;
  picture.length = slots->numSlots;
  double bubbleRatio = computeMetrics(table, *index, *slots).bubbleRatio;
  picture.subtitle += " · " + std::to_string(picture.length) +
                      " slots · bubble " + formatPercent(bubbleRatio);
  withSlotsOf(table, [&](const auto &lengths) {
    for (auto [worker, row] : llvm::enumerate(table.rows)) {
      const int64_t *start = slots->start.data() + index->rowBegin(worker);
      picture.rows[worker] = boxesOfRow(lengths, row, start);
      picture.marks[worker] = marksOfRow(row, start);
    }
  });
  return picture;
}

//===----------------------------------------------------------------------===//
// All pictures of a page
//===----------------------------------------------------------------------===//

Lane Mark::lane() const {
  Phase phase = cell.isJoin() ? traitsOf(cell.getPhase()).order.needs.first()
                              : cell.getPhase();
  return traitsOf(*traitsOf(phase).instruction).lane;
}

llvm::Expected<std::vector<Picture>>
pipesched::picturesOfSlots(llvm::ArrayRef<const NamedTable *> tables) {
  std::vector<Picture> pictures;
  for (const NamedTable *table : tables) {
    llvm::Expected<Picture> picture = pictureOfSlots(*table);
    if (!picture)
      return picture.takeError();
    pictures.push_back(std::move(*picture));
  }
  return pictures;
}

PhaseSet pipesched::phasesOf(llvm::ArrayRef<Picture> pictures) {
  PhaseSet phases;
  for (const Picture &picture : pictures) {
    for (const auto &row : picture.rows)
      for (const Box &box : row)
        phases |= box.second
                      ? PhaseSet{box.cell.getPhase(), box.second->getPhase()}
                      : box.cell.getPhase();
    for (const auto &bars : picture.bars)
      for (const Bar &bar : bars)
        phases |= bar.cell.getPhase();
    for (const auto &marks : picture.marks)
      for (const Mark &mark : marks)
        phases |= mark.cell.getPhase();
  }
  return phases;
}

std::string pipesched::describeShades(llvm::ArrayRef<Picture> pictures) {
  ShadeKind kind = ShadeKind::None;
  int numShades = 1;
  for (const Picture &picture : pictures) {
    numShades = std::max(numShades, picture.numShades);
    if (picture.numShades > 1)
      kind = kind == ShadeKind::None || kind == picture.shadeKind
                 ? picture.shadeKind
                 : ShadeKind::Stage;
  }
  std::string last = std::to_string(numShades - 1);
  switch (kind) {
  case ShadeKind::None:
    return "";
  case ShadeKind::Slice:
    return "dark to light: slice 0 to " + last;
  case ShadeKind::Chunk:
    return "dark to light: chunk 0 to " + last;
  case ShadeKind::Path:
    return "dark to light: path 0 to " + last;
  case ShadeKind::Stage:
    return "dark to light: stages of a worker, path by path";
  }
  llvm_unreachable("covered switch");
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static bool canJoin(const Box &, const Box &) { return true; }
static bool canJoin(const Bar &a, const Bar &b) { return a.lane == b.lane; }

/// Replaces each run of short items by `merge(run)`; returns whether any run
/// has several items. Items are sorted by `begin`.
///
///   |--least--|
///   [][] [][][]  [      ] []      three runs, of five, one and one
template <typename Item, typename Merge>
static bool mergeRuns(std::vector<Item> &items, int64_t least, Merge &&merge) {
  auto isShort = [&](const Item &item) {
    return item.end - item.begin < least;
  };
  size_t numKept = 0;
  for (size_t first = 0, end = 0; first < items.size(); first = end) {
    for (end = first + 1; end < items.size(); ++end)
      if (!isShort(items[first]) || !isShort(items[end]) ||
          !canJoin(items[first], items[end]) ||
          items[end].begin - items[first].begin >= least)
        break;
    items[numKept++] = merge(llvm::ArrayRef(items).slice(first, end - first));
  }
  bool hasRuns = numKept < items.size();
  items.erase(items.begin() + numKept, items.end());
  return hasRuns;
}

static Box mergeBoxes(llvm::ArrayRef<Box> run) {
  PhaseMap<int64_t> lengths = {};
  auto lengthOf = [&](Cell cell) -> int64_t & {
    return lengths[cell.getPhase()];
  };
  for (const Box &box : run)
    lengthOf(box.cell) += box.end - box.begin;
  Box merged = run.front();
  for (const Box &box : run)
    if (lengthOf(box.cell) > lengthOf(merged.cell))
      merged.cell = box.cell;
  merged.end = run.back().end;
  merged.numMore = static_cast<int64_t>(run.size()) - 1;
  if (merged.numMore > 0)
    merged.second.reset();
  return merged;
}

static Bar mergeBars(llvm::ArrayRef<Bar> run) {
  Bar merged = run.front();
  for (const Bar &bar : run)
    merged.end = std::max(merged.end, bar.end);
  merged.numMore = static_cast<int64_t>(run.size()) - 1;
  if (merged.numMore > 0)
    merged.release = merged.end;
  return merged;
}

bool pipesched::mergeShort(Picture &picture, int64_t least) {
  bool hasRuns = false;
  for (auto &row : picture.rows)
    hasRuns |= mergeRuns(row, least, mergeBoxes);
  for (auto &bars : picture.bars) {
    llvm::sort(bars, [](const Bar &a, const Bar &b) {
      return std::tuple(a.lane, a.begin, a.end, a.cell.getRaw()) <
             std::tuple(b.lane, b.begin, b.end, b.cell.getRaw());
    });
    hasRuns |= mergeRuns(bars, least, mergeBars);
  }
  return hasRuns;
}
