//===- PlanSearchTest.cpp - Rounds of the search for a plan ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/PlanSearch.h"
#include "gtest/gtest.h"
#include <functional>

using namespace pipesched;

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Four layers of 2 ps, half of it the forward, that hold 10 bytes each, and a
/// head of 4 ps, on two workers. All evaluations are the test's.
class PlanSearchTest : public ::testing::Test {
protected:
  PlanSearchTest() {
    layers.forwardPs = {0, 1, 2, 3, 4, 6};
    layers.workPs = {0, 2, 4, 6, 8, 12};
    layers.stashBytes = {0, 1, 2, 3, 4, 5};
    for (unsigned split : {0, 1})
      layers.held[split] = layers.headless[split] = {0, 6, 12, 18, 24, 30};
    PlanSchedule none;
    none.reason = "there is nothing";
    search.candidates.addSchedule(2, none);
    add(0, {{0, 1}}, /*isUsual=*/true);
    add(1, {{0, 1, 0, 1}}, /*isUsual=*/false);
  }

  void add(int64_t order, WorkerPaths paths, bool isUsual) {
    PlanSchedule schedule;
    schedule.order = order;
    schedule.paths = std::move(paths);
    schedule.receives = {ReceivePlacement::Arrival};
    schedule.isUsual = isUsual;
    search.candidates.addSchedule(2, schedule);
  }

  int32_t addShape(int64_t microbatches,
                   std::vector<std::vector<std::string>> draws = {}) {
    PlanShape shape;
    shape.pipeline = 2;
    shape.microbatches = microbatches;
    int32_t number = search.candidates.addShape(shape, nullptr);
    search.candidates.setBalanced(number, {0, 1}, {2, 2});
    search.candidates.setBalanced(number, {0, 1, 0, 1}, {1, 1, 1, 1});
    ShapeLimits limits;
    limits.layers = &layers;
    limits.bytes = &bytes;
    search.setLimits(number, limits);
    search.setRows(number, {&bytes, number, false, std::move(draws)});
    return number;
  }

  std::vector<int32_t> expand(int32_t shape, PlanKind kind) {
    std::vector<int32_t> found;
    llvm::cantFail(search.candidates.expand(shape, kind, false, found));
    return found;
  }

  /// All may be listed.
  static std::vector<bool> listAll(llvm::ArrayRef<int32_t> asked) {
    return std::vector<bool>(asked.size(), true);
  }
  std::vector<int32_t> round(llvm::ArrayRef<int32_t> given, double limitPs) {
    return search.round(given, {limitPs, limitPs}, listAll, evaluate());
  }

  /// Every step takes 100 ps, that of the slow worker 1 twice as long.
  EvaluatePoints evaluate() { return evaluated; }

  LayerSums layers;
  Sums bytes = {0, 10, 20, 30, 40, 50};
  PlanSearch search{{/*numLayers=*/4, /*mostCells=*/1000, /*usableBytes=*/100,
                     Transport::Overlap, /*widening=*/1}};
  std::vector<PlanPoint> points;
  int64_t peakBytes = 60;
  std::function<std::vector<PlanRow>(llvm::ArrayRef<PlanPoint>)> evaluated =
      [this](llvm::ArrayRef<PlanPoint> given) {
        std::vector<PlanRow> rows;
        for (const PlanPoint &point : given) {
          points.push_back(point);
          rows.push_back({"", point.disturbance.empty() ? 100 : 200, peakBytes,
                          /*worker=*/1});
        }
        return rows;
      };
};

} // namespace

TEST_F(PlanSearchTest, ExpandsSchedulesByKind) {
  int32_t shape = addShape(4);
  EXPECT_EQ(expand(shape, PlanKind::All).size(), 2u);
  std::vector<int32_t> usual = expand(shape, PlanKind::Usual);
  ASSERT_EQ(usual.size(), 1u);
  EXPECT_EQ(search.candidates.countsOf(usual[0]), LayerCounts({{2, 2}}));
  EXPECT_EQ(search.candidates.takeReasons(),
            std::vector<std::string>({"there is nothing"}));
  // 3 * 4 * 100 cells are too many, 3 * 2 * 100 are not.
  EXPECT_EQ(expand(addShape(100), PlanKind::All).size(), 1u);
  EXPECT_EQ(search.candidates.takeReasons().back(), "more than 1,000 cells");
}

