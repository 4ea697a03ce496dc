//===- EvictionMoves.cpp - Which activations leave the device
//--------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves that decide which activations are offloaded or recomputed. Most such
// changes are of no use by themselves: an activation that is kept takes memory
// from forwards, and one that is evicted frees memory that no forward uses yet.
// Therefore a move may also change the order of the row around it.
//
//===----------------------------------------------------------------------===//

#include "LocalSearch.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;

/// The largest distance of two microbatches of a stage of which one is evicted
/// in place of the other.
static constexpr uint32_t kFarthestTransfer = 4;
/// A new reload or R stands fewer than this many cells ahead of its I.
static constexpr uint32_t kMostAhead = 4;
/// How far a forward moves at most into memory that has become free.
static constexpr uint32_t kFarthestPull = 12;
/// How many cells may wait for memory at a time.
static constexpr size_t kMostDelayed = 24;

/// How the activation comes back: Reload, Recompute, or Forward if it stays.
CellType Mover::evictionOf(const Plan &plan, Token forward) const {
  for (CellType back : {CellType::Reload, CellType::Recompute})
    if (plan.has(encoding.sibling(forward, back)))
      return back;
  return CellType::Forward;
}

CellType Mover::drawKind(Random &random) const {
  bool isOffload =
      encoding.offload && (!encoding.recompute || random.chance(0.6));
  return isOffload ? CellType::Reload : CellType::Recompute;
}

/// Inserts a cell into the row. Positions of the plan stay as they were.
void Mover::insert(Plan &plan, uint32_t position, Token token) {
  auto tokens = plan.tokens.begin();
  uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  std::copy_backward(tokens + position, tokens + rowEnd, tokens + rowEnd + 1);
  plan.tokens[position] = token;
  ++plan.sizes[worker];
}

/// Removes D and U or R of a microbatch.
void Mover::keepOnDevice(Plan &plan, Token forward) {
  auto isEviction = [&](Token token) {
    return encoding.kinds[token.kind].type >= CellType::Recompute &&
           encoding.sibling(token, CellType::Forward) == forward;
  };
  auto from = plan.tokens.begin() + encoding.rowBegins[worker];
  auto to = from + plan.sizes[worker];
  plan.sizes[worker] -= to - std::remove_if(from, to, isEviction);
  plan.refreshRow(encoding, worker);
}

/// Inserts R, or U, shortly before I, and D right after F. Keys and values of
/// slices are copied together with activations: between the last F and the
/// first I of the microbatch.
void Mover::evict(Plan &plan, Token forward, CellType back, Random &random) {
  Token last = forward;
  if (back == CellType::Reload)
    last = encoding.ofSlice(forward, CellType::Forward, encoding.numSlices - 1);
  uint32_t from = plan.positions[last.cell] + 1;
  Token input = encoding.sibling(last, CellType::InputGrad);
  Token lastReload = encoding.sibling(last, CellType::Reload);
  if (last != forward && plan.has(lastReload))
    input = lastReload;
  uint32_t until = plan.positions[input.cell];
  uint32_t ahead = std::min(until - from, random.below(kMostAhead));
  if (back == CellType::Recompute && random.chance(0.5))
    ahead = 0;
  insert(plan, until - ahead, encoding.sibling(forward, back));
  if (back == CellType::Reload)
    insert(plan, from, encoding.sibling(forward, CellType::Offload));
  plan.refreshRow(encoding, worker);
}

/// Moves a forward that stands between F and I of this microbatch to an earlier
/// place, into the memory that the eviction frees.
void Mover::pullForward(Plan &plan, Token forward, Random &random) {
  uint32_t from = plan.positions[forward.cell] + 1;
  uint32_t until =
      plan.positions[encoding.sibling(forward, CellType::InputGrad).cell];
  uint32_t position = from + random.below(until - from + 1);
  while (position < until &&
         encoding.kinds[plan.tokens[position].kind].type != CellType::Forward)
    ++position;
  if (position >= until)
    return;
  uint32_t most = 1 + random.below(kFarthestPull);
  uint32_t steps = reach(plan, position, std::min(most, position - from),
                         /*isForward=*/false);
  auto tokens = plan.tokens.begin();
  std::rotate(tokens + position - steps, tokens + position,
              tokens + position + 1);
  plan.refreshRow(encoding, worker);
}

