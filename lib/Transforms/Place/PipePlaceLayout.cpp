//===- PipePlaceLayout.cpp - pipe-place-layout ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places the stages of Megatron-Core's layout string, one round after another.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "LayersToDivide.h"
#include "PipeSched/Exchange/MegatronLayout.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACELAYOUTPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceLayoutPass final
    : SchedulePass<PipePlaceLayoutPass, pipe::impl::PipePlaceLayoutPassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeSchedule(op, [&] { return placeOn(op); });
  }

private:
  llvm::Expected<std::vector<Path>> placeOn(ScheduleOp op) const {
    llvm::Expected<std::vector<int64_t>> blocks = parseMegatronLayout(layout);
    if (!blocks)
      return llvm::createStringError("layout, " +
                                     llvm::toString(blocks.takeError()));
    int64_t numStages = blocks->size(), numWorkers = op.getWorkers();
    if (numStages % numWorkers != 0)
      return llvm::createStringError(llvm::formatv(
          "the layout has {0} stages, no multiple of the {1} workers; numbers "
          "of workers that divide them: {2}",
          numStages, numWorkers, nearestDivisors(numStages, numWorkers)));
    llvm::Expected<Path> path =
        placeInterleaved(numWorkers, numStages / numWorkers);
    if (!path)
      return path.takeError();
    path->blocks = std::move(*blocks);
    if (llvm::Error error = checkPaths(op, *path))
      return std::move(error);
    return std::vector<Path>{std::move(*path)};
  }
};
} // namespace
