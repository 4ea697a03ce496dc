//===- PlacementEdges.cpp - The edges between the stages of a placement ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes one list of edges from chains of paths, nodes and added edges. The
// edges determine the cells that each stage runs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The kinds that paths and nodes state for their stages.
static std::vector<StageKind> kindsOf(llvm::ArrayRef<Path> paths,
                                      const AddedStages &added) {
  std::vector<StageKind> kinds;
  for (const Path &path : paths) {
    size_t first = kinds.size();
    kinds.resize(first + path.getNumStages(), path.backward.isNone
                                                  ? StageKind::NoBackward
                                                  : StageKind::Trained);
    for (int64_t stage : path.backward.frozen)
      kinds[first + stage] = StageKind::Frozen;
  }
  for (const StageNode &node : added.nodes)
    kinds.push_back(node.kind);
  return kinds;
}

/// The number of an edge's tensor among the tensors of its source: 0 is the
/// output, and others are numbered by the first edges that name them.
static int32_t numberTensor(llvm::ArrayRef<AddedEdge> edges,
                            const AddedEdge &edge) {
  std::vector<StringRef> names = {""};
  for (const AddedEdge &other : edges)
    if (other.from == edge.from && !llvm::is_contained(names, other.tensor))
      names.push_back(other.tensor);
  return llvm::find(names, edge.tensor) - names.begin();
}

/// Marks the units that nodes do not run.
void Placement::indexTakes() {
  for (const StageNode &node : added.nodes) {
    if (!node.takes)
      continue;
    skipped.resize(getNumPairs());
    auto first = skipped.begin() + pairOf(node.number, 0);
    std::fill_n(first, getNumUnits(), true);
    for (const MicrobatchRange &range : *node.takes)
      for (int64_t unit = range.begin; unit < range.end; unit += range.step)
        first[unit] = false;
  }
}

/// Chains lead along paths; added edges are of the only one.
Error Placement::indexEdges() {
  std::vector<StageEdge> all;
  for (auto [number, path] : llvm::enumerate(paths)) {
    int32_t first = stageOffset(number), end = first + path.getNumStages();
    for (int32_t stage = first + 1; stage < end; ++stage)
      all.push_back({stage - 1, stage, /*carriesGradient=*/true});
  }
  for (const AddedEdge &edge : added.edges)
    all.push_back({static_cast<int32_t>(edge.from),
                   static_cast<int32_t>(edge.to), edge.mayCarryGradient,
                   numberTensor(added.edges, edge)});
  std::vector<StageKind> kinds = kindsOf(paths, added);
  auto isTrained = [](StageKind kind) { return kind == StageKind::Trained; };
  if (!added.isEmpty() || !llvm::all_of(kinds, isTrained)) {
    Expected<std::vector<StageBackward>> found =
        stageBackwards(kinds, all, [&](int64_t s) { return nameStage(s); });
    if (!found)
      return found.takeError();
    if (llvm::any_of(*found, [](StageBackward backward) {
          return backward != StageBackward::Whole;
        }))
      backwards = std::move(*found);
  }
  edges = StageEdges(all, getNumGlobalStages());
  return Error::success();
}

/// So that lengths of stages add up within 64 bits.
static constexpr int64_t kMaxHeldBlocks = int64_t(1) << 31;

static std::string describeEdge(const AddedEdge &edge) {
  return llvm::formatv("edge {0} -> {1}", edge.from, edge.to);
}

static Error checkHeld(const StageNode &node) {
  for (auto [i, held] : llvm::enumerate(node.holds)) {
    if (held.count < 1 || held.count > kMaxHeldBlocks)
      return formatError("node {0} holds {1} blocks '{2}': there must be 1 to "
                         "{3}",
                         node.number, held.count, held.name, kMaxHeldBlocks);
    for (const HeldBlocks &other : llvm::ArrayRef(node.holds).take_front(i))
      if (other.name == held.name)
        return formatError("node {0} holds blocks '{1}' twice: give their "
                           "number once",
                           node.number, held.name);
  }
  return Error::success();
}

static Error checkNodes(const Path &path, llvm::ArrayRef<StageNode> nodes,
                        llvm::ArrayRef<AddedEdge> edges, int64_t numWorkers,
                        int64_t numMicrobatches) {
  int64_t next = path.getNumStages();
  if (next + static_cast<int64_t>(nodes.size()) > Cell::kMaxStages)
    return formatError("the path and nodes have {0} stages: there may be {1} "
                       "at most",
                       next + nodes.size(), Cell::kMaxStages);
  for (const StageNode &node : nodes) {
    if (node.number != next)
      return formatError("node {0} must have the number {1}: nodes are "
                         "numbered after the {2} stages of the path",
                         node.number, next, path.getNumStages());
    if (node.worker < 0 || node.worker >= numWorkers)
      return formatError("node {0} is on worker {1}, which is not one of the "
                         "{2} workers (0 to {3})",
                         next, node.worker, numWorkers, numWorkers - 1);
    if (llvm::none_of(edges, [&](const AddedEdge &edge) {
          return edge.from == next || edge.to == next;
        }))
      return formatError("node {0} has no edge", next);
    if (node.holds.empty() && !path.getStageLengths().empty())
      return formatError(
          "the path has blocks or weights, and node {0} does not "
          "say which blocks it holds",
          next);
    if (Error error = checkHeld(node))
      return error;
    if (node.takes)
      if (Error error = checkTakes("node " + llvm::Twine(next), *node.takes,
                                   numMicrobatches))
        return error;
    ++next;
  }
  return Error::success();
}

