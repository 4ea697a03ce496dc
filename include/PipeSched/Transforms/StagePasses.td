//===- StagePasses.td - Passes on functions of stages ------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that read functions of stages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_STAGEPASSES_TD
#define PIPESCHED_TRANSFORMS_STAGEPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def PipeOutlineStagesPass : Pipe_ModulePass<"pipe-outline-stages"> {
  let summary = "Cut a function into functions of stages";
  let description = [{
    Takes a function whose ops name their stage (`pipe.stage`) and phase
    (`pipe.phase`), and makes a function of each stage and phase, with the roles
    of all arguments and results. The schedules without `stage` clauses get
    clauses that name them. docs/Frontends.md gives the rules. The function
    itself is erased unless another op refers to it.

    `split-backward` divides each `backward`: ops that the gradient of the
    stage's input needs become its `input_gradient`, the others its
    `weight_gradient`.

    ```mlir
    func.func @model(%a: tensor<8xf32> {pipe.param = "a"},
                     %b: tensor<8xf32> {pipe.param = "b"},
                     %x: tensor<8xf32> {pipe.input})
        -> (tensor<8xf32> {pipe.output}) {
      %y = arith.mulf %a, %x {pipe.stage = 0, pipe.phase = "forward"}
          : tensor<8xf32>
      %z = arith.mulf %b, %y {pipe.stage = 1, pipe.phase = "forward"}
          : tensor<8xf32>
      return %z : tensor<8xf32>
    }
    pipe.schedule @forward workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-outline-stages`:

    ```mlir
    func.func private @model_stage0_forward(
        %arg0: tensor<8xf32> {pipe.param = "a"},
        %arg1: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %0 = arith.mulf %arg0, %arg1 : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func private @model_stage1_forward(
        %arg0: tensor<8xf32> {pipe.param = "b"},
        %arg1: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %0 = arith.mulf %arg0, %arg1 : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    pipe.schedule @forward workers 2 microbatches 4 {
      path on [0, 1]
      stage 0 forward @model_stage0_forward
      stage 1 forward @model_stage1_forward
    }
    ```

    Errors: no function with these attributes, or several without `function`; as
    for `outlineStages` and `flattenFragments`
    (include/PipeSched/Stages/OutlineStages.h); a schedule that has another
    number of stages, or has clauses already; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"functionName", "function", "std::string", /*default=*/"",
           "Name of the function to cut; the only one with the attributes "
           "where there is none">,
    Option<"splitBackward", "split-backward", "bool", /*default=*/"false",
           "Divide each backward into input_gradient and weight_gradient">,
    Option<"reportMessages", "report", "bool", /*default=*/"false",
           "Emit a remark at each message between stages that says its bytes">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::pipesched::pipe::PipeDialect"
  ];
}

def PipeVerifyStagesPass : Pipe_ModulePass<"pipe-verify-stages"> {
  let summary = "Verify the functions of stages, and that they fit together";
  let description = [{
    Verifies for each `pipe.schedule` and `exec.program` of the module that
    every stage names functions, that the roles and types of their arguments and
    results agree, that the output of a stage is the input of the next one on
    every path, and that every cell of the rows has its function. Rows need not
    exist. Changes nothing (docs/Stages.md).

    ```mlir
    func.func @scale(%x: tensor<8xf32> {pipe.input})
        -> (tensor<8xf32> {pipe.output}) {
      %y = arith.addf %x, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    pipe.schedule @forward workers 2 microbatches 2 {
      path on [0, 1]
      stage 0 forward @scale
      stage 1 forward @scale
    }
    ```

    After `pipe-verify-stages`:

    ```mlir
    func.func @scale(%arg0: tensor<8xf32> {pipe.input})
        -> (tensor<8xf32> {pipe.output}) {
      %0 = arith.addf %arg0, %arg0 : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    pipe.schedule @forward workers 2 microbatches 2 {
      path on [0, 1]
      stage 0 forward @scale
      stage 1 forward @scale
    }
    ```

    Errors: a schedule or program without functions of stages; as for
    `loadStageFunctions` (include/PipeSched/Stages/StageFunctions.h); a cell
    whose stage has no function for it; no schedule and no program.
  }];
}

