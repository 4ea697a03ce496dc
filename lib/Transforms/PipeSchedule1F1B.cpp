//===- PipeSchedule1F1B.cpp - pipe-schedule-1f1b --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills problems with 1F1B.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Transforms/Passes.h"
#include "Schedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULE1F1BPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeSchedule1F1BPass final
    : pipe::impl::PipeSchedule1F1BPassBase<PipeSchedule1F1BPass> {
  using Base::Base;

  void runOnOperation() override {
    GeneratorOptions options;
    options.splitBackward = splitBackward;
    if (splitBackward)
      options.gradientAfter = gradientAfter;
    if (failed(fillSchedules(getOperation(), schedule, "1f1b", generate1F1B,
                             options)))
      signalPassFailure();
  }
};
} // namespace
