//===- ParameterSets.cpp - Blocks that a worker holds ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts the model, for each worker, where its stages start and end.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/ParameterSets.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <tuple>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Expected;
using llvm::formatv;

/// Whether `other` owns the blocks that both stages hold; both are on the same
/// worker.
bool ParameterSets::yields(int64_t stage, int64_t other) const {
  return std::forward_as_tuple(replicas.endPieceOf(stage),
                               replicas.firstPieceOf(other), other) <
         std::forward_as_tuple(replicas.endPieceOf(other),
                               replicas.firstPieceOf(stage), stage);
}

/// Adds the sets of one worker, whose stages are `local`:
///
///   stages   |    0    |    |   1   |         a gap is not a set
///               |      2      |
///   cuts     0  1      2    3 4     5
///   sets     |0 |  1   | 2  |3|  4  |
void ParameterSets::addWorker(ArrayRef<int64_t> local) {
  std::vector<int64_t> cuts;
  for (int64_t stage : local)
    if (!replicas.piecesOf(stage).empty()) {
      cuts.push_back(replicas.firstPieceOf(stage));
      cuts.push_back(replicas.endPieceOf(stage));
    }
  llvm::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  // For each interval between two cuts: the number of stages that hold it, and
  // the stage that owns it.
  int64_t numIntervals = cuts.empty() ? 0 : cuts.size() - 1;
  std::vector<int64_t> counts(numIntervals, 0), owner(numIntervals, -1);
  auto intervalsOf = [&](int64_t stage) {
    auto find = [&](int64_t cut) {
      return llvm::lower_bound(cuts, cut) - cuts.begin();
    };
    int64_t begin = find(replicas.firstPieceOf(stage));
    return llvm::seq(
        begin, std::max<int64_t>(begin, find(replicas.endPieceOf(stage))));
  };
  for (int64_t stage : local)
    if (!replicas.piecesOf(stage).empty())
      for (int64_t i : intervalsOf(stage)) {
        ++counts[i];
        if (owner[i] < 0 || yields(owner[i], stage))
          owner[i] = stage;
      }

  int64_t firstSet = getNumSets();
  for (int64_t i = 0; i < numIntervals; ++i) {
    if (counts[i] == 0)
      continue;
    pieceBegins.push_back(cuts[i]);
    pieceEnds.push_back(cuts[i + 1]);
    owners.push_back(owner[i]);
    stageBegins.push_back(stageBegins.back() + counts[i]);
  }
  addStages(local, firstSet);
  setBegins.push_back(getNumSets());
}

void ParameterSets::addStages(ArrayRef<int64_t> local, int64_t firstSet) {
  stages.resize(stageBegins.back());
  std::vector<int64_t> next(stageBegins.begin() + firstSet,
                            stageBegins.end() - 1);
  for (int64_t stage : local) {
    if (replicas.piecesOf(stage).empty())
      continue;
    auto firstNotBefore = [&](int64_t piece) {
      return llvm::lower_bound(llvm::ArrayRef(pieceBegins).drop_front(firstSet),
                               piece) -
             pieceBegins.data();
    };
    firstSets[stage] = firstNotBefore(replicas.firstPieceOf(stage));
    endSets[stage] = firstNotBefore(replicas.endPieceOf(stage));
    ownedEnds[stage] = firstSets[stage];
    for (int64_t set : setsOf(stage)) {
      stages[next[set - firstSet]++] = stage;
      if (owners[set] != stage)
        continue;
      assert(ownedEnds[stage] == set && "a stage owns the first of its sets");
      ownedEnds[stage] = set + 1;
    }
  }
}

Expected<ParameterSets> ParameterSets::create(const Placement &placement) {
  Expected<Replicas> replicas = Replicas::create(placement);
  if (!replicas)
    return replicas.takeError();
  ParameterSets sets(std::move(*replicas));
  sets.placement = &placement;
  int64_t numStages = placement.getNumGlobalStages();
  sets.firstSets.assign(numStages, 0);
  sets.endSets = sets.ownedEnds = sets.firstSets;

  // The stages of each worker in ascending order; localStage is the index
  // there.
  std::vector<int64_t> begins = {0};
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    begins.push_back(begins.back() + placement.getNumLocalStages(worker));
  std::vector<int64_t> local(numStages);
  for (int64_t stage = 0; stage < numStages; ++stage)
    local[begins[placement.workerOf(stage)] + placement.localStage(stage)] =
        stage;
  for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker)
    sets.addWorker(ArrayRef(local).slice(begins[worker],
                                         placement.getNumLocalStages(worker)));
  return std::move(sets);
}

llvm::iota_range<int64_t>
ParameterSets::ownedPiecesOf(int64_t globalStage) const {
  int64_t begin = replicas.firstPieceOf(globalStage);
  if (!ownsAny(globalStage))
    return llvm::seq(begin, begin);
  return llvm::seq(begin, pieceEnds[ownedEnds[globalStage] - 1]);
}

bool ParameterSets::isReplicated(int64_t globalStage) const {
  int64_t worker = placement->workerOf(globalStage);
  return llvm::any_of(ownedPiecesOf(globalStage), [&](int64_t piece) {
    return replicas.isHeldElsewhere(piece, worker);
  });
}

std::string ParameterSets::describeOwners(int64_t globalStage,
                                          Phase phase) const {
  auto nameOf = [&](int64_t stage) -> std::string {
    int64_t path = placement->pathOfStage(stage);
    return formatv("stage {0} of path {1}",
                   stage - placement->stageOffset(path), path);
  };
  if (setsOf(globalStage).empty())
    return nameOf(globalStage) + " has no blocks";
  llvm::SmallVector<int64_t> others;
  for (int64_t set : setsOf(globalStage))
    if (!llvm::is_contained(others, ownerOf(set)))
      others.push_back(ownerOf(set));
  const char *plural = others.size() == 1 ? "s" : "";
  std::string names, cells;
  for (int64_t owner : others) {
    int64_t path = placement->pathOfStage(owner);
    llvm::StringRef separator = names.empty() ? "" : " and ";
    names += (separator + nameOf(owner)).str();
    cells += formatv("{0}{1}", separator,
                     Cell(owner - placement->stageOffset(path), phase, path));
  }
  return formatv("worker {0} holds the blocks of {1} with {2}, whose {3} "
                 "{4}{5} them ({6})",
                 placement->workerOf(globalStage), nameOf(globalStage), names,
                 phaseLetter(phase),
                 phase == Phase::Optimizer ? "step" : "reduce", plural, cells);
}
