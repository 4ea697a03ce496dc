//===- OptimizeScheduleTest.cpp - The best schedule under costs -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares problems with costs computed by hand, and times and memory of
// schedules with the timeline.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"
#include "../Support/ErrorText.h"
#include "../Support/TestEffort.h"
#include "../Support/TestTables.h"
#include "PipeSched/Optimize/Schedule/Candidates.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include <chrono>

using namespace pipesched;

/// In us: F 7, I 5, W 9, D 8, U 3, R 6; messages have an occupancy of 2 and a
/// latency of 3.
static CostInputs someCosts() {
  Profile profile;
  auto set = [&](Phase phase, int64_t us) {
    profile.phasePs[phase] = {us * 1000000};
  };
  set(Phase::Forward, 7);
  set(Phase::InputGrad, 5);
  set(Phase::WeightGrad, 9);
  set(Phase::Offload, 8);
  set(Phase::Reload, 3);
  set(Phase::Recompute, 6);
  profile.sendPs = {2000000};
  profile.commPs = {3000000};
  CostInputs costs;
  costs.profile = profile;
  return costs;
}

/// A layer has 100 bytes of activations, 30 of them only for W, a checkpoint of
/// 10, and parameters of 1 + 2 + 4 bytes.
static void addModel(CostInputs &costs, int64_t layers) {
  BlockFacts block;
  block.name = "layer";
  block.count = layers;
  block.parameters = 1;
  block.activationBytes = 100;
  block.weightGradBytes = 30;
  block.recomputedBytes = 10;
  costs.model.emplace();
  costs.model->name = "layers";
  costs.model->weightBytesPerParameter = 1;
  costs.model->gradientBytesPerParameter = 2;
  costs.model->optimizerBytesPerParameter = 4;
  costs.model->blocks = {block};
}

static ProblemOptions within(MemoryBudget::Unit unit, int64_t amount) {
  ProblemOptions options;
  options.memory = MemoryBudget{unit, amount};
  return options;
}

static OptimizeOptions quick(ProblemOptions problem) {
  OptimizeOptions options;
  options.problem = problem;
  options.solver.maxEvaluations = 400;
  return options;
}

