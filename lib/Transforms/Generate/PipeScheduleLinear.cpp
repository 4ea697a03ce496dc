//===- PipeScheduleLinear.cpp - Families on one stage per worker ----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GPipe, 1F1B, eager 1F1B, ZB-H1 and ZB-H2.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULEGPIPEPASS
#define GEN_PASS_DEF_PIPESCHEDULE1F1BPASS
#define GEN_PASS_DEF_PIPESCHEDULEEAGER1F1BPASS
#define GEN_PASS_DEF_PIPESCHEDULEZBH1PASS
#define GEN_PASS_DEF_PIPESCHEDULEZBH2PASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

template struct pipe::SplittableGeneratorPass<
    pipe::impl::PipeScheduleGPipePassBase>;
template struct pipe::SplittableGeneratorPass<
    pipe::impl::PipeSchedule1F1BPassBase>;
template struct pipe::SplittableGeneratorPass<
    pipe::impl::PipeScheduleEager1F1BPassBase>;
template struct pipe::PlainGeneratorPass<pipe::impl::PipeScheduleZBH1PassBase>;
template struct pipe::PlainGeneratorPass<pipe::impl::PipeScheduleZBH2PassBase>;
