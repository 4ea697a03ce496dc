//===- ComparisonTest.cpp - Tests of findings ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Findings follow from numbers; these entries are made up to provoke each
// finding.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Comparison.h"
#include "Results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace pipesched;
using namespace pipesched::test;
using testing::HasSubstr;
using testing::Not;

static std::string compare(llvm::ArrayRef<ComparisonEntry> entries) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeComparison(stream, entries);
  return text;
}

/// The ratio in an entry of the cause with this column.
static double &ratioOf(ComparisonEntry &entry,
                       std::vector<int64_t> IdleTimes::*column) {
  for (auto [cause, ratio] : llvm::zip_equal(kIdleCauses, entry.idleByCause))
    if (cause.ps == column)
      return ratio;
  llvm_unreachable("no column of a cause");
}

static ComparisonEntry entry(llvm::StringRef name, int64_t stepPs, double idle,
                             double bubble) {
  ComparisonEntry entry;
  entry.name = name.str();
  entry.workers = entry.microbatches = 8;
  entry.stepPs = stepPs;
  entry.idle = ratioOf(entry, &IdleTimes::dependencyPs) = idle;
  entry.formulaBubble = entry.tableBubble = bubble;
  return entry;
}

TEST(Comparison, NothingForNothing) { EXPECT_EQ(compare({}), ""); }

TEST(Comparison, RankingsThatDiffer) {
  std::string text =
      compare({entry("a", 120, 0.4, 0.2), entry("b", 100, 0.3, 0.25)});
  EXPECT_THAT(text, HasSubstr("- fastest: b, 20.00 % ahead of a\n"));
  EXPECT_THAT(
      text, HasSubstr("formula and table put a (20.00 %) before b (25.00 %)"));
  EXPECT_THAT(text, HasSubstr("execution puts b (30.00 %) before a (40.00 %)"));
  EXPECT_THAT(text, Not(HasSubstr("alike")));
}

TEST(Comparison, ALeadIsNeverNothing) {
  std::string text =
      compare({entry("a", 100'001, 0.3, 0.2), entry("b", 100'000, 0.3, 0.2)});
  EXPECT_THAT(text, HasSubstr("- fastest: b, less than 0.01 % ahead of a\n"));
}

TEST(Comparison, RankingsThatAgree) {
  std::string text =
      compare({entry("a", 120, 0.4, 0.25), entry("b", 100, 0.3, 0.2)});
  EXPECT_THAT(text, HasSubstr("rank all pairs of equal work alike"));
  EXPECT_THAT(text, Not(HasSubstr("put")));
}

TEST(Comparison, OtherWorkIsNotRanked) {
  ComparisonEntry small = entry("a", 120, 0.4, 0.2);
  small.microbatches = 4;
  std::string text = compare({small, entry("b", 100, 0.3, 0.25)});
  EXPECT_THAT(text, Not(HasSubstr("put")));
  EXPECT_THAT(text, HasSubstr("- fastest: b, 140.00 % ahead of a\n"));
}

TEST(Comparison, SequencesCountWhereKnown) {
  ComparisonEntry a = entry("a", 100, 0.3, 0.3), b = a;
  b.name = "b";
  a.microbatchSize = 1;
  b.microbatchSize = 2;
  std::string text = compare({a, b});
  EXPECT_THAT(text, HasSubstr("sequences per second"));
  EXPECT_THAT(text, HasSubstr("- fastest: b, 100.00 % ahead of a\n"));
}

TEST(Comparison, WhoDoesNotFit) {
  constexpr int64_t kGiB = int64_t(1) << 30;
  ComparisonEntry big = entry("big", 100, 0.3, 0.3);
  big.memory.emplace();
  big.memory->weightBytes = 30 * kGiB;
  big.memory->peakActivationBytes = 60 * kGiB;
  big.memory->peakCell = Cell(0, Phase::Forward, 7);
  big.capacityBytes = 80 * kGiB;
  ComparisonEntry small = big;
  small.name = "small";
  small.memory->peakActivationBytes = 50 * kGiB;
  std::string text = compare({big, small});
  EXPECT_THAT(text, HasSubstr("big does not fit: worker 0 needs 90.00 GiB of "
                              "80.00 GiB, 30.00 GiB for weights, gradients and "
                              "optimizer state, 60.00 GiB for activations"));
  EXPECT_THAT(text, HasSubstr("no, 10.00 GiB short"));
  EXPECT_THAT(text, Not(HasSubstr("small does not fit")));
  EXPECT_THAT(text, HasSubstr("big and small take the same step to the "
                              "picosecond, 100 ps; small peaks at 80.00 GiB, "
                              "big at 90.00 GiB"));
}

TEST(Comparison, FastestThatFits) {
  ComparisonEntry fast = entry("fast", 100, 0.3, 0.3);
  fast.memory.emplace();
  fast.memory->weightBytes = 11;
  fast.capacityBytes = 10;
  ComparisonEntry slow = fast;
  slow.name = "slow";
  slow.stepPs = 200;
  EXPECT_THAT(compare({fast, slow}),
              HasSubstr("fast and slow do not fit; closest is fast"));
  slow.memory->weightBytes = 10;
  std::string text = compare({fast, slow});
  EXPECT_THAT(text, HasSubstr("- fastest: fast, 100.00 % ahead of slow\n"
                              "- fastest that fits: slow\n"));
}

TEST(Comparison, ManyNamesAreCounted) {
  std::vector<ComparisonEntry> entries;
  entries.reserve(9);
  for (int i = 0; i < 9; ++i)
    entries.push_back(entry("s" + std::to_string(i), 100, 0.3, 0.3));
  EXPECT_THAT(compare(entries), HasSubstr("s0, s1, s2, s3 and 5 more"));
}

TEST(Comparison, IdleCausesAddUp) {
  TimingOptions timing;
  timing.transport = Transport::Delay;
  ComparisonEntry entry = summarizeForComparison(
      evaluate1F1B("s", 4, 8, profileWithMessages(), timing));
  EXPECT_GT(ratioOf(entry, &IdleTimes::communicationPs), 0);
  EXPECT_NEAR(
      std::accumulate(entry.idleByCause.begin(), entry.idleByCause.end(), 0.0),
      entry.idle, 1e-12);
}

/// The kinds of the findings about pairs.
static std::vector<FindingKind>
rankingsOf(std::vector<ComparisonEntry> entries) {
  std::vector<FindingKind> kinds;
  for (const Finding &finding : findFindings(entries))
    if (finding.kind == FindingKind::Ranking ||
        finding.kind == FindingKind::Tie ||
        finding.kind == FindingKind::AllRankings)
      kinds.push_back(finding.kind);
  return kinds;
}

TEST(Comparison, FindingsSayWhatTheyAreAbout) {
  using testing::ElementsAre;
  EXPECT_THAT(rankingsOf({entry("a", 100, 0.2, 0.3), entry("b", 90, 0.3, 0.2)}),
              ElementsAre(FindingKind::Ranking));
  EXPECT_THAT(rankingsOf({entry("a", 100, 0.2, 0.3), entry("b", 90, 0.3, 0.3)}),
              ElementsAre(FindingKind::Tie));
  EXPECT_THAT(rankingsOf({entry("a", 100, 0.2, 0.2), entry("b", 90, 0.3, 0.3)}),
              ElementsAre(FindingKind::AllRankings));
}
