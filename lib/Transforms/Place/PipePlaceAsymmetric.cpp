//===- PipePlaceAsymmetric.cpp - pipe-place-asymmetric --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places mirrored pairs or a wave and makes one half of each path longer.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "LayersToDivide.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACEASYMMETRICPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceAsymmetricPass final
    : SchedulePass<PipePlaceAsymmetricPass,
                   pipe::impl::PipePlaceAsymmetricPassBase, Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeSchedule(op, [&] { return placeOn(op); });
  }

private:
  llvm::Expected<std::vector<Path>> placeEqual(ScheduleOp op) const;
  llvm::Expected<std::vector<Path>> placeOn(ScheduleOp op) const;
};
} // namespace

/// Returns the paths while both halves still have equal length.
llvm::Expected<std::vector<Path>>
PipePlaceAsymmetricPass::placeEqual(ScheduleOp op) const {
  if (on == AsymmetricPaths::Mirrored) {
    if (waves != 1)
      return llvm::createStringError(
          "mirrored paths have no waves; give on=wave, or pairs");
    return placeBidirectional(op.getWorkers(), op.getMicrobatches(), pairs,
                              assign);
  }
  if (pairs != 1 || assign != Assign::Alternate)
    return llvm::createStringError("a wave is one path, which takes all "
                                   "microbatches; pairs and assign are for "
                                   "on=mirrored");
  llvm::Expected<Path> wave = placeWave(op.getWorkers(), waves);
  if (!wave)
    return wave.takeError();
  return std::vector<Path>{std::move(*wave)};
}

llvm::Expected<std::vector<Path>>
PipePlaceAsymmetricPass::placeOn(ScheduleOp op) const {
  llvm::Expected<Ratio> parsed = parseRatio(ratio);
  if (!parsed)
    return parsed.takeError();
  llvm::Expected<std::optional<int64_t>> layers = layersToDivide(op, blocks);
  if (!layers)
    return layers.takeError();
  llvm::Expected<std::vector<Path>> paths = placeEqual(op);
  if (!paths)
    return paths;
  if (llvm::Error error = makeAsymmetric(*paths, *parsed, way, *layers))
    return std::move(error);
  return paths;
}
