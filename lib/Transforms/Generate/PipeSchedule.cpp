//===- PipeSchedule.cpp - pipe-schedule -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills schedules with a family, given by its name or an alias.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "FillSchedule.h"
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
    : SchedulePass<PipeSchedulePass, pipe::impl::PipeSchedulePassBase,
                   Treats::Problems> {
  using Base::Base;

  LogicalResult prepare() {
    llvm::Expected<const Family *> found = lookUpFamily(family);
    if (!found)
      return fail(found.takeError());
    llvm::Expected<FamilyOptions> read = readFamilyOptions(
        std::vector<std::string>(familyOptions.begin(), familyOptions.end()));
    if (!read)
      return fail(read.takeError());
    known = *found;
    options = std::move(*read);
    return success();
  }

  LogicalResult treat(ScheduleOp problem) const {
    return fillSchedule(problem, *known, options);
  }

private:
  LogicalResult fail(llvm::Error error) {
    return emitError(getOperation()->getLoc())
           << "pipe-schedule: " << llvm::toString(std::move(error));
  }

  const Family *known = nullptr;
  FamilyOptions options;
};
} // namespace
