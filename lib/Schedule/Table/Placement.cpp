//===- Placement.cpp - Paths of microbatches through the workers ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks and indexes paths, so that every look-up in loops over cells takes
// constant time. Also makes the placements of the literature.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// Several paths need arrays by microbatch; this limits their size.
static constexpr int64_t kMaxAssignedMicrobatches = int64_t(1) << 28;

static Error checkSizes(int64_t numWorkers, int64_t numMicrobatches,
                        size_t numPaths) {
  if (numWorkers < 1 || numWorkers > kMaxWorkers)
    return formatError("{0} workers: there must be 1 to {1}", numWorkers,
                       kMaxWorkers);
  if (numMicrobatches < 1 || numMicrobatches > Cell::kMaxMicrobatches)
    return formatError("{0} microbatches: there must be 1 to {1}",
                       numMicrobatches, Cell::kMaxMicrobatches);
  if (numPaths == 0)
    return formatError("there is no path: at least one is needed");
  if (static_cast<int64_t>(numPaths) > Cell::kMaxMicrobatches)
    return formatError("{0} paths: there may be {1} at most", numPaths,
                       Cell::kMaxMicrobatches);
  return Error::success();
}

static Error checkStages(int64_t pathNumber, const Path &path,
                         int64_t numWorkers) {
  if (path.workers.empty())
    return formatError("path {0} is empty: it needs the worker of each stage",
                       pathNumber);
  if (path.getNumStages() > Cell::kMaxStages)
    return formatError("path {0} has {1} stages: there may be {2} at most",
                       pathNumber, path.getNumStages(), Cell::kMaxStages);
  for (auto [stage, worker] : llvm::enumerate(path.workers))
    if (worker < 0 || worker >= numWorkers)
      return formatError("path {0} puts stage {1} on worker {2}, which is not "
                         "one of the {3} workers (0 to {4})",
                         pathNumber, stage, worker, numWorkers, numWorkers - 1);
  return Error::success();
}

/// Checks that there is one length per stage, and returns their sum. Errors
/// call the lengths `name`.
static Expected<int64_t> sumLengths(int64_t pathNumber, const Path &path,
                                    llvm::ArrayRef<int64_t> lengths,
                                    llvm::StringRef name) {
  if (lengths.size() != path.workers.size())
    return formatError("path {0} has {1} stages but {2} for {3}", pathNumber,
                       path.workers.size(), name, lengths.size());
  int64_t total = 0;
  for (int64_t length : lengths) {
    std::optional<int64_t> sum = llvm::checkedAdd(total, length);
    if (!sum)
      return formatError("the {0} of path {1} add up to more than 2^63 - 1",
                         name, pathNumber);
    total = *sum;
  }
  return total;
}

static Error checkBlocks(int64_t pathNumber, const Path &path) {
  if (path.blocks.empty())
    return Error::success();
  for (auto [stage, blocks] : llvm::enumerate(path.blocks))
    if (blocks < 0)
      return formatError("stage {0} of path {1} has {2} blocks: there cannot "
                         "be fewer than 0",
                         stage, pathNumber, blocks);
  Expected<int64_t> total = sumLengths(pathNumber, path, path.blocks, "blocks");
  if (!total)
    return total.takeError();
  if (*total == 0)
    return formatError("path {0} has no block on any stage", pathNumber);
  return Error::success();
}

static Error checkWeights(int64_t pathNumber, const Path &path) {
  if (path.weights.empty())
    return Error::success();
  if (!path.blocks.empty())
    return formatError(
        "path {0} has blocks and weights: expected only one of them",
        pathNumber);
  for (auto [stage, weight] : llvm::enumerate(path.weights))
    if (weight < 1)
      return formatError("stage {0} of path {1} has weight {2}: it must be 1 "
                         "or more",
                         stage, pathNumber, weight);
  return sumLengths(pathNumber, path, path.weights, "weights").takeError();
}

static Error checkBackward(int64_t pathNumber, const Path &path) {
  const std::vector<int64_t> &frozen = path.backward.frozen;
  if (path.backward.isNone && !frozen.empty())
    return formatError(
        "path {0} has frozen stages and no backward: expected only one of them",
        pathNumber);
  for (auto [i, stage] : llvm::enumerate(frozen)) {
    if (stage < 0 || stage >= path.getNumStages())
      return formatError("path {0} freezes stage {1}, and has stages 0 to {2}",
                         pathNumber, stage, path.getNumStages() - 1);
    if (i > 0 && stage <= frozen[i - 1])
      return formatError("path {0} freezes stage {1} after stage {2}: list "
                         "each stage once, in ascending order",
                         pathNumber, stage, frozen[i - 1]);
  }
  return Error::success();
}

