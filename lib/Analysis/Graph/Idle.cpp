//===- Idle.cpp - Causes of idle time -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits each gap of a row by the phases of the transfer that ends it:
//
//   row       | cell ......... |              gap               | cell
//   producer        | .............. |
//   message                          | in its queue | V/BW | L |
//   message in front of it                     | V/BW |
//                              ^     ^         ^                ^
//                      dependency | queue order | communication |
//
// A message is ready when all that it needs is done. It then waits for the
// message in front of it in its queue. Until that message starts, the cause is
// the order of the queue; from then on it is the bandwidth.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/IdleSpans.h"
#include "PipeSched/Analysis/Graph/TaskEnds.h"

using namespace pipesched;

namespace {

/// Moments of a transfer that some cell waits for.
struct TransferTimes {
  int64_t readyPs = 0; ///< its inputs are all there
  int64_t runBeginPs =
      0; ///< from then until its start, its queues transfer without a gap
};

class IdleWalk {
public:
  IdleWalk(const TaskGraph &graph, const TaskTimes &times,
           const Timeline &timeline)
      : graph(graph), times(times), timeline(timeline),
        ends(graph, times, timeline) {}

  /// Computes the idle times. Also lists the spans if `spans` is not null.
  IdleTimes run(std::vector<std::vector<IdleSpan>> *spans = nullptr);

private:
  /// Indices into kIdleCauses.
  enum Cause : uint8_t { Fill, Drain, Dependency, QueueOrder, Communication };

  /// The progress of the walk over a row.
  struct RowState {
    uint32_t last = TaskGraph::kNone; ///< the last task that held the row
    bool hasBegun = false;            ///< a cell was visited
    /// Idle time since the last cell. It counts only if another cell follows;
    /// otherwise it is part of the drain.
    int64_t dependencyPs = 0, queueOrderPs = 0, communicationPs = 0;
    /// The number of spans that a cell follows. All later spans come after the
    /// last cell.
    size_t numSpans = 0;
  };

  void findRun(uint32_t task);
  void visit(int64_t worker, uint32_t task);
  void visitCell(int64_t worker, uint32_t task);
  void finish(int64_t worker);
  void splitWait(int64_t worker, uint32_t task);
  void note(int64_t worker, Cause cause, int64_t beginPs, int64_t endPs);
  void endSpans(int64_t worker, uint32_t task);
  TransferTimes transferTimes(uint32_t task) const;

  const TaskGraph &graph;
  const TaskTimes &times;
  const Timeline &timeline;
  TaskEnds ends;
  IdleTimes idle;
  std::vector<RowState> rows; ///< by worker
  /// Spans by worker; null if they are not needed.
  std::vector<std::vector<IdleSpan>> *spans = nullptr;
  /// By task: the start of the gapless run of transfers that ends with it.
  std::vector<int64_t> runBeginPs;
};

} // namespace

/// A transfer continues the run of its predecessor in the queue if it starts
/// when the predecessor is released.
void IdleWalk::findRun(uint32_t task) {
  int64_t &beginPs = runBeginPs[task] = ends.startPs(task);
  for (Edge edge : graph.edgesOf(task))
    if (isQueueOrder(graph, task, edge) &&
        ends.endPs(edge) == ends.startPs(task))
      beginPs = std::min(beginPs, runBeginPs[edge.task()]);
}

/// The wait for a cell is a dependency until the cell ends, because a cell is
/// not a transfer. A message that holds its row was ready when it started.
TransferTimes IdleWalk::transferTimes(uint32_t task) const {
  if (graph.is(task, InstructionRole::Compute))
    return {timeline.makespanPs, timeline.makespanPs};
  if (graph.holdsRow(task) && graph.is(task, InstructionRole::Message))
    return {ends.startPs(task), ends.startPs(task)};
  int64_t readyPs = 0;
  for (Edge edge : graph.edgesOf(task))
    if (!isQueueOrder(graph, task, edge))
      readyPs = std::max(readyPs, ends.endPs(edge));
  return {readyPs, std::max(readyPs, runBeginPs[task])};
}

