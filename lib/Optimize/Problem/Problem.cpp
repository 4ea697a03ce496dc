//===- Problem.cpp - Checks of problems -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a problem before any search, so that no later sum of times or memory
// can overflow.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Problem/Problem.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::formatv;

int64_t StageFacts::durationOf(Phase phase) const {
  static constexpr auto kDurations = [] {
    PhaseMap<int64_t StageFacts::*> durations = {};
    durations[Phase::Forward] = &StageFacts::forward;
    durations[Phase::Backward] = &StageFacts::inputGrad;
    durations[Phase::InputGrad] = &StageFacts::inputGrad;
    durations[Phase::WeightGrad] = &StageFacts::weightGrad;
    durations[Phase::Recompute] = &StageFacts::recompute;
    durations[Phase::Offload] = &StageFacts::offload;
    durations[Phase::Reload] = &StageFacts::reload;
    return durations;
  }();
  return kDurations[phase] ? this->*kDurations[phase] : 0;
}

namespace {

/// A number of a stage and its least allowed value.
struct NamedFact {
  const char *name;
  int64_t StageFacts::*value;
  int64_t least;
};

class ProblemCheck {
public:
  explicit ProblemCheck(const Problem &problem)
      : problem(problem), placement(problem.placement) {}

  llvm::Error run();

private:
  llvm::Error checkLengths() const;
  llvm::Error checkSlices() const;
  llvm::Error checkLeft(int64_t path) const;
  llvm::Error checkStage(int64_t stage) const;
  llvm::Error checkMemory(int64_t stage) const;
  llvm::Error checkSums() const;
  std::string nameOf(int64_t stage) const;
  std::string nameStage(int64_t path, int64_t stage) const;

  const Problem &problem;
  const Placement &placement;
};

} // namespace

/// Returns "stage 3", or "slice 2 on stage 3 of path 1" if there are slices and
/// several paths.
std::string ProblemCheck::nameOf(int64_t stage) const {
  int64_t path = 0;
  while (stage >= placement.stageOffset(path) + placement.getNumStages(path))
    ++path;
  std::string name = nameStage(path, stage - placement.stageOffset(path));
  return problem.numSlices == 1
             ? name
             : formatv("slice {0} on {1}", path % problem.numSlices, name)
                   .str();
}

std::string ProblemCheck::nameStage(int64_t path, int64_t stage) const {
  return placement.getNumPaths() == problem.numSlices
             ? formatv("stage {0}", stage).str()
             : formatv("stage {0} of path {1}", stage, path / problem.numSlices)
                   .str();
}

llvm::Error ProblemCheck::run() {
  if (llvm::Error error = checkLengths())
    return error;
  if (llvm::Error error = checkSlices())
    return error;
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    if (llvm::Error error = checkStage(stage))
      return error;
    if (llvm::Error error = checkMemory(stage))
      return error;
  }
  for (auto [worker, capacity] : llvm::enumerate(problem.capacity))
    if (capacity < 0)
      return makeError(
          formatv("worker {0} has a capacity of {1}, expected 0 or "
                  "more",
                  worker, capacity));
  return checkSums();
}

/// Limits the number of slices too, because the slices of a microbatch are
/// compared with each other.
llvm::Error optimize::checkSize(int64_t numPairs, int64_t numSlices) {
  // F, I, W, D and U, and the same number of joins and idle entries.
  constexpr int64_t kCellsOfPair = 9;
  constexpr int64_t maxPairs = kMaxTableCells / kCellsOfPair;
  constexpr int64_t maxSlicePairs = int64_t(1) << 26;
  int64_t most =
      numSlices == 1 ? maxPairs : std::min(maxPairs, maxSlicePairs / numSlices);
  if (numPairs <= most)
    return llvm::Error::success();
  return makeError(formatv(
      "the problem has {0} pairs of stage and microbatch{1}, {2} at "
      "most",
      numPairs,
      numSlices == 1 ? "" : formatv(" of {0} slices", numSlices).str(), most));
}

