//===- Placement.h - Paths of microbatches through the workers -*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A path is the sequence of stages a microbatch goes through; entry s is the
// worker of stage s. Placement is nothing else than paths (arXiv 2605.24006,
// section on tables).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_PLACEMENT_H
#define PIPESCHED_SCHEDULE_PLACEMENT_H

#include "PipeSched/Schedule/Cell.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <vector>

namespace pipesched {

inline constexpr int64_t kMaxWorkers = 65536;

/// Microbatches begin, begin + step, ... below end.
struct MicrobatchRange {
  int64_t begin = 0, end = 0, step = 1;

  int64_t size() const {
    return end <= begin ? 0 : (end - begin - 1) / step + 1;
  }
  friend bool operator==(const MicrobatchRange &a, const MicrobatchRange &b) {
    return a.begin == b.begin && a.end == b.end && a.step == b.step;
  }
};

/// One path. `takes` is empty where one path takes all, or where a generator
/// has yet to assign; `blocks` is empty where the model is split evenly.
/// `weights` are relative lengths of the stages that stand until a model says
/// how many blocks there are; not both.
struct Path {
  std::vector<int32_t> workers;
  std::vector<MicrobatchRange> takes;
  std::vector<int64_t> blocks;
  std::vector<int64_t> weights;

  int64_t getNumStages() const { return workers.size(); }
  /// Blocks, or weights without them; empty where all stages are alike.
  llvm::ArrayRef<int64_t> getStageLengths() const {
    return blocks.empty() ? weights : blocks;
  }
};

/// The problem: workers, microbatches, paths; with the lookups that loops over
/// cells need, each O(1).
///
/// Stages of all paths are numbered through as "global stages": path p owns
/// [stageOffset(p), stageOffset(p) + S_p).
class Placement {
public:
  Placement() = default;

  /// Checks and indexes. Errors: sizes out of range; a path that is empty or
  /// names a worker outside 0..numWorkers-1; `takes` that leave a microbatch on
  /// no path or put it on two; `blocks` or `weights` of another length than
  /// the path, or both.
  /// Several paths without any `takes` are accepted and are `!isAssigned()`.
  /// Linear in paths and ranges; several paths, or `takes` other than one range
  /// of all, take time and memory linear in microbatches, at most 2^28 of them.
  static llvm::Expected<Placement>
  create(int64_t numWorkers, int64_t numMicrobatches, std::vector<Path> paths);

  /// The part of these checks that is about one path, the `number`-th.
  static llvm::Error checkPath(int64_t number, const Path &path,
                               int64_t numWorkers, int64_t numMicrobatches);

  int64_t getNumWorkers() const { return numWorkers; }
  int64_t getNumMicrobatches() const { return numMicrobatches; }
  llvm::ArrayRef<Path> getPaths() const { return paths; }
  const Path &getPath(int64_t path) const { return paths[path]; }
  int64_t getNumPaths() const { return paths.size(); }

  /// Every microbatch has its path.
  bool isAssigned() const {
    return paths.size() == 1 || !pathOfMicrobatch.empty();
  }
  /// The path of a microbatch in 0..N-1; needs isAssigned().
  int64_t pathOf(int64_t microbatch) const {
    return pathOfMicrobatch.empty() ? 0 : pathOfMicrobatch[microbatch];
  }
  /// How many microbatches before this one take the same path.
  int64_t rankOnPath(int64_t microbatch) const {
    return rankOfMicrobatch.empty() ? microbatch : rankOfMicrobatch[microbatch];
  }
  int64_t countOnPath(int64_t path) const { return counts[path]; }
  /// The path a cell's stage is a position on (its number for O and G).
  int64_t pathOf(Cell cell) const {
    return cell.isPerPath() ? cell.getMicrobatch()
                            : pathOf(cell.getMicrobatch());
  }

  int64_t stageOffset(int64_t path) const { return stageOffsets[path]; }
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
  /// (stage, microbatch) pairs: the forward cells of a complete table.
  int64_t getNumPairs() const { return numPairs; }
  /// The largest number of stages of a path.
  int64_t getMaxStages() const { return maxStages; }

  /// How many stages a worker holds, all paths together, and the position of a
  /// global stage among those of its worker.
  int64_t getNumLocalStages(int64_t worker) const {
    return localStageCounts[worker];
  }
  int64_t localStage(int64_t globalStage) const {
    return localStages[globalStage];
  }
  /// (stage, microbatch) pairs of a worker, and those of them that belong to
  /// stages before this one: with rankOnPath, a dense number per worker.
  int64_t getNumLocalPairs(int64_t worker) const {
    return localPairCounts[worker];
  }
  int64_t localPairOffset(int64_t globalStage) const {
    return localPairOffsets[globalStage];
  }

  /// The same placement with microbatches assigned to paths.
  llvm::Expected<Placement>
  withTakes(llvm::ArrayRef<std::vector<MicrobatchRange>> takes) const;

private:
  llvm::Error assignMicrobatches();
  void indexMicrobatches();
  void indexStages();

