//===- StaticSeeds.cpp - Rows with copies by fixed rules ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries seeds in ascending order of their objective, and stops at the first
// seed that is no better than the best rows found.
//
//===----------------------------------------------------------------------===//

#include "StaticSeeds.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/Recompute.h"
#include "llvm/ADT/Twine.h"
#include <tuple>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::consumeError;
using llvm::Expected;
using llvm::Twine;

/// For larger problems, timing all variants of the seeds, a dozen each, would
/// take seconds.
static constexpr int64_t kMaxPairs = int64_t(1) << 14;

static bool hasExtras(const Seed &seed) {
  for (const Row &row : seed.rows)
    for (Cell cell : row)
      if (cell.isCopy() || cell.isJoin() || cell.is(Phase::Recompute))
        return true;
  return false;
}

namespace {

/// A seed with its own objective.
struct Base {
  const Seed *seed;
  int64_t objective;
};

class StaticSearch {
public:
  StaticSearch(const Problem &problem, int64_t most)
      : problem(problem), most(most) {}

  std::optional<int64_t> timeOf(const Seed &seed) const;
  void tryAll(const Seed &seed);

  const Problem &problem;
  int64_t most;
  std::optional<Seed> best;

private:
  void offload(const Seed &seed, const OffloadOptions &options);
  void recompute(const Seed &seed, bool skipAdjacent);
  void take(std::vector<Row> rows, const Twine &name);
  TableView viewOf(const Seed &seed) const;
};

} // namespace

TableView StaticSearch::viewOf(const Seed &seed) const {
  TableView view;
  view.placement = &problem.placement;
  view.gradientAfter = problem.gradientAfter;
  view.rows.assign(seed.rows.begin(), seed.rows.end());
  return view;
}

std::optional<int64_t> StaticSearch::timeOf(const Seed &seed) const {
  Expected<Solution> solution = timeRows(problem, viewOf(seed).rows);
  if (solution)
    return objectiveOf(problem, *solution);
  consumeError(solution.takeError());
  return std::nullopt;
}

void StaticSearch::take(std::vector<Row> rows, const Twine &name) {
  std::vector<ArrayRef<Cell>> views(rows.begin(), rows.end());
  Expected<Solution> solution = timeRows(problem, views);
  if (!solution)
    return consumeError(solution.takeError());
  int64_t objective = objectiveOf(problem, *solution);
  if (objective >= most)
    return;
  if (llvm::Error error = verifySolution(problem, *solution))
    return consumeError(std::move(error));
  most = objective;
  best = Seed{name.str(), std::move(rows)};
}

void StaticSearch::offload(const Seed &seed, const OffloadOptions &options) {
  Expected<OffloadChange> change = addOffload(viewOf(seed), options);
  if (!change)
    return consumeError(change.takeError());
  bool isAll = options.amount == OffloadAmount::All;
  take(std::move(change->rows),
       seed.name + (isAll ? ", all" : ", half") + " offloaded, reloads " +
           Twine(options.ahead) + " ahead" +
           (options.memory > 0 ? ", waiting for memory" : ""));
}

void StaticSearch::recompute(const Seed &seed, bool skipAdjacent) {
  RecomputeOptions options;
  options.skipAdjacent = skipAdjacent;
  Expected<RecomputeChange> change = addRecompute(viewOf(seed), options);
  if (!change)
    return consumeError(change.takeError());
  take(std::move(change->rows),
       seed.name + ", all recomputed" + (skipAdjacent ? " that wait" : ""));
}

void StaticSearch::tryAll(const Seed &seed) {
  if (problem.techniques.recompute)
    for (bool skipAdjacent : {true, false})
      recompute(seed, skipAdjacent);
  // These rules offload each slice right after its F, but later slices need it
  // on the device.
  if (!problem.techniques.offload || problem.numSlices > 1)
    return;
  llvm::SmallVector<int64_t, 2> limits = {0};
  int64_t room = leastActivations(problem);
  if (room > 0 && room <= problem.placement.getNumMicrobatches())
    limits.push_back(room);
  OffloadOptions options;
  for (OffloadAmount amount : {OffloadAmount::Half, OffloadAmount::All})
    for (int64_t ahead : {1, 2, 4})
      for (int64_t memory : limits) {
        options.amount = amount;
        options.ahead = ahead;
        options.memory = memory;
        offload(seed, options);
      }
}

std::optional<Seed>
optimize::bestStaticSeed(const Problem &problem, ArrayRef<Seed> seeds,
                         int64_t most, llvm::function_ref<bool()> mustStop) {
  if (!problem.techniques.offload && !problem.techniques.recompute)
    return std::nullopt;
  if (problem.placement.getNumPairs() > kMaxPairs)
    return std::nullopt;
  StaticSearch search(problem, most);
  std::vector<Base> bases;
  for (const Seed &seed : seeds)
    if (!hasExtras(seed))
      if (std::optional<int64_t> objective = search.timeOf(seed))
        bases.push_back({&seed, *objective});
  llvm::sort(bases, [](const Base &a, const Base &b) {
    return std::tie(a.objective, a.seed) < std::tie(b.objective, b.seed);
  });
  for (const Base &base : bases) {
    if (base.objective >= search.most || mustStop())
      break;
    search.tryAll(*base.seed);
  }
  return std::move(search.best);
}
