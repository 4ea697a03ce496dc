//===- PipeStageOps.td - Functions of stages ---------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The clauses of schedules and programs that name the functions of stages: a
// function per phase, and the functions of data, target and loss.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPESTAGEOPS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPESTAGEOPS_TD

include "PipeSched/Dialect/Pipe/IR/PipeDialect.td"
include "mlir/IR/SymbolInterfaces.td"

def Pipe_StageOp : Pipe_Op<"stage", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the functions that a stage computes";
  let description = [{
    Names a function for each phase of the stage with this number. Several paths
    share the functions of a number: their stages are replicas. Attributes of
    this dialect give the roles of arguments and results (docs/Stages.md);
    `pipe-verify-stages` checks them.

    | clause | runs at | gives |
    |---|---|---|
    | `init` | the start | parameters |
    | `forward` | F; R without `recompute` | output, residuals |
    | `recompute` | R | output, residuals, or some of them |
    | `backward` | B | gradients of input and parameters |
    | `input_gradient` | I; B without `backward` | gradient of the input |
    | `weight_gradient` | W; B without `backward` | gradients of parameters |
    | `update` | O | parameters, state of the optimizer |
    | `shard` | S | residuals, what a softmax needs of a shard of the logits |
    | `shard_backward` | T | gradients of the last output and of parameters |

    ```mlir
    func.func @scale(%w: tensor<8xf32> {pipe.param},
                     %x: tensor<8xf32> {pipe.input})
        -> (tensor<8xf32> {pipe.output}) {
      %y = arith.mulf %w, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    pipe.schedule @two_stages workers 2 microbatches 4 {
      path on [0, 1]
      stage 0 forward @scale
      stage 1 forward @scale
    }
    ```

    Constraints:
    - `stage_c1`: it is inside a `pipe.schedule` or an `exec.program`.
    - `stage_c2`: the number is not negative, and no other stage has it.
    - `stage_c3`: every name is one of a function.
  }];
  let arguments = (ins
    I64Prop:$stage,
    OptionalAttr<FlatSymbolRefAttr>:$init,
    FlatSymbolRefAttr:$forward,
    OptionalAttr<FlatSymbolRefAttr>:$recompute,
    OptionalAttr<FlatSymbolRefAttr>:$backward,
    OptionalAttr<FlatSymbolRefAttr>:$inputGradient,
    OptionalAttr<FlatSymbolRefAttr>:$weightGradient,
    OptionalAttr<FlatSymbolRefAttr>:$update,
    OptionalAttr<FlatSymbolRefAttr>:$shard,
    OptionalAttr<FlatSymbolRefAttr>:$shardBackward
  );
  let assemblyFormat = [{
    $stage (`init` $init^)? `forward` $forward (`recompute` $recompute^)?
    (`backward` $backward^)? (`input_gradient` $inputGradient^)?
    (`weight_gradient` $weightGradient^)? (`update` $update^)?
    (`shard` $shard^)? (`shard_backward` $shardBackward^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The name of the function of this kind, null if there is none. Not for
    /// data, target and loss, which belong to no stage.
    ::mlir::FlatSymbolRefAttr getFunction(StageFunctionKind kind);
  }];
}

/// A clause that names one function of the whole pipeline.
class Pipe_PipelineFunctionOp<string mnemonic, string kind>
    : Pipe_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = (ins FlatSymbolRefAttr:$function);
  let assemblyFormat = "$function attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static StageFunctionKind getKind() { return StageFunctionKind::}] # kind #
                              [{; }
  }];
}

def Pipe_DataOp : Pipe_PipelineFunctionOp<"data", "Data"> {
  let summary = "the function that makes the input of the first stage";
  let description = [{
    From the numbers of microbatch and step. It runs on the workers of the first
    stage, right before F.

    ```mlir
    func.func @ones(%microbatch: i64 {pipe.microbatch})
        -> (tensor<8xf32> {pipe.input}) {
      %ones = arith.constant dense<1.0> : tensor<8xf32>
      return %ones : tensor<8xf32>
    }
    pipe.schedule @with_data workers 2 microbatches 4 {
      path on [0, 1]
      data @ones
    }
    ```

    Constraints:
    - `data_c1`: it is inside a `pipe.schedule` or an `exec.program`, once.
    - `data_c2`: the name is one of a function.
  }];
}

def Pipe_TargetOp : Pipe_PipelineFunctionOp<"target", "Target"> {
  let summary = "the function that makes the target of the loss";
  let description = [{
    From the numbers of microbatch and step. It runs on the workers of the last
    stage, with the loss.

    ```mlir
    func.func @ones(%microbatch: i64 {pipe.microbatch})
        -> (tensor<8xf32> {pipe.target}) {
      %ones = arith.constant dense<1.0> : tensor<8xf32>
      return %ones : tensor<8xf32>
    }
    pipe.schedule @with_target workers 2 microbatches 4 {
      path on [0, 1]
      target @ones
    }
    ```

    Constraints:
    - `target_c1`: it is inside a `pipe.schedule` or an `exec.program`, once.
    - `target_c2`: the name is one of a function.
  }];
}

def Pipe_LossOp : Pipe_PipelineFunctionOp<"loss", "Loss"> {
  let summary = "the function of the loss and its gradient";
  let description = [{
    From the output of the last stage and the target. It runs right before the
    first backward cell of a microbatch on the last stage. The loss of a step is
    the sum over its microbatches.

    ```mlir
    func.func @sum(%y: tensor<8xf32> {pipe.output})
        -> (tensor<f32> {pipe.loss}, tensor<8xf32> {pipe.output_gradient}) {
      %zero = arith.constant dense<0.0> : tensor<f32>
      %loss = linalg.reduce { arith.addf } ins(%y : tensor<8xf32>)
          outs(%zero : tensor<f32>) dimensions = [0]
      %ones = arith.constant dense<1.0> : tensor<8xf32>
      return %loss, %ones : tensor<f32>, tensor<8xf32>
    }
    pipe.schedule @with_loss workers 2 microbatches 4 {
      path on [0, 1]
      loss @sum
    }
    ```

    Constraints:
    - `loss_c1`: it is inside a `pipe.schedule` or an `exec.program`, once.
    - `loss_c2`: the name is one of a function.
  }];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPESTAGEOPS_TD