  int64_t numWorkers = 0, numMicrobatches = 0, maxStages = 0, numPairs = 0;
  std::vector<Path> paths;
  std::vector<int64_t> stageOffsets = {0}; ///< P + 1 entries
  std::vector<int64_t> counts;             ///< microbatches per path
  std::vector<int32_t> workerOfStage;      ///< by global stage
  std::vector<int32_t> localStages;        ///< by global stage
  std::vector<int64_t> localPairOffsets;   ///< by global stage
  std::vector<int64_t> localStageCounts, localPairCounts;  ///< by worker
  std::vector<int32_t> pathOfMicrobatch, rankOfMicrobatch; ///< N, or empty
};

/// How long the stages of all paths are, by global stage: their blocks or
/// weights, in parts of the model that all paths share. Paths that add up to
/// different totals are scaled to a common one, stages of a path without
/// lengths being alike; 1 everywhere where no path has lengths. Errors: a
/// common total over 2^63 - 1.
llvm::Expected<std::vector<int64_t>> stageLengths(const Placement &placement);

/// Placements of the literature, each one path (bidirectional: several).
/// Errors name the size that does not fit and the nearest that does.

/// Stage s on worker s. Numbers of workers that create() refuses give an empty
/// path, which it refuses as well.
Path placeLinear(int64_t numWorkers);
/// Stage s on worker s mod D; `chunks` stages per worker (Narayanan 2021).
llvm::Expected<Path> placeInterleaved(int64_t numWorkers, int64_t chunks);
/// 0..D-1, D-1..0: two stages per worker (Qi 2024b). Else as placeLinear.
Path placeV(int64_t numWorkers);
/// `waves` times down and up again, 2 * waves * D stages (Hanayo, Liu 2023).
llvm::Expected<Path> placeWave(int64_t numWorkers, int64_t waves);

/// How microbatches go to the paths of a bidirectional placement.
enum class Assign { Alternate, Halves };

template <>
struct EnumNames<Assign> {
  static constexpr EnumName<Assign> values[] = {
      {Assign::Alternate, "alternate", "In turn"},
      {Assign::Halves, "halves", "In equal parts"}};
};

/// `pairs` pairs of paths; pair k goes down from worker k * D / pairs
/// cyclically and its mirror goes back up the same workers (Chimera, Li &
/// Hoefler 2021, section 3.6; pairs = 1 for Chimera's usual form and DualPipe).
/// Paths 2k and 2k + 1 are pair k. Path p of P takes p, p + P, ... or the p-th
/// of P equal parts. Errors: an odd number of workers; pairs that do not divide
/// D / 2; fewer microbatches than paths; parts that are not equal.
llvm::Expected<std::vector<Path>> placeBidirectional(int64_t numWorkers,
                                                     int64_t numMicrobatches,
                                                     int64_t pairs,
                                                     Assign assign);

//===----------------------------------------------------------------------===//
// Stages of unequal length
//===----------------------------------------------------------------------===//

/// The first half of a path to the second, each from 1 to kMaxPart.
struct Ratio {
  static constexpr int64_t kMaxPart = 1000000000;

  int64_t first = 1, second = 2;
};

/// "1:2". Errors: text that is no ratio, quoted; a part out of range.
llvm::Expected<Ratio> parseRatio(llvm::StringRef text);

/// How stages depart from equal lengths. Stages s and S-1-s always add up to
/// the same, so that a worker that holds both is as busy as any other.
enum class Asymmetry {
  Halves, ///< a step in the middle: each half has equal stages
  Ramp,   ///< by the same amount from stage to stage
  Ends,   ///< the first and the last stage alone
  Middle, ///< the last stage of the first half and the one after it alone
};

template <>
struct EnumNames<Asymmetry> {
  static constexpr EnumName<Asymmetry> values[] = {
      {Asymmetry::Halves, "halves", "By a step in the middle"},
      {Asymmetry::Ramp, "ramp", "By the same amount from stage to stage"},
      {Asymmetry::Ends, "ends", "On the first and the last stage alone"},
      {Asymmetry::Middle, "middle", "On the two stages in the middle alone"}};
};

/// Relative lengths of the stages of a path whose halves have the ratio,
/// without a common divisor. Errors: an odd number of stages; a ratio that
/// leaves nothing to a stage, with the bounds of those that do not.
llvm::Expected<std::vector<int64_t>>
asymmetricWeights(int64_t numStages, Ratio ratio, Asymmetry way);

/// Gives every path these lengths, as weights or, where the number of blocks of
/// the model is given, as blocks. All workers are equally busy where path p
/// goes through the workers of path p or of another in reverse: mirrored pairs,
/// V, waves (arXiv 2605.24006, Chimera with asymmetric placement). Errors:
/// those of asymmetricWeights; blocks that the weights do not divide, with the
/// nearest numbers that they do.
llvm::Error makeAsymmetric(llvm::MutableArrayRef<Path> paths, Ratio ratio,
                           Asymmetry way, std::optional<int64_t> blocks);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_PLACEMENT_H
