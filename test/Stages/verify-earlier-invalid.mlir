// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir --pass-pipeline='builtin.module(pipe-verify-stages)' \
// RUN:   -verify-diagnostics -split-input-file

// CASES
@@

func.func @forward(%x: tensor<4xf32> {pipe.input}, %k: tensor<3x4xf32> {pipe.earlier = "k"})
    -> (tensor<4xf32> {pipe.output}, tensor<4xf32> {pipe.residual = "k"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
pipe.schedule @slices workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: 'pipe.stage' op has 'tensor<3x4xf32>' as its pipe.earlier "k"; expected 'tensor<2x4xf32>', its pipe.residual for each of 2 slices
  stage 0 forward @forward
}

func.func @forward(%x: tensor<4xf32> {pipe.input}, %k: tensor<2x4xf32> {pipe.earlier = "k"})
    -> (tensor<4xf32> {pipe.output}, tensor<4xf32> {pipe.residual = "v"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
pipe.schedule @name workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: 'pipe.stage' op takes a pipe.earlier "k", and forward gives no pipe.residual of that name
  stage 0 forward @forward
}
// Alone.
func.func @forward(%x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}, tensor<4xf32> {pipe.residual = "k"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @backward(%dy: tensor<4xf32> {pipe.output_gradient}, %k: tensor<2x4xf32> {pipe.earlier_gradient = "k"})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<2x4xf32> {pipe.earlier_gradient = "k"}) {
  return %dy, %k : tensor<4xf32>, tensor<2x4xf32>
}
pipe.schedule @s workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: 'pipe.stage' op has a pipe.earlier_gradient "k" and takes no pipe.earlier of that name
  stage 0 forward @forward backward @backward
}

// error: 'func.func' op is used as forward, but its argument 1 has the role pipe.earlier_gradient
func.func @forward(%x: tensor<4xf32> {pipe.input}, %k: tensor<2x4xf32> {pipe.earlier_gradient = "k"})
    -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
pipe.schedule @role workers 1 microbatches 1 slices 2 {
  path on [0]
  // remark: named here
  stage 0 forward @forward
}

// error: 'func.func' op is the data of 2 slices a microbatch and takes no pipe.slice, so that all slices would have the same; functions of whole microbatches need a schedule without slices
func.func @data(%m: i64 {pipe.microbatch}) -> (tensor<4xf32> {pipe.input}) {
  %x = tensor.empty() : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @forward(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
pipe.schedule @same workers 1 microbatches 1 slices 2 {
  path on [0]
  stage 0 forward @forward
  data @data
}

// CASES
func.func @forward(%x: tensor<4xf32> {pipe.input}, %k: tensor<2x4xf32> {pipe.earlier = "k"})
    -> (tensor<4xf32> {pipe.output}, tensor<4xf32> {pipe.residual = "k"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
@@

// error: 'func.func' op is the backward of stage 0, which takes a pipe.earlier "k", but gives no pipe.earlier_gradient of that name: the gradients of earlier slices would be lost
func.func @backward(%dy: tensor<4xf32> {pipe.output_gradient}) -> (tensor<4xf32> {pipe.input_gradient}) {
  return %dy : tensor<4xf32>
}
pipe.schedule @lost workers 1 microbatches 1 slices 2 {
  path on [0]
  stage 0 forward @forward backward @backward
}

func.func @backward(%dy: tensor<4xf32> {pipe.output_gradient}, %k: tensor<4xf32> {pipe.earlier_gradient = "k"})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.earlier_gradient = "k"}) {
  return %dy, %k : tensor<4xf32>, tensor<4xf32>
}
pipe.schedule @shape workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: 'pipe.stage' op has 'tensor<4xf32>' as its pipe.earlier_gradient "k", and its pipe.earlier is 'tensor<2x4xf32>'; expected the same shape
  stage 0 forward @forward backward @backward
}
