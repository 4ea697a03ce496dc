//===- SharedBlocksTest.cpp - Blocks that stages of a worker share --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory, steps and all-reduces of every (worker, layer), counted one by one
// from the layers of each stage, on any placement and for all families.
//
//===----------------------------------------------------------------------===//

#include "../Support/AllFamilies.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/Analysis/Graph/TaskEnds.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Table/ParameterSets.h"
#include <random>
#include <set>

using namespace pipesched;

static constexpr int64_t kLayers = 12;

/// Embedding, 12 layers of three kinds, head.
static ModelFacts modelOfKinds() {
  ModelFacts model;
  model.name = "kinds";
  model.sequence = 27720; // equal slices up to 12
  model.blocks = {blockOf(BlockPosition::First, 1, 1000000),
                  blockOf(BlockPosition::Layer, 3, 1),
                  blockOf(BlockPosition::Layer, 4, 100),
                  blockOf(BlockPosition::Layer, 5, 10000),
                  blockOf(BlockPosition::Last, 2, 100000000)};
  model.weightBytesPerParameter = 2;
  model.gradientBytesPerParameter = 3;
  model.optimizerBytesPerParameter = 5;
  return model;
}

/// Layers -1 (embedding) to kLayers (head) of each stage.
static std::vector<std::set<int64_t>> layersOf(const Placement &placement) {
  std::vector<int64_t> counts =
      llvm::cantFail(splitLayers(placement, modelOfKinds()));
  std::vector<std::set<int64_t>> result(counts.size());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t first = placement.stageOffset(path), layer = 0;
    int64_t last = placement.stageOffset(path + 1) - 1;
    result[first].insert(-1);
    for (int64_t stage = first; stage <= last; ++stage)
      for (int64_t i = 0; i < counts[stage]; ++i)
        result[stage].insert(layer++);
    result[last].insert(kLayers);
  }
  return result;
}

static int64_t parametersOf(int64_t layer) {
  return layer < 0         ? 1000000
         : layer < 3       ? 1
         : layer < 7       ? 100
         : layer < kLayers ? 10000
                           : 200000000;
}

static bool intersects(const std::set<int64_t> &a, const std::set<int64_t> &b) {
  return llvm::any_of(a, [&](int64_t layer) { return b.count(layer); });
}

/// The layers that each stage owns.
static std::vector<std::set<int64_t>> ownedLayersOf(const Placement &placement,
                                                    const ParameterSets &sets) {
  std::vector<std::set<int64_t>> result(placement.getNumGlobalStages());
  const Replicas &replicas = sets.getReplicas();
  for (auto [stage, layers] : llvm::enumerate(result))
    for (int64_t piece : sets.ownedPiecesOf(stage)) {
      BlockSpan blocks = replicas.blocksOf(piece);
      int64_t perLayer = replicas.getNumBlocks();
      for (int64_t layer = 0; layer < kLayers; ++layer)
        if (blocks.begin * kLayers < (layer + 1) * perLayer &&
            layer * perLayer < blocks.end * kLayers)
          layers.insert(layer);
      if (piece == 0)
        layers.insert(-1);
      if (piece + 1 == replicas.getNumPieces())
        layers.insert(kLayers);
    }
  return result;
}

/// A path whose stages are given by blocks, by weights, or not at all.
static Path randomPath(int64_t numWorkers, std::mt19937 &random) {
  static constexpr int64_t counts[] = {1, 2, 3, 4, 6};
  Path path;
  path.workers.resize(counts[random() % 5]);
  for (int32_t &worker : path.workers)
    worker = random() % numWorkers;
  switch (random() % 3) {
  case 0:
    path.blocks.assign(path.workers.size(), 0);
    for (int64_t layer = 0; layer < kLayers; ++layer)
      ++path.blocks[random() % path.blocks.size()];
    break;
  case 1: // halves of 1 : 2, of 2 or 4 stages
    for (size_t stage = 0; stage < path.workers.size(); ++stage)
      path.weights.push_back(stage < path.workers.size() / 2 ? 1 : 2);
    if (path.workers.size() % 2 != 0 || path.workers.size() == 6)
      path.weights.clear();
    break;
  default:
    break;
  }
  return path;
}

