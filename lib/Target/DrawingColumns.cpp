//===- DrawingColumns.cpp - A timeline as columns -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers the tasks of a timeline as drawings need them, and copies the results
// of analyses by these numbers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/DrawingColumns.h"
#include "Format.h"
#include "Palette.h"
#include "Picture.h"
#include "PipeSched/Analysis/Graph/IdleSpans.h"
#include "PipeSched/Analysis/Graph/TaskEnds.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/Support/JSON.h"

using namespace pipesched;
using llvm::json::OStream;

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

namespace {

class ColumnWriter {
public:
  explicit ColumnWriter(const NamedEvaluation &result)
      : placement(result.placement), execution(result.getExecution()),
        graph(execution.graph),
        ends(graph, execution.times, execution.timeline),
        movedBytes(movedBytesOf(result)) {}

  DrawingColumns write();

private:
  void numberItems();
  void addItem(uint32_t task);
  void addSecond(uint32_t task);
  void addIdle();

  const Placement &placement;
  const Execution &execution;
  const TaskGraph &graph;
  TaskEnds ends;
  std::vector<int64_t> movedBytes; ///< by task
  DrawingColumns columns;
  std::vector<uint32_t> taskOf; ///< by item
  std::vector<int32_t> itemOf;  ///< by task
};

} // namespace

