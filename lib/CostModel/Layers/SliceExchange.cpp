//===- SliceExchange.cpp - Attention evened out among workers -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Who computes which slice at the same time, and which of them are partners.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/SliceExchange.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// The workers in the order of stages, which go around them.
static Expected<std::vector<int64_t>> ringOfSlices(const Placement &placement) {
  if (placement.getNumPaths() != 1)
    return formatError("slice-exchange=pairs needs microbatches that go one "
                       "way, and the placement has {0} paths",
                       placement.getNumPaths());
  std::vector<int64_t> ring;
  for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage) {
    int64_t worker = placement.workerOf(stage);
    if (!llvm::is_contained(ring, worker) && stage == int64_t(ring.size()))
      ring.push_back(worker);
    else if (worker != ring[stage % ring.size()])
      return formatError("slice-exchange=pairs needs stages that go around the "
                         "workers, and stage {0} is on worker {1} instead of "
                         "{2}",
                         stage, worker, ring[stage % ring.size()]);
  }
  if (placement.getNumGlobalStages() % ring.size() != 0)
    return formatError("slice-exchange=pairs needs equally many stages on each "
                       "worker, and there are {0} on {1}",
                       placement.getNumGlobalStages(), ring.size());
  return ring;
}

namespace {
/// The order in which a worker goes through its chunks and the slices of a
/// microbatch: slices in groups, each through all chunks (SlimPipe).
class PlaceOrder {
public:
  PlaceOrder(int64_t numWorkers, int64_t numSlices, int64_t numChunks)
      : group(numSlices), chunks(numChunks), length(numSlices * numChunks) {
    if (numChunks == 1)
      return;
    group = numWorkers;
    while (numSlices % group != 0)
      ++group;
  }
  int64_t placeOf(int64_t chunk, int64_t slice) const {
    return (slice / group * chunks + chunk) * group + slice % group;
  }
  /// Places go on with the next microbatch.
  int64_t sliceAt(int64_t place) const {
    int64_t inside = ((place % length) + length) % length;
    return inside / (group * chunks) * group + inside % group;
  }

private:
  int64_t group, chunks, length;
};
} // namespace

Expected<std::vector<SlicePartner>>
pipesched::pairSlices(const Placement &placement,
                      llvm::ArrayRef<TokenSpan> slices) {
  Expected<std::vector<int64_t>> ring = ringOfSlices(placement);
  if (!ring)
    return ring.takeError();
  int64_t numWorkers = ring->size(), numSlices = slices.size();
  int64_t numStages = placement.getNumGlobalStages();
  int64_t numChunks = numStages / numWorkers;
  if (numChunks > 1 && numSlices < numWorkers)
    return formatError("slice-exchange=pairs needs at least as many slices as "
                       "workers where these have several stages, and there "
                       "are {0} slices on {1} workers",
                       numSlices, numWorkers);
  PlaceOrder order(numWorkers, numSlices, numChunks);
  std::vector<SlicePartner> partners;
  // By worker: what all compute at the time of one cell; sorted by prefix.
  std::vector<int64_t> sliceOf(numWorkers), byPrefix(numWorkers);
  for (int64_t stage = 0; stage < numStages; ++stage)
    for (int64_t slice = 0; slice < numSlices; ++slice) {
      int64_t own = stage % numWorkers;
      int64_t place = order.placeOf(stage / numWorkers, slice) + own;
      for (int64_t other = 0; other < numWorkers; ++other) {
        sliceOf[other] = order.sliceAt(place - other);
        byPrefix[other] = other;
      }
      llvm::sort(byPrefix, [&](int64_t a, int64_t b) {
        return std::pair(slices[sliceOf[a]].end, a) <
               std::pair(slices[sliceOf[b]].end, b);
      });
      int64_t rank = llvm::find(byPrefix, own) - byPrefix.begin();
      int64_t partner = byPrefix[numWorkers - 1 - rank];
      bool isAlone = slices[sliceOf[partner]] == slices[slice];
      partners.push_back(
          isAlone ? SlicePartner()
                  : SlicePartner{(*ring)[partner], sliceOf[partner]});
    }
  return partners;
}

namespace {
/// How a row begins.
struct Lead {
  int64_t forwards = 0, all = 0; ///< before the first backward, and in all
  bool isOver = false;

  explicit Lead(llvm::ArrayRef<Cell> row) {
    for (Cell cell : row) {
      isOver |= cell.isIn(kBackwardStarts);
      forwards += !isOver && cell.is(Phase::Forward);
      all += cell.is(Phase::Forward);
    }
  }
};
} // namespace

Error pipesched::checkSliceExchange(const Placement &placement,
                                    llvm::ArrayRef<llvm::ArrayRef<Cell>> rows) {
  Expected<std::vector<int64_t>> ring = ringOfSlices(placement);
  if (!ring)
    return ring.takeError();
  for (size_t i = 1; i < ring->size(); ++i) {
    Lead before(rows[(*ring)[i - 1]]), own(rows[(*ring)[i]]);
    int64_t wanted = std::min(own.forwards + 2, own.all);
    if (before.forwards == wanted)
      continue;
    return formatError("slice-exchange=pairs needs workers that compute "
                       "successive slices at one time, as those of slimpipe "
                       "do: worker {0} would run {1} forwards before its first "
                       "backward, as worker {2} runs {3}, and it runs {4}",
                       (*ring)[i - 1], wanted, (*ring)[i], own.forwards,
                       before.forwards);
  }
  return Error::success();
}