/// Adds a span, or extends the last one.
void IdleWalk::note(int64_t worker, Cause cause, int64_t beginPs,
                    int64_t endPs) {
  if (!spans || beginPs == endPs)
    return;
  std::vector<IdleSpan> &row = (*spans)[worker];
  bool continues = row.size() > rows[worker].numSpans &&
                   row.back().cause == cause && row.back().endPs == beginPs;
  if (continues)
    row.back().endPs = endPs;
  else
    row.push_back({static_cast<int32_t>(worker), cause, TaskGraph::kNone,
                   beginPs, endPs});
}

/// Records that `task` ends the spans since the last cell.
void IdleWalk::endSpans(int64_t worker, uint32_t task) {
  if (!spans)
    return;
  size_t &begin = rows[worker].numSpans;
  for (; begin < (*spans)[worker].size(); ++begin)
    (*spans)[worker][begin].before = task;
}

/// Accounts for the time from the last task of a row until `task` starts.
void IdleWalk::splitWait(int64_t worker, uint32_t task) {
  RowState &row = rows[worker];
  int64_t fromPs = ends.releasePs(row.last), startPs = ends.startPs(task);
  if (startPs <= fromPs)
    return;
  TransferTimes transfer = transferTimes(ends.lastEdge(task)->task());
  int64_t readyPs = std::clamp(transfer.readyPs, fromPs, startPs);
  int64_t runBeginPs = std::clamp(transfer.runBeginPs, fromPs, startPs);
  row.dependencyPs += readyPs - fromPs;
  row.queueOrderPs += runBeginPs - readyPs;
  row.communicationPs += startPs - runBeginPs;
  note(worker, Dependency, fromPs, readyPs);
  note(worker, QueueOrder, readyPs, runBeginPs);
  note(worker, Communication, runBeginPs, startPs);
}

/// Visits the next task that holds a row. Under `blocking`, sends, receives and
/// all-reduces are between the cells.
void IdleWalk::visit(int64_t worker, uint32_t task) {
  RowState &row = rows[worker];
  bool isCell = graph.is(task, InstructionRole::Compute);
  if (!row.hasBegun && !isCell)
    return;
  if (row.hasBegun)
    splitWait(worker, task);
  row.last = task;
  if (isCell)
    return visitCell(worker, task);
  row.communicationPs += times.occupancyPs[task];
  note(worker, Communication, ends.startPs(task), ends.releasePs(task));
}

void IdleWalk::visitCell(int64_t worker, uint32_t task) {
  RowState &row = rows[worker];
  if (!row.hasBegun) {
    idle.fillPs[worker] = idle.firstPs[worker] = ends.startPs(task);
    note(worker, Fill, 0, ends.startPs(task));
  }
  endSpans(worker, task);
  idle.busyPs[worker] += times.occupancyPs[task];
  idle.dependencyPs[worker] += std::exchange(row.dependencyPs, 0);
  idle.queueOrderPs[worker] += std::exchange(row.queueOrderPs, 0);
  idle.communicationPs[worker] += std::exchange(row.communicationPs, 0);
  idle.lastPs[worker] = ends.releasePs(task);
  row.hasBegun = true;
}

void IdleWalk::finish(int64_t worker) {
  if (!rows[worker].hasBegun) {
    idle.fillPs[worker] = timeline.makespanPs;
    return note(worker, Fill, 0, timeline.makespanPs);
  }
  idle.drainPs[worker] = timeline.makespanPs - idle.lastPs[worker];
  if (spans)
    (*spans)[worker].resize(rows[worker].numSpans);
  note(worker, Drain, idle.lastPs[worker], timeline.makespanPs);
}

