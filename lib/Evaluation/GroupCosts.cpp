//===- GroupCosts.cpp - Costs on groups of nodes --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the costs of all stages on each group, and takes from each group
// only its own stages.
//
//===----------------------------------------------------------------------===//

#include "GroupCosts.h"

using namespace pipesched;
using llvm::Expected;

namespace {
/// Pair times by the group of the worker, which is the same for both cells.
class GroupPairTimes final : public PairTimes {
public:
  GroupPairTimes(std::vector<std::shared_ptr<const PairTimes>> times)
      : times(std::move(times)) {}
  PairTime timeOf(int64_t forwardStage, int64_t backwardStage) const override {
    return times[forwardStage]->timeOf(forwardStage, backwardStage);
  }

private:
  std::vector<std::shared_ptr<const PairTimes>> times; ///< by global stage
};
} // namespace

static CostInputs costsOfGroup(const CostInputs &costs, size_t group) {
  CostInputs alone = costs;
  alone.system = systemOfGroup(*costs.system, group);
  return alone;
}

Expected<StageCosts> pipesched::costByGroups(
    const Placement &placement, const CostInputs &costs,
    llvm::function_ref<Expected<StageCosts>(const CostInputs &)> cost) {
  std::vector<size_t> groups;
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
    Expected<size_t> group = groupOfWorker(*costs.system, worker);
    if (!group)
      return group.takeError();
    groups.push_back(*group);
  }
  std::optional<StageCosts> merged;
  std::vector<std::shared_ptr<const PairTimes>> pairs(
      placement.getNumGlobalStages());
  for (size_t group = 0; group < costs.system->groups.size(); ++group) {
    if (!llvm::is_contained(groups, group))
      continue;
    Expected<StageCosts> alone = cost(costsOfGroup(costs, group));
    if (!alone)
      return alone.takeError();
    if (!merged)
      merged = *alone;
    for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage)
      if (groups[placement.workerOf(stage)] == group) {
        merged->stages[stage] = alone->stages[stage];
        pairs[stage] = alone->pairTimes;
      }
    for (auto [edge, into] : llvm::zip_equal(alone->edges, merged->edges)) {
      if (groups[placement.workerOf(edge.from)] == group)
        into.activation = edge.activation;
      if (groups[placement.workerOf(edge.to)] == group)
        into.gradient = edge.gradient;
    }
  }
  if (merged->pairTimes)
    merged->pairTimes = std::make_shared<GroupPairTimes>(std::move(pairs));
  return std::move(*merged);
}

Expected<std::vector<MessageCost>> pipesched::costReductionsByGroups(
    llvm::ArrayRef<Reduction> reductions, const CostInputs &costs,
    llvm::function_ref<Expected<std::vector<MessageCost>>(const CostInputs &)>
        cost) {
  std::vector<std::vector<MessageCost>> found;
  for (size_t group = 0; group < costs.system->groups.size(); ++group)
    if (llvm::Error error =
            cost(costsOfGroup(costs, group)).moveInto(found.emplace_back()))
      return std::move(error);
  std::vector<MessageCost> merged;
  for (auto [number, reduction] : llvm::enumerate(reductions)) {
    Expected<size_t> group = groupOfWorker(*costs.system, reduction.lastWorker);
    if (!group)
      return group.takeError();
    merged.push_back(found[*group][number]);
  }
  return merged;
}
