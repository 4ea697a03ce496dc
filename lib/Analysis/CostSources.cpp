//===- CostSources.cpp - What prices schedules of any size ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expands the architecture for the size that microbatches come out with.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/CostSources.h"
#include "PipeSched/Analysis/Divisors.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;

llvm::Expected<int64_t>
pipesched::microbatchSizeOf(const Architecture &architecture,
                            int64_t globalBatch, int64_t numMicrobatches) {
  int64_t batch = globalBatch != 0 ? globalBatch : architecture.globalBatch;
  if (batch == 0)
    return llvm::createStringError(
        llvm::formatv("a model without a global batch, '{0}'; give "
                      "microbatch-size or global-batch",
                      architecture.name)
            .str());
  if (batch % numMicrobatches)
    return llvm::createStringError(
        llvm::formatv("{0} microbatches, which do not divide the global batch "
                      "of {1}; numbers that do: {2}",
                      numMicrobatches, batch,
                      nearestDivisors(batch, numMicrobatches))
            .str());
  return batch / numMicrobatches;
}

static llvm::Expected<ModelFacts> expand(const CostSources &sources,
                                         int64_t numMicrobatches) {
  const Architecture &architecture = *sources.architecture;
  ExpansionOptions options = sources.expansion;
  llvm::Expected<int64_t> size =
      sources.microbatchSize
          ? *sources.microbatchSize
          : microbatchSizeOf(architecture, sources.globalBatch,
                             numMicrobatches);
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
  llvm::Expected<ModelFacts> model = expand(sources, numMicrobatches);
  if (!model)
    return model.takeError();
  costs.model = std::move(*model);
  return costs;
}
