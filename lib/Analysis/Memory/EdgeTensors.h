//===- EdgeTensors.h - Memory of tensors on edges ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The times at which workers hold the tensors of added edges, and gradients
// that wait for others (docs/CostModel.md, "Memory of nodes and added edges").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_MEMORY_EDGETENSORS_H
#define PIPESCHED_LIB_ANALYSIS_MEMORY_EDGETENSORS_H

#include "PipeSched/Analysis/Graph/TaskEnds.h"

namespace pipesched {

/// From a time on, a worker holds more bytes, or fewer if they are negative.
/// The task made the tensor or moved it.
struct TensorEvent {
  int64_t atPs;
  int64_t bytes;
  uint32_t task;
};

/// The events of each worker in time order. At one time, memory is freed first.
std::vector<std::vector<TensorEvent>>
listTensorEvents(const TaskGraph &graph, const TaskEnds &ends,
                 const Placement &placement, llvm::ArrayRef<EdgeMemory> edges);

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_MEMORY_EDGETENSORS_H