/// Delays each compute cell for which memory does not suffice, and the cells
/// that depend on it, until memory suffices. False: it never does.
bool Mover::delayForMemory(Plan &plan) {
  ordered.clear();
  delayed.clear();
  int64_t level = plan.levels[begin];
  auto hasRoom = [&](Token token) {
    const KindFacts &kind = encoding.kinds[token.kind];
    return kind.isCopy() || kind.allocates == 0 ||
           level + kind.allocates <= encoding.capacity[worker];
  };
  auto put = [&](Token token) {
    const KindFacts &kind = encoding.kinds[token.kind];
    level += kind.allocates - kind.frees;
    if (kind.type == CellType::Forward &&
        plan.has(encoding.sibling(token, CellType::Recompute)))
      level -= encoding.freedByDropping(kind.stage);
    ordered.push_back(token);
  };
  const uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  for (uint32_t pos = begin; pos < rowEnd; ++pos) {
    Token token = plan.tokens[pos];
    bool isFree = llvm::all_of(
        delayed, [&](Token earlier) { return areFree(plan, earlier, token); });
    if (!isFree || !hasRoom(token)) {
      delayed.push_back(token);
      if (delayed.size() > kMostDelayed)
        return false;
      continue;
    }
    put(token);
    size_t number = 0;
    for (; number < delayed.size() && hasRoom(delayed[number]); ++number)
      put(delayed[number]);
    delayed.erase(delayed.begin(), delayed.begin() + number);
  }
  if (!delayed.empty())
    return false;
  std::copy(ordered.begin(), ordered.end(), plan.tokens.begin() + begin);
  return true;
}

/// Accepts the row, in which the eviction of two microbatches may have changed.
/// If it needs too much memory, cells may be delayed. False: delays do not
/// help, or slices are out of order, and the change is undone.
bool Mover::applyEviction(Plan &plan, Token first, Token second,
                          Random &random) {
  isWholeRow = true;
  end = encoding.rowBegins[worker] + plan.sizes[worker];
  bool hasRoom = plan.refreshRow(encoding, worker) && fits(plan);
  if (!plan.areSlicesOrdered(encoding, first) ||
      !plan.areSlicesOrdered(encoding, second)) {
    undo(plan);
    return false;
  }
  if (hasRoom)
    return true;
  if (random.chance(0.8) && delayForMemory(plan) &&
      plan.refreshRow(encoding, worker) && fits(plan))
    return true;
  undo(plan);
  return false;
}

/// Starts or stops to evict a microbatch.
bool Mover::drawToggle(Plan &plan, Token forward, Random &random) {
  save(plan, plan.positions[forward.cell],
       encoding.rowBegins[worker] + plan.sizes[worker]);
  if (evictionOf(plan, forward) != CellType::Forward) {
    keepOnDevice(plan, forward);
    return applyEviction(plan, forward, forward, random);
  }
  evict(plan, forward, drawKind(random), random);
  if (random.chance(0.5))
    pullForward(plan, forward, random);
  return applyEviction(plan, forward, forward, random);
}

/// Evicts a microbatch in place of another one near it on the same stage; if
/// both techniques are allowed, perhaps the same one in another way. False:
/// neither of the two is evicted, or both are.
bool Mover::drawTransfer(Plan &plan, Token forward, Random &random) {
  const KindFacts &kind = encoding.kinds[forward.kind];
  uint32_t distance = 1 + random.below(kFarthestTransfer);
  if (encoding.offload && encoding.recompute && random.chance(0.25))
    distance = 0;
  if (encoding.rankOf(forward) + distance >= kind.count)
    return false;
  Token other = {forward.cell + distance, forward.kind};
  CellType own = evictionOf(plan, forward), its = evictionOf(plan, other);
  bool isOwnOut = own != CellType::Forward, isItsOut = its != CellType::Forward;
  if (distance == 0 ? !isOwnOut : isOwnOut == isItsOut)
    return false;
  uint32_t first =
      std::min(plan.positions[forward.cell], plan.positions[other.cell]);
  save(plan, first, encoding.rowBegins[worker] + plan.sizes[worker]);
  if (!isOwnOut)
    std::swap(forward, other);
  CellType back = isOwnOut ? own : its;
  keepOnDevice(plan, forward);
  if (distance == 0)
    back = back == CellType::Reload ? CellType::Recompute : CellType::Reload;
  evict(plan, other, back, random);
  return applyEviction(plan, forward, other, random);
}

bool Mover::drawEviction(Plan &plan, uint32_t position, Random &random) {
  Token forward = encoding.sibling(plan.tokens[position], CellType::Forward);
  return random.chance(0.5) ? drawToggle(plan, forward, random)
                            : drawTransfer(plan, forward, random);
}
