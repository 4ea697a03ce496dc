//===- Passes.td - Conversions between levels -*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From tables to the programs of their workers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_PASSES_TD
#define PIPESCHED_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertPipeToExecPass
    : Pass<"convert-pipe-to-exec", "::mlir::ModuleOp"> {
  let summary = "Turn schedules into programs of their workers";
  let description = [{
    Replaces each `pipe.schedule` by an `exec.program` of the same name, with
    its paths, family, gradient rule, model and profile. Cells become `compute`,
    `offload` and `reload`; joins become `wait`. If the next stage is on another
    worker, a `send` follows the cell and a `recv` stands with its consumer. A G
    becomes an `all_reduce` of the blocks of its stage, or several if other
    paths cut these blocks into pieces. A worker that holds blocks more than
    once reduces them once, at the last of its G cells that cover them.

    A receive stands at the unit slot in which its message arrives, after the
    cells that start there and after the sends of cells that end there
    (`receive-placement=arrival`), or right before the cell that needs it
    (`receive-placement=consumer`).

    ```mlir
    pipe.schedule @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `convert-pipe-to-exec`:

    ```mlir
    exec.program @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      pipe.path on [0, 1]
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
        %g1 = recv 1B1 from 1
        %b1 = compute 0B1 after %f1, %g1
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %act1 = recv 0F1 from 0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %f1 = compute 1F1 after %act1
        %b1 = compute 1B1 after %f1
        %sg1 = send 1B1 to 0 after %b1
      }
    }
    ```

    After `convert-pipe-to-exec{receive-placement=consumer}`:

    ```mlir
    exec.program @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      pipe.path on [0, 1]
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
        %g1 = recv 1B1 from 1
        %b1 = compute 0B1 after %f1, %g1
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %act1 = recv 0F1 from 0
        %f1 = compute 1F1 after %act1
        %b1 = compute 1B1 after %f1
        %sg1 = send 1B1 to 0 after %b1
      }
    }
    ```

    Errors: a schedule without rows; one that `pipe-verify` rejects, with the
    same diagnostics. If there is an error, no schedule is replaced.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
  let options = [
    Option<"schedule", "schedule", "std::string", /*default=*/"",
           "Name of the schedule to treat; all where there is none">,
    Option<"receivePlacement", "receive-placement",
           "::pipesched::ReceivePlacement",
           /*default=*/"::pipesched::ReceivePlacement::Arrival",
           "Where a receive stands among the instructions of its worker",
           [{::pipesched::enumOptionValues<::pipesched::ReceivePlacement>()}]>,
    Option<"keepSchedule", "keep-schedule", "bool", /*default=*/"false",
           "Keep the schedule and call the program <name>_exec">
  ];
}

#endif // PIPESCHED_CONVERSION_PASSES_TD