def PipeAttachStageCostsPass : Pipe_ModulePass<"pipe-attach-stage-costs"> {
  let summary = "Attach a model that is derived from functions of stages";
  let description = [{
    Counts the work, traffic and memory of the functions of the stages, and
    names the result, a `pipe.model` with one block per stage, in the schedules
    and programs that name functions. From then on everything works on the
    user's own stages: reports, generators that measure their slots, memory
    budgets, `pipe-optimize`. docs/StageCosts.md gives the rules of counting. A
    model that the schedule already has is replaced; paths whose `blocks` or
    `weights` say otherwise get one block per stage.

    `fusion` says which bytes the kernels move. Either each op reads its
    operands and writes its results (`none`), or a function reads its arguments
    and writes its results once (`full`): compilers are in between.

    ```mlir
    func.func @f(%w: tensor<4x4xf32> {pipe.param},
                 %x: tensor<2x4xf32> {pipe.input})
        -> (tensor<2x4xf32> {pipe.output}) {
      %zero = arith.constant dense<0.0> : tensor<2x4xf32>
      %y = linalg.matmul ins(%x, %w : tensor<2x4xf32>, tensor<4x4xf32>)
          outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    pipe.schedule @forward workers 2 microbatches 2 {
      path on [0, 1]
      stage 0 forward @f
      stage 1 forward @f
    }
    ```

    After `pipe-attach-stage-costs`:

    ```mlir
    func.func @f(%w: tensor<4x4xf32> {pipe.param},
                 %x: tensor<2x4xf32> {pipe.input})
        -> (tensor<2x4xf32> {pipe.output}) {
      %zero = arith.constant dense<0.0> : tensor<2x4xf32>
      %y = linalg.matmul ins(%x, %w : tensor<2x4xf32>, tensor<4x4xf32>)
          outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    pipe.model @forward_stages microbatch_size 1 boundary_bytes 32
        state_bytes [0, 0, 0] source "functions of stages, fusion none" {
      block "stage 0" parameters 16 activation_bytes 32 recomputed_bytes 32
          state_bytes [64, 0, 0] message_bytes [32, 0] {
        kernel "f: linalg.matmul" on matrix F <64 flops, 160 bytes>
      }
      block "stage 1" parameters 16 activation_bytes 32 recomputed_bytes 32
          state_bytes [64, 0, 0] message_bytes [0, 0] {
        kernel "f: linalg.matmul" on matrix F <64 flops, 160 bytes>
      }
    }
    pipe.schedule @forward workers 2 microbatches 2 model @forward_stages {
      path on [0, 1]
      stage 0 forward @f
      stage 1 forward @f
    }
    ```

    Errors: no schedule or program names functions of stages; as for
    `loadStageFunctions`; an op whose work is not known, dynamic shapes, loops
    whose bounds are not constant; selective recomputation, which only functions
    can choose; rows of stages that are not one block each; sums over 64 bits.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"fusion", "fusion", "::pipesched::StageFusion",
           /*default=*/"::pipesched::StageFusion::None",
           "Which ops of a function share a kernel",
           [{::pipesched::enumOptionValues<::pipesched::StageFusion>()}]>,
    Option<"microbatchSize", "microbatch-size", "int64_t", /*default=*/"1",
           "Sequences per microbatch">
  ];
}

def ExecAssignBuffersPass : Pipe_ModulePass<"exec-assign-buffers"> {
  let summary = "Give tensors, messages and copies places in arenas";
  let description = [{
    Each worker gets an arena. Every tensor that is made or received there gets
    a place in it until its last use, and offloaded data gets a place in host
    memory; `at` lists these places for each instruction. Messages get tags,
    dense per channel. If a place is used again that a message or copy may still
    be reading, the instruction waits for it: its token joins `after`. The pass
    proves that these waits close no cycle (docs/Buffers.md).

    ```mlir
    func.func @scale(%x: tensor<8xf32> {pipe.input})
        -> (tensor<8xf32> {pipe.output}) {
      %y = arith.addf %x, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    func.func @ones() -> (tensor<8xf32> {pipe.input}) {
      %ones = arith.constant dense<1.0> : tensor<8xf32>
      return %ones : tensor<8xf32>
    }
    exec.program @forward workers 2 microbatches 2 {
      pipe.path on [0, 1]
      pipe.stage 0 forward @scale
      pipe.stage 1 forward @scale
      pipe.data @ones
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %act1 = recv 0F1 from 0
        %f1 = compute 1F1 after %act1
      }
    }
    ```

    After `exec-assign-buffers`:

    ```mlir
    func.func @scale(%arg0: tensor<8xf32> {pipe.input})
        -> (tensor<8xf32> {pipe.output}) {
      %0 = arith.addf %arg0, %arg0 : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func @ones() -> (tensor<8xf32> {pipe.input}) {
      %cst = arith.constant dense<1.000000e+00> : tensor<8xf32>
      return %cst : tensor<8xf32>
    }
    exec.program @forward workers 2 microbatches 2 {
      pipe.path on [0, 1]
      pipe.stage 0 forward @scale
      pipe.stage 1 forward @scale
      pipe.data @ones
      worker 0 arena 192 {
        %f0 = compute 0F0 at [0, 64]
        %s0 = send 0F0 to 1 after %f0 tag 0 at [64]
        %f1 = compute 0F1 at [0, 128]
        %s1 = send 0F1 to 1 after %f1 tag 1 at [128]
      }
      worker 1 arena 128 {
        %act0 = recv 0F0 from 0 tag 0 at [0]
        %f0 = compute 1F0 after %act0 at [0, 64]
        %act1 = recv 0F1 from 0 tag 1 at [0]
        %f1 = compute 1F1 after %act1 at [0, 64]
      }
    }
    ```

    Errors: a program without functions of stages, or with functions that
    `pipe-verify-stages` refuses; a cell without a function; an instruction that
    reads data that nothing has made, or that comes by a message or reload for
    which it does not wait; more host memory than `host-memory`; a deadlock; no
    program. Programs before the first error have their buffers.
  }];
  let options = [
    Option<"sends", "sends", "::pipesched::SendMode",
           /*default=*/"::pipesched::SendMode::Rendezvous",
           "When a send ends, for the proof",
           [{::pipesched::enumOptionValues<::pipesched::SendMode>()}]>,
    Option<"inFlight", "in-flight", "int64_t", /*default=*/"2",
           "Sends that a worker posts before it waits for an earlier one to "
           "use its place again">,
    Option<"hostMemory", "host-memory", "int64_t", /*default=*/"-1",
           "Bytes of host memory of each worker; without limit where there is "
           "none">,
    Option<"reportUse", "report", "bool", /*default=*/"false",
           "Emit a remark at each worker that says what its arena holds; with "
           "costs, one more: the predicted peak and all that the arena has "
           "besides">
  ];
}

#endif // PIPESCHED_TRANSFORMS_STAGEPASSES_TD
