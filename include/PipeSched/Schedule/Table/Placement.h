//===- Placement.h - Paths of microbatches through the workers -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A path is the sequence of stages that a microbatch goes through; entry s is
// the worker of stage s. A placement consists of paths only (arXiv 2605.24006,
// section on tables).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_PLACEMENT_H
#define PIPESCHED_SCHEDULE_TABLE_PLACEMENT_H

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "PipeSched/Schedule/Table/StageBackward.h"
#include "PipeSched/Schedule/Table/StageEdges.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace pipesched {

inline constexpr int64_t kMaxWorkers = 65536;

/// Microbatches `begin`, `begin + step`, ... below `end`.
struct MicrobatchRange {
  int64_t begin = 0, end = 0, step = 1;

  int64_t size() const {
    return end <= begin ? 0 : (end - begin - 1) / step + 1;
  }
  friend bool operator==(const MicrobatchRange &a, const MicrobatchRange &b) {
    return a.begin == b.begin && a.end == b.end && a.step == b.step;
  }
};

/// One path. `takes` is empty if the only path takes all microbatches, or until
/// a generator assigns them; `blocks` is empty if the model is split evenly.
/// `weights` are relative lengths of the stages until a model gives numbers of
/// blocks. At most one of `blocks` and `weights` is given.
struct Path {
  std::vector<int32_t> workers;
  std::vector<MicrobatchRange> takes;
  std::vector<int64_t> blocks;
  std::vector<int64_t> weights;
  PathBackward backward; ///< the stages that do not train

  int64_t getNumStages() const { return workers.size(); }
  /// The blocks if given, else the weights; empty if all stages are equal.
  llvm::ArrayRef<int64_t> getStageLengths() const {
    return blocks.empty() ? weights : blocks;
  }
};

/// `count` blocks of the model with this name.
struct HeldBlocks {
  std::string name;
  int64_t count = 1;
};

/// A stage that is on no path. The numbers of nodes continue those of the
/// stages of the path that the microbatches take.
struct StageNode {
  int64_t number;
  int32_t worker;
  StageKind kind = StageKind::Trained;
  /// The microbatches that run the node; absent: all. Its edges do not exist
  /// for others.
  std::optional<std::vector<MicrobatchRange>> takes = std::nullopt;
  std::vector<HeldBlocks> holds = {}; ///< empty: no blocks of a model
};

/// An edge between stages or nodes by their numbers, besides the chain of the
/// path. It passes the output of its first stage, or another tensor of it.
struct AddedEdge {
  int64_t from, to;
  bool mayCarryGradient = true;
  std::string tensor = {};                     ///< empty: the output
  std::optional<int64_t> bytes = std::nullopt; ///< absent: as the output has
};

/// The stages and edges of a placement in addition to the chains of its paths.
struct AddedStages {
  std::vector<StageNode> nodes;
  std::vector<AddedEdge> edges;

  bool isEmpty() const { return nodes.empty() && edges.empty(); }
};

/// An error in one of the paths of a placement.
class PathError : public llvm::ErrorInfo<PathError> {
public:
  static char ID; // NOLINT(readability-identifier-naming): LLVM's name
  PathError(int64_t path, std::string message)
      : path(path), message(std::move(message)) {}

  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }
  int64_t getPath() const { return path; }
  llvm::StringRef getMessage() const { return message; }

private:
  int64_t path; ///< its number among the paths
  std::string message;
};

/// The problem: workers, microbatches and paths, with O(1) lookups for loops
/// over cells.
///
/// The stages of all paths are numbered consecutively as "global stages": path
/// p owns [stageOffset(p), stageOffset(p) + S_p). Nodes belong to the only
/// path, after its chain.
class Placement {
public:
  Placement() = default;

  /// Checks and indexes. Errors, as PathError: a path that is empty or names a
  /// worker outside 0..numWorkers-1; `takes` that are out of range; `blocks` or
  /// `weights` of another length than the path, or both; frozen stages that the
  /// path does not have. Other errors: sizes out of range; `takes` that leave a
  /// microbatch on no path or put it on two. Several paths without any `takes`
  /// are accepted and are `!isAssigned()`. Errors of nodes and added edges:
  /// those of stageBackwards; several paths, or slices; numbers that leave a
  /// gap; no such stage, worker or microbatch; a node without an edge, or
  /// without blocks where the path has blocks or weights; an edge that is there
  /// already; a tensor with several sizes. Linear in stages, paths and ranges;
  /// several paths, or `takes` other than one range of all, take time and
  /// memory linear in microbatches, at most 2^28 of them.
  static llvm::Expected<Placement>
  create(int64_t numWorkers, int64_t numMicrobatches, std::vector<Path> paths,
         int64_t numSlices = 1, AddedStages added = {});