Error pipesched::checkTakes(const llvm::Twine &name,
                            llvm::ArrayRef<MicrobatchRange> takes,
                            int64_t numMicrobatches) {
  for (const MicrobatchRange &range : takes) {
    if (range.step < 1)
      return formatError("{0} takes [{1}:{2}:{3}]: the step must be 1 or more",
                         name.str(), range.begin, range.end, range.step);
    if (range.begin >= range.end)
      return formatError("{0} takes [{1}:{2}:{3}], which is empty", name.str(),
                         range.begin, range.end, range.step);
    if (range.begin < 0 || range.end > numMicrobatches)
      return formatError("{0} takes [{1}:{2}:{3}], which is not within the {4} "
                         "microbatches (0 to {5})",
                         name.str(), range.begin, range.end, range.step,
                         numMicrobatches, numMicrobatches - 1);
  }
  return Error::success();
}

static bool contains(const Path &path, int64_t microbatch) {
  return llvm::any_of(path.takes, [&](const MicrobatchRange &range) {
    return range.begin <= microbatch && microbatch < range.end &&
           (microbatch - range.begin) % range.step == 0;
  });
}

static Error onTwoPaths(llvm::ArrayRef<Path> paths, int64_t microbatch,
                        int64_t second) {
  int64_t first = 0;
  while (!contains(paths[first], microbatch))
    ++first;
  if (first == second)
    return formatError("path {0} takes microbatch {1} twice", first,
                       microbatch);
  return formatError("microbatch {0} is on path {1} and on path {2}",
                     microbatch, first, second);
}

/// Checks that every microbatch is on exactly one path. Stops at the first
/// microbatch on two paths, so that many ranges take no more time than
/// microbatches.
static Error checkCover(llvm::ArrayRef<Path> paths, int64_t numMicrobatches) {
  llvm::BitVector taken(numMicrobatches);
  for (auto [pathNumber, path] : llvm::enumerate(paths))
    for (const MicrobatchRange &range : path.takes)
      for (int64_t i = 0, n = range.size(); i < n; ++i) {
        int64_t microbatch = range.begin + i * range.step;
        if (taken.test(microbatch))
          return onTwoPaths(paths, microbatch, pathNumber);
        taken.set(microbatch);
      }
  if (int missing = taken.find_first_unset(); missing >= 0)
    return formatError("microbatch {0} is on no path", missing);
  return Error::success();
}

static Error checkPath(int64_t number, const Path &path, int64_t numWorkers,
                       int64_t numMicrobatches) {
  if (Error error = checkStages(number, path, numWorkers))
    return error;
  if (Error error = checkBlocks(number, path))
    return error;
  if (Error error = checkWeights(number, path))
    return error;
  if (Error error = checkBackward(number, path))
    return error;
  return checkTakes("path " + llvm::Twine(number), path.takes, numMicrobatches);
}

char PathError::ID = 0;

Expected<Placement> Placement::create(int64_t numWorkers,
                                      int64_t numMicrobatches,
                                      std::vector<Path> paths,
                                      int64_t numSlices, AddedStages added) {
  if (Error error = checkSizes(numWorkers, numMicrobatches, paths.size()))
    return std::move(error);
  if (numSlices < 1 || numSlices > Cell::kMaxMicrobatches / numMicrobatches)
    return formatError("{0} slices of each of {1} microbatches: there may be 1 "
                       "to {2}",
                       numSlices, numMicrobatches,
                       Cell::kMaxMicrobatches / numMicrobatches);
  for (auto [number, path] : llvm::enumerate(paths))
    if (Error error = checkPath(number, path, numWorkers, numMicrobatches))
      return llvm::make_error<PathError>(number,
                                         llvm::toString(std::move(error)));
  Placement placement;
  placement.numWorkers = numWorkers;
  placement.numMicrobatches = numMicrobatches;
  placement.numSlices = numSlices;
  placement.paths = std::move(paths);
  placement.added = std::move(added);
  if (Error error = placement.checkAdded())
    return std::move(error);
  if (Error error = placement.assignMicrobatches())
    return std::move(error);
  placement.indexStages();
  placement.indexTakes();
  if (Error error = placement.indexEdges())
    return std::move(error);
  return placement;
}

