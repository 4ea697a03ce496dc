//===- ForeignDialect.td - A dialect with an instruction -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces that somebody else's dialect needs so that its ops are
// instructions of an exec.program.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_DIALECT_FOREIGNDIALECT_TD
#define PIPESCHED_UNITTESTS_DIALECT_FOREIGNDIALECT_TD

include "PipeSched/Dialect/Exec/IR/ExecInterfaces.td"
include "PipeSched/Dialect/Exec/IR/ExecTypes.td"
include "mlir/IR/OpBase.td"

def Foreign_Dialect : Dialect {
  let name = "foreign";
  let cppNamespace = "::foreign";
}

class Foreign_Instruction<string mnemonic, string kind, string peer = "-1">
    : Op<Foreign_Dialect, mnemonic, [Exec_InstructionOpInterface]> {
  let arguments = (ins I64Attr:$stage, I64Attr:$microbatch,
                       Variadic<Exec_Token>:$waits);
  let results = (outs Exec_Token:$done);
  let assemblyFormat =
      "$stage $microbatch (`after` $waits^)? attr-dict";
  let extraClassDeclaration = [{
    static ::pipesched::InstructionKind getInstructionKind() {
      return ::pipesched::InstructionKind::}] # kind # [{;
    }
    ::std::optional<::pipesched::Cell> getInstructionCell() {
      return ::pipesched::Cell(getStage(), ::pipesched::Phase::Forward,
                               getMicrobatch());
    }
    int64_t getPeer() { return }] # peer # [{; }
  }];
}

def Foreign_LaunchOp : Foreign_Instruction<"launch", "Compute">;

/// A send to the next worker.
def Foreign_PutOp : Foreign_Instruction<"put", "Send", "getStage() + 1">;

/// Not an instruction: an op that remains after a lowering.
def Foreign_NoteOp : Op<Foreign_Dialect, "note"> {
  let regions = (region AnyRegion:$body);
  let assemblyFormat = "($body^)? attr-dict";
}

/// Makes a token and is not an instruction.
def Foreign_EventOp : Op<Foreign_Dialect, "event"> {
  let results = (outs Exec_Token:$token);
  let assemblyFormat = "attr-dict";
}

#endif // PIPESCHED_UNITTESTS_DIALECT_FOREIGNDIALECT_TD
