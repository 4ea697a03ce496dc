//===- PipeEnums.td - Enums that several ops share ---------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enums of models, schedules and programs that the parser reads. They repeat
// enums of Facts/Facts.h, and a unit test compares names and values.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEENUMS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEENUMS_TD

include "mlir/IR/EnumAttr.td"

def Pipe_RecomputeKind : I32EnumAttr<"RecomputeKind",
    "what is recomputed before a backward", [
      I32EnumAttrCase<"None", 0, "none">,
      I32EnumAttrCase<"Selective", 1, "selective">,
      I32EnumAttrCase<"Full", 2, "full">]> {
  let cppNamespace = "::pipesched::pipe";
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEENUMS_TD
