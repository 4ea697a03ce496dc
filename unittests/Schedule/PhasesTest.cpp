//===- PhasesTest.cpp - The table of phases ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "gtest/gtest.h"

using namespace pipesched;

static std::string letters(PhaseSet phases) {
  return describePhases(phases, ", ");
}

TEST(Phases, AreDividedAsTheirTableSays) {
  EXPECT_EQ(letters(kCostedPhases),
            "F, B, I, W, R, D, U, O, G, S, T, X, Y, Z, E, A, C, V");
  EXPECT_EQ(letters(kComputePhases), "F, B, I, W, R, O, G, S, T, E, V");
  EXPECT_EQ(letters(kUnitComputePhases), "F, B, I, W, R, S, T, E, V");
  EXPECT_EQ(letters(kCopyPhases), "D, U");
  EXPECT_EQ(letters(kJoinPhases), "d, u");
  EXPECT_EQ(letters(kPerPathPhases), "O, G");
  EXPECT_EQ(letters(kIndexedPhases),
            "F, B, I, W, R, D, U, S, T, X, Y, Z, E, A, C, V");
  EXPECT_EQ(letters(kBackwardStarts), "B, I");
  EXPECT_EQ(letters(kGradientPhases), "B, W, T, V");
  EXPECT_EQ(letters(kReleasingPhases), "B, W");
  EXPECT_EQ(letters(kFreeingPhases), "B, I, W");
  EXPECT_EQ(letters(kActivationUsers), "B, I, R");
  EXPECT_EQ(letters(kActivationMakers), "F, R");
}

/// What a phase excludes before it follows from what uses it and from its
/// alternatives.
TEST(Phases, ExcludeWhatMustNotStandBefore) {
  EXPECT_EQ(letters(kExcludedBefore[Phase::Forward]), "");
  EXPECT_EQ(letters(kExcludedBefore[Phase::Backward]), "I, W, C");
  EXPECT_EQ(letters(kExcludedBefore[Phase::InputGrad]), "B, C");
  EXPECT_EQ(letters(kExcludedBefore[Phase::WeightGrad]), "B");
  EXPECT_EQ(letters(kExcludedBefore[Phase::Recompute]), "B, I");
  EXPECT_EQ(letters(kExcludedBefore[Phase::Offload]), "");
  EXPECT_EQ(letters(kExcludedBefore[Phase::Reload]), "B, I, R");
  EXPECT_EQ(letters(kExcludedBefore[Phase::Combine]), "B, I");
  EXPECT_EQ(letters(kExcludedBefore[Phase::LogitsGrad]), "");
  EXPECT_EQ(letters(kExcludedBefore[Phase::LookupSum]), "F");
  EXPECT_EQ(letters(kExcludedBefore[Phase::LookupGrad]), "");
}

/// The short list of what a cell waits for on its own stage: needs, then uses.
TEST(Phases, ListWhatTheirCellsWaitFor) {
  auto edges = [](Phase phase) {
    const OwnEdges &own = kOwnEdges[phase];
    std::string text;
    for (unsigned i = 0; i != own.count; ++i) {
      text += i == own.numNeeds ? "|" : "";
      text += phaseLetter(own.phases[i]);
    }
    return text;
  };
  EXPECT_EQ(edges(Phase::Forward), "|A");
  EXPECT_EQ(edges(Phase::Backward), "F|RUYZ");
  EXPECT_EQ(edges(Phase::WeightGrad), "I");
  EXPECT_EQ(edges(Phase::Recompute), "F|U");
  EXPECT_EQ(edges(Phase::Reload), "D");
  EXPECT_EQ(edges(Phase::ReloadJoin), "U");
  EXPECT_EQ(edges(Phase::Logits), "X");
  EXPECT_EQ(edges(Phase::LogitsGrad), "Y");
  EXPECT_EQ(edges(Phase::Reduce), "T");
  EXPECT_EQ(edges(Phase::Lookup), "");
  EXPECT_EQ(edges(Phase::LookupSum), "E");
  EXPECT_EQ(edges(Phase::GradientBroadcast), "|BI");
  EXPECT_EQ(edges(Phase::LookupGrad), "EC");
}

