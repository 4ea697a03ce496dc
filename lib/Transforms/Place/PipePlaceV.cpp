//===- PipePlaceV.cpp - pipe-place-v --------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places two stages per worker, down and up again.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "../Schedules.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEVPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceVPass final
    : SchedulePass<PipePlaceVPass, pipe::impl::PipePlaceVPassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(
        op, [&]() -> llvm::Expected<Path> { return placeV(op.getWorkers()); });
  }
};
} // namespace
