//===- PipeScheduleGreedy.cpp - The greedy rule ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On any paths, and on waves as Hanayo.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULEGREEDYPASS
#define GEN_PASS_DEF_PIPESCHEDULEHANAYOPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeScheduleGreedyPass final
    : pipe::impl::PipeScheduleGreedyPassBase<PipeScheduleGreedyPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(runGenerator(
            getOperation(), getArgument(), schedule, generateGreedy,
            readBackward<GreedyOptions>(splitBackward, gradientAfter))))
      signalPassFailure();
  }
};

struct PipeScheduleHanayoPass final
    : pipe::impl::PipeScheduleHanayoPassBase<PipeScheduleHanayoPass> {
  using Base::Base;

  void runOnOperation() override {
    auto options = readBackward<HanayoOptions>(splitBackward, gradientAfter);
    options.waves = givenOf(waves);
    if (failed(runGenerator(getOperation(), getArgument(), schedule,
                            generateHanayo, options)))
      signalPassFailure();
  }
};
} // namespace
