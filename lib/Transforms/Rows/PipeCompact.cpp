//===- PipeCompact.cpp - pipe-compact -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes the idle slots from the rows.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Table/Slots.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPECOMPACTPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeCompactPass final
    : SchedulePass<PipeCompactPass, pipe::impl::PipeCompactPassBase> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    storeRows(op, compactRows(ScheduleTable(op).view()));
    op.setAligned(false);
    return success();
  }
};
} // namespace
