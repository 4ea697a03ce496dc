//===- PipeScheduleBidirectional.cpp - Families on mirrored paths ---------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chimera and DualPipe.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULECHIMERAPASS
#define GEN_PASS_DEF_PIPESCHEDULEDUALPIPEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeScheduleChimeraPass final
    : pipe::impl::PipeScheduleChimeraPassBase<PipeScheduleChimeraPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options = readBackward(splitBackward, gradientAfter);
    options.pairs = givenOf(pairs);
    options.construction = construction;
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};
} // namespace

template struct pipe::PlainGeneratorPass<
    pipe::impl::PipeScheduleDualPipePassBase>;
