//===- PassBase.td - What passes on schedules share --------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Their anchor, dialect and the option that narrows them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PASSBASE_TD
#define PIPESCHED_TRANSFORMS_PASSBASE_TD

include "mlir/Pass/PassBase.td"

class Pipe_ModulePass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::pipesched::pipe::PipeDialect"];
}

def Pipe_ScheduleOption
    : Option<"schedule", "schedule", "std::string", /*default=*/"",
             "Name of the schedule to treat; all where there is none">;

#endif // PIPESCHED_TRANSFORMS_PASSBASE_TD