TEST_F(PlanSearchTest, BoundsTheBusiestWorker) {
  int32_t usual = expand(addShape(4), PlanKind::Usual).front();
  PlanBounds free = search.bounds(usual, kNoLimit);
  // Worker 1 has two layers and the head: it starts after 2 ps, takes 8 ps for
  // each of 4 microbatches, and the backward of two layers follows.
  EXPECT_NEAR(free.stepPs, 2 + 4 * 8 + 2, 1e-3);
  EXPECT_EQ(free.peakBytes, 32); // 30 and one microbatch of 3, rounded down
  // In 36 ps it holds 4 * 18 / 36 bytes on average, in 8 ps 9.
  EXPECT_EQ(search.bounds(usual, 8).peakBytes, 38);
}

TEST_F(PlanSearchTest, EvaluatesEachCandidateOnce) {
  std::vector<int32_t> all = expand(addShape(4), PlanKind::All);
  // On two stages each, worker 1 starts earlier: the bound is lower.
  EXPECT_EQ(round(all, kNoLimit), std::vector<int32_t>({all[1], all[0]}));
  search.evaluate(all, evaluate());
  EXPECT_EQ(points.size(), 2u);
  EXPECT_EQ(search.getCounts().evaluated, 2);
  EXPECT_EQ(search.getCounts().considered, 2);
}

TEST_F(PlanSearchTest, DropsWhatIsTooSlow) {
  std::vector<int32_t> all = expand(addShape(4), PlanKind::All);
  EXPECT_TRUE(round(all, 10).empty());
  EXPECT_EQ(search.getCounts().tooSlow, 2);
  EXPECT_TRUE(points.empty());
}

TEST_F(PlanSearchTest, EvaluatesOthersOnlyIfTheyAreFaster) {
  std::vector<int32_t> all = expand(addShape(4), PlanKind::All);
  std::vector<int32_t> asked;
  auto listFirst = [&](llvm::ArrayRef<int32_t> given) {
    llvm::append_range(asked, given);
    std::vector<bool> listed;
    for (int32_t candidate : given)
      listed.push_back(candidate == all[0]);
    return listed;
  };
  // Neither bound is below 10 ps.
  EXPECT_EQ(search.round(all, {kNoLimit, 10}, listFirst, evaluate()),
            std::vector<int32_t>({all[0]}));
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(search.getCounts().tooSlow, 1);
  // Nothing is asked about what is fast enough in either case.
  EXPECT_EQ(search.round(all, {kNoLimit, kNoLimit}, listFirst, evaluate()),
            std::vector<int32_t>({all[1], all[0]}));
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(PlanSearchTest, DropsWhatRowsSayIsTooLarge) {
  // The memory of four microbatches bounds the memory of more of them.
  peakBytes = 200;
  std::vector<int32_t> all = expand(addShape(8), PlanKind::Usual);
  EXPECT_TRUE(round(all, kNoLimit).empty());
  ASSERT_EQ(points.size(), 1u);
  EXPECT_TRUE(points[0].isShort);
  EXPECT_EQ(search.heldBytes(all[0]), 199);
  EXPECT_EQ(search.nearest({}, kNoLimit, 5), all);
}

TEST_F(PlanSearchTest, RanksByTheMeanOfDraws) {
  int32_t shape = addShape(4, {{"", "worker1=2"}, {""}});
  std::vector<int32_t> usual = expand(shape, PlanKind::Usual);
  search.evaluate(usual, evaluate());
  EXPECT_EQ(search.outcomeOf(usual[0])->stepPs, 150);
  EXPECT_EQ(search.outcomeOf(usual[0])->undisturbedPs, 100);
}

TEST_F(PlanSearchTest, MovesLayersOfWhatIsNear) {
  std::vector<int32_t> usual = expand(addShape(4), PlanKind::Usual);
  search.evaluate(usual, evaluate());
  EXPECT_EQ(search.movable(100, 2, listAll, evaluate()), usual);
  EXPECT_TRUE(search.movable(99, 2, listAll, evaluate()).empty());
}
