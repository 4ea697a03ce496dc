//===- PipeSchedule.cpp - pipe-schedule -----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills schedules with the family of a name or alias.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESCHEDULEPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static llvm::Expected<FamilyOptions>
readFamilyOptions(ArrayRef<std::string> texts) {
  FamilyOptions options;
  for (StringRef text : texts) {
    auto [name, value] = text.split('=');
    if (!text.contains('='))
      return llvm::createStringError("an option is name=value, found '" + text +
                                     "'");
    if (llvm::Error error = setOption(options, name.trim(), value.trim()))
      return std::move(error);
  }
  return options;
}

namespace {
struct PipeSchedulePass final
    : pipe::impl::PipeSchedulePassBase<PipeSchedulePass> {
  using Base::Base;

  void runOnOperation() override {
    llvm::Expected<const Family *> known = lookUpFamily(family);
    if (!known)
      return fail(known.takeError());
    auto options = readFamilyOptions(
        std::vector<std::string>(familyOptions.begin(), familyOptions.end()));
    if (!options)
      return fail(options.takeError());
    if (failed(fillWithFamily(getOperation(), schedule, **known, *options)))
      signalPassFailure();
  }

private:
  void fail(llvm::Error error) {
    emitError(getOperation().getLoc())
        << "pipe-schedule: " << llvm::toString(std::move(error));
    signalPassFailure();
  }
};
} // namespace