/// Cells come first, by row; all other tasks follow by worker, kind and start,
/// so that tasks of a queue are adjacent.
void ColumnWriter::numberItems() {
  columns.rowBegins = graph.rowBegins;
  taskOf = graph.rowTasks;
  taskOf.reserve(graph.size());
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (!graph.is(task, InstructionRole::Compute))
      taskOf.push_back(task);
  auto place = [&](uint32_t task) {
    return std::tuple(graph.worker[task], graph.kind[task], ends.startPs(task),
                      task);
  };
  llvm::sort(taskOf.begin() + graph.rowTasks.size(), taskOf.end(),
             [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  itemOf.assign(graph.size(), DrawingColumns::kNone);
  for (auto [item, task] : llvm::enumerate(taskOf))
    itemOf[task] = static_cast<int32_t>(item);
}

void ColumnWriter::addItem(uint32_t task) {
  Cell cell = graph.cell[task];
  columns.kind.push_back(static_cast<int8_t>(graph.kind[task]));
  columns.worker.push_back(graph.worker[task]);
  columns.peer.push_back(graph.peer[task]);
  columns.stage.push_back(static_cast<int32_t>(placement.globalStage(cell)));
  columns.phase.push_back(traitsOf(cell.getPhase()).code);
  columns.microbatch.push_back(static_cast<int32_t>(cell.getNumber()));
  columns.startPs.push_back(ends.startPs(task));
  columns.releasePs.push_back(ends.releasePs(task));
  columns.endPs.push_back(ends.arrivalPs(task));
  columns.bytes.push_back(movedBytes[task]);
  const Edge *binding = ends.bindingEdge(task);
  columns.awaited.push_back(binding ? itemOf[binding->task()]
                                    : DrawingColumns::kNone);
}

void ColumnWriter::addSecond(uint32_t task) {
  std::optional<Cell> second = overlappedCell(graph, task);
  auto orNone = [&](auto value) {
    return second ? static_cast<int32_t>(value()) : DrawingColumns::kNone;
  };
  columns.secondStage.push_back(
      orNone([&] { return placement.globalStage(*second); }));
  columns.secondMicrobatch.push_back(
      orNone([&] { return second->getNumber(); }));
  columns.secondPhase.push_back(static_cast<int8_t>(
      orNone([&] { return traitsOf(second->getPhase()).code; })));
}

//===----------------------------------------------------------------------===//
// Idle time and memory
//===----------------------------------------------------------------------===//

void ColumnWriter::addIdle() {
  for (const std::vector<IdleSpan> &row :
       listIdle(graph, execution.times, execution.timeline, execution.idle))
    for (const IdleSpan &span : row) {
      columns.idleWorker.push_back(span.worker);
      columns.idleCause.push_back(static_cast<int8_t>(span.cause));
      columns.idleBefore.push_back(span.before == TaskGraph::kNone
                                       ? DrawingColumns::kNone
                                       : itemOf[span.before]);
      columns.idleBeginPs.push_back(span.beginPs);
      columns.idleEndPs.push_back(span.endPs);
    }
}

static void addMemory(DrawingColumns &columns, const MemoryTrace &trace) {
  for (const std::vector<MemorySample> &row : trace.samples) {
    columns.memoryBegins.push_back(columns.memoryPs.size());
    for (MemorySample sample : row) {
      columns.memoryPs.push_back(sample.atPs);
      columns.memoryHeld.push_back(sample.bytes);
    }
  }
  columns.memoryBegins.push_back(columns.memoryPs.size());
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// Writes the meaning of stage numbers, in the order of the numbers.
static void writeStages(OStream &json, const Picture &picture) {
  const Placement &placement = *picture.placement;
  json.attributeArray("stages", [&] {
    int64_t number = 0;
    for (int64_t path = 0; path < placement.getNumPaths(); ++path)
      for (auto entry : llvm::enumerate(placement.getPath(path).workers))
        json.object([&] {
          json.attribute("path", path);
          json.attribute("stage", static_cast<int64_t>(entry.index()));
          json.attribute("worker", entry.value());
          json.attribute("shade", picture.shadeOf[number++]);
        });
  });
}

/// Writes the phases by their codes, with a colour for each shade.
static void writePhases(OStream &json, const Picture &picture) {
  PhaseSet inUse = phasesOf(picture) & kCostedPhases;
  json.attributeArray("phases", [&] {
    for (unsigned code = 0; code <= kMaxPhaseCode; ++code)
      json.object([&] {
        // Codes without a phase are not drawn.
        Phase phase = phaseFromCode(code).value_or(Phase::Idle);
        json.attribute("letter", enumName(phase));
        json.attribute("name", enumMeaning(phase));
        json.attribute("in_use", inUse.contains(phase));
        json.attribute("per_path", kPerPathPhases.contains(phase));
        json.attributeArray("colours", [&] {
          for (int shade = 0; shade < picture.numShades; ++shade) {
            std::string text;
            llvm::raw_string_ostream(text)
                << phaseColour(phase, shade, picture.numShades);
            json.value(text);
          }
        });
      });
  });
}

template <typename Enum>
static void writeNames(OStream &json, llvm::StringRef key) {
  json.attributeArray(key, [&] {
    for (const EnumName<Enum> &value : EnumNames<Enum>::values)
      json.value(value.name);
  });
}

/// Writes the properties of transfer kinds that the page needs.
static void writeKinds(OStream &json) {
  json.attributeArray("kinds", [&] {
    for (const EnumName<InstructionKind> &kind :
         EnumNames<InstructionKind>::values)
      json.object([&] {
        const InstructionTraits &traits = traitsOf(kind.value);
        json.attribute("name", kind.name);
        json.attribute("role", enumName(traits.role));
        json.attribute("lane", static_cast<int64_t>(traits.lane));
      });
  });
}

static void writeMemoryFacts(OStream &json, const ExecutionTotals &execution,
                             const MemoryTrace &trace) {
  json.attributeObject("memory", [&] {
    json.attribute("unit", trace.isInBytes ? "bytes" : "activations");
    if (!trace.isInBytes || !execution.memory)
      return;
    if (execution.memory->capacityBytes != 0)
      json.attribute("capacity_bytes", execution.memory->capacityBytes);
    json.attributeArray("persistent_bytes", [&] {
      for (const WorkerMemory &worker : execution.memory->workers)
        json.value(worker.persistentBytes());
    });
  });
}

static std::string writeFacts(const NamedEvaluation &result,
                              const MemoryTrace &trace) {
  Picture picture = pictureOfTimeline(result);
  std::string text;
  llvm::raw_string_ostream os(text);
  OStream json(os);
  json.object([&] {
    json.attribute("title", picture.title);
    json.attribute("subtitle", picture.subtitle);
    json.attribute("makespan_ps", picture.length);
    json.attribute("workers", static_cast<int64_t>(picture.rows.size()));
    json.attribute("microbatches", result.placement.getNumMicrobatches());
    json.attribute("slices", result.placement.getNumSlices());
    json.attribute("paths", result.placement.getNumPaths());
    json.attribute("shades", describeShades(picture));
    writePhases(json, picture);
    writeStages(json, picture);
    writeKinds(json);
    writeNames<Lane>(json, "lanes");
    json.attributeArray("causes", [&] {
      for (const IdleCause &cause : kIdleCauses)
        json.value(cause.key);
    });
    writeMemoryFacts(json, result.evaluation.totals, trace);
  });
  json.flush();
  return text;
}

//===----------------------------------------------------------------------===//
// All columns
//===----------------------------------------------------------------------===//

DrawingColumns ColumnWriter::write() {
  numberItems();
  for (uint32_t task : taskOf)
    addItem(task);
  if (!graph.overlapped.empty())
    for (uint32_t task : graph.rowTasks)
      addSecond(task);
  for (uint32_t task : execution.criticalPath)
    columns.criticalPath.push_back(itemOf[task]);
  columns.memberBegins = graph.groupBegins;
  columns.members = graph.groupWorkers;
  addIdle();
  return std::move(columns);
}

DrawingColumns pipesched::drawingColumnsOf(const NamedEvaluation &result) {
  MemoryTrace trace = traceMemoryOf(result);
  DrawingColumns columns = ColumnWriter(result).write();
  addMemory(columns, trace);
  columns.facts = writeFacts(result, trace);
  return columns;
}
