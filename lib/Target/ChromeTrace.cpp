//===- ChromeTrace.cpp - Timelines for Perfetto ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Perfetto sorts events by time and keeps the order of the file among equals,
// so each flow event directly follows its slice.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/ChromeTrace.h"
#include "Format.h"
#include "Picture.h"
#include "PipeSched/Analysis/Graph/IdleSpans.h"
#include "PipeSched/Analysis/Graph/TaskEnds.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/Support/JSON.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::json::OStream;

namespace {

constexpr int64_t kPsPerUs = 1000000;
/// The thread of idle slices, after the lanes of a worker, and the thread of
/// the critical path, in a separate process.
constexpr int64_t kIdleThread = kNumLanes, kPathThread = kNumLanes + 1;

/// A slice of a thread: [startPs, startPs + durationPs). The threads of a
/// process are the lanes of a worker.
struct Slice {
  int64_t pid;
  Lane lane;
  int64_t startPs, durationPs;
};

/// The process numbers of a result in the file: worker w has `first + w *
/// step`.
struct ProcessOrder {
  int64_t first, step;

  int64_t placeOf(int64_t worker) const { return first + worker * step; }
};

/// Writes the events of one result; `firstPid` and `firstFlow` keep the results
/// of one file distinct.
class TraceWriter {
public:
  TraceWriter(llvm::raw_ostream &os, const NamedEvaluation &result,
              int64_t firstPid, uint64_t firstFlow, ProcessOrder order,
              bool &isFirstEvent)
      : os(os), result(result), execution(result.getExecution()),
        graph(execution.graph), firstPid(firstPid), firstFlow(firstFlow),
        order(order), isFirstEvent(isFirstEvent),
        movedBytes(movedBytesOf(result)) {}

  void write();

private:
  void findConsumers();
  void writeProcess(int64_t worker);
  void writeMetadata(StringRef name, int64_t pid, int64_t tid, StringRef key,
                     llvm::json::Value value);
  void writeTransfer(uint32_t task);
  void writeWork(uint32_t task, int64_t worker, Lane lane);
  void writeSend(uint32_t task);
  void writeReceive(uint32_t task, uint32_t message);
  void writeMember(uint32_t task, int64_t worker);
  void writeSlice(uint32_t task, const Slice &slice);
  void writeArguments(OStream &json, uint32_t task, Lane lane);
  void writeGroupArguments(OStream &json, uint32_t task);
  void writeFlow(StringRef phase, uint32_t message, const Slice &slice);
  void writeMemoryCounters();
  void writeIdle();
  void writeCriticalPath();
  std::string describe(uint32_t task) const;
  void writeCounter(StringRef name, StringRef unit, int64_t worker,
                    llvm::ArrayRef<MemorySample> samples, double scale);
  template <typename Fields>
  void writeEvent(Fields fields);

  int64_t releasePs(uint32_t task) const {
    return execution.timeline.startPs[task] + execution.times.occupancyPs[task];
  }
  int64_t arrivalPs(uint32_t task) const {
    return releasePs(task) + execution.times.latencyPs[task];
  }
  bool isReceived(uint32_t task) const { return graph.deliversMessage(task); }

  llvm::raw_ostream &os;
  const NamedEvaluation &result;
  const Execution &execution;
  const TaskGraph &graph;
  int64_t firstPid;
  uint64_t firstFlow;
  ProcessOrder order;
  bool &isFirstEvent;
  std::vector<int64_t> movedBytes; ///< by task
  std::vector<bool> isCritical;    ///< by task: on the critical path
  bool hasLane[kNumLanes] = {true, true, true};
  /// By task that delivers a message: the compute task that needs it, or kNone.
  std::vector<uint32_t> consumerOf;
};

} // namespace

static void writeUs(OStream &json, StringRef key, int64_t ps) {
  json.attributeBegin(key);
  json.rawValue([&](llvm::raw_ostream &os) { writeDecimal(os, ps, kPsPerUs); });
  json.attributeEnd();
}

/// Writes one event on a line; its JSON stream escapes names.
template <typename Fields>
void TraceWriter::writeEvent(Fields fields) {
  os << (isFirstEvent ? "\n" : ",\n");
  isFirstEvent = false;
  OStream json(os);
  json.object([&] { fields(json); });
}

//===----------------------------------------------------------------------===//
// Processes and threads
//===----------------------------------------------------------------------===//