/// Fills `counts` and, if several paths take microbatches, the arrays by unit.
/// On a single path the rank is the microbatch itself.
Error Placement::assignMicrobatches() {
  counts.assign(paths.size(), 0);
  if (llvm::all_of(paths,
                   [](const Path &path) { return path.takes.empty(); })) {
    if (paths.size() == 1)
      counts[0] = getNumUnits();
    return Error::success();
  }
  for (auto [number, path] : llvm::enumerate(paths))
    if (path.takes.empty())
      return formatError("path {0} takes no microbatch", number);
  const Path &first = paths.front();
  MicrobatchRange all = {0, numMicrobatches, 1};
  if (paths.size() == 1 && first.takes.size() == 1 && first.takes[0] == all) {
    counts[0] = getNumUnits();
    return Error::success();
  }
  if (getNumUnits() > kMaxAssignedMicrobatches)
    return formatError("{0} microbatches: there may be {1} at most if paths "
                       "state their microbatches",
                       getNumUnits(), kMaxAssignedMicrobatches);
  if (Error error = checkCover(paths, numMicrobatches))
    return error;
  indexMicrobatches();
  return Error::success();
}

void Placement::indexMicrobatches() {
  if (paths.size() == 1) {
    counts[0] = getNumUnits();
    return;
  }
  pathOfUnit.resize(getNumUnits());
  rankOfUnit.resize(getNumUnits());
  for (auto [number, path] : llvm::enumerate(paths))
    for (const MicrobatchRange &range : path.takes)
      for (int64_t i = 0, n = range.size(); i < n; ++i)
        std::fill_n(pathOfUnit.begin() +
                        unitOf(range.begin + i * range.step, 0),
                    numSlices, number);
  for (int64_t unit = 0; unit < getNumUnits(); ++unit)
    rankOfUnit[unit] = counts[pathOfUnit[unit]]++;
}

void Placement::indexStages() {
  localStageCounts.assign(numWorkers, 0);
  localPairCounts.assign(numWorkers, 0);
  for (auto [number, path] : llvm::enumerate(paths)) {
    pathPairs.push_back(pairOffsets.back());
    auto add = [&, number = number](int32_t worker) {
      pairOffsets.push_back(pairOffsets.back() + counts[number]);
      workerOfStage.push_back(worker);
      localStages.push_back(localStageCounts[worker]++);
      localPairOffsets.push_back(localPairCounts[worker]);
      localPairCounts[worker] += counts[number];
    };
    llvm::for_each(path.workers, add);
    for (const StageNode &node : added.nodes)
      add(node.worker);
    stageOffsets.push_back(workerOfStage.size());
    maxStages = std::max(maxStages, getNumStages(number));
  }
}

Expected<Placement>
Placement::withTakes(llvm::ArrayRef<std::vector<MicrobatchRange>> takes) const {
  if (takes.size() != paths.size())
    return formatError("{0} lists of microbatches for {1} paths", takes.size(),
                       paths.size());
  std::vector<Path> assigned = paths;
  for (auto [path, ranges] : llvm::zip_equal(assigned, takes))
    path.takes = ranges;
  return withPaths(std::move(assigned));
}

Error pipesched::keepBackward(llvm::ArrayRef<Path> replaced,
                              llvm::MutableArrayRef<Path> paths) {
  auto saysFull = [](const Path &path) { return path.backward.isFull(); };
  if (llvm::all_of(replaced, saysFull) || !llvm::all_of(paths, saysFull))
    return Error::success();
  auto isNone = [](const Path &path) { return path.backward.isNone; };
  bool areNone = llvm::all_of(replaced, isNone);
  auto isSimilar = [](const Path &a, const Path &b) {
    return a.getNumStages() == b.getNumStages();
  };
  if (!areNone && !llvm::equal(replaced, paths, isSimilar))
    return formatError(
        "the paths with frozen stages have another length than the new paths "
        "of {0} stages; freeze stages of the new paths",
        paths.front().getNumStages());
  for (auto [number, path] : llvm::enumerate(paths))
    path.backward =
        areNone ? PathBackward{/*isNone=*/true, {}} : replaced[number].backward;
  return Error::success();
}

/// The sum of a path's lengths. Without lengths, each stage counts 1.
static int64_t totalLength(const Path &path) {
  llvm::ArrayRef<int64_t> lengths = path.getStageLengths();
  if (lengths.empty())
    return path.getNumStages();
  return std::accumulate(lengths.begin(), lengths.end(), int64_t(0));
}

