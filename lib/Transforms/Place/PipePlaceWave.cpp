//===- PipePlaceWave.cpp - pipe-place-wave --------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places stages in waves, down and up several times.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "../Schedules.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEWAVEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceWavePass final
    : SchedulePass<PipePlaceWavePass, pipe::impl::PipePlaceWavePassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(op, [&]() -> llvm::Expected<Path> {
      return placeWave(op.getWorkers(), waves);
    });
  }
};
} // namespace
