//===- CacheTest.cpp - Cache of schedules ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries that are valid, better, truncated, changed, and written by several
// threads at once.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/Cache.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"
#include <thread>

using namespace pipesched;
using namespace pipesched::optimize;

namespace {
/// Gives each test a folder, which is removed at the end.
class OptimizeCache : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("pipesched-cache", path));
    directory = std::string(path);
  }
  void TearDown() override {
    EXPECT_FALSE(llvm::sys::fs::remove_directories(directory));
  }

  std::optional<CacheEntry> find(const Problem &problem) {
    warning.clear();
    return Cache(directory).find(problem, warning);
  }
  void store(const Problem &problem, const CacheEntry &entry) {
    llvm::cantFail(Cache(directory).store(problem, entry));
  }
  std::string readFile(const Problem &problem) {
    auto buffer = llvm::MemoryBuffer::getFile(Cache(directory).pathOf(problem));
    return buffer ? (*buffer)->getBuffer().str() : "";
  }
  void writeFile(const Problem &problem, llvm::StringRef text) {
    std::error_code code;
    llvm::raw_fd_ostream os(Cache(directory).pathOf(problem), code);
    ASSERT_FALSE(code);
    os << text;
  }

  std::string directory, warning;
};
} // namespace

/// F, I and W take 3, 4 and 2, messages 1. An activation has 1 unit.
static Problem smallProblem(int64_t workers = 2, int64_t microbatches = 3,
                            int64_t memory = 3) {
  Problem problem;
  problem.placement = llvm::cantFail(
      Placement::create(workers, microbatches, {placeLinear(workers)}));
  StageFacts stage;
  stage.forward = 3;
  stage.inputGrad = 4;
  stage.weightGrad = 2;
  stage.offload = stage.reload = 5;
  stage.activationDelay = stage.gradientDelay = 1;
  stage.activation = 1;
  problem.stages.assign(workers, stage);
  problem.capacity.assign(workers, memory);
  return problem;
}

/// Runs every microbatch forward and backward before the next one.
static CacheEntry slowEntry(const Problem &problem) {
  std::vector<Row> rows(problem.placement.getNumWorkers());
  for (int64_t microbatch = 0;
       microbatch < problem.placement.getNumMicrobatches(); ++microbatch)
    for (auto [stage, row] : llvm::enumerate(rows))
      for (Phase phase : {Phase::Forward, Phase::InputGrad, Phase::WeightGrad})
        row.emplace_back(stage, phase, microbatch);
  CacheEntry entry;
  entry.result.solution = llvm::cantFail(timeRows(
      problem, std::vector<llvm::ArrayRef<Cell>>(rows.begin(), rows.end())));
  entry.result.lowerBound = 1;
  entry.result.boundName = "work";
  entry.result.origin = "one by one";
  entry.timeLimitSeconds = 1;
  return entry;
}

static CacheEntry bestEntry(const Problem &problem) {
  SolverOptions options;
  options.maxEvaluations = 2000;
  CacheEntry entry;
  entry.result = llvm::cantFail(solve(problem, familySeeds(problem), options));
  entry.maxEvaluations = options.maxEvaluations;
  return entry;
}

TEST(OptimizeCacheKey, IsOfAllThatMattersAndNothingElse) {
  const Problem problem = smallProblem();
  std::vector<std::string> keys = {cacheKey(problem)};
  EXPECT_EQ(keys[0].size(), 64u);
  Problem other = problem;
  other.name = "other";
  EXPECT_EQ(cacheKey(other), keys[0]);
  auto add = [&](auto &&change) {
    Problem changed = problem;
    change(changed);
    std::string key = cacheKey(changed);
    EXPECT_FALSE(llvm::is_contained(keys, key));
    keys.push_back(key);
  };
  for (int64_t StageFacts::*fact :
       {&StageFacts::forward, &StageFacts::inputGrad, &StageFacts::weightGrad,
        &StageFacts::recompute, &StageFacts::offload, &StageFacts::reload,
        &StageFacts::activationDelay, &StageFacts::gradientDelay,
        &StageFacts::activation, &StageFacts::freedByInputGrad,
        &StageFacts::checkpoint})
    for (size_t stage : {0, 1})
      add([&](Problem &changed) { ++(changed.stages[stage].*fact); });
  add([](Problem &changed) { ++changed.capacity[1]; });
  add([](Problem &changed) { changed.techniques.offload = true; });
  add([](Problem &changed) { changed.techniques.recompute = true; });
  add([](Problem &changed) { changed.techniques.splitBackward = false; });
  add([](Problem &changed) { changed.objective = Objective::Period; });
  add([](Problem &changed) { changed.sharedCopyQueue = true; });
  add([](Problem &changed) {
    changed.gradientAfter = GradientAfter::WeightGrad;
  });
  add([](Problem &changed) {
    changed.placement = smallProblem(2, 4).placement;
  });
  add([](Problem &changed) {
    Path path;
    path.workers = {1, 0};
    changed.placement = llvm::cantFail(Placement::create(2, 3, {path}));
  });
}

