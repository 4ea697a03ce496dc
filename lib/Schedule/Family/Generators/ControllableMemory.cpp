//===- ControllableMemory.cpp - V-Half, V-Min and automatic zero-bubble ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// V schedules. Their building block determines the memory that they need (Qi et
// al. 2024b, arXiv 2405.15362, section 4).
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "Support.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <array>
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Blocks that are shifted left
//
// A block has the cells of one microbatch. It is repeated for each microbatch,
// and the blocks are shifted left as far as the memory allows. A cell takes one
// slot. The simulation goes slot by slot and looks only at workers that may
// have a ready cell: workers that ran a cell in the previous slot, and workers
// that received a message from one.
//===----------------------------------------------------------------------===//

namespace {
/// The walk of a microbatch along a V: down and up forward, down and up with
/// the gradient. Position r of the path has chunk 0 (stage r) for the first and
/// the last leg, and chunk 1 (stage 2D-1-r) for the two middle legs.
///
///   position 0   F0 .  .  .  .  F1 I1 .  .  .  .  I0
///            1   .  F0 .  .  F1 .  .  I1 .  .  I0 .
///            2   .  .  F0 F1 .  .  .  .  I1 I0 .  .
///   leg             0      1          2      3
enum Leg : int { ForwardDown, ForwardUp, GradientDown, GradientUp };
constexpr int kNumLegs = 4;

/// Slots of the first microbatch's cells, linear in the position; cells of
/// microbatch m are m periods later. W cells have no slots: they fill gaps.
struct BuildingBlock {
  struct Leg {
    int64_t first, perPosition;
  };
  std::array<Leg, kNumLegs> legs;
  int64_t period = 6; ///< default: no gap between the cells of a worker

  int64_t slotOf(int leg, int64_t position) const {
    return legs[leg].first + legs[leg].perPosition * position;
  }
  /// The most microbatches of chunk 0 or 1 between their F and their I.
  int64_t countInFlight(int chunk, int64_t position) const;
  /// The most activations that a worker holds.
  int64_t peakOf(int64_t numWorkers) const;
};

struct LeftShiftOptions {
  int64_t memory; ///< activations that a worker may hold, at least peakOf()
  /// A forward of chunk 0 may run before a forward of chunk 1 that comes
  /// earlier in the block, if enough memory is left for chunk 1.
  bool mayOvertake;
  int64_t slotLimit; ///< stops after this many slots
};
} // namespace

int64_t BuildingBlock::countInFlight(int chunk, int64_t position) const {
  int forward = chunk == 0 ? ForwardDown : ForwardUp;
  int gradient = chunk == 0 ? GradientUp : GradientDown;
  return llvm::divideCeil(
      slotOf(gradient, position) - slotOf(forward, position), period);
}

int64_t BuildingBlock::peakOf(int64_t numWorkers) const {
  int64_t peak = 0;
  for (int64_t r = 0; r < numWorkers; ++r)
    peak = std::max(peak, countInFlight(0, r) + countInFlight(1, r));
  return peak;
}

namespace {
/// The choice of a worker in a slot: a cell of one of the legs, a W, or
/// nothing.
enum Choice : int { Weight = kNumLegs, Nothing };

/// State of one worker; arrays are by leg.
struct Position {
  int64_t due[kNumLegs];   ///< slot of the next cell in the block
  int32_t done[kNumLegs];  ///< microbatches that ran
  int32_t ready[kNumLegs]; ///< microbatches whose input has arrived
  int32_t held = 0;        ///< activations
  int32_t mostAhead = 0;   ///< overtaking: limit of chunk 0 in flight
  int32_t size = 0;        ///< cells in the row
  int32_t nextWeight =
      0; ///< before it are only cells other than I, and I whose W has run
  int32_t weightsLeft = 0; ///< number of I whose W has not run
  bool isAwake = true;
};

class LeftShift {
public:
  LeftShift(const BuildingBlock &block, const LeftShiftOptions &options,
            const Placement &placement, std::vector<Row> &rows);
  int64_t run();

private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Move {
    int32_t position;
    int32_t choice;
  };

  bool isReady(const Position &worker, int leg) const {
    return worker.done[leg] < worker.ready[leg];
  }
  Choice chooseForward(const Position &worker) const;
  Choice chooseGradient(const Position &worker) const;
  Choice choose(const Position &worker) const;
  void commit(Move move);
  void commitWeight(int32_t position);
  void sendOn(int32_t position, int leg);
  void wake(int32_t position);

