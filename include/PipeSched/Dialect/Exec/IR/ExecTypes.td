//===- ExecTypes.td - Types of the exec dialect -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The token that orders instructions of one worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECTYPES_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECTYPES_TD

include "PipeSched/Dialect/Exec/IR/ExecDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Exec_Token : TypeDef<Exec_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "the end of an instruction";
  let description = [{
    The moment at which an instruction is done: a cell computed, a message sent
    or arrived, a copy finished. Tokens do not leave their worker.

    ```mlir
    exec.program @token {
      worker 0 {
        %f0 = compute 0F0
        %d0 = offload 0D0 after %f0
      }
    }
    ```
  }];
}

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECTYPES_TD
