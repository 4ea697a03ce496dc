//===- PipePlaceBidirectional.cpp - pipe-place-bidirectional --------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places pairs of paths that mirror each other.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "../Schedules.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEBIDIRECTIONALPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceBidirectionalPass final
    : SchedulePass<PipePlaceBidirectionalPass,
                   pipe::impl::PipePlaceBidirectionalPassBase, Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeSchedule(op, [&] {
      return placeBidirectional(op.getWorkers(), op.getMicrobatches(), pairs,
                                assign);
    });
  }
};
} // namespace