  int64_t getNumWorkers() const { return numWorkers; }
  int64_t getNumMicrobatches() const { return numMicrobatches; }
  llvm::ArrayRef<Path> getPaths() const { return paths; }
  const Path &getPath(int64_t path) const { return paths[path]; }
  int64_t getNumPaths() const { return paths.size(); }
  /// The nodes, and the edges outside of the chains.
  const AddedStages &getAdded() const { return added; }

  /// The number of slices into which each microbatch is divided along its
  /// tokens. A slice of a microbatch is a unit: cells run it, messages carry it
  /// and indices number it. Gradients, losses and batches refer to whole
  /// microbatches.
  int64_t getNumSlices() const { return numSlices; }
  int64_t getNumUnits() const { return numMicrobatches * numSlices; }
  int64_t unitOf(int64_t microbatch, int64_t slice) const {
    return microbatch * numSlices + slice;
  }
  int64_t microbatchOf(int64_t unit) const { return unit / numSlices; }
  int64_t sliceOf(int64_t unit) const { return unit % numSlices; }
  /// The text of a cell of this table.
  CellName nameOf(Cell cell) const { return {cell, numSlices}; }

  /// Whether every microbatch is assigned to a path.
  bool isAssigned() const { return paths.size() == 1 || !pathOfUnit.empty(); }
  /// The path of a unit, which all slices of a microbatch take; requires
  /// isAssigned().
  int64_t pathOf(int64_t unit) const {
    return pathOfUnit.empty() ? 0 : pathOfUnit[unit];
  }
  /// The number of earlier units on the same path.
  int64_t rankOnPath(int64_t unit) const {
    return rankOfUnit.empty() ? unit : rankOfUnit[unit];
  }
  int64_t rankOf(Cell cell) const { return rankOnPath(cell.getUnit()); }
  /// The number of units on a path.
  int64_t countOnPath(int64_t path) const { return counts[path]; }
  /// The path that contains the stage of a cell (for O and G, its number).
  int64_t pathOf(Cell cell) const {
    return cell.isPerPath() ? cell.getPath() : pathOf(cell.getUnit());
  }

  int64_t stageOffset(int64_t path) const { return stageOffsets[path]; }
  /// The path of a global stage. O(log paths).
  int64_t pathOfStage(int64_t globalStage) const {
    return llvm::upper_bound(stageOffsets, globalStage) - stageOffsets.begin() -
           1;
  }
  int64_t getNumGlobalStages() const { return stageOffsets.back(); }
  int64_t globalStage(Cell cell) const {
    return stageOffset(pathOf(cell)) + cell.getStage();
  }
  int64_t workerOf(int64_t globalStage) const {
    return workerOfStage[globalStage];
  }
  int64_t getNumStages(int64_t path) const {
    return stageOffsets[path + 1] - stageOffsets[path];
  }
  /// Number of pairs of a stage and a unit: the forward cells of a complete
  /// table if every unit runs all stages.
  int64_t getNumPairs() const { return pairOffsets.back(); }
  /// The number of a pair of a stage and a unit of its path. Pairs are numbered
  /// by global stage, then by rank on the path.
  int64_t pairOf(int64_t globalStage, int64_t unit) const {
    return pairOffsets[globalStage] + rankOnPath(unit);
  }
  int64_t pairOf(Cell cell) const {
    return pairOf(globalStage(cell), cell.getUnit());
  }
  /// The same for a stage of the unit's path; for loops over cells of units.
  int64_t pairOnPath(int64_t stage, int64_t unit) const {
    int64_t path = pathOf(unit);
    return pathPairs[path] + stage * counts[path] + rankOnPath(unit);
  }
  int64_t firstPairOf(int64_t globalStage) const {
    return pairOffsets[globalStage];
  }
  /// Whether every unit runs all stages of its path and all nodes.
  bool runsAll() const { return skipped.empty(); }
  /// Whether a unit runs a stage; nodes may take only some.
  bool runs(int64_t globalStage, int64_t unit) const {
    return runsAll() || !skipped[pairOf(globalStage, unit)];
  }
  /// The number of units that run a stage.
  int64_t countOnStage(int64_t globalStage) const {
    int64_t count = counts[pathOfStage(globalStage)];
    if (runsAll())
      return count;
    auto first = skipped.begin() + firstPairOf(globalStage);
    return count - std::count(first, first + count, true);
  }
  /// Whether every stage trains.
  bool trainsAll() const { return backwards.empty(); }
  /// The cells of a stage in addition to F.
  StageBackward backwardOf(int64_t globalStage) const {
    return trainsAll() ? StageBackward::Whole : backwards[globalStage];
  }
  StageBackward backwardOf(Cell cell) const {
    return trainsAll() ? StageBackward::Whole : backwards[globalStage(cell)];
  }
  /// Explains why a stage that does not train has no whole backward, and which
  /// cells it runs.
  std::string describeBackward(int64_t globalStage) const;
  /// Returns "stage 2 of path 0" or "node 4".
  std::string nameStage(int64_t globalStage) const;
  /// Returns an error if there are added edges, which `reader` does not accept.
  llvm::Error checkChains(llvm::StringRef reader) const;
  /// Returns an error if there are added edges or stages that do not train,
  /// which `reader` does not accept. Names the first such stage.
  llvm::Error checkTrainsAll(llvm::StringRef reader) const;
  /// The edges between stages.
  const StageEdges &getEdges() const { return edges; }
  /// The largest number of stages of a path.
  int64_t getMaxStages() const { return maxStages; }

