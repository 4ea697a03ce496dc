//===- PipeScheduleGPipe.cpp - pipe-schedule-gpipe ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills problems with GPipe.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Transforms/Passes.h"
#include "Schedules.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULEGPIPEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeScheduleGPipePass final
    : pipe::impl::PipeScheduleGPipePassBase<PipeScheduleGPipePass> {
  using Base::Base;

  void runOnOperation() override {
    GeneratorOptions options;
    options.splitBackward = splitBackward;
    if (splitBackward)
      options.gradientAfter = gradientAfter;
    if (failed(fillSchedules(getOperation(), schedule, "gpipe", generateGPipe,
                             options)))
      signalPassFailure();
  }
};
} // namespace
