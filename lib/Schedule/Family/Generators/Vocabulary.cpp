//===- Vocabulary.cpp - 1F1B with shards of a vocabulary ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vocabulary parallelism (Yeung et al. 2024, arXiv 2411.05288): all workers run
// a shard of the head, S and T, in each interval of 1F1B.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

namespace {
/// Writes the cells of a worker's only stage, but none for microbatches out of
/// range.
class ShardRow {
public:
  ShardRow(RowWriter &row, int64_t stage, int64_t numUnits, bool reduces)
      : row(row), stage(stage), numUnits(numUnits), reduces(reduces) {}

  /// Writes F and, right after it, X: the worker is then ready for the last
  /// output early, so that no worker waits for it.
  void forward(int64_t unit) {
    if (!isInRange(unit))
      return;
    row.forward(stage, unit);
    row.cell(stage, Phase::Broadcast, unit);
  }
  void backward(int64_t unit) {
    if (isInRange(unit))
      row.backward(stage, unit);
  }
  void logits(int64_t unit) {
    if (!isInRange(unit))
      return;
    row.cell(stage, Phase::Logits, unit);
    row.cell(stage, Phase::Combine, unit);
  }
  void logitsGrad(int64_t unit) {
    if (!isInRange(unit))
      return;
    row.cell(stage, Phase::LogitsGrad, unit);
    if (reduces)
      row.cell(stage, Phase::Reduce, unit);
  }
  /// Writes one step of the head.
  void step(int64_t unit) {
    logits(unit);
    logitsGrad(unit - 1);
  }

private:
  bool isInRange(int64_t unit) const { return unit >= 0 && unit < numUnits; }

  RowWriter &row;
  int64_t stage, numUnits;
  bool reduces;
};

/// The places of the steps of the head in a worker's row.
struct StepPlace {
  bool isBeforeForward = true; ///< B S F in the steady state, else B F S
  int64_t numWarmUp = 0;       ///< additional steps before the first B
};
} // namespace

static int64_t cellsPerUnit(bool reduces) { return reduces ? 7 : 6; }

/// From the last worker to the first, steps start earlier and earlier relative
/// to the last worker: by one forward per worker, but by at most a backward.
/// When that is reached, the step goes after the forward of its interval.
/// `offset` is the delay of a step relative to the last worker. In units of F,
/// with B = 2:
///
///   worker      p-1  p-2  p-3  p-4  p-5  p-6
///   offset        0   -1   -2   -2   -1   -2
///   order       BSF  BSF  BSF  BFS  BSF  BSF
///   numWarmUp     0    1    2    3    3    4
static std::vector<StepPlace> placeSteps(int64_t numWorkers, int64_t backward) {
  constexpr int64_t forward = 100; // percent
  std::vector<StepPlace> places(numWorkers);
  int64_t offset = 0;
  bool isBehindLate = false; ///< whether the next worker has the order B F S
  for (int64_t r = numWorkers - 2; r >= 0; --r) {
    StepPlace &place = places[r];
    if (isBehindLate) {
      isBehindLate = false;
    } else if (offset - forward >= -backward) {
      offset -= forward;
    } else {
      place.isBeforeForward = false;
      isBehindLate = true;
      offset += backward - forward;
    }
    bool isSame = place.isBeforeForward && !places[r + 1].isBeforeForward;
    place.numWarmUp = places[r + 1].numWarmUp + !isSame;
  }
  return places;
}

/// Writes a row with `w` warm-up forwards, of which the last one or two come
/// after a step:
///
///   F .. F S0 F (S1 F) S .. S | B0 S F  B1 S F ..
static void writeVocab1F1B(ShardRow &row, int64_t numForwards,
                           int64_t numBarriers, const StepPlace &place,
                           int64_t numUnits) {
  int64_t nextForward = 0, nextStep = 0;
  auto forwards = [&](int64_t count) {
    for (; count > 0; --count)
      row.forward(nextForward++);
  };
  forwards(numForwards);
  for (int64_t i = 0; i < numBarriers; ++i) {
    row.step(nextStep++);
    forwards(1);
  }
  for (int64_t i = 0; i < place.numWarmUp; ++i)
    row.step(nextStep++);
  for (int64_t unit = 0; unit < numUnits || nextStep <= numUnits; ++unit) {
    row.backward(unit);
    if (!place.isBeforeForward)
      forwards(1);
    row.step(nextStep++);
    if (place.isBeforeForward)
      forwards(1);
  }
}

