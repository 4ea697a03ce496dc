//===- PipeScheduleInterleaved.cpp - Families on interleaved paths --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looped BFS, Shardy's circular order, interleaved 1F1B and zero bubble.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULELOOPEDBFSPASS
#define GEN_PASS_DEF_PIPESCHEDULEMPMDCIRCULARPASS
#define GEN_PASS_DEF_PIPESCHEDULEINTERLEAVED1F1BPASS
#define GEN_PASS_DEF_PIPESCHEDULEINTERLEAVEDZBPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeScheduleLoopedBFSPass final
    : pipe::impl::PipeScheduleLoopedBFSPassBase<PipeScheduleLoopedBFSPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options = readBackward(splitBackward, gradientAfter);
    options.chunks = givenOf(chunks);
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};

struct PipeScheduleMpmdCircularPass final
    : pipe::impl::PipeScheduleMpmdCircularPassBase<
          PipeScheduleMpmdCircularPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options = readBackward(splitBackward, gradientAfter);
    options.chunks = givenOf(chunks);
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};

struct PipeScheduleInterleaved1F1BPass final
    : pipe::impl::PipeScheduleInterleaved1F1BPassBase<
          PipeScheduleInterleaved1F1BPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options = readBackward(splitBackward, gradientAfter);
    options.chunks = givenOf(chunks);
    options.group = givenOf(group);
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};

struct PipeScheduleInterleavedZBPass final
    : pipe::impl::PipeScheduleInterleavedZBPassBase<
          PipeScheduleInterleavedZBPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options;
    options.chunks = givenOf(chunks);
    options.group = givenOf(group);
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};
} // namespace