  /// The number of stages of a worker over all paths, and the position of a
  /// global stage among them.
  int64_t getNumLocalStages(int64_t worker) const {
    return localStageCounts[worker];
  }
  int64_t localStage(int64_t globalStage) const {
    return localStages[globalStage];
  }
  /// The number of pairs of a stage and a unit on a worker, and the number of
  /// these pairs that belong to earlier stages.
  int64_t getNumLocalPairs(int64_t worker) const {
    return localPairCounts[worker];
  }
  int64_t localPairOffset(int64_t globalStage) const {
    return localPairOffsets[globalStage];
  }
  /// The number of a cell's stage and unit among the pairs of its worker,
  /// without gaps.
  int64_t localPairOf(Cell cell) const {
    return localPairOffset(globalStage(cell)) + rankOf(cell);
  }

  /// The same placement with microbatches assigned to paths.
  llvm::Expected<Placement>
  withTakes(llvm::ArrayRef<std::vector<MicrobatchRange>> takes) const;
  /// The same placement with other paths, such as paths on which all stages
  /// train.
  llvm::Expected<Placement> withPaths(std::vector<Path> paths) const {
    return create(numWorkers, numMicrobatches, std::move(paths), numSlices,
                  added);
  }

private:
  llvm::Error assignMicrobatches();
  void indexMicrobatches();
  void indexStages();
  llvm::Error indexEdges();
  llvm::Error checkAdded() const;
  void indexTakes();

  int64_t numWorkers = 0, numMicrobatches = 0, numSlices = 1, maxStages = 0;
  std::vector<Path> paths;
  AddedStages added;
  std::vector<int64_t> stageOffsets = {0}; ///< P + 1 entries
  std::vector<int64_t> pairOffsets = {0};  ///< by global stage, and the end
  std::vector<int64_t> pathPairs;          ///< by path: its first pair
  std::vector<int64_t> counts;             ///< units per path
  std::vector<int32_t> workerOfStage;      ///< by global stage
  std::vector<int32_t> localStages;        ///< by global stage
  std::vector<int64_t> localPairOffsets;   ///< by global stage
  std::vector<int64_t> localStageCounts, localPairCounts; ///< by worker
  std::vector<StageBackward> backwards; ///< by global stage; empty: all train
  std::vector<bool> skipped; ///< by pair; empty: every unit runs all stages
  StageEdges edges;
  std::vector<int32_t> pathOfUnit, rankOfUnit; ///< by unit, or empty
};

/// Error: a range of microbatches that `name` takes is empty or has others than
/// there are.
llvm::Error checkTakes(const llvm::Twine &name,
                       llvm::ArrayRef<MicrobatchRange> takes,
                       int64_t numMicrobatches);

/// Makes the stages of new paths train like the stages of the paths that they
/// replace, unless the new paths state it. All new paths are forward only if
/// all replaced ones were; a path with the same number of stages keeps the
/// frozen stages. Error: frozen stages on a path that changes its number of
/// stages.
llvm::Error keepBackward(llvm::ArrayRef<Path> replaced,
                         llvm::MutableArrayRef<Path> paths);