static Placement randomPlacement(int64_t numWorkers, std::mt19937 &random) {
  int64_t numPaths = 1 + random() % 4;
  std::vector<Path> paths;
  for (int64_t p = 0; p < numPaths; ++p) {
    paths.push_back(randomPath(numWorkers, random));
    paths.back().takes = {{p, p + numPaths + 1, numPaths}};
  }
  return makePlacement(numWorkers, 2 * numPaths, paths);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static void checkMemory(const Placement &placement) {
  std::vector<std::set<int64_t>> layers = layersOf(placement);
  MemoryFacts facts =
      llvm::cantFail(computeMemoryFacts(placement, modelOfKinds(), nullptr));
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    std::set<int64_t> held;
    int64_t weights = 0, gradients = 0, state = 0, parameters = 0;
    for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
      if (placement.workerOf(stage) != worker)
        continue;
      held.insert(layers[stage].begin(), layers[stage].end());
      weights += facts.stages[stage].weightBytes;
      gradients += facts.stages[stage].gradientBytes;
      state += facts.stages[stage].optimizerBytes;
      // Activations are of the whole stage.
      int64_t kept = layers[stage].size() + layers[stage].count(kLayers);
      EXPECT_EQ(facts.stages[stage].activationBytes, kept);
    }
    for (int64_t layer : held)
      parameters += parametersOf(layer);
    EXPECT_EQ(weights, 2 * parameters);
    EXPECT_EQ(gradients, 3 * parameters);
    EXPECT_EQ(state, 5 * parameters);
  }
}

TEST(SharedBlocks, MemoryCountsABlockOncePerWorker) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    checkMemory(randomPlacement(3, random));
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static bool addsGradient(Cell cell) {
  return cell.is(Phase::Backward) || cell.is(Phase::WeightGrad);
}

namespace {
/// When the gradients of each stage are complete, each O starts, and each
/// all-reduce runs.
struct StageTimes {
  std::vector<int64_t> gradientEnd, stepStart, numSteps; ///< by global stage
  std::vector<int64_t> reductionStart, reductionEnd;     ///< by all-reduce
};
} // namespace

/// Gives each task a random time and runs them.
static StageTimes runTasks(const Placement &placement, const TaskGraph &graph,
                           std::mt19937 &random) {
  TaskTimes times;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    times.occupancyPs.push_back(random() % 10);
    bool isRecv = graph.kind[task] == InstructionKind::Recv;
    times.latencyPs.push_back(
        graph.is(task, InstructionRole::Compute) || isRecv ? 0 : random() % 10);
  }
  Timeline timeline = computeTimeline(graph, times);
  TaskEnds ends(graph, times, timeline);
  int64_t numStages = placement.getNumGlobalStages();
  StageTimes result = {std::vector<int64_t>(numStages, 0),
                       std::vector<int64_t>(numStages, -1),
                       std::vector<int64_t>(numStages, 0),
                       {},
                       {}};
  auto visit = [&](Cell cell, uint32_t task) {
    int64_t stage = placement.globalStage(cell);
    int64_t &gradient = result.gradientEnd[stage];
    if (addsGradient(cell))
      gradient = std::max(gradient, ends.releasePs(task));
    if (!cell.is(Phase::Optimizer))
      return;
    result.stepStart[stage] = ends.startPs(task);
    ++result.numSteps[stage];
  };
  for (uint32_t task = 0; task < graph.size(); ++task)
    if (graph.is(task, InstructionRole::Compute)) {
      visit(graph.cell[task], task);
      if (graph.cell[task].overlapsNext())
        visit(graph.overlapped[task], task);
    }
  for (uint32_t task : graph.groupTasks) {
    result.reductionStart.push_back(ends.startPs(task));
    result.reductionEnd.push_back(ends.arrivalPs(task));
  }
  return result;
}

