//===- WalkedTablesTest.cpp - Evaluations with and without a graph --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// evaluateTable walks tables with offloads and all-reduces; its results must
// equal the results of executeTable with a graph, under costs of every kind.
//
//===----------------------------------------------------------------------===//

#include "../Support/AllFamilies.h"
#include "../Support/ChangedTables.h"
#include "../Support/ToyCosts.h"
#include "PipeSched/Evaluation/Evaluate.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Table/Groups.h"
#include "gtest/gtest.h"

using namespace pipesched;

namespace {

/// Counts the comparisons of the tests.
struct Compared {
  int walked = 0, reduced = 0, copied = 0;
};

} // namespace

/// A model of `layers` equal layers, on a system with peers and a host link.
static CostInputs modelCosts(int64_t layers) {
  BlockFacts block;
  block.name = "layer";
  block.count = layers;
  block.parameters = 1000;
  block.activationBytes = 50;
  block.weightGradBytes = 20;
  block.kernels = {{"linear", Engine::Matrix, {100, 60}, {200, 60}, {100, 60}}};
  CostInputs costs;
  costs.model.emplace();
  costs.model->name = "toy";
  costs.model->sequence = 27720; // equal slices up to 12
  costs.model->boundaryBytes = 40;
  costs.model->blocks = {block};
  costs.system = toySystem();
  costs.system->link = {1000000000000, 3, {}};
  costs.system->host = {500000000000, 7, {}};
  costs.system->dataParallel = 2;
  return costs;
}

/// All-reduces of stages differ.
static CostInputs profileCosts(bool hasReductions, int64_t numStages) {
  CostInputs costs;
  costs.profile.emplace();
  auto set = [&](Phase phase, int64_t ps) {
    costs.profile->phasePs[phase] = {ps};
  };
  set(Phase::Forward, 100);
  set(Phase::Backward, 190);
  set(Phase::Offload, 130);
  set(Phase::Reload, 120);
  set(Phase::Optimizer, 40);
  std::vector<int64_t> &reductions = costs.profile->phasePs[Phase::AllReduce];
  for (int64_t stage = 0; hasReductions && stage != numStages; ++stage)
    reductions.push_back(300 + 70 * (stage % 3));
  costs.profile->commPs = {17};
  return costs;
}

static void expectSame(const ExecutionTotals &walked,
                       const ExecutionTotals &wanted) {
  EXPECT_EQ(walked.makespanPs, wanted.makespanPs);
  EXPECT_EQ(walked.freeMakespanPs, wanted.freeMakespanPs);
  EXPECT_EQ(walked.criticalSteps, wanted.criticalSteps);
  EXPECT_EQ(walked.idle.communicationPs, wanted.idle.communicationPs);
  EXPECT_EQ(walked.idle.queueOrderPs, wanted.idle.queueOrderPs);
  EXPECT_EQ(walked.idle.offloadPs, wanted.idle.offloadPs);
  EXPECT_EQ(walked.traffic.messages, wanted.traffic.messages);
  EXPECT_EQ(walked.traffic.copies, wanted.traffic.copies);
  EXPECT_EQ(walked.traffic.bytesSent, wanted.traffic.bytesSent);
  ASSERT_EQ(walked.memory.has_value(), wanted.memory.has_value());
  if (!walked.memory)
    return;
  for (auto [one, other] :
       llvm::zip_equal(walked.memory->workers, wanted.memory->workers)) {
    EXPECT_EQ(one.peakBytes(), other.peakBytes());
    EXPECT_EQ(one.peakPs, other.peakPs);
    EXPECT_EQ(one.offloadedBytes, other.offloadedBytes);
  }
}

static std::vector<int64_t>
occupanciesOf(llvm::ArrayRef<MessageCost> messages) {
  std::vector<int64_t> occupancies;
  for (const MessageCost &message : messages)
    occupancies.push_back(message.occupancyPs);
  return occupancies;
}

static void compare(const Table &table, const CostInputs &costs,
                    const TimingOptions &options, Compared &compared) {
  TableView view = table.view();
  llvm::Expected<Execution> wanted = executeTable(view, costs, options);
  llvm::Expected<Evaluation> found = evaluateTable(view, "", costs, options);
  ASSERT_EQ(static_cast<bool>(found), static_cast<bool>(wanted));
  if (!wanted) {
    EXPECT_EQ(llvm::toString(found.takeError()),
              llvm::toString(wanted.takeError()));
    return;
  }
  expectSame(found->totals, *wanted);
  if (!found->execution) {
    Execution expanded =
        llvm::cantFail(expandTotals(view, found->totals, options));
    EXPECT_TRUE(expanded.graph.groups == wanted->graph.groups);
    EXPECT_EQ(occupanciesOf(found->totals.stageCosts.reductions),
              occupanciesOf(wanted->stageCosts.reductions));
    EXPECT_EQ(expanded.timeline.startPs, wanted->timeline.startPs);
    EXPECT_EQ(expanded.times.occupancyPs, wanted->times.occupancyPs);
    EXPECT_EQ(expanded.times.latencyPs, wanted->times.latencyPs);
  }
  compared.walked += !found->execution;
  compared.reduced += !found->execution && !wanted->graph.groups.empty();
  compared.copied += !found->execution && wanted->traffic.copies > 0;
}

TEST(WalkedTables, AllFamilies) {
  Compared compared;
  uint32_t seed = 1;
  forAllFamilies(4, 8, {}, [&](const Family &, const Table &plain) {
    Table table = seed % 2 ? plain : withCopies(plain, seed, 2);
    constexpr ReductionPlace kPlaces[] = {
        ReductionPlace::End, ReductionPlace::Eager, ReductionPlace::None};
    constexpr ReducedStages kStages[] = {ReducedStages::Replicated,
                                         ReducedStages::All};
    llvm::Expected<OptimizerChange> change = addOptimizerStep(
        table.view(), kPlaces[seed % 3], kStages[seed / 3 % 2]);
    if (!change)
      return llvm::consumeError(change.takeError());
    table.rows = std::move(change->rows);
    TimingOptions options;
    options.transport = seed % 5 ? Transport::Overlap : Transport::Delay;
    if (seed % 7 == 0)
      options.disturbance = llvm::cantFail(parseDisturbance("jitter=7%"));
    ++seed;
    compare(table, modelCosts(3 * table.placement.getNumGlobalStages()),
            options, compared);
    compare(table, profileCosts(seed % 2, table.placement.getNumStages(0)),
            options, compared);
    compare(table, {}, options, compared);
  });
  EXPECT_GT(compared.walked, 500);
  EXPECT_GT(compared.reduced, 200);
  EXPECT_GT(compared.copied, 200);
}

/// Path 1 cuts the model elsewhere than path 0, so that worker 0 reduces two
/// pieces at one G: the graph times them.
TEST(WalkedTables, SeveralGroupsOfOneCellTakeTheGraph) {
  Table table = llvm::cantFail(generate(*findFamily("chimera"), 2, 4));
  std::vector<Path> paths = table.placement.getPaths().vec();
  paths[0].blocks = {3, 1};
  paths[1].blocks = {2, 2};
  table.placement = llvm::cantFail(Placement::create(2, 4, paths));
  table.rows = llvm::cantFail(addOptimizerStep(table.view())).rows;
  EXPECT_FALSE(llvm::cantFail(Groups::create(table.view())).eachMeetsOnce());
  Compared compared;
  compare(table, modelCosts(4), {}, compared);
  EXPECT_EQ(compared.walked, 0);
}