  Row &rowOf(int32_t position) { return rows[placement.workerOf(position)]; }

  const LeftShiftOptions options;
  const Placement &placement;
  std::vector<Row> &rows;
  const int32_t numWorkers, numMicrobatches;
  const int64_t period;
  std::vector<Position> positions;
  std::vector<int32_t> awake; ///< positions to look at in the next slot
};
} // namespace

LeftShift::LeftShift(const BuildingBlock &block,
                     const LeftShiftOptions &options,
                     const Placement &placement, std::vector<Row> &rows)
    : options(options), placement(placement), rows(rows),
      numWorkers(placement.getNumWorkers()),
      numMicrobatches(placement.getNumMicrobatches()), period(block.period),
      positions(numWorkers) {
  for (int32_t r = 0; r < numWorkers; ++r) {
    Position &worker = positions[r];
    for (int leg = 0; leg < kNumLegs; ++leg) {
      worker.due[leg] = block.slotOf(leg, r);
      worker.done[leg] = worker.ready[leg] = 0;
    }
    if (options.mayOvertake)
      worker.mostAhead = options.memory - block.countInFlight(1, r);
    awake.push_back(r);
  }
  positions[0].ready[ForwardDown] = numMicrobatches;
}

/// Chooses among the forwards of both chunks in the block's order, unless a
/// forward may overtake. If both are due in one slot, chooses chunk 1.
Choice LeftShift::chooseForward(const Position &worker) const {
  bool isUpNext = worker.due[ForwardUp] <= worker.due[ForwardDown];
  if (isUpNext && isReady(worker, ForwardUp))
    return Choice(ForwardUp);
  if (!isReady(worker, ForwardDown))
    return Nothing;
  int32_t inFlight = worker.done[ForwardDown] - worker.done[GradientUp];
  return !isUpNext || inFlight < worker.mostAhead ? Choice(ForwardDown)
                                                  : Nothing;
}

Choice LeftShift::chooseGradient(const Position &worker) const {
  bool isDownReady = isReady(worker, GradientDown);
  if (!isReady(worker, GradientUp))
    return isDownReady ? Choice(GradientDown) : Nothing;
  bool isUpFirst = worker.due[GradientUp] <= worker.due[GradientDown];
  return isUpFirst || !isDownReady ? Choice(GradientUp) : Choice(GradientDown);
}

Choice LeftShift::choose(const Position &worker) const {
  Choice forward = chooseForward(worker), gradient = chooseGradient(worker);
  bool isForwardFirst =
      forward != Nothing &&
      (gradient == Nothing || worker.due[forward] < worker.due[gradient]);
  if (isForwardFirst && worker.held < options.memory)
    return forward;
  if (worker.weightsLeft != 0 && (isForwardFirst || gradient == Nothing))
    return Weight;
  return gradient;
}

void LeftShift::wake(int32_t position) {
  if (positions[position].isAwake)
    return;
  positions[position].isAwake = true;
  awake.push_back(position);
}

/// Marks the next cell of the microbatch's walk as ready.
void LeftShift::sendOn(int32_t position, int leg) {
  int32_t neighbour =
      position + (leg == ForwardDown || leg == GradientDown ? 1 : -1);
  if (neighbour >= 0 && neighbour < numWorkers) {
    ++positions[neighbour].ready[leg];
    wake(neighbour);
  } else if (leg != GradientUp) {
    ++positions[position].ready[leg + 1];
  }
}

void LeftShift::commitWeight(int32_t position) {
  Position &worker = positions[position];
  Row &row = rowOf(position);
  while (!row[worker.nextWeight].is(Phase::InputGrad))
    ++worker.nextWeight;
  row[worker.size++] = row[worker.nextWeight++].withPhase(Phase::WeightGrad);
  --worker.weightsLeft;
  --worker.held;
}

void LeftShift::commit(Move move) {
  wake(move.position);
  if (move.choice == Weight)
    return commitWeight(move.position);
  int leg = move.choice;
  Position &worker = positions[move.position];
  bool isForward = leg == ForwardDown || leg == ForwardUp;
  bool isFirstChunk = leg == ForwardDown || leg == GradientUp;
  rowOf(move.position)[worker.size++] =
      Cell(isFirstChunk ? move.position : 2 * numWorkers - 1 - move.position,
           isForward ? Phase::Forward : Phase::InputGrad, worker.done[leg]);
  ++(isForward ? worker.held : worker.weightsLeft);
  worker.due[leg] =
      ++worker.done[leg] == numMicrobatches ? kNever : worker.due[leg] + period;
  sendOn(move.position, leg);
}