/// Visits tasks in topological order. It keeps the order of each row and reads
/// memory from front to back.
IdleTimes IdleWalk::run(std::vector<std::vector<IdleSpan>> *listed) {
  int64_t numWorkers = graph.getNumWorkers();
  spans = listed;
  if (spans)
    spans->assign(numWorkers, {});
  for (std::vector<int64_t> *column :
       {&idle.busyPs, &idle.fillPs, &idle.drainPs, &idle.dependencyPs,
        &idle.queueOrderPs, &idle.communicationPs, &idle.firstPs, &idle.lastPs,
        &idle.offloadPs, &idle.reloadPs})
    column->assign(numWorkers, 0);
  rows.resize(numWorkers);
  runBeginPs.resize(graph.size());
  for (uint32_t task = 0; task < graph.size(); ++task) {
    InstructionKind kind = graph.kind[task];
    bool isCollective = graph.is(task, InstructionRole::Collective);
    if (kind == InstructionKind::Offload)
      idle.offloadPs[graph.worker[task]] += times.occupancyPs[task];
    else if (kind == InstructionKind::Reload)
      idle.reloadPs[graph.worker[task]] += times.occupancyPs[task];
    if (!graph.holdsRow(task))
      findRun(task);
    else if (!isCollective)
      visit(graph.worker[task], task);
    else
      for (int32_t worker : graph.workersOf(graph.peer[task]))
        visit(worker, task);
  }
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    finish(worker);
  return std::move(idle);
}

IdleTimes pipesched::computeIdle(const TaskGraph &graph, const TaskTimes &times,
                                 const Timeline &timeline) {
  return IdleWalk(graph, times, timeline).run();
}

void pipesched::attributeWaits(const Traffic &traffic, IdleTimes &idle) {
  size_t numWorkers = idle.busyPs.size();
  int64_t longestPs = 0;
  for (int64_t ps : idle.busyPs)
    longestPs = std::max(longestPs, ps);
  auto take = [](int64_t mostPs, int64_t &from, int64_t &to) {
    int64_t ps = std::min(mostPs, from);
    from -= ps;
    to += ps;
    return mostPs - ps;
  };
  idle.imbalancePs.assign(numWorkers, 0);
  for (size_t worker = 0; worker < numWorkers; ++worker) {
    int64_t &imbalancePs = idle.imbalancePs[worker];
    int64_t lessPs = longestPs - idle.busyPs[worker];
    lessPs = take(lessPs, idle.dependencyPs[worker], imbalancePs);
    take(lessPs, idle.queueOrderPs[worker], imbalancePs);
  }
  // A disturbance may make cells shorter than the waits in them.
  for (auto [resource, cause] :
       {std::pair(Resource::Sharding, &IdleTimes::weightsPs),
        {Resource::Experts, &IdleTimes::expertsPs},
        {Resource::Context, &IdleTimes::contextPs}}) {
    (idle.*cause).assign(numWorkers, 0);
    for (size_t worker = 0; worker < numWorkers; ++worker)
      take(traffic.exchanges[resource][worker].exposedPs, idle.busyPs[worker],
           (idle.*cause)[worker]);
  }
}

/// Relabels the first waits of a row with a cause as imbalance, until the
/// remaining waits add up to `idle`.
static std::vector<IdleSpan> splitImbalance(llvm::ArrayRef<IdleSpan> row,
                                            const IdleTimes &undivided,
                                            const IdleTimes &idle) {
  constexpr uint8_t kImbalance = 5;
  static_assert(kIdleCauses[kImbalance].ps == &IdleTimes::imbalancePs);
  std::vector<IdleSpan> divided;
  std::array<int64_t, kNumIdleCauses> doneByCause = {};
  for (const IdleSpan &span : row) {
    std::vector<int64_t> IdleTimes::*cause = kIdleCauses[span.cause].ps;
    int64_t takenPs =
        (undivided.*cause)[span.worker] - (idle.*cause)[span.worker];
    int64_t &donePs = doneByCause[span.cause];
    int64_t ps = std::min(takenPs - donePs, span.endPs - span.beginPs);
    donePs += ps;
    int64_t middlePs = span.beginPs + ps;
    if (middlePs > span.beginPs)
      divided.push_back(
          {span.worker, kImbalance, span.before, span.beginPs, middlePs});
    if (middlePs < span.endPs)
      divided.push_back(
          {span.worker, span.cause, span.before, middlePs, span.endPs});
  }
  return divided;
}

std::vector<std::vector<IdleSpan>> pipesched::listIdle(const TaskGraph &graph,
                                                       const TaskTimes &times,
                                                       const Timeline &timeline,
                                                       const IdleTimes &idle) {
  std::vector<std::vector<IdleSpan>> spans;
  IdleTimes undivided = IdleWalk(graph, times, timeline).run(&spans);
  for (std::vector<IdleSpan> &row : spans)
    row = splitImbalance(row, undivided, idle);
  return spans;
}
