//===- MicrobatchSizes.cpp - Other microbatch sizes for a batch -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides batches with errors, scales ranges of microbatches, and compares
// models.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/MicrobatchSizes.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <tuple>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

Error pipesched::checkMicrobatchSizes(llvm::ArrayRef<int64_t> sizes) {
  for (auto [number, size] : llvm::enumerate(sizes)) {
    if (size < 1)
      return formatError("expected sizes of 1 or more, found {0}", size);
    if (llvm::is_contained(sizes.take_front(number), size))
      return formatError("expected sizes that differ, found {0} twice", size);
  }
  return Error::success();
}

Expected<int64_t> pipesched::countMicrobatches(int64_t size, int64_t ownSize,
                                               int64_t numMicrobatches) {
  int64_t batch = 0;
  if (llvm::MulOverflow(ownSize, numMicrobatches, batch))
    return formatError(
        "has {0} microbatches of {1} sequences, more than 2^63 - "
        "1 sequences in all",
        numMicrobatches, ownSize);
  if (batch % size == 0)
    return batch / size;
  return formatError("has a batch of {0} sequences ({1} microbatches of {2}), "
                     "which microbatches of {3} do not divide; sizes that do: "
                     "{4}",
                     batch, numMicrobatches, ownSize, size,
                     nearestDivisors(batch, size));
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// Scales a bound of a range from `from` to `to` microbatches; absent if it
/// falls inside a microbatch.
static std::optional<int64_t> scaleBound(int64_t bound, int64_t from,
                                         int64_t to) {
  auto scaled = static_cast<__int128>(bound) * to;
  if (scaled % from != 0)
    return std::nullopt;
  return static_cast<int64_t>(scaled / from);
}

/// Scales a range. A range with a stride above 1 keeps its start and its
/// stride, because paths alternate.
static std::optional<MicrobatchRange> scaleRange(const MicrobatchRange &range,
                                                 int64_t from, int64_t to) {
  std::optional<int64_t> begin =
      range.step == 1 ? scaleBound(range.begin, from, to) : range.begin;
  std::optional<int64_t> end = scaleBound(range.end, from, to);
  if (!begin || !end)
    return std::nullopt;
  return MicrobatchRange{*begin, *end, range.step};
}

Expected<Placement> pipesched::dealAnew(const Placement &placement,
                                        int64_t numMicrobatches) {
  int64_t own = placement.getNumMicrobatches();
  std::vector<Path> paths(placement.getPaths());
  auto scale = [&](const char *name, int64_t number,
                   std::vector<MicrobatchRange> &takes) -> Error {
    for (MicrobatchRange &range : takes) {
      std::optional<MicrobatchRange> scaled =
          scaleRange(range, own, numMicrobatches);
      if (!scaled)
        return formatError("{0} {1} takes microbatches from {2} to {3} of {4}, "
                           "which is not a whole number of {5}",
                           name, number, range.begin, range.end, own,
                           numMicrobatches);
      range = *scaled;
    }
    return Error::success();
  };
  for (auto [number, path] : llvm::enumerate(paths))
    if (Error error = scale("path", number, path.takes))
      return std::move(error);
  AddedStages added = placement.getAdded();
  for (StageNode &node : added.nodes)
    if (node.takes)
      if (Error error = scale("node", node.number, *node.takes))
        return std::move(error);
  return Placement::create(placement.getNumWorkers(), numMicrobatches,
                           std::move(paths), placement.getNumSlices(),
                           std::move(added));
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

static bool isSameKernel(const Kernel &a, const Kernel &b) {
  auto commonOf = [](const Kernel &kernel) {
    return std::tie(kernel.name, kernel.engine, kernel.recomputed, kernel.core,
                    kernel.whole, kernel.count, kernel.routed);
  };
  return commonOf(a) == commonOf(b);
}

static bool areSameExperts(const std::optional<ExpertFacts> &a,
                           const std::optional<ExpertFacts> &b) {
  auto commonOf = [](const ExpertFacts &experts) {
    return std::tie(experts.count, experts.perToken, experts.parameters,
                    experts.groups, experts.groupsPerToken);
  };
  return a && b ? commonOf(*a) == commonOf(*b) : !a && !b;
}

static bool isSameBesideSize(const BlockFacts &a, const BlockFacts &b) {
  auto commonOf = [](const BlockFacts &block) {
    return std::tie(block.name, block.position, block.count, block.parameters,
                    block.activeParameters, block.tiedParameters);
  };
  return commonOf(a) == commonOf(b) && a.state == b.state &&
         areSameExperts(a.experts, b.experts) &&
         llvm::equal(a.kernels, b.kernels, isSameKernel);
}

bool pipesched::areSizesOfOne(const ModelFacts &a, const ModelFacts &b) {
  auto commonOf = [](const ModelFacts &model) {
    return std::tie(model.source, model.sequence, model.vocabulary,
                    model.weightBytesPerParameter,
                    model.gradientBytesPerParameter,
                    model.optimizerBytesPerParameter, model.recompute);
  };
  return commonOf(a) == commonOf(b) &&
         llvm::equal(a.blocks, b.blocks, isSameBesideSize);
}