/// The best schedule on one placement.
static llvm::Expected<OptimizedSchedule>
optimizeOn(const Placement &placement, const OptimizeOptions &options,
           std::vector<optimize::Seed> seeds = {}) {
  ScheduleCandidate candidate{"", placement, someCosts(), std::move(seeds)};
  return optimizeSchedule(candidate, options);
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

TEST(OptimizeProblem, HasTheTimesOfTheProfile) {
  ProblemOptions options;
  options.techniques = {true, true, true};
  optimize::Problem problem =
      llvm::cantFail(makeProblem(makeLinear(2, 3), someCosts(), options));
  ASSERT_EQ(problem.stages.size(), 2u);
  const optimize::StageFacts &stage = problem.stages[1];
  EXPECT_EQ(stage.forward, 7000000);
  EXPECT_EQ(stage.inputGrad, 5000000);
  EXPECT_EQ(stage.weightGrad, 9000000);
  EXPECT_EQ(stage.offload, 8000000);
  EXPECT_EQ(stage.reload, 3000000);
  EXPECT_EQ(stage.recompute, 6000000);
  EXPECT_EQ(stage.activationDelay, 5000000);
  EXPECT_EQ(stage.gradientDelay, 5000000);
  // Without a limit every activation has room.
  EXPECT_EQ(stage.activation, 1);
  EXPECT_EQ(problem.capacity, (std::vector<int64_t>{3, 3}));
  options.techniques = {false, false, false};
  problem = llvm::cantFail(makeProblem(makeLinear(2, 3), someCosts(), options));
  EXPECT_EQ(problem.stages[0].inputGrad, 14000000);
  EXPECT_EQ(problem.stages[0].weightGrad, 0);
  EXPECT_EQ(problem.stages[0].offload, 0);
  EXPECT_EQ(problem.stages[0].recompute, 0);
}

/// W that takes no time has no separate cell, and the backward takes I.
TEST(OptimizeProblem, KeepsBackwardsWholeWithoutTimesOfW) {
  CostInputs costs = someCosts();
  costs.profile->phasePs[Phase::WeightGrad] = {0};
  optimize::Problem problem =
      llvm::cantFail(makeProblem(makeLinear(2, 3), costs, {}));
  EXPECT_FALSE(problem.techniques.splitBackward);
  EXPECT_EQ(problem.stages[1].inputGrad, 5000000);
  EXPECT_FALSE(errorToBool(optimize::checkProblem(problem)));
}

/// Slices are microbatches on separate paths, which divide the times.
TEST(OptimizeProblem, HasSlicesOnPathsOfTheirOwn) {
  Placement placement =
      llvm::cantFail(Placement::create(2, 3, {placeLinear(2)}, 2));
  optimize::Problem problem =
      llvm::cantFail(makeProblem(placement, someCosts(), {}));
  EXPECT_EQ(problem.numSlices, 2);
  EXPECT_EQ(problem.placement.getNumMicrobatches(), 6);
  ASSERT_EQ(problem.stages.size(), 4u);
  for (const optimize::StageFacts &stage : problem.stages) {
    EXPECT_EQ(stage.forward, 3500000);
    EXPECT_EQ(stage.inputGrad, 2500000);
    EXPECT_EQ(stage.weightGrad, 4500000);
  }
  EXPECT_EQ(problem.capacity, (std::vector<int64_t>{6, 6}));
}

/// The rows pass the checks of tables with slices, within memory too.
TEST(OptimizeSchedule, FindsRowsOfSlices) {
  Placement placement =
      llvm::cantFail(Placement::create(2, 3, {placeLinear(2)}, 2));
  for (bool offload : {false, true}) {
    ProblemOptions problem = within(MemoryBudget::Unit::Activations, 3);
    problem.techniques.offload = offload;
    problem.techniques.recompute = offload;
    llvm::Expected<OptimizedSchedule> found =
        optimizeOn(placement, quick(problem));
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    EXPECT_LE(found->result.lowerBound, found->objective());
    EXPECT_EQ(found->problem.numSlices, 2);
  }
}

TEST(OptimizeProblem, LeavesRoomForParameters) {
  CostInputs costs = someCosts();
  addModel(costs, 2);
  ProblemOptions options = within(MemoryBudget::Unit::Bytes, 1007);
  options.techniques.recompute = true;
  optimize::Problem problem =
      llvm::cantFail(makeProblem(makeLinear(2, 3), costs, options));
  EXPECT_EQ(problem.stages[0].activation, 100);
  EXPECT_EQ(problem.stages[0].freedByInputGrad, 70);
  EXPECT_EQ(problem.stages[0].checkpoint, 10);
  EXPECT_EQ(problem.capacity, (std::vector<int64_t>{1000, 1000}));
  // Two paths on the same workers use the same parameters.
  Placement twice = makePlacement(
      2, 2, {pathOn({0, 1}, {{0, 1, 1}}), pathOn({0, 1}, {{1, 2, 1}})});
  EXPECT_EQ(llvm::cantFail(makeProblem(twice, costs, options)).capacity,
            (std::vector<int64_t>{1000, 1000}));
  options = within(MemoryBudget::Unit::Activations, 2);
  problem = llvm::cantFail(makeProblem(makeLinear(2, 3), costs, options));
  EXPECT_EQ(problem.stages[0].activation, 1);
  EXPECT_EQ(problem.capacity, (std::vector<int64_t>{2, 2}));
}

/// Each of the two layers of a stage keeps 10 bytes, and a backward needs the
/// whole activations of one layer.
TEST(OptimizeProblem, LeavesRoomForBackwardsThatRecompute) {
  CostInputs costs = someCosts();
  addModel(costs, 4);
  costs.model->recompute = Recompute::Full;
  ProblemOptions options = within(MemoryBudget::Unit::Bytes, 1014);
  optimize::Problem problem =
      llvm::cantFail(makeProblem(makeLinear(2, 3), costs, options));
  EXPECT_EQ(problem.stages[0].activation, 20);
  EXPECT_EQ(problem.capacity, (std::vector<int64_t>{910, 910}));
  options.techniques.recompute = true;
  EXPECT_EQ(errorOf(makeProblem(makeLinear(2, 3), costs, options)),
            "has model 'layers', whose backwards recompute by themselves; with "
            "recompute=none the optimizer decides which do");
}

TEST(OptimizeProblem, RefusesWhatCannotBe) {
  CostInputs costs = someCosts();
  auto refusal = [&](const ProblemOptions &options) {
    return errorOf(makeProblem(makeLinear(2, 3), costs, options));
  };
  EXPECT_EQ(refusal(within(MemoryBudget::Unit::Bytes, 100)),
            "has no model, which a memory budget in bytes needs; a number "
            "without a unit counts activations");
  addModel(costs, 2);
  EXPECT_EQ(refusal(within(MemoryBudget::Unit::System, 0)),
            "has no system, whose memory is to be the budget");
  EXPECT_EQ(refusal(within(MemoryBudget::Unit::Bytes, 6)),
            "worker 0 needs 7 bytes for weights, gradients and optimizer "
            "state, and 0 in its backwards, of a budget of 6: nothing is left "
            "for activations");
  costs.profile->phasePs[Phase::Reload].clear();
  ProblemOptions options;
  options.techniques.offload = true;
  EXPECT_EQ(refusal(options),
            "has no times for offload: a profile gives D and U, or model and "
            "system do");
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Start of a cell by the timeline.
static int64_t startOf(const Execution &execution, Cell cell) {
  for (uint32_t task = 0; task < execution.graph.size(); ++task) {
    InstructionKind kind = execution.graph.kind[task];
    bool isCell = kind == InstructionKind::Compute ||
                  kind == InstructionKind::Offload ||
                  kind == InstructionKind::Reload;
    if (isCell && execution.graph.cell[task] == cell)
      return execution.timeline.startPs[task];
  }
  ADD_FAILURE() << cell.str() << " is not in the timeline";
  return -1;
}

/// The times of the optimizer are the timeline's, cell by cell.
static void expectTimesOfTheTimeline(const OptimizedSchedule &optimized,
                                     const CostInputs &costs) {
  const optimize::Solution &solution = optimized.result.solution;
  Table table;
  table.placement = optimized.problem.placement;
  table.gradientAfter = optimized.problem.gradientAfter;
  table.rows = solution.rows;
  TimingOptions timing;
  timing.transport = Transport::Delay;
  Execution execution =
      llvm::cantFail(executeTable(table.view(), costs, timing));
  EXPECT_EQ(execution.timeline.makespanPs, solution.makespan);
  for (auto [row, starts] : llvm::zip_equal(solution.rows, solution.starts))
    for (auto [cell, start] : llvm::zip_equal(row, starts))
      if (!cell.isJoin())
        EXPECT_EQ(startOf(execution, cell), start) << cell.str();
}

static std::vector<Placement> placements(int64_t workers,
                                         int64_t microbatches) {
  std::vector<Placement> all;
  for (PlacementKind kind : {PlacementKind::Linear, PlacementKind::Interleaved,
                             PlacementKind::V, PlacementKind::Wave})
    all.push_back(llvm::cantFail(placeBy(kind, workers, microbatches, 2, 2)));
  return all;
}

TEST(OptimizeSchedule, TimesAreThoseOfTheTimeline) {
  for (optimize::Techniques techniques :
       {optimize::Techniques{true, false, false},
        {true, true, false},
        {true, false, true},
        {true, true, true},
        {false, true, false},
        {false, false, false}})
    for (int64_t memory : {1, 2, 3})
      for (const Placement &placement : placements(2, kIsSanitized ? 3 : 5)) {
        SCOPED_TRACE(testing::Message()
                     << techniques.splitBackward << techniques.offload
                     << techniques.recompute << " memory " << memory
                     << " stages " << placement.getMaxStages());
        int64_t chunks = placement.getMaxStages() / 2;
        ProblemOptions problem =
            within(MemoryBudget::Unit::Activations, memory * chunks);
        problem.techniques = techniques;
        OptimizeOptions options = quick(problem);
        options.explain = false;
        OptimizedSchedule optimized =
            llvm::cantFail(optimizeOn(placement, options));
        expectTimesOfTheTimeline(optimized, someCosts());
        EXPECT_GE(optimized.objective(), optimized.result.lowerBound);
      }
}

/// Candidates on these placements, with the same times.
static std::vector<ScheduleCandidate>
candidatesOn(llvm::ArrayRef<Placement> placements) {
  std::vector<ScheduleCandidate> candidates;
  for (auto [number, placement] : llvm::enumerate(placements))
    candidates.push_back(
        {"number " + std::to_string(number), placement, someCosts(), {}});
  return candidates;
}

TEST(OptimizeSchedule, TakesTheBestCandidate) {
  std::vector<Placement> all = placements(3, 6);
  OptimizeOptions options = quick({});
  options.solver.maxEvaluations = 4000;
  OptimizedSchedule best =
      llvm::cantFail(optimizeSchedule(candidatesOn(all), options));
  EXPECT_EQ(best.candidate, 0u);
  EXPECT_EQ(best.without.size(), 1u); // split-backward is the only technique
  EXPECT_EQ(best.without[0].name, "split-backward");
  ASSERT_EQ(best.others.size(), 3u);
  for (auto [number, other] : llvm::enumerate(best.others)) {
    EXPECT_EQ(other.name, "number " + std::to_string(number + 1));
    ASSERT_TRUE(other.objective);
    EXPECT_GE(*other.objective, best.objective());
  }
  options.solver.maxEvaluations = 1000;
  for (const Placement &placement : all) {
    OptimizedSchedule one = llvm::cantFail(optimizeOn(placement, options));
    EXPECT_LE(best.objective(), one.objective());
  }
}

/// Alongside a candidate with 6 microbatches there is one with half as many
/// that take three times as long, and one with twice as many that take as long.
/// The bounds of both are above the makespan of the first.
TEST(OptimizeSchedule, LeavesOutWhatABoundRulesOut) {
  std::vector<ScheduleCandidate> candidates =
      candidatesOn({makeLinear(2, 3), makeLinear(2, 6), makeLinear(2, 12)});
  for (std::vector<int64_t> &times : candidates[0].costs.profile->phasePs)
    for (int64_t &ps : times)
      ps *= 3;
  OptimizedSchedule best =
      llvm::cantFail(optimizeSchedule(candidates, quick({})));
  EXPECT_EQ(best.candidate, 1u);
  ASSERT_EQ(best.others.size(), 2u);
  for (const Alternative &other : best.others) {
    EXPECT_TRUE(other.isBound) << other.name;
    EXPECT_GE(other.objective.value_or(0), best.objective());
  }
}

/// On placement v each worker holds two activations of each microbatch.
TEST(OptimizeSchedule, LeavesOutWhatDoesNotFit) {
  std::vector<ScheduleCandidate> candidates =
      candidatesOn({placements(2, 4)[2], makeLinear(2, 4)});
  OptimizeOptions options = quick(within(MemoryBudget::Unit::Activations, 1));
  OptimizedSchedule best =
      llvm::cantFail(optimizeSchedule(candidates, options));
  EXPECT_EQ(best.candidate, 1u);
  ASSERT_EQ(best.others.size(), 1u);
  EXPECT_FALSE(best.others[0].objective);
  EXPECT_EQ(best.others[0].reason,
            "worker 0 has a capacity of 1, which holds no schedule: 1 more is "
            "needed, 2 at least");
}

TEST(OptimizeSchedule, SaysWhyNoCandidateHasASchedule) {
  std::vector<ScheduleCandidate> candidates =
      candidatesOn({makeLinear(2, 4), placements(2, 4)[2]});
  OptimizeOptions options = quick(within(MemoryBudget::Unit::Bytes, 100));
  EXPECT_EQ(errorOf(optimizeSchedule(candidates, options)),
            "has no model, which a memory budget in bytes needs; a number "
            "without a unit counts activations");
  options = quick(within(MemoryBudget::Unit::Activations, 0));
  EXPECT_EQ(errorOf(optimizeSchedule(candidates, options)),
            "has no schedule: with number 0, worker 0 has a capacity of 0, "
            "which holds no schedule: 1 more is needed, 1 at least; with "
            "number 1, worker 0 has a capacity of 0, which holds no schedule: "
            "2 more is needed, 2 at least");
}

/// The limits are for all candidates together, and the same input gives the
/// same rows.
TEST(OptimizeSchedule, CandidatesShareTheLimits) {
  std::vector<Placement> all = placements(4, 13);
  std::vector<ScheduleCandidate> candidates =
      candidatesOn({all[1], all[2], all[3]});
  ProblemOptions problem = within(MemoryBudget::Unit::Activations, 3);
  problem.techniques.offload = true;
  OptimizeOptions options = quick(problem);
  auto solve = [&] {
    return llvm::cantFail(optimizeSchedule(candidates, options));
  };
  options.solver.maxEvaluations = 2000;
  OptimizedSchedule best = solve();
  EXPECT_EQ(best.result.status, optimize::Status::TimeLimit);
  EXPECT_EQ(best.result.solution.rows, solve().result.solution.rows);
  options.solver.maxEvaluations = 0;
  options.solver.timeLimitSeconds = 1;
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(solve().result.status, optimize::Status::TimeLimit);
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  EXPECT_GT(taken.count(), 0.9);
  EXPECT_LT(taken.count(), 5);
}

/// Without offload there is no schedule: a reason is given instead of a time.
TEST(OptimizeSchedule, SaysWhatATechniqueIsWorth) {
  ProblemOptions problem = within(MemoryBudget::Unit::Activations, 1);
  problem.techniques = {true, true, false};
  Placement v = placements(2, 4)[2]; // two activations of each microbatch
  OptimizedSchedule optimized = llvm::cantFail(optimizeOn(v, quick(problem)));
  ASSERT_EQ(optimized.without.size(), 2u);
  EXPECT_EQ(optimized.without[0].name, "split-backward");
  EXPECT_TRUE(optimized.without[0].objective);
  EXPECT_EQ(optimized.without[1].name, "offload");
  EXPECT_FALSE(optimized.without[1].objective);
  EXPECT_NE(optimized.without[1].reason, "");
}

TEST(OptimizeSchedule, IsNoWorseThanItsSeed) {
  ProblemOptions problem = within(MemoryBudget::Unit::Activations, 2);
  Table table = makeTable(makeLinear(2, 4),
                          {"0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3",
                           "1F0 1I0 1F1 1I1 1W0 1F2 1W1 1I2 1F3 1W2 1I3 1W3"});
  OptimizeOptions options = quick(problem);
  options.solver.maxEvaluations = 1;
  optimize::Seed seed{"mine", table.rows};
  OptimizedSchedule optimized =
      llvm::cantFail(optimizeOn(table.placement, options, {seed}));
  std::vector<llvm::ArrayRef<Cell>> rows(table.rows.begin(), table.rows.end());
  EXPECT_LE(optimized.objective(),
            llvm::cantFail(timeRows(optimized.problem, rows)).makespan);
}

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
