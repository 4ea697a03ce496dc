//===- Tails.cpp - Longest chains after cells -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads rows backward: whole rows, or from a change until nothing changes.
//
//===----------------------------------------------------------------------===//

#include "Tails.h"
#include <algorithm>

using namespace pipesched;
using namespace pipesched::optimize;

static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();

std::vector<Sent> optimize::sentMessages(const Encoding &encoding) {
  std::vector<Sent> sent(encoding.kinds.size());
  for (const KindFacts &sink : encoding.kinds) {
    if (sink.waitsOn == kNone)
      continue;
    bool isForward = sink.type == CellType::Forward;
    uint32_t stage = isForward ? encoding.stageBefore[sink.stage]
                               : encoding.nextStage[sink.stage];
    for (CellType type :
         {CellType::Forward, CellType::InputGrad, CellType::WeightGrad})
      if (encoding.facts(stage, type).firstCell ==
          sink.firstCell + sink.waitsFor)
        sent[encoding.kindOf(stage, type)] = {0 - sink.waitsFor, sink.worker,
                                              sink.delay, sink.duration};
  }
  return sent;
}

template <typename Clock>
Tails<Clock>::Tails(const Encoding &encoding)
    : encoding(encoding), sent(sentMessages(encoding)),
      tails(encoding.numCells), ends(encoding.numWorkers, 0),
      dirt(encoding.numWorkers) {}

/// Returns the tail of a cell. `behind` is the time from the start of the next
/// compute cell of its row to the end of the step. kUnknown if the cell that
/// waits for its message has an unknown tail.
template <typename Clock>
Clock Tails<Clock>::tailOf(Token token, Clock behind) const {
  const Sent &message = sent[token.kind];
  if (message.worker == kNone)
    return behind;
  Clock tail = tails[token.cell + message.distance];
  if (timeOf(tail) == kUnknown)
    return tail;
  return later(behind, after(tail, message.delay + message.duration));
}

/// Returns the time from the start of the first compute cell at `pos` or later
/// to the end of the step.
template <typename Clock>
Clock Tails<Clock>::behind(const Plan &plan, uint32_t worker,
                           uint32_t pos) const {
  const uint32_t rowEnd = encoding.rowBegins[worker] + plan.sizes[worker];
  for (; pos < rowEnd; ++pos) {
    const KindFacts &kind = encoding.kinds[plan.tokens[pos].kind];
    if (!kind.isCopy())
      return after(tails[plan.tokens[pos].cell], kind.duration);
  }
  return clockOf<Clock>(ends[worker], worker);
}

/// Goes backward along a row as far as the tails of other rows are known.
/// Returns whether it advanced.
template <typename Clock>
bool Tails<Clock>::goBack(const Plan &plan, uint32_t worker) {
  uint32_t &pos = dirt[worker].end;
  const uint32_t before = pos;
  Clock rest = behind(plan, worker, pos);
  for (; pos > encoding.rowBegins[worker]; --pos) {
    Token token = plan.tokens[pos - 1];
    const KindFacts &kind = encoding.kinds[token.kind];
    if (kind.isCopy())
      continue;
    Clock tail = tailOf(token, rest);
    if (timeOf(tail) == kUnknown)
      break;
    tails[token.cell] = tail;
    rest = after(tail, kind.duration);
  }
  return pos != before;
}

template <typename Clock>
void Tails<Clock>::compute(const Plan &plan, llvm::ArrayRef<int64_t> offsets) {
  std::fill(tails.begin(), tails.end(), clockOf<Clock>(kUnknown, 0));
  for (uint32_t worker = 0; worker < offsets.size(); ++worker)
    ends[worker] = -offsets[worker];
  for (uint32_t worker = 0; worker < encoding.numWorkers; ++worker)
    dirt[worker].end = encoding.rowBegins[worker] + plan.sizes[worker];
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (uint32_t turn = 0; turn < 2 * encoding.numWorkers; ++turn)
      hasMoved |=
          goBack(plan, std::min(turn, 2 * encoding.numWorkers - 1 - turn));
  }
  std::fill(dirt.begin(), dirt.end(), Dirt());
}

/// Updates tails of a row from its end until they no longer change.
template <typename Clock>
void Tails<Clock>::walkBack(const Plan &plan, uint32_t worker) {
  auto [begin, end] = dirt[worker];
  dirt[worker] = Dirt();
  --numDirty;
  Clock rest = behind(plan, worker, end);
  for (uint32_t pos = end; pos > encoding.rowBegins[worker]; --pos) {
    Token token = plan.tokens[pos - 1];
    const KindFacts &kind = encoding.kinds[token.kind];
    if (kind.isCopy())
      continue;
    Clock tail = tailOf(token, rest);
    rest = after(tail, kind.duration);
    if (isSame(tails[token.cell], tail)) {
      if (pos < begin + 1)
        return;
      continue;
    }
    tails[token.cell] = tail;
    if (kind.waitsOn == kNone)
      continue;
    uint32_t source = plan.positions[token.cell + kind.waitsFor];
    if (kind.waitsOn == worker) {
      begin = std::min(begin, source);
      continue;
    }
    Dirt &row = dirt[kind.waitsOn];
    numDirty += row.begin == kNone;
    row.begin = std::min(row.begin, source);
    row.end = std::max(row.end, source + 1);
  }
}

template <typename Clock>
void Tails<Clock>::update(const Plan &plan, uint32_t worker, uint32_t begin,
                          uint32_t end) {
  dirt[worker] = {begin, end};
  numDirty = 1;
  for (bool isDown = true; numDirty > 0;) {
    if (dirt[worker].begin != kNone)
      walkBack(plan, worker);
    if (worker == 0 || worker + 1 == encoding.numWorkers)
      isDown = worker == 0;
    if (encoding.numWorkers > 1)
      worker = isDown ? worker + 1 : worker - 1;
  }
}

template class optimize::Tails<int64_t>;
template class optimize::Tails<TracedTime>;
