//===- Moves.cpp - Changes of plans ---------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws a change, makes it, and undoes it.
//
//===----------------------------------------------------------------------===//

#include "LocalSearch.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;

/// How far a cell goes at most in one move, and the longest block, in cells.
static constexpr uint32_t kFarthest = 24, kLongestBlock = 4;

/// Whether two cells of a row may change places: `later` does not depend on
/// `earlier`, neither directly nor through two cells of another worker's row.
bool Mover::areFree(const Plan &plan, Token earlier, Token later) const {
  const KindFacts &a = encoding.kinds[earlier.kind];
  const KindFacts &b = encoding.kinds[later.kind];
  const Sent &message = sent[earlier.kind];
  if (message.worker != kNone && earlier.cell + message.distance == later.cell)
    return false;
  if (a.stage == b.stage && (a.type == b.type || earlier.cell - a.firstCell ==
                                                     later.cell - b.firstCell))
    return false;
  if (encoding.isFixedBySlices(earlier, later))
    return false;
  return message.worker != b.waitsOn || b.waitsOn == kNone ||
         plan.positions[earlier.cell + message.distance] >
             plan.positions[later.cell + b.waitsFor];
}

void Mover::save(const Plan &plan, uint32_t from, uint32_t to) {
  begin = from;
  size = plan.sizes[worker];
  saved.assign(plan.tokens.begin() + from, plan.tokens.begin() + to);
}

/// Whether there is memory for the compute cells of [begin, end) when all
/// offloads before them are over. Reloads may wait for memory.
bool Mover::fits(const Plan &plan) const {
  for (uint32_t pos = begin; pos < end; ++pos) {
    const KindFacts &kind = encoding.kinds[plan.tokens[pos].kind];
    if (kind.allocates > 0 && !kind.isCopy() &&
        plan.levels[pos] + kind.allocates > encoding.capacity[worker])
      return false;
  }
  return true;
}

/// Updates the plan after tokens of [begin, last) have changed places. False:
/// the memory does not suffice, and the change is undone.
bool Mover::apply(Plan &plan, uint32_t last) {
  isWholeRow = false;
  end = last;
  if (plan.refresh(encoding, worker, begin, end) && fits(plan))
    return true;
  undo(plan);
  return false;
}

void Mover::undo(Plan &plan) const {
  if (isGlobal()) {
    for (const Patch &patch : llvm::reverse(patches))
      plan.tokens[patch.position] = patch.before;
    plan.refreshAll(encoding);
    return;
  }
  std::copy(saved.begin(), saved.end(), plan.tokens.begin() + begin);
  plan.sizes[worker] = size;
  if (isWholeRow)
    plan.refreshRow(encoding, worker);
  else
    plan.refresh(encoding, worker, begin, begin + saved.size());
}

//===----------------------------------------------------------------------===//
// Changes of order
//===----------------------------------------------------------------------===//

/// How many places, up to `most`, a cell can move.
uint32_t Mover::reach(const Plan &plan, uint32_t position, uint32_t most,
                      bool isForward) const {
  uint32_t rowBegin = encoding.rowBegins[worker];
  uint32_t rowEnd = rowBegin + plan.sizes[worker];
  Token token = plan.tokens[position];
  most =
      std::min(most, isForward ? rowEnd - 1 - position : position - rowBegin);
  for (uint32_t steps = 0; steps < most; ++steps) {
    uint32_t other = isForward ? position + steps + 1 : position - steps - 1;
    if (!areFree(plan, isForward ? token : plan.tokens[other],
                 isForward ? plan.tokens[other] : token))
      return steps;
  }
  return most;
}

bool Mover::rotate(Plan &plan, uint32_t first, uint32_t middle, uint32_t last) {
  save(plan, first, last);
  auto tokens = plan.tokens.begin();
  std::rotate(tokens + first, tokens + middle, tokens + last);
  return apply(plan, last);
}

static uint32_t drawDistance(Random &random) {
  uint32_t distance = 1;
  double onward = random.chance(0.2) ? 0.9 : 0.5;
  while (distance < kFarthest && random.chance(onward))
    ++distance;
  return distance;
}

bool Mover::drawInsertion(Plan &plan, uint32_t position, Random &random) {
  bool isForward = random.chance(0.5);
  uint32_t steps = reach(plan, position, drawDistance(random), isForward);
  if (steps == 0)
    return false;
  return isForward ? rotate(plan, position, position + 1, position + steps + 1)
                   : rotate(plan, position - steps, position, position + 1);
}