TEST(Phases, PassFlowsToNeighbours) {
  EXPECT_EQ(letters(kTakers[unsigned(Flow::Activation)]), "F");
  EXPECT_EQ(letters(kTakers[unsigned(Flow::Gradient)]), "B, I");
  EXPECT_TRUE(kWidePhases.isEmpty());
  EXPECT_TRUE(makesActivation(Phase::Forward));
  EXPECT_FALSE(makesActivation(Phase::Backward));
  EXPECT_FALSE(makesActivation(Phase::Optimizer));
}

TEST(Phases, MeetInTheirGroups) {
  EXPECT_EQ(letters(kCollectivePhases), "G, X, Y, Z, A, C");
  EXPECT_EQ(letters(kMeetingPhases), "G");
  EXPECT_EQ(letters(kDetachedPhases), "X, Y, Z, A, C");
  EXPECT_EQ(letters(kSpreadPhases), "S, T, X, Y, Z, E, A, C, V");
  EXPECT_EQ(letters(kEmbeddingPhases), "E, A, C, V");
  EXPECT_EQ(letters(kHeadPhases), "S, T, X, Y, Z");
  EXPECT_EQ(groupingOf(Phase::Combine), Grouping::Unit);
  EXPECT_EQ(groupingOf(Phase::AllReduce), Grouping::Blocks);
  EXPECT_EQ(groupingOf(Phase::Idle), Grouping::None);
  EXPECT_EQ(describePhase(Phase::AllReduce), "an all-reduce");
  EXPECT_EQ(describePhase(Phase::Forward), "a forward");
}

TEST(Phases, JoinsAreOfCopies) {
  EXPECT_EQ(joinOf(Phase::Offload), Phase::OffloadJoin);
  EXPECT_EQ(joinOf(Phase::Reload), Phase::ReloadJoin);
}

/// Whatever a backward is divided into, all that is allocated is freed.
TEST(Phases, FreeWhatTheyAllocate) {
  constexpr HeldAmounts held{
      /*activation=*/100, /*kept=*/30,
      /*inputGrad=*/40,   /*shard=*/7,
      /*lookupSum=*/0,    /*lookupPart=*/5,
      /*lookupGrad=*/3};
  auto sum = [&](PhaseSet phases) {
    int64_t amount = 0;
    phases.forEach([&](Phase phase) {
      const PhaseMemory &memory = traitsOf(phase).memory;
      amount += changeOf(memory.atStart, held) + changeOf(memory.atEnd, held);
    });
    return amount;
  };
  EXPECT_EQ(sum({Phase::Forward, Phase::Backward}), 0);
  EXPECT_EQ(sum({Phase::Forward, Phase::InputGrad, Phase::WeightGrad}), 0);
  EXPECT_EQ(sum(kCopyPhases), 0);
  EXPECT_EQ(sum(Phase::Logits), 7);
  EXPECT_EQ(sum(kSpreadPhases), 0);
  EXPECT_EQ(sum(Phase::Lookup), 5);
  EXPECT_EQ(sum({Phase::Lookup, Phase::LookupSum}), 0);
  EXPECT_EQ(sum(Phase::GradientBroadcast), 3);
  // F keeps 30 of 100 at its end where there is an R.
  EXPECT_EQ(sum({Phase::Forward, Phase::Recompute, Phase::Backward}),
            held.activation - held.kept);
}

TEST(Phases, AreNamedInText) {
  EXPECT_EQ(describePhases({}, " and "), "");
  EXPECT_EQ(describePhases(Phase::Reload, " and "), "U");
  EXPECT_EQ(describePhases(kSplitBackward, " and "), "I and W");
  EXPECT_EQ(describePhases(kBackwardPhases, " or "), "B, I or W");
}
