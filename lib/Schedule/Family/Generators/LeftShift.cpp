//===- LeftShift.cpp - V schedules from a repeated building block ---------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A simulation slot by slot that looks only at workers that may have a ready
// cell: those that ran a cell in the slot before, and those that received a
// message from one.
//
//===----------------------------------------------------------------------===//

#include "LeftShift.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <limits>

using namespace pipesched;

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
/// What a worker does in a slot: a cell of one of the legs, or one of these.
enum Choice : int { Weight = kNumLegs, Nothing };

/// State of one worker; arrays are by leg.
struct Position {
  int64_t due[kNumLegs];   ///< slot of the next cell in the block
  int32_t done[kNumLegs];  ///< microbatches that ran
  int32_t ready[kNumLegs]; ///< microbatches whose input has arrived
  int32_t held = 0;        ///< activations
  int32_t mostAhead = 0;   ///< overtaking: limit of chunk 0 in flight
  int32_t size = 0;        ///< cells in the row
  int32_t nextWeight = 0;  ///< cells before it are not I, or their W has run
  int32_t weightsLeft = 0; ///< I whose W has not run
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

/// Chooses among the forwards of both chunks in the block's order, unless one
/// may overtake. If both are due in one slot, chunk 1 goes first.
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

/// Makes the next cell of the microbatch's walk ready.
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

int64_t pipesched::shiftLeft(const BuildingBlock &block,
                             const LeftShiftOptions &options,
                             const Placement &placement,
                             std::vector<Row> &rows) {
  return LeftShift(block, options, placement, rows).run();
}
