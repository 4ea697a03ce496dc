//===- PipePlaceV.cpp - pipe-place-v --------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places two stages per worker, down and up again.
//
//===----------------------------------------------------------------------===//

#include "../Schedules.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEVPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceVPass final : pipe::impl::PipePlaceVPassBase<PipePlaceVPass> {
  using Base::Base;

  void runOnOperation() override {
    auto place = [](int64_t numWorkers) -> llvm::Expected<Path> {
      return placeV(numWorkers);
    };
    if (failed(placeOnOnePath(getOperation(), schedule, place)))
      signalPassFailure();
  }
};
} // namespace