/// Every (worker, layer) is stepped once, after the gradients that any stage of
/// the worker adds to it.
static void checkSteps(const Placement &placement, const StageTimes &times) {
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  std::vector<std::set<int64_t>> layers = layersOf(placement),
                                 owned = ownedLayersOf(placement, sets);
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    std::set<int64_t> held;
    std::multiset<int64_t> stepped;
    for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
      if (placement.workerOf(stage) != worker)
        continue;
      held.insert(layers[stage].begin(), layers[stage].end());
      for (int64_t i = 0; i < times.numSteps[stage]; ++i)
        stepped.insert(owned[stage].begin(), owned[stage].end());
      if (times.numSteps[stage] == 0)
        continue;
      for (int64_t other = 0; other < placement.getNumGlobalStages(); ++other)
        if (placement.workerOf(other) == worker &&
            intersects(layers[other], owned[stage]))
          EXPECT_GE(times.stepStart[stage], times.gradientEnd[other]);
    }
    EXPECT_TRUE(
        std::equal(held.begin(), held.end(), stepped.begin(), stepped.end()));
  }
}

/// A worker is in the group of each piece that it and others hold, once, unless
/// there are no all-reduces.
static void checkGroups(const Placement &placement, const TaskGraph &graph,
                        ReductionPlace place) {
  Replicas replicas = llvm::cantFail(Replicas::create(placement));
  int64_t numGroups = 0;
  for (int64_t piece = 0; piece < replicas.getNumPieces(); ++piece) {
    std::set<int32_t> workers;
    for (int64_t path = 0; path < placement.getNumPaths(); ++path)
      workers.insert(placement.workerOf(replicas.holderOf(piece, path)));
    auto found = llvm::find_if(graph.groups, [&](const GroupName &group) {
      return group.blocks == replicas.blocksOf(piece);
    });
    bool isReduced = found != graph.groups.end();
    numGroups += isReduced;
    // A stage that owns replicated blocks reduces its others as well.
    if (workers.size() > 1 || place == ReductionPlace::None)
      EXPECT_EQ(isReduced, place != ReductionPlace::None);
    if (isReduced)
      EXPECT_TRUE(
          llvm::equal(graph.workersOf(found - graph.groups.begin()), workers));
  }
  EXPECT_EQ(numGroups, llvm::count_if(graph.groups, [](const GroupName &group) {
              return group.grouping() == Grouping::Blocks;
            }));
}

/// All-reduces run between the gradients of all stages that hold their blocks,
/// and the O of the stage that owns these.
static void checkReductions(const Placement &placement, const TaskGraph &graph,
                            const StageTimes &times) {
  ParameterSets sets = llvm::cantFail(ParameterSets::create(placement));
  const Replicas &replicas = sets.getReplicas();
  for (auto [number, group] : llvm::enumerate(graph.groups))
    for (int64_t piece : replicas.piecesIn(group.blocks))
      for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
        int64_t stage = replicas.holderOf(piece, path);
        EXPECT_GE(times.reductionStart[number], times.gradientEnd[stage]);
        if (llvm::is_contained(sets.ownedPiecesOf(stage), piece))
          EXPECT_GE(times.stepStart[stage], times.reductionEnd[number]);
      }
}

