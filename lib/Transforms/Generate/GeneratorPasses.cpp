//===- GeneratorPasses.cpp - Passes around generators ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which family a pass runs.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"
#include "../SchedulePass.h"
#include "PipeSched/Adapter/CreateSchedule.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

FailureOr<Table> pipe::generateFor(ScheduleOp problem, const Family &family,
                                   const Placement &placement,
                                   const FamilyOptions &options) {
  llvm::Expected<Table> table = generate(family, placement, options);
  if (!table)
    return emitTableError(problem) << llvm::toString(table.takeError());
  return std::move(*table);
}

LogicalResult pipe::fillSchedules(
    ModuleOp module, StringRef name, StringRef family,
    ArrayRef<NamedAttribute> options,
    llvm::function_ref<FailureOr<Table>(ScheduleOp, const Placement &)>
        generate) {
  FailureOr<SmallVector<ScheduleOp>> problems =
      selectTreated(module, name, Treats::Problems);
  if (failed(problems))
    return failure();
  return treatEach(*problems, [&](ScheduleOp problem) -> LogicalResult {
    FailureOr<Table> table =
        generate(problem, ScheduleTable(problem).getPlacement());
    if (failed(table))
      return failure();
    storeTable(problem, family, options, std::move(*table));
    return success();
  });
}

LogicalResult pipe::fillWithFamily(ModuleOp module, StringRef schedule,
                                   const Family &family,
                                   const FamilyOptions &options) {
  return fillSchedules(
      module, schedule, family.name,
      describeFamily(Builder(module.getContext()), family, options),
      [&](ScheduleOp problem, const Placement &placement) {
        return generateFor(problem, family, placement, options);
      });
}

LogicalResult pipe::runGenerator(ModuleOp module, StringRef argument,
                                 StringRef schedule,
                                 const FamilyOptions &options) {
  [[maybe_unused]] bool isGenerator = argument.consume_front("pipe-schedule-");
  const Family *family = findFamily(argument);
  assert(isGenerator && family && "a generator pass is called by its family");
  return fillWithFamily(module, schedule, *family, options);
}
