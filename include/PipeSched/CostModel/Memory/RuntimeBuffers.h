//===- RuntimeBuffers.h - Memory that runtimes add --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the memory of a runtime in addition to the tensors that cells need.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_MEMORY_RUNTIMEBUFFERS_H
#define PIPESCHED_COSTMODEL_MEMORY_RUNTIMEBUFFERS_H

#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Facts/System.h"

namespace pipesched {

/// Adds the buffers of a runtime to the memory of stages. For `Torch`: without
/// slices, the stages of a path with several stages have buffers for received
/// tensors and keep the tensors that they send; FSDP2 has buffers for tensors
/// that it gathers and reduces (docs/CostModel.md, "What PyTorch holds").
/// `system` may be null. Errors: as for splitLayers; bytes over int64.
llvm::Error addRuntimeBuffers(Runtime runtime, const Placement &placement,
                              const ModelFacts &model,
                              const SystemFacts *system, MemoryFacts &memory);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_MEMORY_RUNTIMEBUFFERS_H
