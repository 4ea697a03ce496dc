//===- Roofline.h - Costs of stages without shards --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes roofline costs of cells for stages whose workers have no vocabulary
// shards.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_STAGES_ROOFLINE_H
#define PIPESCHED_LIB_COSTMODEL_STAGES_ROOFLINE_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Facts/System.h"

namespace pipesched {

/// The result of costRoofline for tables whose workers have no shards of the
/// vocabulary.
llvm::Expected<StageCosts> costWithoutShards(const Placement &placement,
                                             const ModelFacts &model,
                                             const SystemFacts &system,
                                             PhaseSet phases);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_STAGES_ROOFLINE_H
