//===- PeakMemoryTest.cpp - Memory by hand --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../Support/TestSupport.h"

using namespace pipesched;
using namespace pipesched::test;

namespace {

/// Activations of 100 bytes; I frees 40 of them; 10 at the boundary; parameters
/// of 7.
MemoryFacts hundredPerStage(const Placement &placement) {
  StageMemory stage;
  stage.activationBytes = 100;
  stage.inputGradFreedBytes = 40;
  stage.boundaryBytes = 10;
  stage.weightBytes = stage.gradientBytes = 2;
  stage.optimizerBytes = 3;
  MemoryFacts facts;
  facts.stages.assign(placement.getNumGlobalStages(), stage);
  facts.capacityBytes = 1000;
  return facts;
}

struct Walked {
  Walked(const Table &table, const UniformCosts &stageCosts = {})
      : timed(table, stageCosts.on(table.placement), Transport::Overlap),
        facts(hundredPerStage(table.placement)),
        usage(llvm::cantFail(computeMemory(
            timed.graph, timed.times, timed.timeline, table.placement, facts))),
        samples(traceMemory(timed.graph, timed.times, timed.timeline,
                            table.placement, facts)) {}

  /// Prints the changes, as "0:100 20:60 30:0".
  std::string trace(int64_t worker = 0) const {
    std::vector<std::string> words;
    for (MemorySample sample : samples[worker])
      words.push_back(llvm::itostr(sample.atPs) + ":" +
                      llvm::itostr(sample.bytes));
    return llvm::join(words, " ");
  }