/// Exchanges two neighbouring blocks.
bool Mover::drawBlock(Plan &plan, uint32_t position, Random &random) {
  uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  uint32_t middle = position + 1 + random.below(kLongestBlock);
  uint32_t last = middle + 1 + random.below(kLongestBlock);
  if (last > rowEnd)
    return false;
  for (uint32_t i = position; i < middle; ++i)
    for (uint32_t j = middle; j < last; ++j)
      if (!areFree(plan, plan.tokens[i], plan.tokens[j]))
        return false;
  return rotate(plan, position, middle, last);
}

/// Exchanges two cells.
bool Mover::drawExchange(Plan &plan, uint32_t position, Random &random) {
  uint32_t distance = 1 + drawDistance(random);
  uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  uint32_t other = position + distance;
  if (other >= rowEnd || reach(plan, position, distance, true) < distance ||
      reach(plan, other, distance, false) < distance)
    return false;
  save(plan, position, other + 1);
  std::swap(plan.tokens[position], plan.tokens[other]);
  return apply(plan, other + 1);
}

//===----------------------------------------------------------------------===//
// Changes of the order of backwards
//===----------------------------------------------------------------------===//

/// Replaces the cell of one microbatch by that of the other.
void Mover::replace(Plan &plan, Token from, Token to) {
  uint32_t position = plan.positions[from.cell];
  if (position == kNone)
    return;
  patches.push_back({position, from});
  plan.tokens[position] = to;
}

/// Exchanges the backwards of two microbatches on one stage. The first now runs
/// later and the second earlier, so the copies or R that brought the second
/// back now serve the first. False: one is offloaded, the other recomputed.
bool Mover::relabel(Plan &plan, Token first, Token second) {
  auto of = [&](Token token, CellType type) {
    return encoding.sibling(token, type);
  };
  bool isFirstOut = plan.has(of(first, CellType::Offload));
  bool isSecondOut = plan.has(of(second, CellType::Offload));
  bool isFirstAgain = plan.has(of(first, CellType::Recompute));
  bool isSecondAgain = plan.has(of(second, CellType::Recompute));
  if ((isFirstOut && isSecondAgain) || (isFirstAgain && isSecondOut))
    return false;
  auto exchange = [&](CellType type) {
    replace(plan, of(first, type), of(second, type));
    replace(plan, of(second, type), of(first, type));
  };
  exchange(CellType::InputGrad);
  exchange(CellType::WeightGrad);
  if (isSecondOut)
    exchange(CellType::Reload);
  if (isSecondOut && !isFirstOut)
    exchange(CellType::Offload);
  if (isSecondAgain)
    exchange(CellType::Recompute);
  return true;
}

bool Mover::drawRelabel(Plan &plan, uint32_t position, Random &random) {
  Token input = encoding.sibling(plan.tokens[position], CellType::InputGrad);
  const KindFacts &kind = encoding.kinds[input.kind];
  uint32_t rank = encoding.rankOf(input), distance = 1;
  while (distance < kind.count && random.chance(0.3))
    ++distance;
  if (rank + distance >= kind.count)
    return false;
  Token other = {input.cell + distance, input.kind};
  if (plan.positions[input.cell] > plan.positions[other.cell])
    std::swap(input, other);
  uint32_t stage = kind.stage;
  while (encoding.stageBefore[stage] != kNone)
    stage = encoding.stageBefore[stage];
  bool isValid = true;
  rank = encoding.rankOf(input);
  for (; stage != kNone; stage = encoding.nextStage[stage])
    for (uint32_t slice = 0; slice < encoding.numSlices; ++slice) {
      uint32_t own = encoding.withSlice(stage, slice);
      isValid =
          isValid && relabel(plan, encoding.token(own, CellType::Forward, rank),
                             encoding.token(own, CellType::Forward,
                                            encoding.rankOf(other)));
    }
  if (patches.empty())
    return false;
  isValid = isValid && plan.refreshAll(encoding) && areOrdered(plan);
  if (!isValid)
    undo(plan);
  return isValid;
}

/// Whether every replaced cell is in order with the others of its microbatch.
bool Mover::areOrdered(const Plan &plan) const {
  return llvm::all_of(patches, [&](const Patch &patch) {
    return plan.isOrdered(encoding, plan.tokens[patch.position]);
  });
}

bool Mover::draw(Plan &plan, uint32_t row, uint32_t position, Random &random) {
  worker = row;
  patches.clear();
  uint32_t choice = random.below(100);
  if (encoding.offload || encoding.recompute) {
    if (choice >= 88)
      return drawEviction(plan, position, random);
    if (choice >= 85)
      return drawRelabel(plan, position, random);
  }
  if (choice < 60)
    return drawInsertion(plan, position, random);
  return choice < 75 ? drawExchange(plan, position, random)
                     : drawBlock(plan, position, random);
}
