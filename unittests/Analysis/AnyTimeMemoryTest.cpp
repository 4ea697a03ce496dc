//===- AnyTimeMemoryTest.cpp - Memory whatever the times ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Memory/AnyTimeMemory.h"
#include "../Support/RandomTables.h"
#include "../Support/RandomTimes.h"
#include "../Support/TestSupport.h"
#include "PipeSched/Schedule/Edit/Offload.h"

using namespace pipesched;
using namespace pipesched::test;

namespace {

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

MemoryFacts oddFacts(const Placement &placement) {
  MemoryFacts facts;
  for (int64_t i = 0; i < placement.getNumGlobalStages(); ++i) {
    StageMemory stage;
    stage.activationBytes = 100 + 7 * i;
    stage.inputGradFreedBytes = 30 + i;
    stage.boundaryBytes = 11;
    stage.workingBytes = 5 * (i % 3);
    facts.stages.push_back(stage);
  }
  return facts;
}

std::vector<int64_t> anyTimePeaks(const Program &program,
                                  const Placement &placement,
                                  const MemoryFacts &facts) {
  std::vector<int64_t> peaks;
  for (const AnyTimePeak &peak :
       llvm::cantFail(computeAnyTimePeaks(program, placement, facts)))
    peaks.push_back(peak.bytes);
  return peaks;
}

/// No times exceed the peaks, and without copies all times reach them.
void expectNeverAbove(const Table &table, uint32_t seed) {
  SCOPED_TRACE(llvm::join(printRows(table.rows), "\n"));
  MemoryFacts facts = oddFacts(table.placement);
  Program program = llvm::cantFail(lowerTable(table.view(), {}));
  std::vector<int64_t> most = anyTimePeaks(program, table.placement, facts);
  bool hasCopies = false;
  for (const Instruction &instruction : program.instructions)
    hasCopies |= instruction.is(InstructionRole::Copy);
  for (Transport transport : test::kTransports) {
    TaskGraph graph = llvm::cantFail(buildTaskGraph(program, transport));
    RandomTimes random(graph, seed);
    for (int i = 0; i < 10; ++i) {
      std::vector<int64_t> peaks =
          peaksAt(graph, random.draw(), table.placement, facts);
      for (auto [peak, bound] : llvm::zip_equal(peaks, most))
        if (hasCopies)
          ASSERT_LE(peak, bound);
        else
          ASSERT_EQ(peak, bound);
    }
  }
}

TEST(AnyTimePeaks, AreNeverExceeded) {
  for (uint32_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Table table = makeRandomTable(seed);
    expectNeverAbove(table, seed);
    OffloadOptions options;
    options.ahead = seed % 4;
    options.memory = seed % 3;
    if (auto change = addOffload(table.view(), options)) {
      table.rows = std::move(change->rows);
      expectNeverAbove(table, seed + 1);
    } else {
      llvm::consumeError(change.takeError());
    }
    if (HasFatalFailure())
      return;
  }
}

/// The peaks over all choices of copies that take no time or never end.
std::vector<int64_t> extremePeaks(const Program &program,
                                  const Placement &placement,
                                  const MemoryFacts &facts) {
  TaskGraph graph = llvm::cantFail(buildTaskGraph(program, Transport::Delay));
  std::vector<uint32_t> copies;
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.is(task, InstructionRole::Copy))
      copies.push_back(task);
  std::vector<int64_t> most(placement.getNumWorkers(), 0);
  for (uint32_t choice = 0; choice < 1u << copies.size(); ++choice) {
    TaskTimes times;
    times.occupancyPs.assign(graph.size(), 10);
    times.latencyPs.assign(graph.size(), 0);
    for (auto [i, task] : llvm::enumerate(copies))
      times.occupancyPs[task] = choice >> i & 1 ? 1000000 : 0;
    for (auto [peak, bound] :
         llvm::zip_equal(most, peaksAt(graph, times, placement, facts)))
      peak = std::max(peak, bound);
  }
  return most;
}

/// One worker, so that no other one holds it up.
TEST(AnyTimePeaks, AreReached) {
  for (llvm::StringRef row :
       {"0F0 0D0 0F1 0D1 0F2 0U1 0B2 0U0 0B1 0B0",
        "0F0 0D0 0F1 0D1 0d0 0F2 0U1 0B2 0U0 0B1 0B0",
        "0F0 0D0 0F1 0d0 0D1 0F2 0B2 0d1 0U1 0U0 0B1 0B0",
        "0F0 0F1 0D1 0D0 0d1 0U1 0F2 0U0 0d0 0B2 0B1 0B0",
        "0F0 0D0 0U0 0F1 0D1 0U1 0F2 0I2 0I1 0W2 0I0 0W1 0W0",
        "0F0 0D0 0F1 0F2 0D2 0D1 0U2 0U0 0U1 0B2+0F3 0B0 0B1 0B3",
        "0F0 0D0 0F1 0R1 0F2 0D2 0B1 0U2 0d2 0U0 0B2 0B0"}) {
    SCOPED_TRACE(row.str());
    int64_t numMicrobatches = row.contains("F3") ? 4 : 3;
    Table table = makeTable(numMicrobatches, {0}, {row});
    MemoryFacts facts = oddFacts(table.placement);
    Program program = lower(table);
    EXPECT_EQ(anyTimePeaks(program, table.placement, facts),
              extremePeaks(program, table.placement, facts));
  }
}

TEST(AnyTimePeaks, NameTheCellAndWhatItDoesNotWaitFor) {
  Table table = makeTable(3, {0},
                          {"0F0 0D0 0F1 0D1 0d0 0F2 0U1 0B2 0B1 0U0 "
                           "0B0"});
  StageMemory one;
  one.activationBytes = 1;
  MemoryFacts facts;
  facts.stages = {one};
  std::vector<AnyTimePeak> peaks =
      llvm::cantFail(computeAnyTimePeaks(lower(table), table.placement, facts));
  ASSERT_EQ(peaks.size(), 1u);
  EXPECT_EQ(peaks[0].bytes, 2);
  EXPECT_EQ(peaks[0].cell->str(), "0F1");
  EXPECT_EQ(peaks[0].microbatches, 2);
  ASSERT_EQ(peaks[0].pending.size(), 1u);
  EXPECT_EQ(peaks[0].pending[0].str(), "0D0");
}

} // namespace
