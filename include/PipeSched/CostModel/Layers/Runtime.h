//===- Runtime.h - Runtimes of schedules ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapts costs to runtimes whose cells do other work than the table states.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_RUNTIME_H
#define PIPESCHED_COSTMODEL_LAYERS_RUNTIME_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// The runtime that executes the cells of a schedule.
enum class Runtime : uint8_t {
  Table, ///< a runtime that runs each cell as in the table
  Torch  ///< _PipelineScheduleRuntime of torch.distributed.pipelining, 2.13
};

template <>
struct EnumNames<Runtime> {
  static constexpr EnumName<Runtime> values[] = {
      {Runtime::Table, "table", "What the table says"},
      {Runtime::Torch, "torch",
       "PyTorch's: W of stage 0 is its whole backward, pairs run in turn"}};
};

/// Adapts costs to a runtime. `Torch`: on the first stage of each path I takes
/// no time and W takes I + W (`backward_one_chunk` of PyTorch's stage.py leaves
/// the whole backward to W, because no stage needs the gradient of the input).
/// An overlapped pair takes the sum of its cells, unless PyTorch has a function
/// for OVERLAP_F_B. Errors: times over int64.
llvm::Error applyRuntime(Runtime runtime, const Placement &placement,
                         StageCosts &stageCosts);

/// The same for memory. `Torch`: on the first stage of each path I frees
/// nothing.
void applyRuntime(Runtime runtime, const Placement &placement,
                  MemoryFacts &memory);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_RUNTIME_H