llvm::Error optimize::checkTime(const Problem &problem, double limitSeconds) {
  // Time for bounds, encoding, the first schedule and its proof, measured from
  // 10^5 to 10^7 cells.
  constexpr double kSecondsPerCell = 5e-6;
  int64_t numCells = 0;
  (problem.techniques.phases() & kCostedPhases).forEach([&](Phase) {
    numCells += problem.placement.getNumPairs();
  });
  double least = kSecondsPerCell * double(numCells);
  if (limitSeconds <= 0 || least <= std::max(1.0, limitSeconds))
    return llvm::Error::success();
  return makeError(formatv(
      "the problem has {0} cells, for which a search takes at least about "
      "{1:F0} s; {2:F2} s of the time limit are there for it: give more time, "
      "or fewer microbatches",
      numCells, least, limitSeconds));
}

llvm::Error ProblemCheck::checkLengths() const {
  if (placement.getNumPaths() == 0)
    return makeError("the problem has no path");
  if (!placement.isAssigned())
    return makeError("the problem has several paths without microbatches: "
                     "state them with 'takes'");
  if (llvm::Error error = checkSize(placement.getNumPairs(), problem.numSlices))
    return error;
  int64_t numStages = placement.getNumGlobalStages();
  if (int64_t found = problem.stages.size(); found != numStages)
    return makeError(formatv(
        "the problem has facts of {0} stages, expected {1}", found, numStages));
  if (int64_t found = problem.capacity.size();
      found != placement.getNumWorkers())
    return makeError(formatv("the problem has capacities of {0} workers, "
                             "expected {1}",
                             found, placement.getNumWorkers()));
  return llvm::Error::success();
}

/// Checks the memory that slices of a path leave for each other: it is never
/// below 0, and 0 at the end.
llvm::Error ProblemCheck::checkLeft(int64_t path) const {
  int64_t numSlices = problem.numSlices;
  for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
    CheckedInt left = 0;
    for (int64_t slice = numSlices; slice-- > 0;) {
      left +=
          problem.stages[placement.stageOffset(path + slice) + s].leftForSlices;
      bool isOver = slice == 0 && left.get() != 0;
      if (!left.isValid() || left.get() < 0 || isOver)
        return makeError(formatv(
            "{0}: the backwards of slices {1} to {2} leave {3}, expected {4}",
            nameStage(path, s), slice, numSlices - 1, left.get(),
            slice == 0 ? "0" : "0 or more"));
    }
  }
  return llvm::Error::success();
}

llvm::Error ProblemCheck::checkSlices() const {
  int64_t numSlices = problem.numSlices;
  if (numSlices < 1 || placement.getNumSlices() != 1 ||
      placement.getNumPaths() % numSlices != 0 ||
      placement.getNumMicrobatches() % numSlices != 0)
    return makeError(formatv("the problem has {0} slices, which do not divide "
                             "its {1} paths and {2} microbatches",
                             numSlices, placement.getNumPaths(),
                             placement.getNumMicrobatches()));
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    if (placement.getPath(path).workers !=
        placement.getPath(path - path % numSlices).workers)
      return makeError(formatv("path {0} runs through other workers than the "
                               "first slice, path {1}",
                               path, path - path % numSlices));
  for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m) {
    int64_t first = placement.pathOf(m - m % numSlices);
    if (int64_t found = placement.pathOf(m);
        first % numSlices != 0 || found != first + m % numSlices)
      return makeError(formatv("slice {0} of microbatch {1} is on path {2}, "
                               "expected {3}",
                               m % numSlices, m / numSlices, found,
                               first - first % numSlices + m % numSlices));
  }
  for (int64_t path = 0; path < placement.getNumPaths(); path += numSlices)
    if (llvm::Error error = checkLeft(path))
      return error;
  return llvm::Error::success();
}

llvm::Error ProblemCheck::checkStage(int64_t stage) const {
  const NamedFact facts[] = {
      {"F takes", &StageFacts::forward, 1},
      {problem.techniques.splitBackward ? "I takes" : "B takes",
       &StageFacts::inputGrad, 1},
      {"W takes", &StageFacts::weightGrad,
       problem.techniques.splitBackward ? 1 : 0},
      {"R takes", &StageFacts::recompute, 0},
      {"D takes", &StageFacts::offload, 0},
      {"U takes", &StageFacts::reload, 0},
      {"an activation is delayed by", &StageFacts::activationDelay, 0},
      {"a gradient is delayed by", &StageFacts::gradientDelay, 0},
      {"D is delayed by", &StageFacts::offloadDelay, 0},
      {"an activation has", &StageFacts::activation, 0},
      {"a checkpoint has", &StageFacts::checkpoint, 0},
  };
  for (const NamedFact &fact : facts)
    if (int64_t found = problem.stages[stage].*fact.value; found < fact.least)
      return makeError(formatv("{0}: {1} {2}, expected {3} or more",
                               nameOf(stage), fact.name, found, fact.least));
  return llvm::Error::success();
}