  Timed timed;
  MemoryFacts facts;
  MemoryUsage usage;
  std::vector<std::vector<MemorySample>> samples;
};

TEST(PeakMemory, WholeBackwardFreesAtItsEnd) {
  Walked walked(makeTable(2, {0}, {"0F0 0F1 0B0 0B1"}));
  EXPECT_EQ(walked.trace(), "0:100 10:200 40:100 60:0");
  const WorkerMemory &worker = walked.usage.workers[0];
  EXPECT_EQ(worker.peakActivationBytes, 200);
  EXPECT_EQ(worker.peakPs, 10);
  EXPECT_EQ(worker.peakCell->str(), "0F1");
  EXPECT_EQ(worker.peakMicrobatches, 2);
  EXPECT_EQ(worker.persistentBytes(), 7);
  EXPECT_EQ(worker.peakBytes(), 207);
  EXPECT_EQ(walked.usage.capacityBytes, 1000);
}

TEST(PeakMemory, SplitBackwardFreesInTwoParts) {
  Walked walked(makeTable(2, {0}, {"0F0 0I0 0F1 0W0 0I1 0W1"}));
  // 0I0 ends at 20 and frees 40, then 0F1 allocates 100 on top of 60.
  EXPECT_EQ(walked.trace(), "0:100 20:160 40:100 50:60 60:0");
  EXPECT_EQ(walked.usage.workers[0].peakCell->str(), "0F1");
  EXPECT_EQ(walked.usage.workers[0].peakMicrobatches, 2);
}

TEST(PeakMemory, RecomputeKeepsTheBoundary) {
  // Microbatch 1 is recomputed, 0 is not.
  Walked walked(makeTable(2, {0}, {"0F0 0F1 0R1 0B1 0B0"}));
  EXPECT_EQ(walked.trace(), "0:100 10:110 20:200 50:100 70:0");
  EXPECT_EQ(walked.usage.workers[0].peakCell->str(), "0R1");
  EXPECT_EQ(walked.usage.workers[0].peakMicrobatches, 2);
}

TEST(PeakMemory, BackwardHoldsWhatItWorksWith) {
  // 0I0 holds 5 more while it runs, and until 0W0 gradients that exceed the
  // memory that it frees by 20.
  Table table = makeTable(2, {0}, {"0F0 0I0 0W0 0F1 0B1"});
  Timed timed(table, UniformCosts().on(table.placement), Transport::Overlap);
  MemoryFacts facts = hundredPerStage(table.placement);
  facts.stages[0].inputGradFreedBytes = -20;
  facts.stages[0].workingBytes = 5;
  MemoryUsage usage = llvm::cantFail(computeMemory(
      timed.graph, timed.times, timed.timeline, table.placement, facts));
  EXPECT_EQ(usage.workers[0].peakActivationBytes, 120);
  EXPECT_EQ(usage.workers[0].peakPs, 20);
  EXPECT_EQ(usage.workers[0].peakCell->str(), "0I0");
  facts.stages[0].inputGradFreedBytes = 40;
  usage = llvm::cantFail(computeMemory(timed.graph, timed.times, timed.timeline,
                                       table.placement, facts));
  EXPECT_EQ(usage.workers[0].peakActivationBytes, 105);
  EXPECT_EQ(usage.workers[0].peakPs, 10);
}

TEST(PeakMemory, OffloadFreesWhenItEnds) {
  // D [10,25), 0F1 [10,20), 0B1 [20,40), U [40,45), 0B0 [45,65).
  UniformCosts stageCosts;
  stageCosts.offload = 15;
  stageCosts.reload = 5;
  Walked walked(makeTable(2, {0}, {"0F0 0D0 0F1 0B1 0U0 0B0"}), stageCosts);
  EXPECT_EQ(walked.trace(), "0:100 10:200 25:100 65:0");
  EXPECT_EQ(walked.usage.workers[0].peakActivationBytes, 200);
  EXPECT_EQ(walked.usage.workers[0].peakCell->str(), "0F1");
}

TEST(PeakMemory, JoinedOffloadLowersThePeak) {
  // The join delays 0F1 until the offload has ended, at 25.
  UniformCosts stageCosts;
  stageCosts.offload = 15;
  stageCosts.reload = 5;
  Walked walked(makeTable(2, {0}, {"0F0 0D0 0d0 0F1 0B1 0U0 0B0"}), stageCosts);
  EXPECT_EQ(walked.timed.start("0F1"), 25);
  EXPECT_EQ(walked.usage.workers[0].peakActivationBytes, 100);
  EXPECT_EQ(walked.usage.workers[0].peakCell->str(), "0F0");
}

TEST(PeakMemory, OffloadMovesWhatRecomputeKept) {
  // 10 bytes from F, offloaded by 20, reloaded at 20 (free copy), 100 from R
  // on.
  UniformCosts stageCosts;
  stageCosts.offload = 10;
  Walked walked(makeTable(1, {0}, {"0F0 0D0 0U0 0R0 0B0"}), stageCosts);
  EXPECT_EQ(walked.trace(), "0:10 20:100 50:0");
  EXPECT_EQ(walked.usage.workers[0].peakCell->str(), "0R0");
}

TEST(PeakMemory, RefusesSumsOverInt64) {
  Table table = makeTable(2, {0}, {"0F0 0F1 0B0 0B1"});
  Timed timed(table, UniformCosts().on(table.placement), Transport::Overlap);
  MemoryFacts facts = hundredPerStage(table.placement);
  facts.stages[0].activationBytes = std::numeric_limits<int64_t>::max() - 1;
  llvm::Expected<MemoryUsage> usage = computeMemory(
      timed.graph, timed.times, timed.timeline, table.placement, facts);
  ASSERT_FALSE(usage);
  EXPECT_EQ(llvm::toString(usage.takeError()),
            "activations on worker 0 exceed 2^63-1 bytes at cell 0F1");
}

/// A program may use any microbatch number; only state per microbatch is
/// limited.
TEST(PeakMemory, RefusesSparseProgramsThatNeedState) {
  ProgramBuilder builder;
  builder.beginRow();
  builder.compute("0F2000000000");
  builder.compute("0R2000000000");
  builder.compute("0B2000000000");
  Placement placement =
      llvm::cantFail(Placement::create(1, 2000000001, {placeLinear(1)}));
  Timed timed(builder.build(), placement, UniformCosts().on(placement),
              Transport::Overlap);
  llvm::Expected<MemoryUsage> usage =
      computeMemory(timed.graph, timed.times, timed.timeline, placement,
                    hundredPerStage(placement));
  ASSERT_FALSE(usage);
  EXPECT_EQ(llvm::toString(usage.takeError()),
            "memory of recomputed or offloaded activations needs microbatches "
            "that are in use: there are 3 tasks for 2000000001 pairs of "
            "stage and microbatch");
}

} // namespace
