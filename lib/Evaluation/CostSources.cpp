//===- CostSources.cpp - Costs for schedules of any size ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expands the architecture when the size of a microbatch is known.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/CostSources.h"
#include "PipeSched/Schedule/Kinds/Cell.h"
#include "PipeSched/Support/Divisors.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

static llvm::Error checkCount(int64_t numMicrobatches) {
  if (numMicrobatches >= 1 && numMicrobatches <= Cell::kMaxMicrobatches)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::formatv("{0} microbatches: there must be 1 to {1}", numMicrobatches,
                    Cell::kMaxMicrobatches)
          .str());
}

llvm::Expected<int64_t>
pipesched::microbatchSizeOf(const Architecture &architecture,
                            int64_t globalBatch, int64_t numMicrobatches,
                            int64_t dataParallel) {
  int64_t batch = globalBatch != 0 ? globalBatch : architecture.globalBatch;
  if (batch == 0)
    return llvm::createStringError(
        llvm::formatv("a model without a global batch, '{0}'; give "
                      "microbatch-size or global-batch",
                      architecture.name)
            .str());
  if (llvm::Error error = checkCount(numMicrobatches))
    return std::move(error);
  int64_t inAll = 0;
  if (llvm::MulOverflow(numMicrobatches, dataParallel, inAll))
    return llvm::createStringError(
        llvm::formatv("{0} microbatches in each of {1} pipelines, which are "
                      "more than 2^63 - 1 in all",
                      numMicrobatches, dataParallel)
            .str());
  if (batch % inAll == 0)
    return batch / inAll;
  std::string pipelines =
      dataParallel == 1 ? ""
                        : llvm::formatv(" in each of {0} pipelines, {1} in all",
                                        dataParallel, inAll)
                              .str();
  return llvm::createStringError(
      llvm::formatv("{0} microbatches{1}, which do not divide the global batch "
                    "of {2}; numbers that do: {3}",
                    numMicrobatches, pipelines, batch,
                    nearestDivisors(batch, inAll))
          .str());
}

static llvm::Expected<ModelFacts> expand(const CostSources &sources,
                                         int64_t numMicrobatches) {
  const Architecture &architecture = *sources.architecture;
  ExpansionOptions options = sources.expansion;
  int64_t dataParallel = sources.system ? sources.system->dataParallel : 1;
  llvm::Expected<int64_t> size =
      sources.microbatchSize
          ? *sources.microbatchSize
          : microbatchSizeOf(architecture, sources.globalBatch, numMicrobatches,
                             dataParallel);
  if (!size)
    return llvm::createStringError("the schedule has " +
                                   llvm::toString(size.takeError()));
  options.microbatchSize = *size;
  llvm::Expected<ModelFacts> facts = expandArchitecture(architecture, options);
  if (!facts)
    return llvm::createStringError("model '" + architecture.name +
                                   "': " + llvm::toString(facts.takeError()));
  return facts;
}

llvm::Expected<CostInputs> pipesched::resolveCosts(const CostSources &sources,
                                                   int64_t numMicrobatches) {
  CostInputs costs;
  costs.system = sources.system;
  costs.profile = sources.profile;
  if (!sources.architecture)
    return costs;
  if (llvm::Error error = checkCount(numMicrobatches))
    return std::move(error);
  llvm::Expected<ModelFacts> model = expand(sources, numMicrobatches);
  if (!model)
    return model.takeError();
  costs.model = std::move(*model);
  return costs;
}
