//===- ChromeTraceTest.cpp - Tests of the trace ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requirements of Perfetto for any trace: nesting, and flows from slice to
// slice.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/ChromeTrace.h"
#include "Results.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"
#include <map>

using namespace pipesched;
using namespace pipesched::test;

namespace {

using Track = std::pair<int64_t, int64_t>; // pid, tid

struct Slice {
  double begin, end;
};

struct FlowLine {
  std::string phases; ///< in the order of the file
  std::vector<double> times;
  std::vector<Track> tracks;
};

struct Trace {
  std::map<Track, std::vector<Slice>> slices;
  std::map<int64_t, FlowLine> flows;
  std::map<int64_t, std::vector<double>> counters; ///< by pid
  std::vector<std::string> processes;
};

} // namespace

static void addEvent(const llvm::json::Object &event, Trace &trace) {
  llvm::StringRef phase = *event.getString("ph");
  int64_t pid = *event.getInteger("pid");
  if (phase == "M") {
    if (event.getString("name") == "process_name")
      trace.processes.push_back(
          event.getObject("args")->getString("name")->str());
    return;
  }
  double ts = *event.getNumber("ts");
  if (phase == "C") {
    trace.counters[pid].push_back(
        *event.getObject("args")->begin()->second.getAsNumber());
    return;
  }
  Track track{pid, *event.getInteger("tid")};
  if (phase == "X") {
    trace.slices[track].push_back({ts, ts + *event.getNumber("dur")});
    return;
  }
  FlowLine &flow = trace.flows[*event.getInteger("id")];
  flow.phases += phase;
  flow.times.push_back(ts);
  flow.tracks.push_back(track);
}

static Trace traceOf(llvm::ArrayRef<NamedEvaluation> results) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeChromeTrace(stream, results);
  llvm::json::Value value = llvm::cantFail(llvm::json::parse(text));
  Trace trace;
  for (const llvm::json::Value &event :
       *value.getAsObject()->getArray("traceEvents"))
    addEvent(*event.getAsObject(), trace);
  return trace;
}

static void expectNoOverlap(const Trace &trace) {
  for (auto [track, slices] : trace.slices) {
    llvm::sort(slices, [](Slice a, Slice b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    for (size_t i = 1; i < slices.size(); ++i)
      EXPECT_GE(slices[i].begin, slices[i - 1].end - 1e-9)
          << "pid " << track.first << " tid " << track.second;
  }
}

/// Every message leads from a send (tid 1) over a receive (2) to a compute (0)
/// or, if receives hold the row, from a send to a receive.
static void expectWholeFlows(const Trace &trace, size_t numMessages,
                             bool holdsRow = false) {
  EXPECT_EQ(trace.flows.size(), numMessages);
  for (const auto &entry : trace.flows) {
    int64_t id = entry.first;
    const FlowLine &flow = entry.second;
    EXPECT_EQ(flow.phases, holdsRow ? "sf" : "stf") << "flow " << id;
    EXPECT_TRUE(llvm::is_sorted(flow.times)) << "flow " << id;
    std::vector<int64_t> queues;
    for (size_t i = 0; i < flow.tracks.size(); ++i) {
      queues.push_back(flow.tracks[i].second);
      EXPECT_TRUE(llvm::any_of(trace.slices.at(flow.tracks[i]),
                               [&](Slice s) {
                                 return s.begin <= flow.times[i] &&
                                        flow.times[i] <= s.end;
                               }))
          << "flow " << id;
    }
    EXPECT_EQ(queues, holdsRow ? std::vector<int64_t>({1, 2})
                               : std::vector<int64_t>({1, 2, 0}));
  }
}

class EveryTransport : public testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(ChromeTrace, EveryTransport,
                         testing::Values(Transport::Overlap, Transport::Delay,
                                         Transport::Blocking));

TEST_P(EveryTransport, NestsAndFlows) {
  TimingOptions timing;
  timing.transport = GetParam();
  NamedEvaluation result =
      evaluate1F1B("s", 4, 6, profileWithMessages(), timing);
  Trace trace = traceOf(result);
  expectNoOverlap(trace);
  expectWholeFlows(trace, 2 * 3 * 6, GetParam() == Transport::Blocking);
  EXPECT_EQ(trace.slices.at({3, 0}).size(), 12u);
}

TEST(ChromeTrace, FreeMessagesFlowForward) {
  NamedEvaluation result = evaluate1F1B("s", 3, 4);
  Trace trace = traceOf(result);
  expectNoOverlap(trace);
  expectWholeFlows(trace, 2 * 2 * 4);
}

TEST(ChromeTrace, SeveralSchedulesShareNothing) {
  NamedEvaluation results[] = {evaluate1F1B("a", 2, 2),
                               evaluate1F1B("b", 2, 2)};
  Trace trace = traceOf(results);
  EXPECT_EQ(trace.processes,
            std::vector<std::string>({"a: worker 0", "a: worker 1",
                                      "a: critical path", "b: worker 0",
                                      "b: worker 1", "b: critical path"}));
  expectWholeFlows(trace, 8);
}

/// 1F1B on two workers: the first holds two activations, the last one.
TEST(ChromeTrace, CountsActivations) {
  NamedEvaluation result = evaluate1F1B("s", 2, 3);
  Trace trace = traceOf(result);
  EXPECT_EQ(*llvm::max_element(trace.counters.at(0)), 2);
  EXPECT_EQ(*llvm::max_element(trace.counters.at(1)), 1);
  EXPECT_EQ(trace.counters.at(0).back(), 0);
}

static double sumOf(const std::vector<Slice> &slices) {
  double sum = 0;
  for (Slice slice : slices)
    sum += slice.end - slice.begin;
  return sum;
}

/// The idle slices of a worker add up to its idle time, slices of the critical
/// path to the step.
TEST_P(EveryTransport, IdleTimeAndCriticalPathAddUp) {
  constexpr int64_t kWorkers = 4, kIdleThread = kNumEnumValues<Lane>,
                    kPathThread = kIdleThread + 1;
  TimingOptions timing;
  timing.transport = GetParam();
  NamedEvaluation result =
      evaluate1F1B("s", kWorkers, 6, profileWithMessages(), timing);
  Trace trace = traceOf(result);
  const Execution &execution = result.getExecution();
  int64_t makespanPs = execution.timeline.makespanPs;
  for (int64_t worker = 0; worker < kWorkers; ++worker)
    EXPECT_NEAR(sumOf(trace.slices.at({worker, kIdleThread})) * 1e6,
                static_cast<double>(makespanPs - execution.idle.busyPs[worker]),
                0.5);
  EXPECT_NEAR(sumOf(trace.slices.at({kWorkers, kPathThread})) * 1e6,
              static_cast<double>(makespanPs), 0.5);
}
