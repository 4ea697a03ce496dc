//===- PipeDialect.td - The pipe dialect -------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipeline schedules as tables: paths of stages through workers, and one row of
// cells per worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEDIALECT_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEDIALECT_TD

include "mlir/IR/OpBase.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let summary = "pipeline-parallel schedules as tables";
  let description = [{
    A `pipe.schedule` is the table that papers draw: one row per worker, one
    cell per phase of a microbatch on a stage. Without rows it is a problem;
    with rows it is a solution; `pipe-verify` is the proof. `pipe.model` and the
    attributes of this dialect hold the facts from which cost models compute
    times.

    A cell is written `<stage><phase><microbatch>`, where the stage is the
    position on that microbatch's path:

    | letter | phase | number |
    |---|---|---|
    | F | forward | microbatch |
    | B | backward, input and weight gradient in one | microbatch |
    | I | input gradient (the zero-bubble papers' "B") | microbatch |
    | W | weight gradient | microbatch |
    | R | recompute | microbatch |
    | D, U | offload to host, reload | microbatch |
    | d, u | join: the next compute or U waits for that copy | microbatch |
    | O, G | optimizer step, gradient all-reduce of replicas | path |
    | `_` | idle | slots, 1 where there is none |

    `2F0+1B3` runs two cells overlapped.

    Unit attributes on arguments and results give their roles in functions of
    stages: `pipe.param`, `pipe.input`, `pipe.output`, `pipe.residual`,
    `pipe.output_gradient`, `pipe.input_gradient`, `pipe.gradient`,
    `pipe.state`, `pipe.target`, `pipe.loss`, `pipe.microbatch`, `pipe.step`.
    Parameters, residuals, gradients and states may have a name as the value of
    the attribute. Next to `pipe.param`, `pipe.tied = "name"` says that the
    parameters of that name of several stages are one (docs/Stages.md).
  }];
  let cppNamespace = "::pipesched::pipe";
  let dependentDialects = ["::mlir::DLTIDialect"];
  let hasCanonicalizer = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

class Pipe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pipe_Dialect, mnemonic, traits>;

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEDIALECT_TD