llvm::Error ProblemCheck::checkMemory(int64_t stage) const {
  const StageFacts &facts = problem.stages[stage];
  if (facts.freedByInputGrad > facts.activation)
    return makeError(formatv("{0}: I frees {1}, more than the {2} that F "
                             "allocates",
                             nameOf(stage), facts.freedByInputGrad,
                             facts.activation));
  if (problem.techniques.recompute && facts.checkpoint > facts.activation)
    return makeError(
        formatv("{0}: a checkpoint has {1}, more than the {2} that "
                "F allocates",
                nameOf(stage), facts.checkpoint, facts.activation));
  return llvm::Error::success();
}

/// Checks sums. No chain is longer than all cells and messages one after the
/// other, and no worker ever holds more than all activations at once. With
/// these limits, sums of a head, a duration and a tail fit 64 bits.
llvm::Error ProblemCheck::checkSums() const {
  uint64_t time = 0, memory = 0;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
      const StageFacts &facts = problem.stages[placement.stageOffset(path) + s];
      uint64_t count = placement.countOnPath(path);
      for (int64_t ticks :
           {facts.forward, facts.inputGrad, facts.weightGrad, facts.recompute,
            facts.offload, facts.reload, facts.activationDelay,
            facts.gradientDelay, facts.offloadDelay})
        time = llvm::SaturatingMultiplyAdd(uint64_t(ticks), count, time);
      memory = llvm::SaturatingMultiplyAdd(uint64_t(facts.activation), count,
                                           memory);
      if (facts.leftForSlices > 0)
        memory = llvm::SaturatingMultiplyAdd(uint64_t(facts.leftForSlices),
                                             count, memory);
      if (facts.freedByInputGrad < 0)
        memory = llvm::SaturatingMultiplyAdd(-uint64_t(facts.freedByInputGrad),
                                             count, memory);
    }
  constexpr uint64_t mostTime = uint64_t(1) << 61;
  if (time > mostTime)
    return makeError("the times of all cells and messages add up to more than "
                     "2^61");
  if (memory > std::numeric_limits<int64_t>::max())
    return makeError("the activations of all cells add up to more than 2^63-1");
  return llvm::Error::success();
}