Expected<std::vector<int64_t>>
pipesched::stageLengths(const Placement &placement) {
  std::vector<int64_t> result(placement.getNumGlobalStages(), 1);
  if (llvm::all_of(placement.getPaths(), [](const Path &path) {
        return path.getStageLengths().empty();
      }))
    return result;
  int64_t common = 1;
  for (const Path &path : placement.getPaths()) {
    int64_t total = totalLength(path);
    std::optional<int64_t> multiple =
        llvm::checkedMul(common / std::gcd(common, total), total);
    if (!multiple)
      return formatError("the stages of the paths have no common measure "
                         "below 2^63: give blocks or weights that add up to "
                         "the same on every path");
    common = *multiple;
  }
  auto next = result.begin();
  for (const Path &path : placement.getPaths()) {
    int64_t scale = common / totalLength(path);
    llvm::ArrayRef<int64_t> lengths = path.getStageLengths();
    for (int64_t stage = 0; stage < path.getNumStages(); ++stage)
      *next++ = lengths.empty() ? scale : scale * lengths[stage];
  }
  for (const StageNode &node : placement.getAdded().nodes) {
    *next = 0;
    for (const HeldBlocks &blocks : node.holds)
      *next += blocks.count;
    ++next;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Placements of families
//
// Linear, interleaved, V, wave and bidirectional paths. Errors for sizes that
// do not divide name the nearest sizes that do.
//===----------------------------------------------------------------------===//

static bool isWorkerCount(int64_t numWorkers) {
  return numWorkers >= 1 && numWorkers <= kMaxWorkers;
}

/// Checks the number of stages, waves or pairs per worker. It must be at least
/// 1, and the path must stay within the limit of stages. Errors call the number
/// `name`, which is the name of its option.
static Error checkStageFactor(int64_t numWorkers, int64_t factor,
                              int64_t stagesPerUnit, const char *name) {
  if (!isWorkerCount(numWorkers))
    return formatError("{0} workers: there must be 1 to {1}", numWorkers,
                       kMaxWorkers);
  int64_t most = Cell::kMaxStages / (numWorkers * stagesPerUnit);
  if (factor < 1 || factor > most)
    return formatError("{0} {1}: there must be 1 to {2} with {3} workers, for "
                       "at most {4} stages",
                       factor, name, most, numWorkers, Cell::kMaxStages);
  return Error::success();
}

static void appendDown(Path &path, int64_t numWorkers) {
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    path.workers.push_back(worker);
}

static void appendUp(Path &path, int64_t numWorkers) {
  for (int64_t worker = numWorkers; worker-- > 0;)
    path.workers.push_back(worker);
}

Path pipesched::placeLinear(int64_t numWorkers) {
  Path path;
  if (isWorkerCount(numWorkers))
    appendDown(path, numWorkers);
  return path;
}

Expected<Path> pipesched::placeInterleaved(int64_t numWorkers, int64_t chunks) {
  if (Error error = checkStageFactor(numWorkers, chunks, 1, "chunks"))
    return std::move(error);
  Path path;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    appendDown(path, numWorkers);
  return path;
}

Path pipesched::placeV(int64_t numWorkers) {
  Path path = placeLinear(numWorkers);
  if (!path.workers.empty())
    appendUp(path, numWorkers);
  return path;
}

Expected<Path> pipesched::placeWave(int64_t numWorkers, int64_t waves) {
  if (Error error = checkStageFactor(numWorkers, waves, 2, "waves"))
    return std::move(error);
  Path path;
  for (int64_t wave = 0; wave < waves; ++wave) {
    appendDown(path, numWorkers);
    appendUp(path, numWorkers);
  }
  return path;
}

/// The divisors of `number` that are closest to `value` from below and above;
/// only the largest divisor if `value` exceeds it.
static std::string nearestDivisors(int64_t number, int64_t value) {
  int64_t below = std::min(std::max<int64_t>(value, 1), number);
  while (number % below != 0)
    --below;
  int64_t above = std::min(std::max<int64_t>(value, 1), number);
  while (number % above != 0)
    ++above;
  if (below == above)
    return llvm::formatv("the nearest is {0}", below);
  return llvm::formatv("the nearest are {0} and {1}", below, above);
}

static Error checkNumPairs(int64_t numWorkers, int64_t pairs) {
  if (numWorkers < 2 || numWorkers > kMaxWorkers)
    return formatError("{0} workers: a bidirectional placement takes an even "
                       "number from 2 to {1}",
                       numWorkers, kMaxWorkers);
  if (numWorkers % 2 != 0)
    return formatError("{0} workers: a bidirectional placement takes an even "
                       "number; the nearest are {1} and {2}",
                       numWorkers, numWorkers - 1, numWorkers + 1);
  if (pairs < 1 || (numWorkers / 2) % pairs != 0)
    return formatError("{0} pairs: the number of pairs must divide half of the "
                       "{1} workers; {2}",
                       pairs, numWorkers,
                       nearestDivisors(numWorkers / 2, pairs));
  if (2 * pairs * numWorkers > Cell::kMaxStages)
    return formatError("{0} pairs on {1} workers make {2} stages: there may be "
                       "{3} at most",
                       pairs, numWorkers, 2 * pairs * numWorkers,
                       Cell::kMaxStages);
  return Error::success();
}

static Error checkShares(int64_t numMicrobatches, int64_t numPaths,
                         Assign assign) {
  if (numMicrobatches < numPaths)
    return formatError("{0} microbatches: {1} paths need at least {1}",
                       numMicrobatches, numPaths);
  if (assign == Assign::Halves && numMicrobatches % numPaths != 0) {
    int64_t below = numMicrobatches / numPaths * numPaths;
    return formatError("{0} microbatches cannot be divided equally over {1} "
                       "paths; the nearest numbers are {2} and {3}",
                       numMicrobatches, numPaths, below, below + numPaths);
  }
  return Error::success();
}

static MicrobatchRange shareOf(int64_t path, int64_t numPaths,
                               int64_t numMicrobatches, Assign assign) {
  if (assign == Assign::Alternate)
    return {path, numMicrobatches, numPaths};
  int64_t part = numMicrobatches / numPaths;
  return {path * part, (path + 1) * part, 1};
}

Expected<std::vector<Path>>
pipesched::placeBidirectional(int64_t numWorkers, int64_t numMicrobatches,
                              int64_t pairs, Assign assign) {
  if (Error error = checkNumPairs(numWorkers, pairs))
    return std::move(error);
  int64_t numPaths = 2 * pairs;
  if (Error error = checkShares(numMicrobatches, numPaths, assign))
    return std::move(error);
  std::vector<Path> paths(numPaths);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    Path &down = paths[2 * pair], &up = paths[2 * pair + 1];
    int64_t first = pair * numWorkers / pairs;
    for (int64_t stage = 0; stage < numWorkers; ++stage)
      down.workers.push_back((first + stage) % numWorkers);
    up.workers.assign(down.workers.rbegin(), down.workers.rend());
  }
  for (int64_t path = 0; path < numPaths; ++path)
    paths[path].takes = {shareOf(path, numPaths, numMicrobatches, assign)};
  return paths;
}

//===----------------------------------------------------------------------===//
// Asymmetric placements
//
// Weights that make one half of a path longer than the other while all workers
// keep the same amount of work (arXiv 2605.24006, asymmetric placement).
//===----------------------------------------------------------------------===//

static StringRef nameOf(Asymmetry way) {
  switch (way) {
  case Asymmetry::Halves:
    return "halves";
  case Asymmetry::Ramp:
    return "a ramp";
  case Asymmetry::Ends:
    return "unequal ends";
  case Asymmetry::Middle:
    return "an unequal middle";
  }
  llvm_unreachable("covered switch");
}

/// Reads a number from 1 to kMaxPart; errors quote the text.
static Expected<int64_t> parsePart(StringRef part, StringRef text) {
  int64_t value = 0;
  if (part.trim().getAsInteger(10, value))
    return formatError("'{0}' is not a ratio: expected two numbers such as 1:2",
                       text);
  if (value < 1 || value > Ratio::kMaxPart)
    return formatError("a part of the ratio {0} is {1}: it must be 1 to {2}",
                       text, value, Ratio::kMaxPart);
  return value;
}

Expected<Ratio> pipesched::parseRatio(StringRef text) {
  auto [first, second] = text.split(':');
  Expected<int64_t> left = parsePart(first, text);
  if (!left)
    return left.takeError();
  Expected<int64_t> right = parsePart(second, text);
  if (!right)
    return right.takeError();
  return Ratio{*left, *right};
}

/// The amount by which stage s of the first half is shorter than the mean, in
/// an arbitrary unit; stage S-1-s is longer by the same amount.
///
///   S = 6    Halves  1 1 1    Ramp  5 3 1    Ends  1 0 0    Middle  0 0 1
static int64_t departure(Asymmetry way, int64_t stage, int64_t half) {
  switch (way) {
  case Asymmetry::Halves:
    return 1;
  case Asymmetry::Ramp:
    return 2 * (half - stage) - 1;
  case Asymmetry::Ends:
    return stage == 0;
  case Asymmetry::Middle:
    return stage == half - 1;
  }
  llvm_unreachable("covered switch");
}

/// Refuses a ratio at which some stage would have no length left. Let P be the
/// sum of the departures, p' the largest of them, and h = S/2. The ratio of the
/// shorter half to the longer must be above (h p' - P) : (h p' + P).
static Error refuseRatio(int64_t numStages, Ratio ratio, Asymmetry way,
                         int64_t largest, int64_t sum) {
  int64_t less = numStages / 2 * largest - sum;
  int64_t more = numStages / 2 * largest + sum;
  int64_t divisor = std::gcd(less, more);
  less /= divisor;
  more /= divisor;
  return formatError("the ratio {0}:{1} as {2} leaves a stage of {3} empty; "
                     "expected a ratio between {4}:{5} and {5}:{4}",
                     ratio.first, ratio.second, nameOf(way), numStages, less,
                     more);
}

static void reduce(std::vector<int64_t> &weights) {
  int64_t divisor = 0;
  for (int64_t weight : weights)
    divisor = std::gcd(divisor, weight);
  for (int64_t &weight : weights)
    weight /= divisor;
}

/// Let h = S/2, let P be the sum of the departures p, and a:b the ratio. Stage
/// s of the first half has weight P(a+b) - h(b-a)p(s), and stage S-1-s has
/// weight P(a+b) + h(b-a)p(s). The halves then have the lengths 2hPa and 2hPb.
Expected<std::vector<int64_t>>
pipesched::asymmetricWeights(int64_t numStages, Ratio ratio, Asymmetry way) {
  if (numStages < 2 || numStages % 2 != 0 || numStages > Cell::kMaxStages)
    return formatError("a path of {0} stages has no two halves: expected an "
                       "even number from 2 to {1}",
                       numStages, Cell::kMaxStages);
  for ([[maybe_unused]] int64_t part : {ratio.first, ratio.second})
    assert(part >= 1 && part <= Ratio::kMaxPart && "no ratio");
  int64_t half = numStages / 2, sum = 0, largest = 0;
  for (int64_t stage = 0; stage < half; ++stage) {
    sum += departure(way, stage, half);
    largest = std::max(largest, departure(way, stage, half));
  }
  int64_t common = std::gcd(sum, half);
  int64_t mean = sum / common * (ratio.first + ratio.second);
  int64_t unit = half / common * (ratio.second - ratio.first);
  if (std::abs(unit) * largest >= mean)
    return refuseRatio(numStages, ratio, way, largest, sum);
  if (!llvm::checkedMul(numStages, mean))
    return formatError("the weights for a ratio of {0}:{1} over {2} stages add "
                       "up to more than 2^63 - 1",
                       ratio.first, ratio.second, numStages);

  std::vector<int64_t> weights(numStages);
  for (int64_t stage = 0; stage < half; ++stage) {
    int64_t difference = unit * departure(way, stage, half);
    weights[stage] = mean - difference;
    weights[numStages - 1 - stage] = mean + difference;
  }
  reduce(weights);
  return weights;
}

static Error refuseBlocks(const Path &path, Ratio ratio, Asymmetry way,
                          int64_t blocks, int64_t parts) {
  return formatError("{0} blocks cannot be divided {1}:{2} as {3} over {4} "
                     "stages, which takes a multiple of {5}; the nearest: {6}",
                     blocks, ratio.first, ratio.second, nameOf(way),
                     path.getNumStages(), parts,
                     nearestMultiples(std::max<int64_t>(blocks, 0), parts));
}

Error pipesched::makeAsymmetric(llvm::MutableArrayRef<Path> paths, Ratio ratio,
                                Asymmetry way, std::optional<int64_t> blocks) {
  for (Path &path : paths) {
    Expected<std::vector<int64_t>> weights =
        asymmetricWeights(path.getNumStages(), ratio, way);
    if (!weights)
      return weights.takeError();
    path.weights = std::move(*weights);
    path.blocks.clear();
    if (!blocks)
      continue;
    int64_t parts =
        std::accumulate(path.weights.begin(), path.weights.end(), int64_t(0));
    if (*blocks < 1 || *blocks % parts != 0)
      return refuseBlocks(path, ratio, way, *blocks, parts);
    std::swap(path.blocks, path.weights);
    for (int64_t &count : path.blocks)
      count *= *blocks / parts;
  }
  return Error::success();
}
