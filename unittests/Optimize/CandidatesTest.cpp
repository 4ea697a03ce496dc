//===- CandidatesTest.cpp - Placements and sizes to try -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates of schedules made by hand, and the description of the best one.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/Candidates.h"
#include "../Support/ErrorText.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Check/Verify.h"

using namespace pipesched;

/// Two workers and four microbatches of one sequence each.
static Table someTable() {
  return makeTable(makeLinear(2, 4),
                   {"0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3",
                    "1F0 1I0 1F1 1I1 1W0 1F2 1W1 1I2 1F3 1W2 1I3 1W3"});
}

static CostInputs modelAndSystem() {
  CostInputs costs;
  costs.model.emplace();
  costs.model->microbatchSize = 1;
  costs.system.emplace();
  return costs;
}

static llvm::Expected<ModelFacts> resize(const ModelFacts &model,
                                         int64_t size) {
  ModelFacts resized = model;
  resized.microbatchSize = size;
  return resized;
}

static std::vector<ScheduleCandidate> list(const Table &table, CostInputs costs,
                                           const CandidateOptions &options) {
  ScheduleStart start{"mine", table.view(), true, std::move(costs)};
  return llvm::cantFail(listCandidates(start, options));
}

TEST(Candidates, AreAllPairs) {
  CandidateOptions options;
  options.placements = {PlacementKind::Linear, PlacementKind::V};
  options.microbatchSizes = {1, 2};
  options.resizeModel = resize;
  Table table = someTable();
  auto candidates = list(table, modelAndSystem(), options);
  std::vector<std::string> names;
  for (const ScheduleCandidate &candidate : candidates)
    names.push_back(candidate.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"placement linear, microbatch size 1",
                                      "placement linear, microbatch size 2",
                                      "placement v, microbatch size 1",
                                      "placement v, microbatch size 2"}));
  EXPECT_EQ(candidates[1].placement.getNumMicrobatches(), 2);
  EXPECT_EQ(candidates[1].costs.model->microbatchSize, 2);
  EXPECT_EQ(candidates[2].placement.getPath(0).workers, placeV(2).workers);
  // The rows fit only the first candidate.
  ASSERT_EQ(candidates[0].seeds.size(), 1u);
  EXPECT_EQ(candidates[0].seeds[0].name, "mine");
  EXPECT_EQ(candidates[0].seeds[0].rows, table.rows);
  for (size_t other : {1, 2, 3})
    EXPECT_TRUE(candidates[other].seeds.empty());
}

TEST(Candidates, AreTheScheduleItselfByDefault) {
  auto candidates = list(someTable(), {}, {});
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(candidates[0].name, "");
  EXPECT_EQ(candidates[0].placement.getNumMicrobatches(), 4);
}

TEST(Candidates, NameWhatIsWrong) {
  Table table = someTable();
  ScheduleStart start{"mine", table.view(), true, {}};
  CandidateOptions options;
  options.microbatchSizes = {1};
  options.resizeModel = resize;
  EXPECT_EQ(errorOf(listCandidates(start, options).takeError()),
            "has no model; with microbatch-sizes a model and a system say what "
            "each takes");
  table.rows[1].pop_back();
  start.table = table.view();
  llvm::Error error = listCandidates(start, {}).takeError();
  EXPECT_TRUE(error.isA<ViolationError>());
  llvm::consumeError(std::move(error));
}

TEST(Candidates, PlacementsHaveNames) {
  EXPECT_EQ(llvm::cantFail(parsePlacementKinds({"wave", "linear"})),
            (std::vector{PlacementKind::Wave, PlacementKind::Linear}));
  EXPECT_EQ(errorOf(parsePlacementKinds({"waves"}).takeError()),
            "no placement is called 'waves', the closest is 'wave'");
  EXPECT_EQ(errorOf(parsePlacementKinds({"v", "v"}).takeError()),
            "v is listed twice");
}

TEST(Candidates, LimitsHaveRanges) {
  optimize::SolverOptions options;
  EXPECT_FALSE(bool(checkLimits(options)));
  options.gap = 1.5;
  EXPECT_EQ(errorOf(checkLimits(options)), "gap is 0 to 1, found 1.500000");
  options.gap = 0;
  options.timeLimitSeconds = -1;
  EXPECT_EQ(errorOf(checkLimits(options)),
            "time-limit is 0 to 10000000 seconds, found -1.000000");
  options.timeLimitSeconds = optimize::kNoTimeLimit;
  options.maxEvaluations = 0;
  EXPECT_EQ(errorOf(checkLimits(options)),
            "max-evaluations=0 needs a time-limit: without any limit the "
            "search may not end");
}

TEST(Candidates, ResultsAreDescribed) {
  Table table = someTable();
  ScheduleStart start{"mine", table.view(), true, {}};
  start.costs.profile.emplace();
  for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::WeightGrad})
    start.costs.profile->phasePs[phase] = {1000000};
  CandidateOptions candidates;
  candidates.placements = {PlacementKind::Linear, PlacementKind::V};
  OptimizeOptions options;
  options.solver.maxEvaluations = 2000;
  OptimizedStart optimized =
      llvm::cantFail(optimizeStart(start, candidates, options));
  EXPECT_EQ(optimized.chosen.name, "placement linear");
  ResultText text = describe(summarize("mine", optimized));
  EXPECT_EQ(text.summary.find("@mine: makespan 13us, proven optimal; lower "
                              "bound 13us ("),
            0u)
      << text.summary;
  ASSERT_EQ(text.notes.size(), 3u);
  EXPECT_EQ(text.notes[0], "chosen: placement linear");
  EXPECT_EQ(text.notes[1].find("with placement v: "), 0u) << text.notes[1];
  EXPECT_EQ(text.notes[2], "without split-backward: 15us, 15.38 % longer");
}
