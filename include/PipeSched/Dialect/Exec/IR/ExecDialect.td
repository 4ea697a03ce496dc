//===- ExecDialect.td - The exec dialect -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs of the workers of a pipeline: compute, messages and copies, ordered
// by tokens.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECDIALECT_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECDIALECT_TD

include "mlir/IR/OpBase.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let summary = "programs of the workers of a pipeline";
  let description = [{
    An `exec.program` holds one isolated region per worker: the program which
    that process runs. Each instruction goes to queues of its worker, and a
    queue runs its instructions in the order of the text, one at a time. The
    transport `overlap` has five of the seven kinds of queues:

    | queue | instructions |
    |---|---|
    | compute | `compute` |
    | send | `send`, `all_reduce` |
    | receive | `recv`, `all_reduce` |
    | offload | `offload` |
    | reload | `reload` |

    The other two are the queues of `pairs`: one for the messages with each
    other worker, and one for `all_reduce`. Under `delay` messages and
    `all_reduce` take no queue; under `blocking` they take the compute queue. A
    `wait` is in no queue: it holds the next `compute` or `reload` of its
    worker.

    Across queues only `!exec.token` values order instructions. A message is
    named by the cell that produces it: `send 2F0 to 3` on worker 2 pairs with
    `recv 2F0 from 2` on worker 3. See docs/Dialects/RationaleExec.md.
  }];
  let cppNamespace = "::pipesched::exec";
  let dependentDialects = ["::pipesched::pipe::PipeDialect"];
  let hasCanonicalizer = 1;
  let useDefaultTypePrinterParser = 1;
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECDIALECT_TD
