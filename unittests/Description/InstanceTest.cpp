//===- InstanceTest.cpp - Scheduling instances ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading of the fields of an instance, refusals, and the form of an answer.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Description/Instance.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::StringRef;
using testing::ElementsAre;

static constexpr StringRef kSmall = R"({
"name": "small", "workers": 2, "microbatches": 3, "stages": 3,
"path": [0, 1, 0],
"duration": {"F": [10, 11, 12], "I": [20, 21, 22], "W": [30, 31, 32]},
"message_delay": 5,
"memory": {"stage_activation": [4, 5, 6], "freed_by_I": [1, 0, -1],
           "capacity": [100, 200]},
"offload": {"D": 7, "U": 8, "queues": 1},
"recompute": {"R": 9, "checkpoint": 2},
"objective": "period",
"best_known": 70})";

/// The small instance with one piece of text replaced.
static std::string with(StringRef from, StringRef to) {
  std::string text = kSmall.str();
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to.str());
}

static std::string errorOf(StringRef text) {
  llvm::Expected<Instance> instance = instanceFromJson(text, "small.json");
  if (instance) {
    ADD_FAILURE() << "expected an error";
    return "";
  }
  return llvm::toString(instance.takeError());
}

static std::string errorWith(StringRef from, StringRef to) {
  return errorOf(with(from, to));
}

TEST(InstanceTest, ReadsEveryField) {
  Instance instance = llvm::cantFail(instanceFromJson(kSmall, "small.json"));
  const Problem &problem = instance.problem;
  EXPECT_EQ(problem.name, "small");
  EXPECT_EQ(problem.placement.getNumWorkers(), 2);
  EXPECT_EQ(problem.placement.getNumMicrobatches(), 3);
  EXPECT_THAT(problem.placement.getPath(0).workers, ElementsAre(0, 1, 0));
  EXPECT_THAT(problem.capacity, ElementsAre(100, 200));
  ASSERT_EQ(problem.stages.size(), 3U);
  const StageFacts &last = problem.stages[2];
  EXPECT_EQ(last.forward, 12);
  EXPECT_EQ(last.inputGrad, 22);
  EXPECT_EQ(last.weightGrad, 32);
  EXPECT_EQ(last.offload, 7);
  EXPECT_EQ(last.reload, 8);
  EXPECT_EQ(last.recompute, 9);
  EXPECT_EQ(last.activationDelay, 5);
  EXPECT_EQ(last.gradientDelay, 5);
  EXPECT_EQ(last.activation, 6);
  EXPECT_EQ(last.freedByInputGrad, -1);
  EXPECT_EQ(last.checkpoint, 2);
  EXPECT_TRUE(problem.sharedCopyQueue);
  EXPECT_TRUE(problem.techniques.splitBackward);
  EXPECT_TRUE(problem.techniques.offload);
  EXPECT_TRUE(problem.techniques.recompute);
  EXPECT_EQ(problem.gradientAfter, GradientAfter::InputGrad);
  EXPECT_EQ(problem.objective, Objective::Period);
  EXPECT_EQ(instance.bestKnown, 70);
  EXPECT_EQ(instance.lowerBound, std::nullopt);
}

TEST(InstanceTest, TakesNullForWhatIsNotAllowed) {
  std::string text = with(R"({"D": 7, "U": 8, "queues": 1})", "null");
  Instance instance = llvm::cantFail(instanceFromJson(text, "small.json"));
  EXPECT_FALSE(instance.problem.techniques.offload);
  EXPECT_FALSE(instance.problem.sharedCopyQueue);
  text = with(R"({"R": 9, "checkpoint": 2})", "null");
  instance = llvm::cantFail(instanceFromJson(text, "small.json"));
  EXPECT_FALSE(instance.problem.techniques.recompute);
}

TEST(InstanceTest, LeavesNotesAlone) {
  std::string text =
      with(R"("best_known")", R"("note": "by hand", "best_known")");
  EXPECT_TRUE(bool(instanceFromJson(text, "small.json")));
}

TEST(InstanceTest, ReadsThoseThatShip) {
  std::error_code code;
  int numRead = 0;
  for (llvm::sys::fs::directory_iterator entry(OPTIMIZER_DIR, code), end;
       entry != end && !code; entry.increment(code)) {
    if (llvm::sys::path::extension(entry->path()) != ".json")
      continue;
    llvm::Expected<Instance> instance = readInstance(entry->path());
    ASSERT_TRUE(bool(instance)) << llvm::toString(instance.takeError());
    EXPECT_FALSE(bool(checkCapacity(instance->problem))) << entry->path();
    ASSERT_TRUE(instance->bestKnown && instance->lowerBound);
    EXPECT_LE(*instance->lowerBound, *instance->bestKnown);
    ++numRead;
  }
  EXPECT_FALSE(bool(code)) << code.message();
  EXPECT_EQ(numRead, 29);
}

