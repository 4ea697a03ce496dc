//===- TieTimes.cpp - Times of the sums of tied gradients -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What compiled programs do in front of the first O of a tied stage, by worker:
// add up its own gradients, all-reduce the sum, copy it to the others
// (docs/StageCosts.md#ties).
//
//===----------------------------------------------------------------------===//

#include "CostPlacement.h"
#include "PipeSched/CostModel/Comm/RankLayout.h"
#include "PipeSched/Support/CheckedInt.h"
#include <cmath>
#include <map>
#include <set>

using namespace pipesched;

namespace {
/// The stages of a tie on one worker.
struct OwnStages {
  int64_t first = -1;        ///< the first one of its paths, global
  std::set<int64_t> numbers; ///< several paths share what a number has
};
} // namespace

static std::map<int64_t, OwnStages> stagesByWorker(const Placement &placement,
                                                   const TiedGradients &tie) {
  std::map<int64_t, OwnStages> found;
  for (auto [path, placed] : llvm::enumerate(placement.getPaths()))
    for (auto [stage, worker] : llvm::enumerate(placed.workers)) {
      if (!llvm::is_contained(tie.stages, static_cast<int64_t>(stage)))
        continue;
      OwnStages &own = found[worker];
      if (own.first < 0)
        own.first = placement.stageOffset(static_cast<int64_t>(path)) +
                    static_cast<int64_t>(stage);
      own.numbers.insert(static_cast<int64_t>(stage));
    }
  return found;
}

/// A ring of all workers over the slowest link that two of them need.
static RingGroup groupOf(const std::map<int64_t, OwnStages> &owners,
                         const RankLayout &layout) {
  auto size = static_cast<int64_t>(owners.size());
  NetworkLevel worst = NetworkLevel::Link;
  for (const auto &[worker, own] : owners)
    worst = std::max(worst, layout.levelOf(owners.begin()->first, worker));
  return RingGroup::across(worst, size);
}

/// Adding one more gradient of a worker reads two and writes the sum; the copy
/// back reads and writes once. FLOPs take less time than these bytes.
static double ownPs(int64_t bytes, int64_t numOthers,
                    const SystemFacts &system) {
  if (numOthers == 0)
    return 0;
  BlockFacts block;
  for (int64_t part : {3, 2}) {
    Kernel &kernel = block.kernels.emplace_back();
    kernel.forward.bytes = part * bytes;
    kernel.count = numOthers;
  }
  return rooflinePs(block, Phase::Forward, system);
}

static int64_t countOf(const TiedGradients &tie, const OwnStages &own) {
  return llvm::count_if(
      tie.stages, [&](int64_t stage) { return own.numbers.count(stage) != 0; });
}

llvm::Error pipesched::addTieTimes(const Placement &placement,
                                   llvm::ArrayRef<TiedGradients> ties,
                                   const SystemFacts &system,
                                   StageCosts &stageCosts) {
  RankLayout layout(system, placement.getNumWorkers());
  for (const TiedGradients &tie : ties) {
    std::map<int64_t, OwnStages> owners = stagesByWorker(placement, tie);
    auto bytes = static_cast<double>(tie.bytes);
    MessageCost sum;
    if (owners.size() > 1) {
      llvm::Expected<MessageCost> ring =
          ringExchange({bytes, bytes}, groupOf(owners, layout), system);
      if (!ring)
        return ring.takeError();
      sum = *ring;
    }
    for (const auto &[worker, own] : owners) {
      double ownTime =
          std::nearbyint(ownPs(tie.bytes, countOf(tie, own) - 1, system));
      CellCosts &cells = stageCosts.stages[own.first].cells;
      CheckedInt ps = CheckedInt(cells.alonePs(Phase::Optimizer)) +
                      sum.occupancyPs + sum.latencyPs +
                      (ownTime < 0x1p62 ? static_cast<int64_t>(ownTime)
                                        : std::numeric_limits<int64_t>::max());
      if (!ps.isValid())
        return llvm::createStringError(
            "the sum of the gradients tied as \"" + tie.name +
            "\" takes more than 2^63 - 1 ps with its O");
      cells.set(Phase::Optimizer, ps.get());
    }
  }
  return llvm::Error::success();
}
