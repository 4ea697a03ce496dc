//===- PipePlaceInterleaved.cpp - pipe-place-interleaved ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places stage s on worker s mod D, several stages per worker.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "../Schedules.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEINTERLEAVEDPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceInterleavedPass final
    : SchedulePass<PipePlaceInterleavedPass,
                   pipe::impl::PipePlaceInterleavedPassBase, Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(op, [&]() -> llvm::Expected<Path> {
      return placeInterleaved(op.getWorkers(), chunks);
    });
  }
};
} // namespace
