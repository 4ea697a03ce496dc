//===- PlaceByRule.cpp - Placements by rule -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes that place stages by a rule that needs no model.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEBIDIRECTIONALPASS
#define GEN_PASS_DEF_PIPEPLACEINTERLEAVEDPASS
#define GEN_PASS_DEF_PIPEPLACELINEARPASS
#define GEN_PASS_DEF_PIPEPLACEVPASS
#define GEN_PASS_DEF_PIPEPLACEWAVEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceLinearPass final
    : SchedulePass<PipePlaceLinearPass, pipe::impl::PipePlaceLinearPassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(op, [&]() -> llvm::Expected<Path> {
      return placeLinear(op.getWorkers());
    });
  }
};

struct PipePlaceInterleavedPass final
    : SchedulePass<PipePlaceInterleavedPass,
                   pipe::impl::PipePlaceInterleavedPassBase, Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(op, [&]() -> llvm::Expected<Path> {
      return placeInterleaved(op.getWorkers(), chunks);
    });
  }
};

struct PipePlaceVPass final
    : SchedulePass<PipePlaceVPass, pipe::impl::PipePlaceVPassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(
        op, [&]() -> llvm::Expected<Path> { return placeV(op.getWorkers()); });
  }
};

struct PipePlaceWavePass final
    : SchedulePass<PipePlaceWavePass, pipe::impl::PipePlaceWavePassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeOnOnePath(op, [&]() -> llvm::Expected<Path> {
      return placeWave(op.getWorkers(), waves);
    });
  }
};

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