static void checkTable(const Table &table, std::mt19937 &random) {
  const Placement &placement = table.placement;
  for (ReductionPlace place :
       {ReductionPlace::End, ReductionPlace::Eager, ReductionPlace::None}) {
    Table stepped = table;
    stepped.rows = llvm::cantFail(addOptimizerStep(table.view(), place)).rows;
    ASSERT_TRUE(isSound(stepped));
    Program program =
        llvm::cantFail(lowerTable(stepped.view(), ReceivePlacement::Arrival));
    for (Transport transport : {Transport::Overlap, Transport::Delay}) {
      TaskGraph graph = llvm::cantFail(buildTaskGraph(program, transport));
      checkGroups(placement, graph, place);
      StageTimes times = runTasks(placement, graph, random);
      checkSteps(placement, times);
      checkReductions(placement, graph, times);
    }
  }
}

TEST(SharedBlocks, EachIsSteppedOnceAfterAllGradients) {
  std::mt19937 random(1);
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    GreedyOptions options;
    options.splitBackward = random() % 2;
    checkTable(
        llvm::cantFail(generateGreedy(randomPlacement(3, random), options)),
        random);
  }
}

/// All families on their own placements. If stages do not divide the layers the
/// placement is tried with random blocks; its rows stay.
TEST(SharedBlocks, OfAllFamilies) {
  std::mt19937 random(1);
  forAllFamilies(
      4, 6, FamilyOptions(), [&](const Family &, const Table &table) {
        if (HasFailure() || table.placement.getNumSlices() > 1)
          return; // a slice keeps a part of a block's byte
        if (hasShards(table))
          return; // sums of the gradients of shards have no costs
        Table changed = table;
        std::vector<Path> paths = table.placement.getPaths();
        for (Path &path : paths) {
          path.weights.clear();
          path.blocks.assign(path.workers.size(), 0);
          for (int64_t layer = 0; layer < kLayers; ++layer)
            ++path.blocks[random() % path.blocks.size()];
        }
        changed.placement =
            makePlacement(table.placement.getNumWorkers(),
                          table.placement.getNumMicrobatches(), paths);
        checkMemory(changed.placement);
        checkTable(changed, random);
      });
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// Stage 0 of path 0 owns 2 of its 3 blocks, stage 1 of path 1 all 4; stage 1
/// of path 0 is the only one on its worker.
TEST(SharedBlocks, TimesFollowTheBlocksThatAStageOwns) {
  std::vector<Path> paths = {pathOn({0, 1}, {{0, 1, 1}}),
                             pathOn({1, 0}, {{1, 2, 1}})};
  paths[0].blocks = {6, 6};
  paths[1].blocks = {4, 8};
  Placement placement = makePlacement(2, 2, paths);
  Profile profile;
  auto set = [&](Phase phase, int64_t ps) { profile.phasePs[phase] = {ps}; };
  set(Phase::Forward, 1);
  set(Phase::Backward, 1);
  set(Phase::Optimizer, 300);
  set(Phase::AllReduce, 120);
  StageCosts costs = llvm::cantFail(costProfile(placement, profile, {}));
  auto times = [&](Phase phase) {
    std::vector<int64_t> result;
    for (const StageCost &stage : costs.stages)
      result.push_back(ps(stage, phase));
    return result;
  };
  EXPECT_EQ(times(Phase::Optimizer),
            std::vector<int64_t>({200, 300, 300, 300}));
  EXPECT_EQ(times(Phase::AllReduce), std::vector<int64_t>({80, 120, 120, 120}));
  // The 8 blocks that stage 1 of path 1 owns are reduced in two parts; worker 1
  // holds the second.
  Reduction reduction;
  reduction.cell = parseCell("1G1");
  reduction.blocks = {6, 12};
  EXPECT_EQ(
      llvm::cantFail(shareReductions(placement, {reduction}, costs, nullptr))[0]
          .occupancyPs,
      120 * 6 / 8);

  // By roofline O moves the bytes of the blocks that the stage owns.
  costs =
      llvm::cantFail(costRoofline(placement, modelOfKinds(), toySystem(), {}));
  EXPECT_EQ(ps(costs.stages[0], Phase::Optimizer),
            (1000000 + 3 + 100) * (3 + 2 + 2 * 5));
}
