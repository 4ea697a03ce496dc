//===- Placed.cpp - Bounds of candidates of plans -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums the layers of each worker.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/Placed.h"
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

using Doubles = std::vector<double>;

static double largestOf(llvm::ArrayRef<double> values) {
  return *llvm::max_element(values);
}

/// Returns the first layer of each stage, and the end of the last stage. The
/// head counts as a layer after the layers of the last stage.
static std::vector<int64_t> endsOf(llvm::ArrayRef<int64_t> counts,
                                   bool hasHead) {
  std::vector<int64_t> ends = {0};
  for (int64_t count : counts)
    ends.push_back(ends.back() + count);
  ends.back() += hasHead;
  return ends;
}

static Sums withoutFirst(const Sums &sums) {
  Sums found;
  for (double sum : sums)
    found.push_back(std::max(0.0, sum - sums[1]));
  return found;
}

namespace {

/// Sums layers by worker.
struct Stages {
  Stages(const WorkerPaths &paths, const LayerCounts &counts, bool isSpread,
         int64_t numWorkers)
      : paths(paths), isSpread(isSpread), numWorkers(numWorkers) {
    for (const std::vector<int64_t> &each : counts)
      ends.push_back(endsOf(each, !isSpread));
  }

  Doubles sum(const Sums &sums) const {
    Doubles found(numWorkers), ofPath;
    for (auto [path, end] : llvm::zip_equal(paths, ends)) {
      ofPath.assign(numWorkers, 0.0);
      for (auto [stage, worker] : llvm::enumerate(path))
        ofPath[worker] += sums[end[stage + 1]] - sums[end[stage]];
      for (auto [all, part] : llvm::zip_equal(found, ofPath))
        all += part;
    }
    double head = sums[sums.size() - 1] - sums[sums.size() - 2];
    if (isSpread)
      for (double &each : found)
        each += head / double(numWorkers);
    return found;
  }
  /// The first layer of each worker.
  std::vector<int64_t> firsts(int64_t last) const {
    std::vector<int64_t> first(numWorkers, last);
    for (auto [path, end] : llvm::zip_equal(paths, ends))
      for (auto [stage, worker] : llvm::enumerate(path))
        first[worker] = std::min(first[worker], end[stage]);
    return first;
  }

  const WorkerPaths &paths;
  bool isSpread;
  int64_t numWorkers;
  std::vector<std::vector<int64_t>> ends; ///< by path
};

} // namespace

Placed::Placed(const PlanShape &shape, const WorkerPaths &paths,
               const LayerCounts &counts, bool isSpread, const LayerSums &sums,
               const Sums &always)
    : each(double(shape.microbatches) / double(paths.size())),
      hasOnePath(paths.size() == 1), accelerators(shape.getWorker()) {
  Stages stages(paths, counts, isSpread, shape.pipeline);
  auto counted = [&](const Sums &all) {
    return isSpread ? withoutFirst(all) : all;
  };
  Sums work = counted(sums.workPs), forward = counted(sums.forwardPs);
  Sums numbers(work.size());
  for (auto [number, value] : llvm::enumerate(numbers))
    value = double(number);
  layers = stages.sum(numbers);
  workPs = stages.sum(work);
  stash = stages.sum(sums.stashBytes);
  bytes = stages.sum(counted(always));
  const std::array<Sums, 2> &times = isSpread ? sums.headless : sums.held;
  for (unsigned split : {0, 1})
    held[split] = stages.sum(times[split]);
  for (int64_t first : stages.firsts(int64_t(work.size()) - 1)) {
    readyPs.push_back(forward[first]);
    tailPs.push_back(work[first] - forward[first]);
  }
}

PlanBounds Placed::find(const PlanSchedule &schedule, double limitPs) const {
  double stepPs = 0, least = 0;
  bool hasTail = !schedule.isSplit && !schedule.isSpread;
  for (size_t worker = 0; worker < workPs.size(); ++worker) {
    double step = each * workPs[worker];
    double alive = 0;
    if (schedule.slices > 1) {
      // Workers start after a slice, and hold a slice for less time. If scores
      // are written, slices save up to half of them.
      step /= 2;
    } else {
      // The last cell of a worker may be of a shard, which no gradient follows.
      alive = each * held[schedule.isSplit][worker] / limitPs;
      step += readyPs[worker];
      step += hasTail ? tailPs[worker] : 0;
    }
    // Microbatches of different paths may be on a worker at different times.
    if (hasOnePath)
      alive = std::max(alive, stash[worker]);
    stepPs = std::max(stepPs, step);
    least = std::max(least, bytes[worker] + alive);
  }
  return {kAlmostAll * stepPs,
          int64_t(kAlmostAll * least / double(accelerators))};
}

PlanBounds Placed::bounds(const PlanSchedule &schedule, double limitPs) {
  if (limitPs != foundLimitPs)
    found.fill(std::nullopt);
  foundLimitPs = limitPs;
  std::optional<PlanBounds> &known =
      found[schedule.isSplit + 2 * schedule.isSpread +
            4 * (schedule.slices > 1)];
  if (!known)
    known = find(schedule, limitPs);
  return *known;
}

double Placed::pairedPs(llvm::ArrayRef<double> savedPs) const {
  double most = 0;
  for (auto [work, saved] : llvm::zip_equal(workPs, savedPs))
    most = std::max(most, work - saved);
  return kAlmostAll * each * most;
}

double Placed::slowedPs(const PlanSchedule &schedule,
                        llvm::ArrayRef<double> factors) const {
  double most = 0;
  for (auto [work, factor] : llvm::zip_equal(workPs, factors))
    most = std::max(most, work * factor);
  double part = schedule.slices > 1 ? 0.5 : 1.0; // as in find()
  return kAlmostAll * part * each * most;
}

std::array<std::vector<double>, 2> Placed::loads() const {
  double longest = std::max(1.0, each * largestOf(workPs));
  Doubles sizes;
  for (auto [always, alive] : llvm::zip_equal(bytes, held[0]))
    sizes.push_back(always + each * alive / longest);
  return {workPs, std::move(sizes)};
}

double Placed::mostLayers() const { return largestOf(layers); }

double pipesched::sumOfWorker(const WorkerPaths &paths,
                              const LayerCounts &counts, bool isSpread,
                              int64_t numWorkers, const Sums &sums,
                              int64_t worker) {
  double found = 0;
  if (isSpread)
    found = (sums[1] + sums[sums.size() - 1] - sums[sums.size() - 2]) /
            double(numWorkers);
  for (auto [path, each] : llvm::zip_equal(paths, counts)) {
    std::vector<int64_t> ends = endsOf(each, /*hasHead=*/true);
    double ofPath = 0;
    for (auto [stage, on] : llvm::enumerate(path))
      if (on == worker)
        ofPath += sums[ends[stage + 1]] - sums[ends[stage]];
    found += ofPath;
  }
  return found;
}
