// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir --pass-pipeline='builtin.module(pipe-verify-stages)' \
// RUN:   -verify-diagnostics -split-input-file

// CASES
func.func @forward(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func @shard(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.partial = "a"}) {
  return %x : tensor<4xf32>
}
@@

// Half.
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // error: 'pipe.stage' op has a shard and no shard_backward; a shard of the logits needs both
  stage 0 forward @forward shard @shard
}
// Count.
// error: 'func.func' op is the shard_backward and takes 'tensor<3x4xf32>' as the pipe.partials "a", and those of 2 shards are 'tensor<2x4xf32>'
func.func @back(%a: tensor<3x4xf32> {pipe.partials = "a"}, %x: tensor<4xf32> {pipe.last_output})
    -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  stage 0 forward @forward shard @shard shard_backward @back
  stage 1 forward @forward shard @shard shard_backward @back
}
// Differ.
// error: 'func.func' op is the shard of stage 1, but gives 'tensor<4xf32>' as the pipe.partial "b", which stage 0 does not; all shards tell the same
func.func @other(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.partial = "b"}) {
  return %x : tensor<4xf32>
}
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  stage 0 forward @forward shard @shard shard_backward @back
  stage 1 forward @forward shard @other shard_backward @back
}
// Some.
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
// error: 'func.func' op is the shard_backward of stage 1, but gives nothing as pipe.last_output_gradient, and stage 0 gives 'tensor<4xf32>'; all shards give a part of the sum, or none does
func.func @none(%a: tensor<2x4xf32> {pipe.partials = "a"}) -> (tensor<4xf32> {pipe.gradient = "w"}) {
  %x = arith.constant dense<0.0> : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @scaled(%x: tensor<4xf32> {pipe.input}, %w: tensor<4xf32> {pipe.param = "w"})
    -> (tensor<4xf32> {pipe.output}) {
  %y = arith.mulf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  stage 0 forward @forward shard @shard shard_backward @back
  stage 1 forward @scaled shard @shard shard_backward @none
}
// Lossless.
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
// error: 'pipe.schedule' op has shards of the logits, but no clause 'loss @..' names the function that makes the loss of their results
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @forward shard @shard shard_backward @back
}
// Twice.
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
// error: 'func.func' op is the loss and gives a pipe.output_gradient, and so do the shards (pipe.last_output_gradient); expected one of them
func.func @loss(%a: tensor<1x4xf32> {pipe.partials = "a"})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %x = arith.constant dense<0.0> : tensor<f32>
  %y = arith.constant dense<0.0> : tensor<4xf32>
  return %x, %y : tensor<f32>, tensor<4xf32>
}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @forward shard @shard shard_backward @back
  loss @loss
}
// Places.
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
func.func @loss(%a: tensor<1x4xf32> {pipe.partials = "a"}) -> (tensor<f32> {pipe.loss}) {
  %x = arith.constant dense<0.0> : tensor<f32>
  return %x : tensor<f32>
}
pipe.schedule @s workers 2 microbatches 1 {
  // error: 'pipe.path' op has 0 shards of the logits on worker 1; expected one on each worker of the path
  path on [0, 1]
  stage 0 forward @forward shard @shard shard_backward @back
  stage 1 forward @forward
  loss @loss
}

// CASES
func.func @forward(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
@@

// error: 'func.func' op is the shard of stage 0, but its pipe.last_output is 'tensor<8xf32>', and the output of stage 0 is 'tensor<4xf32>'
func.func @shard(%x: tensor<8xf32> {pipe.last_output}) -> (tensor<8xf32> {pipe.partial = "a"}) {
  return %x : tensor<8xf32>
}
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
pipe.schedule @output workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @forward shard @shard shard_backward @back
}

func.func @shard(%x: tensor<4xf32> {pipe.last_output})
    -> (tensor<4xf32> {pipe.partial = "a"}, tensor<4xf32> {pipe.residual = "r"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
// error: 'func.func' op is the shard_backward of stage 1, but takes a pipe.residual "s" that shard does not give
func.func @none(%x: tensor<4xf32> {pipe.residual = "s"}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
pipe.schedule @residual workers 2 microbatches 1 {
  path on [0, 1]
  stage 0 forward @forward shard @shard shard_backward @back
  stage 1 forward @forward shard @shard shard_backward @none
}

func.func @shard(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.partial = "a"}) {
  return %x : tensor<4xf32>
}
func.func @back(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.last_output_gradient}) {
  return %x : tensor<4xf32>
}
func.func @backward(%dy: tensor<4xf32> {pipe.output_gradient}) -> (tensor<4xf32> {pipe.input_gradient}) {
  return %dy : tensor<4xf32>
}
func.func @loss(%a: tensor<1x4xf32> {pipe.partials = "a"}) -> (tensor<f32> {pipe.loss}) {
  %x = arith.constant dense<0.0> : tensor<f32>
  return %x : tensor<f32>
}
pipe.schedule @unsummed workers 1 microbatches 1 {
  path on [0]
  // error: 'pipe.stage' op gives a pipe.last_output_gradient, but this schedule has no Z to sum it; expected vocabulary=vocab-1
  stage 0 forward @forward backward @backward shard @shard shard_backward @back
  loss @loss
  worker 0 runs [0F0 0X0 0S0 0Y0 0B0 0T0]
}
pipe.schedule @whole workers 1 microbatches 1 {
  path on [0]
  // error: 'pipe.stage' op has a shard of the logits, and this schedule runs no S of it; expected a family that spreads the vocabulary over this stage, such as vocab-1f1b, or pipe-spread-vocabulary
  stage 0 forward @forward backward @backward shard @shard shard_backward @back
  loss @loss
  worker 0 runs [0F0 0B0]
}

// CASES
func.func @forward(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
@@

// Silent.
// error: 'func.func' op is used as shard, but has no result with pipe.partial
func.func @shard(%x: tensor<4xf32> {pipe.last_output}) -> (tensor<4xf32> {pipe.residual = "a"}) {
  return %x : tensor<4xf32>
}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // remark: named here
  stage 0 forward @forward shard @shard
}
// Nobody.
// error: 'func.func' op is the loss and takes 'tensor<2x4xf32>' as the pipe.partials "a", but no shard gives a pipe.partial of that name
func.func @loss(%a: tensor<2x4xf32> {pipe.partials = "a"}) -> (tensor<f32> {pipe.loss}) {
  %x = arith.constant dense<0.0> : tensor<f32>
  return %x : tensor<f32>
}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @forward
  loss @loss
}