TEST(InstanceTest, RefusesFields) {
  EXPECT_EQ(errorWith("\"objective\"", "\"objektive\""),
            "small.json: needs the field 'objective'");
  EXPECT_EQ(errorWith(",\n\"message_delay\": 5", ""),
            "small.json: needs the field 'message_delay'");
  EXPECT_EQ(errorWith("\"period\"", "\"span\""),
            "small.json: objective: expected one of makespan, period, found "
            "\"span\"");
  EXPECT_EQ(errorWith("\"microbatches\": 3", "\"microbatches\": 0"),
            "small.json: microbatches: expected a whole number from 1 to "
            "2^63 - 1, found 0");
  EXPECT_EQ(errorWith("\"queues\": 1", "\"queues\": 3"),
            "small.json: offload.queues: expected 1 or 2, found 3");
  EXPECT_EQ(errorWith("\"queues\": 1", "\"queue\": 1"),
            "small.json: offload: unknown field 'queue', the closest is "
            "'queues'");
  EXPECT_EQ(errorWith("\"D\": 7", "\"D\": -7"),
            "small.json: offload.D: expected a whole number from 0 to "
            "2^63 - 1, found -7");
  EXPECT_EQ(errorWith("\"best_known\": 70", "\"best_known\": \"good\""),
            "small.json: best_known: expected a whole number from 0 to "
            "2^63 - 1, found \"good\"");
  EXPECT_EQ(errorOf("[]"), "small.json: expected an object, found []");
}

TEST(InstanceTest, RefusesWhatDoesNotFitTogether) {
  EXPECT_EQ(errorWith("[0, 1, 0]", "[0, 1]"),
            "small.json: path: expected a list of 3 numbers, as many as "
            "'stages', found one of 2");
  EXPECT_EQ(errorWith("[0, 1, 0]", "[0, 2, 0]"),
            "small.json: path[1]: expected a worker from 0 to 1, found 2");
  EXPECT_EQ(errorWith("[30, 31, 32]", "30"),
            "small.json: duration.W: expected a list of 3 numbers, as many as "
            "'stages', found 30");
  EXPECT_EQ(errorWith("[20, 21, 22]", "[20, 0, 22]"),
            "small.json: duration.I[1]: expected a whole number from 1 to "
            "2^63 - 1, found 0");
  EXPECT_EQ(errorWith("[10, 11, 12]", "[10, 11, 0.5]"),
            "small.json: duration.F[2]: expected a whole number from 1 to "
            "2^63 - 1, found 0.5");
  EXPECT_EQ(errorWith("[100, 200]", "[100]"),
            "small.json: memory.capacity: expected a list of 2 numbers, as "
            "many as 'workers', found one of 1");
  EXPECT_EQ(errorWith("[1, 0, -1]", "[1, 6, -1]"),
            "small.json: stage 1: I frees 6, more than the 5 that F allocates");
  EXPECT_EQ(errorWith("\"checkpoint\": 2", "\"checkpoint\": 7"),
            "small.json: stage 0: a checkpoint has 7, more than the 4 that F "
            "allocates");
  EXPECT_EQ(errorWith("\"microbatches\": 3", "\"microbatches\": 2000000000"),
            "small.json: the problem has 6000000000 pairs of stage and "
            "microbatch, 29826161 at most");
  EXPECT_EQ(
      errorWith("\"workers\": 2", "\"workers\": 9000000000000000000"),
      "small.json: 9000000000000000000 workers: there must be 1 to 65536");
  EXPECT_EQ(errorWith("\"stages\": 3", "\"stages\": 9000000000000000000"),
            "small.json: path: expected a list of 9000000000000000000 numbers, "
            "as many as 'stages', found one of 3");
}

