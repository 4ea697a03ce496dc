//===- MicrobatchCosts.cpp - Costs of unequal microbatches ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs everything for each microbatch, and joins the costs of each stage: they
// are then by unit.
//
//===----------------------------------------------------------------------===//

#include "MicrobatchCosts.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

static Error checkLists(const Placement &placement, llvm::StringRef name,
                        const MicrobatchTimes &lists) {
  int64_t numLists = lists.size();
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    if (int64_t stages = placement.getNumStages(path);
        numLists > 1 && numLists != stages)
      return formatError("the profile's microbatches.{0} has {1} lists, "
                         "expected one or one for each of the {2} stages of "
                         "path {3}",
                         name, numLists, stages, path);
  for (auto [number, list] : llvm::enumerate(lists))
    if (int64_t wanted = placement.getNumMicrobatches(), found = list.size();
        found != wanted)
      return formatError(
          "{0} has {1} times, expected one for each of the {2} "
          "microbatches",
          numLists == 1
              ? llvm::formatv("the profile's microbatches.{0}", name).str()
              : llvm::formatv("list {0} of the profile's microbatches.{1}",
                              number, name)
                    .str(),
          found, wanted);
  return Error::success();
}

/// The profile of one microbatch: its times replace the lists.
static Profile profileOf(const Profile &profile, int64_t microbatch) {
  Profile alone = profile;
  alone.microbatches = {};
  for (llvm::StringRef name : microbatchNames())
    for (const std::vector<int64_t> &list :
         *findTimes(profile.microbatches, name))
      findTimes(alone, name)->push_back(list[microbatch]);
  return alone;
}

static void addMessages(const UnitMessages &microbatch, int64_t numSlices,
                        UnitMessages &all) {
  if (microbatch.messagesOfSlices.empty())
    all.messagesOfSlices.insert(all.messagesOfSlices.end(), numSlices,
                                microbatch);
  else
    llvm::append_range(all.messagesOfSlices, microbatch.messagesOfSlices);
}

/// Keeps the messages of one unit if all are the same.
static void joinEqualMessages(UnitMessages &messages) {
  if (llvm::all_equal(messages.messagesOfSlices))
    messages.messagesOfSlices.clear();
}

/// Adds the units of one more microbatch. Costs that are the same for all its
/// slices are repeated.
static void addMicrobatch(const StageCost &microbatch, int64_t numSlices,
                          StageCost &all) {
  for (int64_t count = microbatch.cells.getNumSlices(); count <= numSlices;
       count += microbatch.cells.getNumSlices())
    all.cells.append(microbatch.cells);
  addMessages(microbatch, numSlices, all);
}

Expected<StageCosts> pipesched::costByMicrobatch(
    const Placement &placement, const CostInputs &costs,
    llvm::function_ref<Expected<StageCosts>(const CostInputs &)> cost) {
  const Profile &profile = *costs.profile;
  if (Error error = checkNames(profile))
    return std::move(error);
  for (llvm::StringRef name : microbatchNames())
    if (Error error =
            checkLists(placement, name, *findTimes(profile.microbatches, name)))
      return std::move(error);
  std::optional<StageCosts> all;
  CostInputs alone = costs;
  for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m) {
    alone.profile = profileOf(profile, m);
    Expected<StageCosts> own = cost(alone);
    if (!own)
      return own.takeError();
    if (!all) {
      all = *own;
      for (StageCost &stage : all->stages) {
        stage.cells = CellCosts(/*numSlices=*/0);
        stage.messagesOfSlices.clear();
      }
      for (EdgeCost &edge : all->edges)
        edge.messagesOfSlices.clear();
    }
    for (auto [stage, into] : llvm::zip_equal(own->stages, all->stages))
      addMicrobatch(stage, placement.getNumSlices(), into);
    for (auto [edge, into] : llvm::zip_equal(own->edges, all->edges))
      addMessages(edge, placement.getNumSlices(), into);
  }
  llvm::for_each(all->stages, joinEqualMessages);
  llvm::for_each(all->edges, joinEqualMessages);
  return std::move(*all);
}
