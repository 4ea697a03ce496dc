//===- PipePlaceList.cpp - pipe-place-list --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places the paths that an option lists.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "LayersToDivide.h"
#include "PipeSched/Schedule/Table/PathText.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEPLACELISTPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipePlaceListPass final
    : SchedulePass<PipePlaceListPass, pipe::impl::PipePlaceListPassBase,
                   Treats::All> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    return placeSchedule(op, [&] { return placeOn(op); });
  }

private:
  llvm::Expected<std::vector<Path>> placeOn(ScheduleOp op) const {
    llvm::Expected<std::vector<Path>> list = parsePaths(paths);
    if (!list)
      return llvm::createStringError("paths, " +
                                     llvm::toString(list.takeError()));
    if (llvm::Error error = checkPaths(op, *list))
      return std::move(error);
    return list;
  }
};
} // namespace
