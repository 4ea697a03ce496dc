//===- CostModel.cpp - Facts to costs of stages ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses between tables whose workers have shards of the vocabulary, and all
// others.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/CostModel.h"
#include "Memory/MemoryFacts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "Stages/Roofline.h"
#include "Vocab/Vocabulary.h"

using namespace pipesched;

llvm::Expected<StageCosts> pipesched::costRoofline(const Placement &placement,
                                                   const ModelFacts &model,
                                                   const SystemFacts &system,
                                                   PhaseSet phases) {
  return phases.intersects(kSpreadPhases)
             ? costShards(placement, model, system, phases)
             : costWithoutShards(placement, model, system, phases);
}

llvm::Expected<MemoryFacts>
pipesched::computeMemoryFacts(const Placement &placement,
                              const ModelFacts &model,
                              const SystemFacts *system, PhaseSet phases) {
  return phases.intersects(kSpreadPhases)
             ? computeShardMemory(placement, model, system, phases)
             : computeMemoryWithoutShards(placement, model, system, phases);
}