TEST(InstanceTest, NamesFilesThatCannotBeRead) {
  llvm::Expected<Instance> instance = readInstance("none/small.json");
  EXPECT_EQ(llvm::toString(instance.takeError()),
            "cannot read 'none/small.json': No such file or directory");
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

static SolverResult answerOf(const Problem &problem, llvm::ArrayRef<Row> rows) {
  std::vector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  SolverResult result;
  result.solution = llvm::cantFail(timeRows(problem, views));
  result.lowerBound = 40;
  result.status = Status::TimeLimit;
  result.seconds = 1.25;
  return result;
}

/// One stage on one worker; F, I and W take 10, 20 and 30.
static Problem makeProblem(Objective objective) {
  Problem problem;
  problem.name = "one";
  Path path;
  path.workers = {0};
  problem.placement = llvm::cantFail(Placement::create(1, 1, {path}));
  problem.stages.resize(1);
  problem.stages[0].forward = 10;
  problem.stages[0].inputGrad = 20;
  problem.stages[0].weightGrad = 30;
  problem.stages[0].offload = problem.stages[0].reload = 1;
  problem.capacity = {0};
  problem.objective = objective;
  return problem;
}

static const Row kRow = {
    Cell(0, Phase::Forward, 0),     Cell(0, Phase::Offload, 0),
    Cell(0, Phase::OffloadJoin, 0), Cell(0, Phase::Reload, 0),
    Cell(0, Phase::InputGrad, 0),   Cell(0, Phase::WeightGrad, 0)};

static std::string write(Objective objective) {
  Problem problem = makeProblem(objective);
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::cantFail(writeAnswer(problem, answerOf(problem, {kRow}), os));
  return text;
}

TEST(AnswerTest, ListsCellsWithoutJoins) {
  EXPECT_EQ(write(Objective::Makespan), R"({
"name": "one",
"makespan": 62,
"lower_bound": 40,
"status": "time_limit",
"seconds": 1.250,
"cells": [
  ["F", 0, 0, 0, 0, 10],
  ["D", 0, 0, 0, 10, 11],
  ["U", 0, 0, 0, 11, 12],
  ["I", 0, 0, 0, 12, 32],
  ["W", 0, 0, 0, 32, 62]
]
}
)");
}

TEST(AnswerTest, HasThePeriodWhereThatIsTheObjective) {
  EXPECT_NE(write(Objective::Period).find("\"makespan\": 62,\n\"period\": 62,"),
            std::string::npos);
}

TEST(AnswerTest, NamesEveryStatus) {
  EXPECT_EQ(nameOf(Status::Optimal), "optimal");
  EXPECT_EQ(nameOf(Status::GapReached), "gap");
  EXPECT_EQ(nameOf(Status::TimeLimit), "time_limit");
  EXPECT_EQ(nameOf(Status::Interrupted), "interrupted");
}

//===----------------------------------------------------------------------===//
// Answers as seeds
//===----------------------------------------------------------------------===//

static std::string seedErrorOf(StringRef text) {
  llvm::Expected<Seed> seed =
      seedFromAnswer(makeProblem(Objective::Makespan), text, "answer.json");
  if (seed) {
    ADD_FAILURE() << "expected an error";
    return "";
  }
  return llvm::toString(seed.takeError());
}

TEST(SeedTest, ReadsWhatWasWritten) {
  Seed seed =
      llvm::cantFail(seedFromAnswer(makeProblem(Objective::Makespan),
                                    write(Objective::Makespan), "answer.json"));
  Row withoutJoins;
  llvm::copy_if(kRow, std::back_inserter(withoutJoins),
                [](Cell cell) { return !cell.isJoin(); });
  EXPECT_THAT(seed.rows, ElementsAre(withoutJoins));
}

// U starts while F of the next microbatch runs, so it was issued before.
TEST(SeedTest, IssuesCopiesBeforeTheCellThatRuns) {
  Problem problem = makeProblem(Objective::Makespan);
  problem.placement = llvm::cantFail(Placement::create(1, 2, {placeLinear(1)}));
  Seed seed = llvm::cantFail(seedFromAnswer(problem, R"({"cells": [
      ["I", 0, 0, 0, 40, 60], ["F", 0, 1, 0, 20, 30], ["U", 0, 0, 0, 25, 26],
      ["D", 0, 0, 0, 10, 11], ["F", 0, 0, 0, 0, 10]]})",
                                            "answer.json"));
  ASSERT_EQ(seed.rows.size(), 1U);
  EXPECT_THAT(seed.rows[0],
              ElementsAre(Cell(0, Phase::Forward, 0),
                          Cell(0, Phase::Offload, 0), Cell(0, Phase::Reload, 0),
                          Cell(0, Phase::Forward, 1),
                          Cell(0, Phase::InputGrad, 0)));
}

TEST(SeedTest, NamesThePlaceOfWhatIsNoCell) {
  EXPECT_EQ(seedErrorOf(R"({"cells": 3})"),
            "answer.json: cells: expected a list of cells");
  for (StringRef entry :
       {R"(["F", 0, 0, 0, 0])", R"(["F", 1, 0, 0, 0, 10])",
        R"(["F", 0, 1, 0, 0, 10])", R"(["F", 0, 0, 1, 0, 10])",
        R"(["Q", 0, 0, 0, 0, 10])", R"(["F", 0, 0, 0, 10, 0])",
        R"(["F", 0, 0, 0, -1, 10])", "7"})
    EXPECT_TRUE(StringRef(seedErrorOf(("{\"cells\": [" + entry + "]}").str()))
                    .starts_with("answer.json: cells[0]: expected [phase, "));
}
