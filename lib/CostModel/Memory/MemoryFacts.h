//===- MemoryFacts.h - Memory of stages without shards ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the memory of stages whose workers have no vocabulary shards.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_MEMORY_MEMORYFACTS_H
#define PIPESCHED_LIB_COSTMODEL_MEMORY_MEMORYFACTS_H

#include "PipeSched/CostModel/Layers/StageLayers.h"

namespace pipesched {

/// The result of computeMemoryFacts for tables whose workers have no shards of
/// the vocabulary.
llvm::Expected<MemoryFacts>
computeMemoryWithoutShards(const Placement &placement, const ModelFacts &model,
                           const SystemFacts *system, PhaseSet phases);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_MEMORY_MEMORYFACTS_H