int64_t LeftShift::run() {
  std::vector<Move> moves;
  int64_t slots = 0;
  while (!awake.empty() && slots < options.slotLimit) {
    moves.clear();
    for (int32_t position : awake) {
      positions[position].isAwake = false;
      Choice choice = choose(positions[position]);
      if (choice != Nothing)
        moves.push_back({position, choice});
    }
    awake.clear();
    slots += !moves.empty();
    for (Move move : moves)
      commit(move);
  }
  return slots;
}

/// Fills the rows, which have their final lengths, on a V path. Returns the
/// number of slots that they take, or the limit if they reach it. Linear in
/// cells.
///
/// In each slot, every worker runs the ready cell that is first in the block,
/// or its oldest W if no cell is ready or there is no memory for a forward. The
/// loop terminates: all inputs of the first cell in the block's order that has
/// not run are there. If it is a gradient cell, it is ready. If it is a
/// forward, there is memory for it, because the worker holds no more than the
/// block does there; with overtaking, chunk 0 leaves room for the most that the
/// block holds of chunk 1.
static int64_t shiftLeft(const BuildingBlock &block,
                         const LeftShiftOptions &options,
                         const Placement &placement, std::vector<Row> &rows) {
  return LeftShift(block, options, placement, rows).run();
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Holds half of 1F1B's activations. The slots of a worker must differ modulo
/// the period of 6; `extra` ensures it for an even number of workers.
static BuildingBlock makeHalf(int64_t numWorkers) {
  int64_t extra = numWorkers % 2 == 0 ? 3 : 0;
  return {{{{0, 2},
            {3 * numWorkers - 2, -1},
            {3 * numWorkers + extra - 1, 2},
            {6 * numWorkers + extra - 2, -1}}}};
}

/// Holds a third of 1F1B's activations: each cell runs right after the cell
/// that it waits for. With a multiple of three workers, gradients start two
/// slots later, so that cells do not collide.
static BuildingBlock makeMin(int64_t numWorkers) {
  int64_t extra = numWorkers % 3 == 0 ? 2 : 0;
  return {{{{0, 1},
            {2 * numWorkers - 1, -1},
            {2 * numWorkers + extra, 1},
            {4 * numWorkers + extra - 1, -1}}}};
}

/// Holds as many activations as 1F1B: forwards at distances of two slots,
/// gradients at distances of four and one. This block is not from the paper. It
/// is the best of the tried blocks for memories between V-Half's and 1F1B's.
static BuildingBlock makeWide(int64_t numWorkers) {
  return {{{{0, 2},
            {4 * numWorkers - 3, -2},
            {4 * numWorkers - 2, 4},
            {9 * numWorkers - 6, -1}}}};
}

/// For less memory than V-Min. Forwards down have distances of two slots, and
/// all other cells distances of one, so that workers near the turn do not wait
/// for each other. This block is not from the paper either.
static BuildingBlock makeSteep(int64_t numWorkers) {
  return {{{{0, 2},
            {3 * numWorkers - 2, -1},
            {3 * numWorkers - 1, 1},
            {5 * numWorkers - 2, -1}}}};
}

/// The peak of V-Min in the paper, 2 (floor((D+1)/3) + 1). Its block holds one
/// activation less if 3 divides D+1.
static int64_t peakOfMin(int64_t numWorkers) {
  return 2 * ((numWorkers + 1) / 3 + 1);
}

static int64_t fitPeriod(BuildingBlock block, int64_t numWorkers,
                         int64_t memory) {
  // Two activations suffice if each microbatch enters after the previous one
  // has left.
  int64_t tooSmall = block.period - 1;
  int64_t fits = std::max(block.period, block.slotOf(GradientUp, 0));
  while (fits - tooSmall > 1) {
    block.period = tooSmall + (fits - tooSmall) / 2;
    (block.peakOf(numWorkers) <= memory ? fits : tooSmall) = block.period;
  }
  return fits;
}

/// Blocks that may be the best for a memory, each with the smallest period that
/// fits. If that period is longer than the block's own, the block is also tried
/// with the next period.
static llvm::SmallVector<BuildingBlock> chooseBlocks(int64_t numWorkers,
                                                     int64_t memory) {
  BuildingBlock half = makeHalf(numWorkers);
  llvm::SmallVector<BuildingBlock, 3> candidates = {half};
  if (memory >= half.peakOf(numWorkers))
    candidates.push_back(makeWide(numWorkers));
  else
    candidates.append({makeMin(numWorkers), makeSteep(numWorkers)});
  llvm::SmallVector<BuildingBlock> blocks;
  for (BuildingBlock block : candidates) {
    int64_t period = fitPeriod(block, numWorkers, memory);
    bool hasGaps = period != block.period;
    for (block.period = period; block.period <= period + hasGaps;
         ++block.period)
      blocks.push_back(block);
  }
  return blocks;
}

/// Tries both left shifts of every block and returns the shortest table, or the
/// first of several that are equally short.
static Table generateFromBlocks(const Placement &placement,
                                ArrayRef<BuildingBlock> blocks,
                                int64_t memory) {
  Table best = makeEmptyTable(placement, GradientAfter::InputGrad, 3);
  std::vector<Row> trial = best.rows;
  int64_t fewestSlots = std::numeric_limits<int64_t>::max();
  for (const BuildingBlock &block : blocks)
    for (bool mayOvertake : {false, true}) {
      int64_t slots = shiftLeft(block, {memory, mayOvertake, fewestSlots},
                                placement, trial);
      if (slots == fewestSlots)
        continue;
      fewestSlots = slots;
      std::swap(best.rows, trial);
    }
  return best;
}

static Expected<Placement> placeVSchedule(const Placement &given,
                                          const GeneratorOptions &options,
                                          llvm::StringRef family) {
  Expected<Placement> placement = placeVPath(given, family);
  if (!placement)
    return placement.takeError();
  if (Error error = checkGradientAfterInput(options, family))
    return std::move(error);
  if (Error error = checkTableSize(*placement, family, 3))
    return std::move(error);
  return placement;
}

Expected<Table> pipesched::generateVHalf(const Placement &given,
                                         const GeneratorOptions &options) {
  Expected<Placement> placement = placeVSchedule(given, options, "v-half");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  BuildingBlock block = makeHalf(numWorkers);
  return generateFromBlocks(*placement, block, block.peakOf(numWorkers));
}

/// V-Half in which gradients start one period later for each barrier between
/// the shards of the vocabulary.
Expected<Table>
pipesched::generateVocabVHalf(const Placement &given,
                              const VocabularyOptions &options) {
  Expected<Placement> placement =
      placeVSchedule(given, options, "vocab-v-half");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  int64_t numBarriers =
      options.algorithm == VocabularyAlgorithm::Vocab1 ? 2 : 1;
  BuildingBlock block = makeHalf(numWorkers);
  block.legs[GradientDown].first += numBarriers * block.period;
  block.legs[GradientUp].first += numBarriers * block.period;
  Table table = generateFromBlocks(*placement, block, block.peakOf(numWorkers));
  Expected<std::vector<Row>> rows =
      spreadVocabulary(table.view(), options.algorithm);
  if (!rows)
    return rows.takeError();
  table.rows = std::move(*rows);
  return table;
}

Expected<Table> pipesched::generateVMin(const Placement &given,
                                        const GeneratorOptions &options) {
  Expected<Placement> placement = placeVSchedule(given, options, "v-min");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  return generateFromBlocks(*placement, makeMin(numWorkers),
                            peakOfMin(numWorkers));
}

Expected<Table> pipesched::generateZBAuto(const Placement &given,
                                          const ZBAutoOptions &options) {
  Expected<Placement> placement = placeVSchedule(given, options, "zb-auto");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  int64_t memory = options.memory.value_or(2 * numWorkers);
  if (memory < 2)
    return formatError("zb-auto takes a memory of at least 2 activations, one "
                       "for each stage of a worker, found {0}",
                       memory);
  // If all activations fit, memory does not matter.
  int64_t numLocalPairs = 2 * placement->getNumMicrobatches();
  if (memory >= numLocalPairs)
    memory = std::max(numLocalPairs, 2 * numWorkers);
  return generateFromBlocks(*placement, chooseBlocks(numWorkers, memory),
                            memory);
}