llvm::Error optimize::checkProblem(const Problem &problem) {
  return ProblemCheck(problem).run();
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

llvm::Expected<Placement> optimize::divideSlices(const Placement &placement) {
  int64_t numSlices = placement.getNumSlices();
  if (numSlices == 1)
    return placement;
  if (llvm::Error error = checkSize(placement.getNumPairs(), numSlices))
    return std::move(error);
  std::vector<Path> paths;
  for (const Path &whole : placement.getPaths())
    for (int64_t slice = 0; slice < numSlices; ++slice) {
      Path &path = paths.emplace_back(whole);
      path.takes.clear();
      for (MicrobatchRange range : whole.takes)
        if (range.size() > 0)
          path.takes.push_back({range.begin * numSlices + slice,
                                (range.end - 1) * numSlices + slice + 1,
                                range.step * numSlices});
      if (whole.takes.empty())
        path.takes.push_back({slice, placement.getNumUnits(), numSlices});
    }
  return Placement::create(placement.getNumWorkers(), placement.getNumUnits(),
                           std::move(paths));
}

Placement optimize::joinSlices(const Problem &problem) {
  const Placement &placement = problem.placement;
  int64_t numSlices = problem.numSlices;
  if (numSlices == 1)
    return placement;
  std::vector<Path> paths;
  for (int64_t path = 0; path < placement.getNumPaths(); path += numSlices) {
    Path &whole = paths.emplace_back(placement.getPath(path));
    for (MicrobatchRange &range : whole.takes)
      range = {range.begin / numSlices, (range.end - 1) / numSlices + 1,
               range.step / numSlices};
  }
  if (paths.size() == 1)
    paths.front().takes.clear();
  return llvm::cantFail(Placement::create(
      placement.getNumWorkers(), placement.getNumMicrobatches() / numSlices,
      std::move(paths), numSlices));
}

//===----------------------------------------------------------------------===//
// Capacity
//===----------------------------------------------------------------------===//

/// The least memory that an activation takes while later stages of the same
/// microbatch run on its worker. With `isSame`, while a later slice runs on its
/// stage, which needs its keys and values.
static int64_t leastHeld(const StageFacts &facts, Techniques techniques,
                         bool isSame) {
  if (techniques.offload && !isSame)
    return 0;
  return techniques.recompute ? facts.checkpoint : facts.activation;
}

/// Largest memory of one microbatch on a stage. An I may make memory grow.
static int64_t ownPeak(const StageFacts &facts, Techniques techniques) {
  int64_t growth = techniques.splitBackward ? -facts.freedByInputGrad : 0;
  return facts.activation + std::max<int64_t>(growth, 0) +
         std::max<int64_t>(facts.leftForSlices, 0);
}

namespace {
/// The memory that a single microbatch needs on the workers of a path.
class LonePath {
public:
  LonePath(const Problem &problem, int64_t path)
      : problem(problem), placement(problem.placement), path(path),
        sums(placement.getNumStages(path)), beside(placement.getNumWorkers()) {
    for (StageSums &stage : sums)
      for (int64_t slice = 0; slice < problem.numSlices; ++slice)
        stage.left += factsOf(&stage - sums.begin(), slice).leftForSlices;
  }

  void raise(std::vector<int64_t> &least);

private:
  /// Sums over the slices so far: the memory that they hold while later stages
  /// run, and while later slices of this stage run. Over the other slices: the
  /// memory that their backwards leave.
  struct StageSums {
    int64_t held = 0, heldHere = 0, left = 0;
  };

  const StageFacts &factsOf(int64_t s, int64_t slice) const {
    return problem.stages[placement.stageOffset(path + slice) + s];
  }
  int64_t workerOf(int64_t s) const {
    return placement.workerOf(placement.stageOffset(path) + s);
  }

  const Problem &problem;
  const Placement &placement;
  int64_t path;
  llvm::SmallVector<StageSums, 0> sums;
  std::vector<int64_t> beside; ///< by worker: held by its stages so far
};
} // namespace

/// While a slice runs on a stage, all slices up to it hold the memory that they
/// need on all stages up to its own: they have run before it, and their
/// backwards come after its backward.
void LonePath::raise(std::vector<int64_t> &least) {
  for (int64_t slice = 0; slice < problem.numSlices; ++slice) {
    for (int64_t s = 0; s < placement.getNumStages(path); ++s)
      beside[workerOf(s)] = 0;
    for (int64_t s = 0; s < placement.getNumStages(path); ++s) {
      const StageFacts &facts = factsOf(s, slice);
      StageSums &stage = sums[s];
      int64_t &most = least[workerOf(s)];
      stage.left -= facts.leftForSlices;
      most = std::max(most, beside[workerOf(s)] + stage.heldHere + stage.left +
                                ownPeak(facts, problem.techniques));
      stage.held += leastHeld(facts, problem.techniques, false);
      stage.heldHere += leastHeld(facts, problem.techniques, true);
      beside[workerOf(s)] += stage.held;
    }
  }
}

/// The schedule that runs one microbatch at a time needs the least memory. On
/// each worker, each stage must run F while earlier stages hold the part that
/// they cannot offload or recompute.
///
///   F s0      | activation
///   F s1      | held s0 | activation
///   F s2      | held s0 | held s1 | activation       s2, then s1, then s0 run
///                                                    I and W on the way back
std::vector<int64_t> optimize::leastCapacities(const Problem &problem) {
  std::vector<int64_t> least(problem.placement.getNumWorkers(), 0);
  for (int64_t path = 0; path < problem.placement.getNumPaths();
       path += problem.numSlices)
    if (problem.placement.countOnPath(path) > 0)
      LonePath(problem, path).raise(least);
  return least;
}

llvm::Error optimize::checkCapacity(const Problem &problem,
                                    llvm::StringRef unit) {
  std::vector<int64_t> least = leastCapacities(problem);
  for (auto [worker, capacity] : llvm::enumerate(problem.capacity))
    if (capacity < least[worker])
      return makeError(
          formatv("worker {0} has a capacity of {1}{4}{5}, which holds no "
                  "schedule: {2} more is needed, {3} at least",
                  worker, capacity, least[worker] - capacity, least[worker],
                  unit.empty() ? "" : " ", unit));
  return llvm::Error::success();
}
