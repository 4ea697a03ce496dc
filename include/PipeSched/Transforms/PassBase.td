//===- PassBase.td - Base of passes ------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Base classes of passes, and options that several passes share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PASSBASE_TD
#define PIPESCHED_TRANSFORMS_PASSBASE_TD

include "mlir/Pass/PassBase.td"

class Pipe_ModulePass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::pipesched::pipe::PipeDialect"];
}

/// A pass that runs on a pipe.schedule; on a module it runs for each schedule
/// in it (lib/Transforms/SchedulePass.h).
class Pipe_SchedulePass<string argument> : Pass<argument> {
  let dependentDialects = ["::pipesched::pipe::PipeDialect"];
}

def Pipe_ScheduleOption
    : Option<"schedule", "schedule", "std::string", /*default=*/"",
             "Name of the schedule to treat; all where there is none">;

/// The options that choose the length of a slot.
def Pipe_SlotsOption
    : Option<"slots", "slots", "::pipesched::SlotMeasure",
             /*default=*/"::pipesched::SlotMeasure::Unit",
             "What a slot measures",
             [{::pipesched::enumOptionValues<::pipesched::SlotMeasure>()}]>;

def Pipe_SlotOption
    : Option<"slot", "slot", "std::string", /*default=*/"",
             "Time of one slot (10us) of slots=durations; without it the "
             "longest that divides all durations">;

def Pipe_MemoryTimesOption
    : Option<"memoryTimes", "memory-times", "::pipesched::MemoryTimes",
             /*default=*/"::pipesched::MemoryTimes::Any",
             "For which times of cells and copies the budget has to hold",
             [{::pipesched::enumOptionValues<::pipesched::MemoryTimes>()}]>;

#endif // PIPESCHED_TRANSFORMS_PASSBASE_TD