void TraceWriter::writeMetadata(StringRef name, int64_t pid, int64_t tid,
                                StringRef key, llvm::json::Value value) {
  writeEvent([&](OStream &json) {
    json.attribute("ph", "M");
    json.attribute("name", name);
    json.attribute("pid", pid);
    json.attribute("tid", tid);
    json.attributeObject("args", [&] { json.attribute(key, value); });
  });
}

void TraceWriter::writeProcess(int64_t worker) {
  int64_t pid = firstPid + worker;
  std::string name =
      printableName(result.name) + ": worker " + std::to_string(worker);
  writeMetadata("process_name", pid, 0, "name", name);
  writeMetadata("process_sort_index", pid, 0, "sort_index",
                order.placeOf(worker));
  for (auto [tid, lane] : llvm::enumerate(EnumNames<Lane>::values)) {
    if (!hasLane[tid])
      continue;
    writeMetadata("thread_name", pid, tid, "name", lane.name);
    writeMetadata("thread_sort_index", pid, tid, "sort_index", tid);
  }
  writeMetadata("thread_name", pid, kIdleThread, "name", "idle");
  writeMetadata("thread_sort_index", pid, kIdleThread, "sort_index",
                kIdleThread);
}

//===----------------------------------------------------------------------===//
// Slices and flows
//===----------------------------------------------------------------------===//

/// Finds the first compute task, in row order, that waits for each arrival.
void TraceWriter::findConsumers() {
  consumerOf.assign(graph.size(), TaskGraph::kNone);
  for (uint32_t task : graph.rowTasks)
    for (Edge edge : graph.edgesOf(task))
      if (edge.needsArrival() && isReceived(edge.task()) &&
          consumerOf[edge.task()] == TaskGraph::kNone)
        consumerOf[edge.task()] = task;
}

/// Returns the message that a receiving task delivers: the task itself or, if
/// sends and receives are separate tasks, its send.
static uint32_t messageOf(const TaskGraph &graph, uint32_t task) {
  if (graph.kind[task] != InstructionKind::Recv)
    return task;
  for (Edge edge : graph.edgesOf(task))
    if (graph.isMessage(edge.task()) &&
        graph.cell[edge.task()] == graph.cell[task] &&
        graph.worker[edge.task()] == graph.peer[task])
      return edge.task();
  llvm_unreachable("a receive waits for its send");
}

void TraceWriter::writeGroupArguments(OStream &json, uint32_t task) {
  int32_t number = graph.peer[task];
  BlockSpan blocks = graph.groups[number].blocks;
  if (graph.groups[number].grouping() == Grouping::Blocks)
    json.attribute("blocks", std::to_string(blocks.begin) + " to " +
                                 std::to_string(blocks.end));
  json.attributeArray("workers", [&] {
    for (int32_t worker : graph.workersOf(number))
      json.value(worker);
  });
}

void TraceWriter::writeArguments(OStream &json, uint32_t task, Lane lane) {
  Cell cell = graph.cell[task];
  json.attribute("phase", enumMeaning(cell.getPhase()));
  if (!cell.isPerPath())
    json.attribute("microbatch", result.placement.microbatchOf(cell.getUnit()));
  if (!cell.isPerPath() && result.placement.getNumSlices() > 1)
    json.attribute("slice", result.placement.sliceOf(cell.getUnit()));
  json.attribute("stage", cell.getStage());
  if (result.placement.getNumPaths() > 1)
    json.attribute("path", result.placement.pathOf(cell));
  if (graph.is(task, InstructionRole::Collective))
    return writeGroupArguments(json, task);
  if (lane != Lane::Send && lane != Lane::Receive)
    return;
  json.attribute("bytes", movedBytes[messageOf(graph, task)]);
  json.attribute(lane == Lane::Send ? "to" : "from",
                 lane == Lane::Send || graph.kind[task] == InstructionKind::Recv
                     ? graph.peer[task]
                     : graph.worker[task]);
}

void TraceWriter::writeSlice(uint32_t task, const Slice &slice) {
  std::string name;
  llvm::raw_string_ostream nameStream(name);
  printTask(nameStream, graph, task);
  writeEvent([&](OStream &json) {
    json.attribute("ph", "X");
    json.attribute("name", name);
    json.attribute("cat", enumName(slice.lane));
    json.attribute("pid", slice.pid);
    json.attribute("tid", static_cast<int>(slice.lane));
    writeUs(json, "ts", slice.startPs);
    writeUs(json, "dur", slice.durationPs);
    json.attributeObject("args", [&] {
      writeArguments(json, task, slice.lane);
      if (isCritical[task])
        json.attribute("critical", true);
    });
  });
}