/// The relative lengths of all stages, by global stage: their blocks or
/// weights, in a unit of the model that all paths share. Paths with different
/// totals are scaled to a common one, with equal stages on a path without
/// lengths; if no path has lengths, all are 1. Nodes are as long as their
/// blocks, or 1 where paths have no lengths. Errors: a common total that is
/// over 2^63 - 1.
llvm::Expected<std::vector<int64_t>> stageLengths(const Placement &placement);

/// The placements of the literature follow. Each has one path (bidirectional:
/// several). Errors name the size that does not fit and the nearest size that
/// does.

/// Places stage s on worker s. If create() would reject the number of workers,
/// the path is empty, which create() rejects as well.
Path placeLinear(int64_t numWorkers);
/// Stage s on worker s mod D; `chunks` stages per worker (Narayanan 2021).
llvm::Expected<Path> placeInterleaved(int64_t numWorkers, int64_t chunks);
/// Workers 0..D-1, D-1..0: two stages per worker (Qi 2024b). Otherwise as
/// placeLinear.
Path placeV(int64_t numWorkers);
/// Down and up again `waves` times: 2 * waves * D stages (Hanayo, Liu 2023).
llvm::Expected<Path> placeWave(int64_t numWorkers, int64_t waves);

/// The assignment of microbatches to the paths of a bidirectional placement.
enum class Assign { Alternate, Halves };

template <>
struct EnumNames<Assign> {
  static constexpr EnumName<Assign> values[] = {
      {Assign::Alternate, "alternate", "In turn"},
      {Assign::Halves, "halves", "In equal parts"}};
};

/// `pairs` pairs of paths; pair k goes down from worker k * D / pairs
/// cyclically, and its mirror goes back up the same workers (Chimera, Li &
/// Hoefler 2021, section 3.6; pairs = 1 for Chimera's usual form and DualPipe).
/// Paths 2k and 2k + 1 are pair k. Path p of P takes p, p + P, ... or the p-th
/// of P equal parts. Errors: an odd number of workers; pairs that do not divide
/// D / 2; fewer microbatches than paths; unequal parts.
llvm::Expected<std::vector<Path>> placeBidirectional(int64_t numWorkers,
                                                     int64_t numMicrobatches,
                                                     int64_t pairs,
                                                     Assign assign);

//===----------------------------------------------------------------------===//
// Stages of unequal length
//===----------------------------------------------------------------------===//

/// The ratio of a path's first half to its second, each part from 1 to
/// kMaxPart.
struct Ratio {
  static constexpr int64_t kMaxPart = 1000000000;

  int64_t first = 1, second = 2;
};

/// Reads "1:2". Errors quote a text that is not a ratio; a part out of range.
llvm::Expected<Ratio> parseRatio(llvm::StringRef text);

/// How stages differ in length. Stages s and S-1-s always have the same total
/// length, so a worker that holds both has as much work as any other.
enum class Asymmetry {
  Halves, ///< one jump in the middle: each half has equal stages
  Ramp,   ///< the same change from each stage to the next
  Ends,   ///< only the first and the last stage differ
  Middle, ///< only the two stages in the middle differ
};

template <>
struct EnumNames<Asymmetry> {
  static constexpr EnumName<Asymmetry> values[] = {
      {Asymmetry::Halves, "halves", "By a step in the middle"},
      {Asymmetry::Ramp, "ramp", "By the same amount from stage to stage"},
      {Asymmetry::Ends, "ends", "Only on the first and the last stage"},
      {Asymmetry::Middle, "middle", "Only on the two stages in the middle"}};
};

/// Relative lengths of the stages of a path whose halves have this ratio,
/// without a common divisor. Errors: an odd number of stages; a ratio that
/// leaves nothing for a stage, with the bounds of valid ratios.
llvm::Expected<std::vector<int64_t>>
asymmetricWeights(int64_t numStages, Ratio ratio, Asymmetry way);

/// Gives every path these lengths, as weights or, if the model's number of
/// blocks is given, as blocks. All workers have the same work if each path p
/// goes through the workers of p or of another path in reverse: mirrored pairs,
/// V, waves (arXiv 2605.24006, Chimera with asymmetric placement). Errors: as
/// for asymmetricWeights; blocks that are not a multiple of the weights, with
/// the nearest multiples.
llvm::Error makeAsymmetric(llvm::MutableArrayRef<Path> paths, Ratio ratio,
                           Asymmetry way, std::optional<int64_t> blocks);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PLACEMENT_H
