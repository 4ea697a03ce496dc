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
    : pipe::impl::PipePlaceBidirectionalPassBase<PipePlaceBidirectionalPass> {
  using Base::Base;

  void runOnOperation() override {
    auto place = [&](ScheduleOp op) -> llvm::Expected<std::vector<Path>> {
      return placeBidirectional(op.getWorkers(), op.getMicrobatches(), pairs,
                                assign);
    };
    if (failed(placeSchedules(getOperation(), schedule, place)))
      signalPassFailure();
  }
};
} // namespace