void TraceWriter::writeFlow(StringRef phase, uint32_t message,
                            const Slice &slice) {
  writeEvent([&](OStream &json) {
    json.attribute("ph", phase);
    json.attribute("name", "message");
    json.attribute("cat", "message");
    json.attribute("id", firstFlow + message);
    json.attribute("pid", slice.pid);
    json.attribute("tid", static_cast<int>(slice.lane));
    writeUs(json, "ts", slice.startPs);
    if (phase == "f")
      json.attribute("bp", "e");
  });
}

/// Writes a cell on a compute or copy queue, and the ends of the messages that
/// it needed.
void TraceWriter::writeWork(uint32_t task, int64_t worker, Lane lane) {
  Slice slice{firstPid + worker, lane, execution.timeline.startPs[task],
              execution.times.occupancyPs[task]};
  writeSlice(task, slice);
  for (Edge edge : graph.edgesOf(task))
    if (isReceived(edge.task()) && consumerOf[edge.task()] == task)
      writeFlow("f", messageOf(graph, edge.task()), slice);
}

void TraceWriter::writeSend(uint32_t task) {
  Slice slice{firstPid + graph.worker[task], Lane::Send,
              execution.timeline.startPs[task],
              execution.times.occupancyPs[task]};
  writeSlice(task, slice);
  writeFlow("s", task, slice);
}

/// Writes a receive. It holds its queue as long as the send does. A receive
/// without occupancy is shown at its arrival.
void TraceWriter::writeReceive(uint32_t task, uint32_t message) {
  bool isMessage = task == message;
  int64_t durationPs = execution.times.occupancyPs[task];
  int64_t worker = isMessage ? graph.peer[task] : graph.worker[task];
  Slice slice{firstPid + worker, Lane::Receive,
              durationPs == 0 ? arrivalPs(task)
                              : execution.timeline.startPs[task],
              durationPs};
  writeSlice(task, slice);
  bool isConsumed = consumerOf[task] != TaskGraph::kNone;
  writeFlow(isConsumed ? "t" : "f", message, slice);
}

/// Writes a collective. Without occupancy it is shown at its end, like a
/// receive.
void TraceWriter::writeMember(uint32_t task, int64_t worker) {
  int64_t durationPs = execution.times.occupancyPs[task];
  writeSlice(task, {firstPid + worker, traitsOf(graph.kind[task]).lane,
                    durationPs == 0 ? arrivalPs(task)
                                    : execution.timeline.startPs[task],
                    durationPs});
}

