//===- PipeScheduleV.cpp - Families on a V --------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ZB-V, V-Half, V-Min, automatic zero bubble and DualPipeV.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULEZBVPASS
#define GEN_PASS_DEF_PIPESCHEDULEVHALFPASS
#define GEN_PASS_DEF_PIPESCHEDULEVMINPASS
#define GEN_PASS_DEF_PIPESCHEDULEZBAUTOPASS
#define GEN_PASS_DEF_PIPESCHEDULEDUALPIPEVPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeScheduleZBAutoPass final
    : pipe::impl::PipeScheduleZBAutoPassBase<PipeScheduleZBAutoPass> {
  using Base::Base;

  void runOnOperation() override {
    FamilyOptions options;
    options.memory = givenOf(memory);
    if (failed(runGenerator(getOperation(), getArgument(), schedule, options)))
      signalPassFailure();
  }
};
} // namespace

template struct pipe::PlainGeneratorPass<pipe::impl::PipeScheduleZBVPassBase>;
template struct pipe::PlainGeneratorPass<pipe::impl::PipeScheduleVHalfPassBase>;
template struct pipe::PlainGeneratorPass<pipe::impl::PipeScheduleVMinPassBase>;
template struct pipe::PlainGeneratorPass<
    pipe::impl::PipeScheduleDualPipeVPassBase>;