TEST_F(OptimizeCache, GivesBackWhatWasStored) {
  Problem problem = smallProblem();
  EXPECT_FALSE(find(problem));
  EXPECT_EQ(warning, "");
  CacheEntry entry = bestEntry(problem);
  entry.result.origin = "a name\nof two lines";
  store(problem, entry);
  std::optional<CacheEntry> found = find(problem);
  ASSERT_TRUE(found);
  EXPECT_EQ(warning, "");
  const SolverResult &result = found->result;
  EXPECT_EQ(result.solution.rows, entry.result.solution.rows);
  EXPECT_EQ(result.solution.starts, entry.result.solution.starts);
  EXPECT_EQ(result.solution.makespan, entry.result.solution.makespan);
  EXPECT_EQ(result.lowerBound, entry.result.lowerBound);
  EXPECT_EQ(result.boundName, entry.result.boundName);
  EXPECT_EQ(result.status, entry.result.status);
  EXPECT_EQ(result.evaluations, entry.result.evaluations);
  EXPECT_EQ(result.origin, "a name of two lines");
  EXPECT_EQ(found->maxEvaluations, entry.maxEvaluations);
  EXPECT_FALSE(find(smallProblem(2, 4)));
}

TEST_F(OptimizeCache, TheBetterOneStays) {
  Problem problem = smallProblem();
  CacheEntry slow = slowEntry(problem), best = bestEntry(problem);
  ASSERT_LT(best.result.solution.makespan, slow.result.solution.makespan);
  store(problem, slow);
  EXPECT_EQ(find(problem)->result.origin, "one by one");
  store(problem, best);
  EXPECT_EQ(find(problem)->result.solution.makespan,
            best.result.solution.makespan);
  slow.result.lowerBound = 2;
  store(problem, slow);
  EXPECT_EQ(find(problem)->result.solution.rows, best.result.solution.rows);
}

/// An entry that is truncated anywhere or has any byte changed is ignored with
/// a warning, and replaced.
TEST_F(OptimizeCache, DamagedEntriesAreReplaced) {
  Problem problem = smallProblem();
  store(problem, slowEntry(problem));
  const std::string text = readFile(problem);
  ASSERT_GT(text.size(), 200u);
  auto expectDamaged = [&](llvm::StringRef damaged) {
    writeFile(problem, damaged);
    EXPECT_FALSE(find(problem));
    EXPECT_EQ(warning, "'" + Cache(directory).pathOf(problem) +
                           "' is no cached schedule of this problem and is "
                           "left aside");
  };
  for (size_t length = 0; length < text.size(); length += 7)
    expectDamaged(llvm::StringRef(text).take_front(length));
  for (size_t at = 0; at < text.size(); at += 5) {
    std::string changed = text;
    changed[at] ^= 1;
    expectDamaged(changed);
  }
  expectDamaged(text + text);
  store(problem, slowEntry(problem));
  EXPECT_EQ(readFile(problem), text);
}

/// The file has the entry of another problem, with a right checksum.
TEST_F(OptimizeCache, EntriesOfOthersAreLeftAside) {
  Problem problem = smallProblem(), other = smallProblem(2, 4);
  store(other, slowEntry(other));
  writeFile(problem, readFile(other));
  EXPECT_FALSE(find(problem));
  EXPECT_NE(warning, "");
}

TEST_F(OptimizeCache, ManyMayWriteAtOnce) {
  Problem problem = smallProblem();
  CacheEntry slow = slowEntry(problem), best = bestEntry(problem);
  std::atomic<int> numBad = 0;
  auto work = [&](unsigned number) {
    Cache cache(directory);
    for (int round = 0; round < 20; ++round) {
      if (llvm::Error error =
              cache.store(problem, (number + round) % 4 ? slow : best)) {
        llvm::consumeError(std::move(error));
        ++numBad;
      }
      std::string text;
      numBad += !cache.find(problem, text) || !text.empty();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (unsigned number = 0; number < 4; ++number)
    threads.emplace_back(work, number);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(numBad, 0);
  EXPECT_EQ(find(problem)->result.solution.rows, best.result.solution.rows);
}

TEST_F(OptimizeCache, FoldersThatCannotBeWrittenAreErrors) {
  Problem problem = smallProblem();
  writeFile(problem, "a file");
  std::string path = Cache(directory).pathOf(problem);
  llvm::Error error = Cache(path).store(problem, slowEntry(problem));
  EXPECT_EQ(llvm::toString(std::move(error)), "cannot write '" +
                                                  Cache(path).pathOf(problem) +
                                                  "': Not a directory");
}

//===----------------------------------------------------------------------===//
// Solving
//===----------------------------------------------------------------------===//

static SolverOptions limits(uint64_t maxEvaluations) {
  SolverOptions options;
  options.maxEvaluations = maxEvaluations;
  return options;
}

TEST_F(OptimizeCache, SolvesOnce) {
  // The schedule is not proven optimal, so a larger limit searches again.
  Problem problem = smallProblem(4, 8, 2);
  problem.techniques.offload = true;
  auto solveWith = [&](uint64_t maxEvaluations) {
    warning.clear();
    SolverResult result = llvm::cantFail(
        solveCached(problem, {}, limits(maxEvaluations), directory, warning));
    EXPECT_EQ(warning, "");
    return result;
  };
  SolverResult first = solveWith(200);
  ASSERT_NE(first.status, Status::Optimal);
  std::string stored = readFile(problem);
  SolverResult again = solveWith(200);
  EXPECT_EQ(again.solution.rows, first.solution.rows);
  EXPECT_EQ(again.evaluations, first.evaluations);
  EXPECT_EQ(readFile(problem), stored);
  SolverResult longer = solveWith(2000);
  EXPECT_LE(longer.solution.makespan, first.solution.makespan);
  EXPECT_GE(longer.lowerBound, first.lowerBound);
  EXPECT_EQ(find(problem)->result.solution.makespan, longer.solution.makespan);
  // A smaller limit returns the better schedule of the larger one.
  EXPECT_EQ(solveWith(100).solution.rows, find(problem)->result.solution.rows);
}