void TraceWriter::writeTransfer(uint32_t task) {
  const InstructionTraits &traits = traitsOf(graph.kind[task]);
  switch (traits.role) {
  case InstructionRole::Compute: // written row by row
  case InstructionRole::Join:
    return;
  case InstructionRole::Collective:
    for (int32_t worker : graph.workersOf(graph.peer[task]))
      writeMember(task, worker);
    return;
  case InstructionRole::Copy:
    return writeWork(task, graph.worker[task], traits.lane);
  case InstructionRole::Message:
    if (graph.isMessage(task))
      writeSend(task);
    if (graph.deliversMessage(task))
      writeReceive(task, messageOf(graph, task));
    return;
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void TraceWriter::writeCounter(StringRef name, StringRef unit, int64_t worker,
                               llvm::ArrayRef<MemorySample> samples,
                               double scale) {
  for (MemorySample sample : samples)
    writeEvent([&](OStream &json) {
      json.attribute("ph", "C");
      json.attribute("name", name);
      json.attribute("pid", firstPid + worker);
      writeUs(json, "ts", sample.atPs);
      json.attributeObject("args", [&] {
        json.attributeBegin(unit);
        json.rawValue(formatDouble(static_cast<double>(sample.bytes) * scale));
        json.attributeEnd();
      });
    });
}

void TraceWriter::writeMemoryCounters() {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  MemoryTrace trace = traceMemoryOf(result);
  for (auto [worker, series] : llvm::enumerate(trace.samples))
    if (trace.isInBytes)
      writeCounter("activation memory [GiB]", "GiB", worker, series, 1 / kGiB);
    else
      writeCounter("activations held", "activations", worker, series, 1);
}

//===----------------------------------------------------------------------===//
// Causes of idle time, and the critical path
//===----------------------------------------------------------------------===//

/// Returns "the message 0F0 from worker 0" or "1F0".
std::string TraceWriter::describe(uint32_t task) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  const InstructionTraits &traits = traitsOf(graph.kind[task]);
  bool isMessage = traits.role == InstructionRole::Message;
  if (traits.role != InstructionRole::Compute)
    os << (isMessage ? "message" : enumName(traits.lane)) << ' ';
  printTask(os, graph, task);
  if (isMessage)
    os << " from worker "
       << (graph.isMessage(task) ? graph.worker[task] : graph.peer[task]);
  return text;
}

/// Writes one slice per idle span, with its cause as name. It states the next
/// cell and the dependence of that cell.
void TraceWriter::writeIdle() {
  TaskEnds ends(graph, execution.times, execution.timeline);
  for (auto [worker, spans] : llvm::enumerate(listIdle(
           graph, execution.times, execution.timeline, execution.idle)))
    for (const IdleSpan &span : spans)
      writeEvent([&, worker = worker](OStream &json) {
        json.attribute("ph", "X");
        json.attribute("name", kIdleCauses[span.cause].key);
        json.attribute("cat", "idle");
        json.attribute("pid", firstPid + static_cast<int64_t>(worker));
        json.attribute("tid", kIdleThread);
        writeUs(json, "ts", span.beginPs);
        writeUs(json, "dur", span.endPs - span.beginPs);
        json.attributeObject("args", [&] {
          if (span.before == TaskGraph::kNone)
            return;
          json.attribute("before", describe(span.before));
          if (const Edge *awaited = ends.bindingEdge(span.before))
            json.attribute("waits_for", describe(awaited->task()));
        });
      });
}

/// Writes the critical path as a separate process. Each task lasts until the
/// next one starts, so that the slices add up to the step.
void TraceWriter::writeCriticalPath() {
  int64_t pid = firstPid + graph.getNumWorkers();
  writeMetadata("process_name", pid, 0, "name",
                printableName(result.name) + ": critical path");
  writeMetadata("process_sort_index", pid, 0, "sort_index",
                order.placeOf(graph.getNumWorkers()));
  writeMetadata("thread_name", pid, kPathThread, "name", "critical path");
  llvm::ArrayRef<uint32_t> path = execution.criticalPath;
  for (size_t i = 0; i < path.size(); ++i) {
    uint32_t task = path[i];
    int64_t startPs = execution.timeline.startPs[task];
    int64_t endPs = i + 1 < path.size()
                        ? execution.timeline.startPs[path[i + 1]]
                        : execution.timeline.makespanPs;
    if (startPs == endPs)
      continue;
    writeEvent([&](OStream &json) {
      json.attribute("ph", "X");
      json.attribute("name", describe(task));
      json.attribute("cat", "critical path");
      json.attribute("pid", pid);
      json.attribute("tid", kPathThread);
      writeUs(json, "ts", startPs);
      writeUs(json, "dur", endPs - startPs);
      json.attributeObject(
          "args", [&] { json.attribute("worker", graph.worker[task]); });
    });
  }
}

void TraceWriter::write() {
  auto use = [&](Lane lane) { hasLane[static_cast<int>(lane)] = true; };
  for (InstructionKind kind : graph.kind) {
    use(traitsOf(kind).lane);
    if (traitsOf(kind).role == InstructionRole::Copy) {
      use(Lane::Offload);
      use(Lane::Reload);
    }
  }
  isCritical.resize(graph.size());
  for (uint32_t task : execution.criticalPath)
    isCritical[task] = true;
  findConsumers();
  for (int64_t worker = 0, end = graph.getNumWorkers(); worker < end; ++worker)
    writeProcess(worker);
  for (uint32_t task = 0, end = graph.size(); task < end; ++task)
    writeTransfer(task);
  for (int64_t worker = 0, end = graph.getNumWorkers(); worker < end; ++worker)
    for (uint32_t task : graph.row(worker))
      writeWork(task, worker, Lane::Compute);
  writeMemoryCounters();
  writeIdle();
  writeCriticalPath();
}

void pipesched::writeChromeTrace(
    llvm::raw_ostream &os, llvm::ArrayRef<const NamedEvaluation *> results,
    TraceOrder order) {
  os << R"({"displayTimeUnit":"ns","traceEvents":[)";
  int64_t pid = 0;
  uint64_t flow = 0;
  bool isFirstEvent = true;
  auto count = static_cast<int64_t>(results.size());
  for (auto [number, result] : llvm::enumerate(results)) {
    ProcessOrder places = {pid, 1};
    if (order == TraceOrder::Workers)
      places = {static_cast<int64_t>(number), count};
    TraceWriter(os, *result, pid, flow, places, isFirstEvent).write();
    pid += result->getExecution().graph.getNumWorkers() + 1;
    flow += result->getExecution().graph.size();
  }
  os << "\n]}\n";
}