/// A tensor has one size, however many edges carry it.
static Error checkTensors(llvm::ArrayRef<AddedEdge> edges) {
  for (auto [i, edge] : llvm::enumerate(edges)) {
    if (edge.bytes && *edge.bytes < 0)
      return formatError("{0} carries {1} bytes: there cannot be fewer than 0",
                         describeEdge(edge), *edge.bytes);
    if (edge.bytes && edge.tensor.empty())
      return formatError("{0} has bytes of its own, and carries the output of "
                         "stage {1}: name its tensor",
                         describeEdge(edge), edge.from);
    for (const AddedEdge &other : edges.take_front(i))
      if (other.from == edge.from && other.tensor == edge.tensor &&
          other.bytes != edge.bytes)
        return formatError("{0} and {1} carry tensor '{2}' of stage {3}, and "
                           "say other bytes",
                           describeEdge(other), describeEdge(edge), edge.tensor,
                           edge.from);
  }
  return Error::success();
}

Error Placement::checkAdded() const {
  if (added.isEmpty())
    return Error::success();
  if (getNumPaths() != 1)
    return formatError("nodes and edges are of a schedule with a single path, "
                       "and there are {0}",
                       getNumPaths());
  if (numSlices != 1)
    return formatError("nodes and edges take whole microbatches, and each has "
                       "{0} slices",
                       numSlices);
  const Path &path = paths.front();
  if (Error error = checkNodes(path, added.nodes, added.edges, numWorkers,
                               numMicrobatches))
    return error;
  int64_t numStages = path.getNumStages() + added.nodes.size();
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (const AddedEdge &edge : added.edges) {
    for (int64_t end : {edge.from, edge.to})
      if (end < 0 || end >= numStages)
        return formatError("{0}: there is no stage {1}; the path and nodes "
                           "have stages 0 to {2}",
                           describeEdge(edge), end, numStages - 1);
    if (edge.to == edge.from + 1 && edge.to < path.getNumStages())
      return formatError("{0} exists already: a path is a chain",
                         describeEdge(edge));
    seen.emplace_back(edge.from, edge.to);
  }
  llvm::sort(seen);
  auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end())
    return formatError("{0} occurs twice",
                       describeEdge({twice->first, twice->second}));
  return checkTensors(added.edges);
}

//===----------------------------------------------------------------------===//
// Names and refusals
//===----------------------------------------------------------------------===//

std::string Placement::nameStage(int64_t globalStage) const {
  int64_t path = pathOfStage(globalStage);
  int64_t stage = globalStage - stageOffset(path);
  if (stage >= paths[path].getNumStages())
    return llvm::formatv("node {0}", stage);
  return llvm::formatv("stage {0} of path {1}", stage, path);
}

std::string Placement::describeBackward(int64_t globalStage) const {
  int64_t path = pathOfStage(globalStage);
  int64_t stage = globalStage - stageOffset(path);
  bool isNode = stage >= paths[path].getNumStages();
  if (!isNode && paths[path].backward.isNone)
    return llvm::formatv("path {0} is forward only, so its stages run only F",
                         path);
  std::string name = nameStage(globalStage);
  StageKind kind = kindsOf(paths, added)[globalStage];
  if (kind == StageKind::NoBackward)
    return name + " has no backward, so it runs only F";
  if (backwardOf(globalStage) == StageBackward::Input)
    return name + " is frozen after a stage that trains, so it runs F and, for "
                  "the gradient of its input, I";
  if (kind == StageKind::Trained)
    return name + " leads to no loss, so it runs only F";
  return name + " is frozen and no stage before it trains, so it runs only F";
}

Error Placement::checkChains(StringRef reader) const {
  if (added.isEmpty())
    return Error::success();
  return formatError("{0} only chains of stages: the schedule has {1}", reader,
                     describeEdge(added.edges.front()));
}

Error Placement::checkTrainsAll(StringRef reader) const {
  if (Error error = checkChains(reader))
    return error;
  if (trainsAll())
    return Error::success();
  auto isOther = [](StageBackward kind) {
    return kind != StageBackward::Whole;
  };
  return formatError(
      "{0} only stages that all train: {1}", reader,
      describeBackward(llvm::find_if(backwards, isOther) - backwards.begin()));
}
