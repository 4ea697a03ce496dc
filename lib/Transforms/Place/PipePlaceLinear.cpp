//===- PipePlaceLinear.cpp - pipe-place-linear ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places stage s on worker s.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "../Schedules.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACELINEARPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceLinearPass final
    : SchedulePass<PipePlaceLinearPass, pipe::impl::PipePlaceLinearPassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(op, [&]() -> llvm::Expected<Path> {
      return placeLinear(op.getWorkers());
    });
  }
};
} // namespace