Expected<Table> pipesched::generateVocab1F1B(const Placement &placement,
                                             const Vocab1F1BOptions &options) {
  bool reduces = options.algorithm == VocabularyAlgorithm::Vocab1;
  int64_t backward = options.backward.value_or(Vocab1F1BOptions::kUnitBackward);
  if (Error error = checkOneStagePerWorker(placement, "vocab-1f1b"))
    return std::move(error);
  if (backward < 1 || backward > Vocab1F1BOptions::kMostBackward)
    return formatError("backward of vocab-1f1b is the time of B in percent of "
                       "the time of F, expected 1 to {0}, found {1}",
                       Vocab1F1BOptions::kMostBackward, backward);
  if (Error error =
          checkTableSize(placement, "vocab-1f1b", cellsPerUnit(reduces)))
    return std::move(error);
  Table table = makeEmptyTable(placement, GradientAfter::InputGrad,
                               cellsPerUnit(reduces));
  int64_t numUnits = placement.getNumUnits();
  int64_t numStages = placement.getMaxStages();
  std::vector<StepPlace> places = placeSteps(numStages, backward);
  writeRows(table, [&](int64_t stage, RowWriter &writer) {
    ShardRow row(writer, stage, numUnits, reduces);
    writeVocab1F1B(row, numStages - stage, reduces ? 2 : 1, places[stage],
                   numUnits);
  });
  return splitIfAsked(std::move(table), options);
}

//===----------------------------------------------------------------------===//
// Interlaced
//===----------------------------------------------------------------------===//

namespace {
/// The cycles in which a worker runs the cells of microbatch 0. In each cycle
/// all workers run S and T of one microbatch, then each runs one F and one B.
struct CyclePlace {
  bool isBackwardFirst = true;
  int64_t forward = -1, backward = 0;
};
} // namespace

/// The orders F B and B F alternate from worker to worker. So every other
/// worker runs a forward in the cycle in which the previous worker ran it, and
/// no gradient reaches the next worker within its cycle:
///
///   cycle            -3     -2     -1      0      1      2
///   worker p-1  B F   .      .      F0     B0 F1  B1 F2
///          p-2  F B   .      .      F0     F1     F2 B0
///          p-3  B F   .      F0     F1     F2     F3     B0 F4
static std::vector<CyclePlace> placeCycles(int64_t numWorkers) {
  std::vector<CyclePlace> places(numWorkers);
  for (int64_t r = numWorkers - 2; r >= 0; --r) {
    const CyclePlace &next = places[r + 1];
    bool isBackwardFirst = !next.isBackwardFirst;
    places[r] = {isBackwardFirst, next.forward - isBackwardFirst,
                 next.backward + 1};
  }
  return places;
}

static void writeInterlaced(ShardRow &row, const CyclePlace &place,
                            int64_t numUnits) {
  for (int64_t cycle = place.forward; cycle <= numUnits + place.backward;
       ++cycle) {
    row.logits(cycle);
    row.logitsGrad(cycle);
    if (place.isBackwardFirst)
      row.backward(cycle - place.backward);
    row.forward(cycle - place.forward);
    if (!place.isBackwardFirst)
      row.backward(cycle - place.backward);
  }
}

Expected<Table>
pipesched::generateInterlaced1F1B(const Placement &placement,
                                  const GeneratorOptions &options) {
  if (Error error = checkOneStagePerWorker(placement, "interlaced-1f1b"))
    return std::move(error);
  if (Error error =
          checkTableSize(placement, "interlaced-1f1b", cellsPerUnit(true)))
    return std::move(error);
  Table table = makeEmptyTable(placement, GradientAfter::InputGrad,
                               cellsPerUnit(/*reduces=*/true));
  int64_t numUnits = placement.getNumUnits();
  std::vector<CyclePlace> places = placeCycles(placement.getMaxStages());
  writeRows(table, [&](int64_t stage, RowWriter &writer) {
    ShardRow row(writer, stage, numUnits, /*reduces=*/true);
    writeInterlaced(row, places[stage], numUnits);
  });
  return splitIfAsked(std::move(table), options);
}
